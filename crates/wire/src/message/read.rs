//! Messages out of fields and bodies.

use std::ops::Range;

use evenkeel_core::block_set::PAGE_WORDS;
use evenkeel_core::message::*;
use evenkeel_core::settings::{MAX_EXTENTS, MAX_PAYLOAD, MAX_ZERO};
use evenkeel_core::*;
use evenkeel_format::bytes::Reader;
use evenkeel_format::{decode_view, replica_state_from_code};

use super::*;

/// Reads a message. Fields that it does not use are not looked at here.
pub(crate) fn read_message(fields: &Fields, body: &[u8]) -> Result<Message, FrameError> {
    let mut body = Reader::new(body);
    let message = match read_plain(fields)? {
        Some(message) => message,
        None => read_with_body(fields, &mut body)?,
    };
    if body.left() > 0 {
        return Err(FrameError::Length(fields.kind));
    }
    Ok(message)
}

/// Messages without a body; `None` if it is one with a body, or unknown.
fn read_plain(fields: &Fields) -> Result<Option<Message>, FrameError> {
    let id = OperationId {
        generation: Generation(fields.generation),
        sequence: Sequence(fields.number),
    };
    let (generation, number, offset) = (id.generation, fields.number, fields.offset);
    let token = CopyToken(number);
    let has = |flag| fields.flags & flag != 0;
    let (durable, receipt, unmap) = (has(DURABLE), has(RECEIPT), has(UNMAP));
    let no_longer_than = |longest| range_length(fields, longest);
    Ok(Some(match fields.kind {
        kind::WRITE => {
            let length = no_longer_than(MAX_PAYLOAD)?;
            Message::Write { id, offset, length, durable, receipt }
        }
        kind::ZERO => {
            let length = no_longer_than(MAX_ZERO)?;
            Message::Zero { id, offset, length, unmap, durable, receipt }
        }
        kind::READ => Message::Read { id, offset, length: no_longer_than(MAX_PAYLOAD)? },
        kind::FLUSH => Message::Flush { id, covers: Sequence(offset) },
        kind::MAP => Message::Map { id, offset, length: no_longer_than(MAX_ZERO)? },
        kind::DIGEST => Message::Digest { id, offset, length: no_longer_than(MAX_PAYLOAD)? },
        kind::RECEIVED => Message::Received { id },
        kind::DONE => Message::Done { id, result: result(fields)? },
        kind::DATA => Message::Data { id, is_unverified: has(UNVERIFIED) },
        kind::ADOPTED => Message::Adopted { generation },
        kind::REFUSED => {
            let sequence = has(HAS_NUMBER).then_some(id.sequence);
            Message::Refused { adopted: generation, sequence }
        }
        kind::DISK_FAILED => Message::DiskFailed { generation, failure: failure(fields)? },
        kind::PING => Message::Ping { generation, number: PingNumber(number) },
        kind::PONG => {
            let number = PingNumber(number);
            Message::Pong { generation, number, slots: read_copies(fields)? }
        }
        kind::FENCED => Message::Fenced { generation },
        kind::FENCE_CONFIRMED => Message::FenceConfirmed { generation },
        kind::DRAINED => Message::Drained { generation, token, is_busy: has(BUSY) },
        kind::COPY => {
            let length = no_longer_than(MAX_ZERO)?;
            Message::Copy { generation, token, offset, length }
        }
        kind::COPIED if fields.code != CONTENT_UNVERIFIED => {
            let content = content_from(fields);
            Message::Copied { token, content: content.ok_or(FrameError::Field(fields.kind))? }
        }
        kind::REBUILD_COPIED => {
            Message::RebuildCopied { generation, number: BarrierNumber(number) }
        }
        kind::WRITES_FINISHED => {
            Message::WritesFinished { generation, number: BarrierNumber(number) }
        }
        kind::REBUILD_DONE => Message::RebuildDone { generation },
        kind::STABLE => {
            let last_of_earlier_incarnations =
                has(EARLIER_INCARNATIONS).then_some(Sequence(offset));
            Message::Stable { generation, through: id.sequence, last_of_earlier_incarnations }
        }
        kind::LOG_FILLING => Message::LogFilling { generation },
        kind::CLEAR_BITS => Message::ClearBits { generation, offset, length: number },
        _ => return Ok(None),
    }))
}

