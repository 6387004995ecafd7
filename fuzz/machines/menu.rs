//! Messages to choose from, with the numbers in them that mean something at the moment.

use evenkeel_core::block_set::PAGE_WORDS;
use evenkeel_core::message::*;
use evenkeel_core::*;

use super::script::Script;
use super::views::{self, MAX_IDS, PRIMARIES};

/// What means something to the machine that is spoken to.
#[derive(Debug, Clone)]
pub struct Live {
    /// The view by which it works.
    pub view: View,
    /// The newest session.
    pub session: u64,
    /// An operation or copy under way.
    pub number: u64,
    /// The page that was asked for.
    pub page: u32,
    /// Of whom.
    pub replica: ReplicaId,
}

impl Live {
    fn generation(&self, script: &mut Script<'_>) -> Generation {
        Generation(script.near(self.view.generation.0))
    }

    fn id(&self, script: &mut Script<'_>) -> OperationId {
        let generation = self.generation(script);
        OperationId { generation, sequence: Sequence(script.near(self.number)) }
    }

    fn range(&self, script: &mut Script<'_>) -> (u64, u32) {
        (script.offset(self.view.replica_size()), script.length())
    }

    fn replica(&self, script: &mut Script<'_>) -> ReplicaId {
        match script.byte() {
            0..=127 => self.replica,
            other => ReplicaId(u128::from(other) % MAX_IDS + 1),
        }
    }
}

/// Who opens a session.
pub fn opener(script: &mut Script<'_>) -> Opener {
    match script.byte() {
        byte @ 0..=159 => Opener::Primary(PRIMARIES[usize::from(byte) % PRIMARIES.len()]),
        byte => Opener::Copier(ReplicaId(u128::from(byte) % MAX_IDS + 1)),
    }
}

/// A message that a primary or a rebuilding replica says to a replica.
pub fn to_replica(script: &mut Script<'_>, live: &Live) -> Message {
    let kind = script.choose(16);
    let (generation, token) = (live.generation(script), CopyToken(live.number));
    match kind {
        0..=5 => operation(script, live, kind),
        6 => Message::OpenSession {
            session: SessionNumber(script.near(live.session)),
            opener: opener(script),
            named_incarnations: Box::new(Incarnations::of([Incarnation(live.session)])),
        },
        7 | 8 => Message::Adopt { view: Box::new(views::next(script, &live.view)) },
        9 => Message::Ping { generation, number: PingNumber(script.near(1)) },
        10 => Message::FenceConfirmed { generation },
        11 => Message::Drained {
            generation,
            token: CopyToken(script.near(token.0)),
            is_busy: script.is_set(),
        },
        12 => {
            let (offset, length) = live.range(script);
            Message::Copy { generation, token: CopyToken(script.near(token.0)), offset, length }
        }
        13 => Message::Stable {
            generation,
            through: Sequence(script.near(live.number)),
            last_of_earlier_incarnations: script
                .is_set()
                .then(|| Sequence(script.near(live.number))),
        },
        14 => from_source(script, live),
        _ => match script.choose(5) {
            4 => Message::WritesFinished {
                generation,
                number: BarrierNumber(script.near(live.number)),
            },
            3 => cluster_lock(script, live),
            0 => Message::AskMissing {
                generation,
                replica: live.replica(script),
                page: script.near(0) as u32,
            },
            1 => Message::ClearBits {
                generation,
                offset: script.offset(live.view.replica_size()),
                length: script.near(1 << 20),
            },
            _ => to_primary(script, live),
        },
    }
}

fn operation(script: &mut Script<'_>, live: &Live, kind: usize) -> Message {
    let id = live.id(script);
    let (offset, length) = live.range(script);
    let flags = script.byte();
    let (durable, receipt) = (flags & 1 != 0, flags & 2 != 0);
    match kind {
        0 | 1 => Message::Write { id, offset, length, durable, receipt },
        2 => Message::Zero { id, offset, length, unmap: flags & 4 != 0, durable, receipt },
        3 if flags & 8 != 0 => Message::Digest { id, offset, length },
        3 => Message::Read { id, offset, length },
        4 => Message::Flush { id, covers: Sequence(script.near(live.number)) },
        _ => Message::Map { id, offset, length },
    }
}

/// What is said of cluster locks, in both directions.
fn cluster_lock(script: &mut Script<'_>, live: &Live) -> Message {
    let (generation, number) = (live.generation(script), ClusterLockNumber(script.near(1)));
    let primaries = &live.view.primaries;
    let requester = match primaries.get(script.choose(primaries.len() + 1)) {
        Some(primary) => primary.id,
        None => PrimaryId { node: NodeId(9), incarnation: Incarnation(9) },
    };
    if script.is_set() {
        return Message::Granted { generation, requester, number };
    }
    // What is read from a frame is no empty range.
    let start = script.offset(live.view.geometry.size).min(u64::MAX - 1);
    let end = start.saturating_add(1 + u64::from(script.length()));
    let range = script.is_set().then_some(start..end);
    Message::ClusterLock { generation, requester, number, range }
}

/// What the source of a rebuild says.
fn from_source(script: &mut Script<'_>, live: &Live) -> Message {
    match script.choose(3) {
        0 => Message::SessionOpened {
            session: SessionNumber(script.near(live.session)),
            report: Box::new(report(script, live)),
        },
        1 => Message::Copied {
            token: CopyToken(script.near(live.number)),
            content: content(script, 1 << 20),
        },
        _ => Message::MissingBlocks {
            replica: live.replica(script),
            asked: script.near(live.page.into()) as u32,
            content: missing(script, live.page),
        },
    }
}

