//! Which message is which: the fields of the header, and the bodies.

mod read;

use evenkeel_core::message::*;
use evenkeel_core::settings::{BLOCK, MAX_EXTENTS, MAX_PAYLOAD, MAX_ZERO};
use evenkeel_core::*;
use evenkeel_format::bytes::Put;
use evenkeel_format::{encode_view, replica_state_code};

use crate::error::FrameError;

pub(crate) use read::read_message;

/// The part of the header that depends on the message. What a message does not use is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Fields {
    pub kind: u16,
    pub generation: u64,
    /// Session, sequence, token or number, as the message has it.
    pub number: u64,
    /// First byte; of a flush, the write that it covers.
    pub offset: u64,
    pub length: u32,
    pub flags: u16,
    pub code: u16,
}

const DURABLE: u16 = 1;
const RECEIPT: u16 = 2;
const UNMAP: u16 = 4;
const HAS_NUMBER: u16 = 8;
const BUSY: u16 = 16;
const UNVERIFIED: u16 = 32;
const EARLIER_INCARNATIONS: u16 = 64;
const HAS_RANGE: u16 = 128;

/// The numbers of the message types; a number once given is never given to another message.
mod kind {
    pub const OPEN_SESSION: u16 = 1;
    pub const SESSION_OPENED: u16 = 2;
    pub const ADOPT: u16 = 3;
    pub const ADOPTED: u16 = 4;
    pub const REFUSED: u16 = 5;
    pub const DISK_FAILED: u16 = 6;
    pub const WRITE: u16 = 16;
    pub const ZERO: u16 = 17;
    pub const READ: u16 = 18;
    pub const FLUSH: u16 = 19;
    pub const MAP: u16 = 20;
    pub const DIGEST: u16 = 21;
    pub const RECEIVED: u16 = 32;
    pub const DONE: u16 = 33;
    pub const DATA: u16 = 34;
    pub const EXTENTS: u16 = 35;
    pub const DIGESTS: u16 = 36;
    pub const PING: u16 = 48;
    pub const PONG: u16 = 49;
    pub const FENCED: u16 = 50;
    pub const FENCE_CONFIRMED: u16 = 51;
    pub const DRAIN: u16 = 64;
    pub const DRAINED: u16 = 65;
    pub const COPY: u16 = 66;
    pub const COPIED: u16 = 67;
    pub const REBUILD_PROGRESS: u16 = 68;
    pub const REBUILD_DONE: u16 = 69;
    pub const ASK_MISSING: u16 = 70;
    pub const MISSING_BLOCKS: u16 = 71;
    pub const CLEAR_BITS: u16 = 72;
    pub const REBUILD_COPIED: u16 = 73;
    pub const WRITES_FINISHED: u16 = 74;
    pub const STABLE: u16 = 80;
    pub const LOG_FILLING: u16 = 81;
    pub const CLUSTER_LOCK: u16 = 96;
    pub const GRANTED: u16 = 97;
}

/// Bit of an extent's length that says that it is allocated.
const ALLOCATED: u64 = 1 << 63;

/// Most digests in one answer: those of the longest range that is asked for.
const MAX_DIGESTS: usize = (MAX_PAYLOAD / BLOCK) as usize;

const OPENER_PRIMARY: u16 = 1;
const OPENER_COPIER: u16 = 2;

const CONTENT_DATA: u16 = 1;
const CONTENT_ZEROES: u16 = 2;
const CONTENT_REFUSED: u16 = 3;
const CONTENT_BEGINS: u16 = 4;
const CONTENT_UNVERIFIED: u16 = 5;
/// Plus the code of the failure.
const CONTENT_FAILED: u16 = 16;

const MISSING_PAGE: u16 = 1;
const MISSING_END: u16 = 2;
const MISSING_UNKNOWN: u16 = 3;
const MISSING_REFUSED: u16 = 4;