/// The length of a range that is neither too long nor beyond what an offset can name.
fn range_length(fields: &Fields, longest: u32) -> Result<u32, FrameError> {
    let end = fields.offset.checked_add(fields.length.into());
    match (fields.length <= longest, end) {
        (true, Some(_)) => Ok(fields.length),
        _ => Err(FrameError::Length(fields.kind)),
    }
}

fn failure(fields: &Fields) -> Result<Failure, FrameError> {
    failure_from_code(fields.code).ok_or(FrameError::Field(fields.kind))
}

fn result(fields: &Fields) -> Result<Result<(), Failure>, FrameError> {
    if fields.code == 0 { Ok(Ok(())) } else { failure(fields).map(Err) }
}

fn read_with_body(fields: &Fields, body: &mut Reader<'_>) -> Result<Message, FrameError> {
    let generation = Generation(fields.generation);
    Ok(match fields.kind {
        kind::OPEN_SESSION => {
            let session = SessionNumber(fields.number);
            let opener = read_opener(fields, body)?;
            let mut named_incarnations = Incarnations::default();
            if let Opener::Primary(_) = opener {
                for incarnation in &mut named_incarnations.0 {
                    *incarnation = Incarnation(body.u64()?);
                }
            }
            let named_incarnations = Box::new(named_incarnations);
            Message::OpenSession { session, opener, named_incarnations }
        }
        kind::SESSION_OPENED => {
            let session = SessionNumber(fields.number);
            Message::SessionOpened { session, report: Box::new(read_report(fields, body)?) }
        }
        kind::ADOPT => {
            let view = Box::new(decode_view(body.take(body.left())?)?);
            Message::Adopt { view }
        }
        kind::EXTENTS => {
            let id = OperationId { generation, sequence: Sequence(fields.number) };
            Message::Extents { id, extents: read_extents(body)? }
        }
        kind::DIGESTS => {
            let id = OperationId { generation, sequence: Sequence(fields.number) };
            let count = body.left() / 8;
            if count > MAX_DIGESTS {
                return Err(FrameError::Length(kind::DIGESTS));
            }
            let digest = |_| body.u64().map(BlockDigest);
            let digests = (0..count).map(digest).collect::<Result<_, _>>()?;
            Message::Digests { id, digests }
        }
        kind::DRAIN => Message::Drain {
            generation,
            token: CopyToken(fields.number),
            offset: fields.offset,
            length: range_length(fields, u32::MAX)?,
            source: ReplicaId(body.u128()?),
        },
        kind::COPIED => {
            let mut forgotten = PayloadBlocks::default();
            for word in &mut forgotten {
                *word = body.u64()?;
            }
            let content = CopyContent::Unverified { forgotten };
            Message::Copied { token: CopyToken(fields.number), content }
        }
        kind::REBUILD_PROGRESS => {
            Message::RebuildProgress { generation, progress: Box::new(read_progress(body)?) }
        }
        kind::CLUSTER_LOCK => Message::ClusterLock {
            generation,
            requester: read_primary(body)?,
            number: ClusterLockNumber(fields.number),
            range: read_range(fields, body)?,
        },
        kind::GRANTED => Message::Granted {
            generation,
            requester: read_primary(body)?,
            number: ClusterLockNumber(fields.number),
        },
        kind::ASK_MISSING => Message::AskMissing {
            generation,
            replica: ReplicaId(body.u128()?),
            page: page(fields.number)?,
        },
        kind::MISSING_BLOCKS => Message::MissingBlocks {
            replica: ReplicaId(body.u128()?),
            asked: page(fields.number)?,
            content: read_missing(fields, body)?,
        },
        unknown => return Err(FrameError::Type(unknown)),
    })
}

/// The number of a page of a bitmap.
fn page(number: u64) -> Result<u32, FrameError> {
    u32::try_from(number).map_err(|_| FrameError::Field(kind::MISSING_BLOCKS))
}