/// What a copied range of so many bytes may hold.
pub fn content(script: &mut Script<'_>, length: u32) -> CopyContent {
    match script.choose(8) {
        0 => CopyContent::Zeroes,
        1 => {
            let zeroes = script.offset(length.into()) as u32;
            CopyContent::Begins { zeroes, data: script.length() }
        }
        2 => CopyContent::Failed(failure(script)),
        3 => CopyContent::Refused,
        4 => CopyContent::Unverified { forgotten: [0, 1, 2, 3].map(|_| script.near(1)) },
        _ => CopyContent::Data,
    }
}

/// What there may be to tell of a bitmap.
pub fn missing(script: &mut Script<'_>, page: u32) -> MissingContent {
    match script.choose(6) {
        0 => MissingContent::Unknown,
        1 => MissingContent::Refused,
        2 | 3 => MissingContent::End,
        _ => {
            let mut bits = Box::new([0; PAGE_WORDS]);
            for _ in 0..script.choose(4) + 1 {
                let word = script.choose(PAGE_WORDS);
                bits[word] = u64::from_le_bytes([script.byte(); 8]);
            }
            MissingContent::Page(script.near(page.into()) as u32, bits)
        }
    }
}

/// How something fails.
pub fn failure(script: &mut Script<'_>) -> Failure {
    let failures = [Failure::Medium, Failure::NoSpace, Failure::Invalid, Failure::Damaged];
    failures[script.choose(failures.len())]
}

/// What a replica knows of its slots.
pub fn slots(script: &mut Script<'_>) -> SlotBits {
    SlotBits { open: script.near(1) as u32, seen: script.near(3) as u32 }
}

/// What a replica says of itself: mostly what the view knows.
pub fn report(script: &mut Script<'_>, live: &Live) -> ReplicaReport {
    let record = live.view.replica(live.replica).map(|(_, record)| *record);
    let incarnation = record.map_or(5, |record| record.incarnation.0);
    let honest = ReplicaReport {
        replica: live.replica,
        incarnation: Incarnation(incarnation),
        is_stale_clone: false,
        boot: BootId(1),
        generation: live.view.generation,
        history: live.view.history,
        size: live.view.replica_size(),
        slots: SlotBits::default(),
        state: record.map(|record| record.state),
    };
    if script.byte() < 160 {
        return honest;
    }
    ReplicaReport {
        replica: live.replica(script),
        incarnation: Incarnation(script.near(incarnation)),
        is_stale_clone: script.near(incarnation) != incarnation,
        boot: BootId(script.near(1).into()),
        generation: Generation(script.near(honest.generation.0)),
        history: History(script.near(live.view.history.0 as u64).into()),
        size: script.near(honest.size),
        slots: slots(script),
        ..honest
    }
}

/// A message that a replica says to a primary.
pub fn to_primary(script: &mut Script<'_>, live: &Live) -> Message {
    let kind = script.choose(17);
    let (id, generation) = (live.id(script), live.generation(script));
    match kind {
        0 => Message::SessionOpened {
            session: SessionNumber(script.near(live.session)),
            report: Box::new(report(script, live)),
        },
        1 => Message::Adopted { generation },
        2 => Message::DiskFailed { generation, failure: failure(script) },
        3 => Message::Refused {
            adopted: generation,
            sequence: script.is_set().then_some(id.sequence),
        },
        4 => Message::Received { id },
        5 => Message::Done { id, result: Ok(()) },
        6 => Message::Done { id, result: Err(failure(script)) },
        7 => Message::Data { id, is_unverified: script.is_set() },
        8 => Message::Extents { id, extents: extents(script) },
        9 => Message::Digests { id, digests: digests(script, 1 << 20) },
        10 => {
            let number = PingNumber(script.near(live.number));
            Message::Pong { generation, number, slots: slots(script) }
        }
        11 => Message::Fenced { generation },
        12 => {
            let (offset, length) = live.range(script);
            let (token, source) = (CopyToken(script.near(1)), live.replica(script));
            Message::Drain { generation, token, offset, length, source }
        }
        13 if script.is_set() => cluster_lock(script, live),
        13 => Message::LogFilling { generation },
        14 => Message::RebuildProgress { generation, progress: Box::default() },
        15 if script.is_set() => {
            Message::RebuildCopied { generation, number: BarrierNumber(script.near(1)) }
        }
        15 => Message::RebuildDone { generation },
        _ if script.is_rare() => to_replica(script, live),
        _ => Message::Pong { generation, number: PingNumber(0), slots: slots(script) },
    }
}

/// A map of some range.
pub fn extents(script: &mut Script<'_>) -> Vec<Extent> {
    let count = script.choose(4) + 1;
    let extent = |script: &mut Script<'_>| {
        let allocated = script.is_set();
        Extent { length: script.length().into(), allocated }
    };
    (0..count).map(|_| extent(script)).collect()
}

/// Digests of a range of so many bytes.
pub fn digests(script: &mut Script<'_>, length: u32) -> Vec<BlockDigest> {
    // The two lowest numbers and a content, each with the two highest bits.
    let byte = u64::from(script.byte());
    let value = BlockDigest(byte & 3 | byte >> 2 << 62);
    vec![value; length.div_ceil(4096).min(256) as usize]
}