/// The header's fields for a message.
pub(crate) fn fields_of(message: &Message) -> Fields {
    match *message {
        Message::OpenSession { session, opener, .. } => {
            let code = match opener {
                Opener::Primary(_) => OPENER_PRIMARY,
                Opener::Copier(_) => OPENER_COPIER,
            };
            Fields { kind: kind::OPEN_SESSION, number: session.0, code, ..Fields::default() }
        }
        Message::SessionOpened { session, ref report } => Fields {
            code: report.state.map_or(0, |state| replica_state_code(state).into()),
            length: report.slots.open,
            offset: report.slots.seen.into(),
            ..numbered(kind::SESSION_OPENED, report.generation, session.0)
        },
        Message::Adopt { ref view } => numbered(kind::ADOPT, view.generation, 0),
        Message::Adopted { generation } => numbered(kind::ADOPTED, generation, 0),
        Message::Refused { adopted, sequence } => Fields {
            flags: flag(HAS_NUMBER, sequence.is_some()),
            ..numbered(kind::REFUSED, adopted, sequence.unwrap_or_default().0)
        },
        Message::DiskFailed { generation, failure } => {
            Fields { code: failure_code(failure), ..numbered(kind::DISK_FAILED, generation, 0) }
        }
        Message::Ping { generation, number } => numbered(kind::PING, generation, number.0),
        Message::Pong { generation, number, slots } => Fields {
            length: slots.open,
            offset: slots.seen.into(),
            ..numbered(kind::PONG, generation, number.0)
        },
        Message::Fenced { generation } => numbered(kind::FENCED, generation, 0),
        Message::FenceConfirmed { generation } => numbered(kind::FENCE_CONFIRMED, generation, 0),
        Message::Stable { generation, through, last_of_earlier_incarnations: last } => Fields {
            offset: last.unwrap_or_default().0,
            flags: flag(EARLIER_INCARNATIONS, last.is_some()),
            ..numbered(kind::STABLE, generation, through.0)
        },
        Message::LogFilling { generation } => numbered(kind::LOG_FILLING, generation, 0),
        Message::ClusterLock { generation, number, ref range, .. } => Fields {
            offset: range.as_ref().map_or(0, |range| range.start),
            flags: flag(HAS_RANGE, range.is_some()),
            ..numbered(kind::CLUSTER_LOCK, generation, number.0)
        },
        Message::Granted { generation, number, .. } => {
            numbered(kind::GRANTED, generation, number.0)
        }
        ref message => operation_fields(message).unwrap_or_else(|| rebuild_fields(message)),
    }
}

/// Of operations and their answers.
fn operation_fields(message: &Message) -> Option<Fields> {
    let of = |kind, id: OperationId| numbered(kind, id.generation, id.sequence.0);
    Some(match *message {
        Message::Write { id, offset, length, durable, receipt } => {
            let flags = flag(DURABLE, durable) | flag(RECEIPT, receipt);
            Fields { offset, length, flags, ..of(kind::WRITE, id) }
        }
        Message::Zero { id, offset, length, unmap, durable, receipt } => {
            let flags = flag(DURABLE, durable) | flag(RECEIPT, receipt) | flag(UNMAP, unmap);
            Fields { offset, length, flags, ..of(kind::ZERO, id) }
        }
        Message::Read { id, offset, length } => Fields { offset, length, ..of(kind::READ, id) },
        Message::Flush { id, covers } => Fields { offset: covers.0, ..of(kind::FLUSH, id) },
        Message::Digest { id, offset, length } => Fields { offset, length, ..of(kind::DIGEST, id) },
        Message::Map { id, offset, length } => Fields { offset, length, ..of(kind::MAP, id) },
        Message::Received { id } => of(kind::RECEIVED, id),
        Message::Done { id, result } => {
            Fields { code: result.err().map_or(0, failure_code), ..of(kind::DONE, id) }
        }
        Message::Data { id, is_unverified } => {
            Fields { flags: flag(UNVERIFIED, is_unverified), ..of(kind::DATA, id) }
        }
        Message::Digests { id, .. } => of(kind::DIGESTS, id),
        Message::Extents { id, .. } => of(kind::EXTENTS, id),
        _ => return None,
    })
}