fn read_missing(fields: &Fields, body: &mut Reader<'_>) -> Result<MissingContent, FrameError> {
    Ok(match fields.code {
        MISSING_PAGE => {
            let mut bits = Box::new([0; PAGE_WORDS]);
            for word in bits.iter_mut() {
                *word = body.u64()?;
            }
            MissingContent::Page(page(fields.offset)?, bits)
        }
        MISSING_END => MissingContent::End,
        MISSING_UNKNOWN => MissingContent::Unknown,
        MISSING_REFUSED => MissingContent::Refused,
        _ => return Err(FrameError::Field(fields.kind)),
    })
}

fn read_opener(fields: &Fields, body: &mut Reader<'_>) -> Result<Opener, FrameError> {
    match fields.code {
        OPENER_PRIMARY => Ok(Opener::Primary(read_primary(body)?)),
        OPENER_COPIER => Ok(Opener::Copier(ReplicaId(body.u128()?))),
        _ => Err(FrameError::Field(fields.kind)),
    }
}

fn read_primary(body: &mut Reader<'_>) -> Result<PrimaryId, FrameError> {
    Ok(PrimaryId { node: NodeId(body.u128()?), incarnation: Incarnation(body.u64()?) })
}

/// A range of the volume, if there is one; it is not empty.
fn read_range(fields: &Fields, body: &mut Reader<'_>) -> Result<Option<Range<u64>>, FrameError> {
    let (start, end) = (fields.offset, body.u64()?);
    match fields.flags & HAS_RANGE {
        0 if (start, end) == (0, 0) => Ok(None),
        HAS_RANGE if start < end => Ok(Some(start..end)),
        _ => Err(FrameError::Field(fields.kind)),
    }
}

fn read_flag(fields: &Fields, body: &mut Reader<'_>) -> Result<bool, FrameError> {
    match body.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(FrameError::Field(fields.kind)),
    }
}

fn read_report(fields: &Fields, body: &mut Reader<'_>) -> Result<ReplicaReport, FrameError> {
    let state = match fields.code {
        0 => None,
        code => {
            let state = u8::try_from(code).ok().and_then(replica_state_from_code);
            Some(state.ok_or(FrameError::Field(fields.kind))?)
        }
    };
    Ok(ReplicaReport {
        replica: ReplicaId(body.u128()?),
        incarnation: Incarnation(body.u64()?),
        is_stale_clone: read_flag(fields, body)?,
        boot: BootId(body.u128()?),
        generation: Generation(fields.generation),
        history: History(body.u128()?),
        size: body.u64()?,
        state,
        slots: read_copies(fields)?,
    })
}

fn read_copies(fields: &Fields) -> Result<SlotBits, FrameError> {
    let seen = u32::try_from(fields.offset).map_err(|_| FrameError::Field(fields.kind))?;
    Ok(SlotBits { open: fields.length, seen })
}

fn read_extents(body: &mut Reader<'_>) -> Result<Vec<Extent>, FrameError> {
    let count = body.left() / 8;
    if count > MAX_EXTENTS {
        return Err(FrameError::Length(kind::EXTENTS));
    }
    let mut extents = Vec::with_capacity(count);
    for _ in 0..count {
        let word = body.u64()?;
        extents.push(Extent { length: word & !ALLOCATED, allocated: word & ALLOCATED != 0 });
    }
    if extents_are_valid(&extents) { Ok(extents) } else { Err(FrameError::Length(kind::EXTENTS)) }
}

fn read_progress(body: &mut Reader<'_>) -> Result<RebuildProgress, FrameError> {
    let wrong = || FrameError::Field(kind::REBUILD_PROGRESS);
    let (done, total, copied, at) = (body.u64()?, body.u64()?, body.u64()?, body.u64()?);
    let source = body.u128()?;
    let [has_source, wait, reserved @ ..] = body.array::<8>()?;
    let waits_for = match (wait, at) {
        (0, 0) => None,
        (1, 0) => Some(RebuildWait::Source),
        (2, 0) => Some(RebuildWait::Drain),
        (3, at) => Some(RebuildWait::SourceMedium(at)),
        (4, 0) => Some(RebuildWait::Operator),
        _ => return Err(wrong()),
    };
    let source = match (has_source, source) {
        (0, 0) => None,
        (1, source) => Some(ReplicaId(source)),
        _ => return Err(wrong()),
    };
    if reserved != [0; 6] {
        return Err(wrong());
    }
    Ok(RebuildProgress { done, total, copied, source, waits_for })
}