/// Of what a rebuild says; anything else has fields of its own above.
fn rebuild_fields(message: &Message) -> Fields {
    match *message {
        Message::Drain { generation, token, offset, length, .. } => {
            Fields { offset, length, ..numbered(kind::DRAIN, generation, token.0) }
        }
        Message::Drained { generation, token, is_busy } => {
            Fields { flags: flag(BUSY, is_busy), ..numbered(kind::DRAINED, generation, token.0) }
        }
        Message::Copy { generation, token, offset, length } => {
            Fields { offset, length, ..numbered(kind::COPY, generation, token.0) }
        }
        Message::Copied { token, content } => {
            let (code, (offset, length)) = (content_code(content), beginning_of(content));
            Fields { code, offset, length, ..numbered(kind::COPIED, Generation(0), token.0) }
        }
        Message::RebuildProgress { generation, .. } => {
            numbered(kind::REBUILD_PROGRESS, generation, 0)
        }
        Message::RebuildCopied { generation, number } => {
            numbered(kind::REBUILD_COPIED, generation, number.0)
        }
        Message::WritesFinished { generation, number } => {
            numbered(kind::WRITES_FINISHED, generation, number.0)
        }
        Message::RebuildDone { generation } => numbered(kind::REBUILD_DONE, generation, 0),
        Message::AskMissing { generation, page, .. } => {
            numbered(kind::ASK_MISSING, generation, page.into())
        }
        Message::MissingBlocks { asked, ref content, .. } => {
            let (code, page) = missing_code(content);
            let offset = page.into();
            Fields { code, offset, ..numbered(kind::MISSING_BLOCKS, Generation(0), asked.into()) }
        }
        Message::ClearBits { generation, offset, length } => {
            Fields { offset, ..numbered(kind::CLEAR_BITS, generation, length) }
        }
        _ => Fields::default(),
    }
}

fn numbered(kind: u16, generation: Generation, number: u64) -> Fields {
    Fields { kind, generation: generation.0, number, ..Fields::default() }
}

const fn flag(bit: u16, set: bool) -> u16 {
    if set { bit } else { 0 }
}

const fn failure_code(failure: Failure) -> u16 {
    match failure {
        Failure::Medium => 1,
        Failure::NoSpace => 2,
        Failure::Invalid => 3,
        Failure::Damaged => 4,
    }
}

const fn failure_from_code(code: u16) -> Option<Failure> {
    match code {
        1 => Some(Failure::Medium),
        2 => Some(Failure::NoSpace),
        3 => Some(Failure::Invalid),
        4 => Some(Failure::Damaged),
        _ => None,
    }
}

const fn content_code(content: CopyContent) -> u16 {
    match content {
        CopyContent::Data => CONTENT_DATA,
        CopyContent::Unverified { .. } => CONTENT_UNVERIFIED,
        CopyContent::Zeroes => CONTENT_ZEROES,
        CopyContent::Refused => CONTENT_REFUSED,
        CopyContent::Begins { .. } => CONTENT_BEGINS,
        CopyContent::Failed(failure) => CONTENT_FAILED + failure_code(failure),
    }
}

/// Bytes of zeroes, and of data behind them.
const fn beginning_of(content: CopyContent) -> (u64, u32) {
    match content {
        CopyContent::Begins { zeroes, data } => (zeroes as u64, data),
        _ => (0, 0),
    }
}

fn missing_code(content: &MissingContent) -> (u16, u32) {
    match content {
        MissingContent::Page(page, _) => (MISSING_PAGE, *page),
        MissingContent::End => (MISSING_END, 0),
        MissingContent::Unknown => (MISSING_UNKNOWN, 0),
        MissingContent::Refused => (MISSING_REFUSED, 0),
    }
}

fn content_from(fields: &Fields) -> Option<CopyContent> {
    match fields.code {
        CONTENT_BEGINS => {
            let (zeroes, data) = (u32::try_from(fields.offset).ok()?, fields.length);
            let total = u64::from(zeroes) + u64::from(data);
            (total <= u64::from(MAX_ZERO)).then_some(CopyContent::Begins { zeroes, data })
        }
        _ if (fields.offset, fields.length) != (0, 0) => None,
        CONTENT_DATA => Some(CopyContent::Data),
        CONTENT_ZEROES => Some(CopyContent::Zeroes),
        CONTENT_REFUSED => Some(CopyContent::Refused),
        code => {
            code.checked_sub(CONTENT_FAILED).and_then(failure_from_code).map(CopyContent::Failed)
        }
    }
}

/// Appends a message's body, if it has one.
pub(crate) fn put_body(message: &Message, out: &mut Vec<u8>) -> Result<(), FrameError> {
    match message {
        Message::OpenSession { opener: Opener::Primary(primary), named_incarnations, .. } => {
            put_primary(*primary, out);
            named_incarnations.0.iter().for_each(|incarnation| out.put_u64(incarnation.0));
        }
        Message::OpenSession { opener: Opener::Copier(replica), .. } => out.put_u128(replica.0),
        Message::SessionOpened { report, .. } => {
            out.put_u128(report.replica.0);
            out.put_u64(report.incarnation.0);
            out.put_u8(u8::from(report.is_stale_clone));
            out.put_u128(report.boot.0);
            out.put_u128(report.history.0);
            out.put_u64(report.size);
        }
        Message::Adopt { view } => out.put(&encode_view(view)?),
        Message::Digests { digests, .. } if digests.len() > MAX_DIGESTS => {
            return Err(FrameError::Length(kind::DIGESTS));
        }
        Message::Digests { digests, .. } => digests.iter().for_each(|d| out.put_u64(d.0)),
        Message::Extents { extents, .. } => put_extents(extents, out)?,
        Message::Drain { source, .. } => out.put_u128(source.0),
        Message::RebuildProgress { progress, .. } => put_progress(progress, out),
        Message::Copied { content: CopyContent::Unverified { forgotten }, .. } => {
            forgotten.iter().for_each(|word| out.put_u64(*word));
        }
        Message::AskMissing { replica, .. } => out.put_u128(replica.0),
        Message::ClusterLock { requester, range, .. } => {
            put_primary(*requester, out);
            out.put_u64(range.as_ref().map_or(0, |range| range.end));
        }
        Message::Granted { requester, .. } => put_primary(*requester, out),
        Message::MissingBlocks { replica, content, .. } => {
            out.put_u128(replica.0);
            if let MissingContent::Page(_, bits) = content {
                bits.iter().for_each(|word| out.put_u64(*word));
            }
        }
        _ => {}
    }
    Ok(())
}

fn put_primary(primary: PrimaryId, out: &mut Vec<u8>) {
    out.put_u128(primary.node.0);
    out.put_u64(primary.incarnation.0);
}

fn put_extents(extents: &[Extent], out: &mut Vec<u8>) -> Result<(), FrameError> {
    if !extents_are_valid(extents) {
        return Err(FrameError::Length(kind::EXTENTS));
    }
    for extent in extents {
        out.put_u64(extent.length | if extent.allocated { ALLOCATED } else { 0 });
    }
    Ok(())
}

/// Whether there are as many as an answer may have, none is empty, and together they are not
/// longer than any question.
fn extents_are_valid(extents: &[Extent]) -> bool {
    let total = extents.iter().try_fold(0u64, |total, extent| total.checked_add(extent.length));
    (1..=MAX_EXTENTS).contains(&extents.len())
        && extents.iter().all(|extent| extent.length > 0)
        && total.is_some_and(|total| total <= u64::from(MAX_ZERO))
}

fn put_progress(progress: &RebuildProgress, out: &mut Vec<u8>) {
    let (wait, at) = match progress.waits_for {
        None => (0, 0),
        Some(RebuildWait::Source) => (1, 0),
        Some(RebuildWait::Drain) => (2, 0),
        Some(RebuildWait::SourceMedium(at)) => (3, at),
        Some(RebuildWait::Operator) => (4, 0),
    };
    out.put_u64(progress.done);
    out.put_u64(progress.total);
    out.put_u64(progress.copied);
    out.put_u64(at);
    out.put_u128(progress.source.map_or(0, |source| source.0));
    out.put_u8(progress.source.is_some().into());
    out.put_u8(wait);
    out.put_padded(&[], 6);
}
