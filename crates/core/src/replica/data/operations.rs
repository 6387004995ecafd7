//! The operations under way: each holds or waits for the lock on its range, and a write also waits
//! for its regions to be open in the intent log. With both it begins.

mod digests;
mod invariants;

use core::ops::Range;

use self::digests::Digesting;
use crate::ids::*;
use crate::message::{BlockDigest, Opener, OperationId};
use crate::payload::Payload;
use crate::range_lock::{LockMode, RangeLock};
use crate::replica::{DiskAction, DiskError, DiskOutcome};
use crate::rising_map::RisingMap;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Operations<P> {
    locks: RangeLock<OperationNumber>,
    all: RisingMap<OperationNumber, DataOperation<P>>,
}

/// Who wants an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// A primary, over a link.
    Primary(LinkId, PrimaryId, OperationId),
    /// A rebuilding replica, over a link.
    Copier(LinkId, ReplicaId, CopyToken),
    /// This replica's own rebuild, which holds the range.
    Rebuild(CopyToken),
}

/// An operation that holds or waits for the lock on its range.
#[derive(Debug)]
struct DataOperation<P> {
    origin: Origin,
    /// What to do once the lock is granted; taken when it has begun. A rebuild's hold has none.
    action: Option<DiskAction<P>>,
    /// Whether the disk action has begun.
    begun: bool,
    /// Whether it changes data.
    is_write: bool,
    answer: Answer,
    /// Of one that is answered with digests: how far they are.
    digesting: Option<Digesting>,
    /// Whether it has the lock on its range.
    is_locked: bool,
    /// Where its regions are on their way into the intent log.
    intent: Intent,
}

/// What the answer to an operation is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Answer {
    /// What makes it durable, if it is to be.
    pub durability: Durability,
    /// It tells digests of the blocks that were read, not what they hold.
    pub digests: bool,
}

/// What makes a write durable before it is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Durability {
    /// Nothing: a later flush does.
    #[default]
    Later,
    /// The write itself (forced unit access).
    Write,
    /// A device flush after it.
    Flush,
}

/// How far the intent log is for an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Intent {
    /// It changes nothing, or what it changes is noted elsewhere.
    None,
    /// It waits for room to be reserved for the regions of these blocks.
    Waiting(Range<u64>),
    /// Room is reserved in this slot, but not all regions of these blocks are open on the disk.
    Opening(u8, Range<u64>),
    /// The regions of these blocks are open in this slot.
    Open(u8, Range<u64>),
}

/// An operation that is over.
#[derive(Debug)]
pub(super) struct Over {
    /// The slot of the intent log in which room was reserved for these blocks.
    pub reserved: Option<(u8, Range<u64>)>,
    /// Whether it may be in line for room in the log, or for its regions to be open.
    pub waited: bool,
    /// The operations that have the lock on their range by that, in their order.
    pub granted: Vec<OperationNumber>,
}

/// What follows when a read for digests has ended.
#[derive(Debug)]
pub(super) enum Digested<P> {
    /// The next piece is to be read.
    Next(DiskAction<P>),
    /// All is read.
    All(Vec<BlockDigest>),
}

impl Origin {
    fn opener(self) -> Option<Opener> {
        match self {
            Self::Primary(_, primary, _) => Some(Opener::Primary(primary)),
            Self::Copier(_, replica, _) => Some(Opener::Copier(replica)),
            Self::Rebuild(_) => None,
        }
    }

    fn link(self) -> Option<LinkId> {
        match self {
            Self::Primary(link, ..) | Self::Copier(link, ..) => Some(link),
            Self::Rebuild(_) => None,
        }
    }
}

impl<P> DataOperation<P> {
    /// Which of a primary's operations it is.
    fn write_id(&self) -> Option<WriteId> {
        match self.origin {
            Origin::Primary(_, primary, id) => Some(WriteId { primary, sequence: id.sequence }),
            Origin::Copier(..) | Origin::Rebuild(_) => None,
        }
    }
}

impl<P> Default for Operations<P> {
    fn default() -> Self {
        Self { locks: RangeLock::default(), all: RisingMap::default() }
    }
}

impl<P: Payload> Operations<P> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// An operation comes: numbers rise. A write that changes data waits for room in the intent log
    /// for these blocks. It is to be [locked](Self::lock) next.
    pub fn add(
        &mut self,
        number: OperationNumber,
        origin: Origin,
        action: DiskAction<P>,
        blocks: Range<u64>,
        answer: Answer,
    ) {
        let range = action.range();
        let is_write = range.is_some_and(|(.., is_write)| is_write);
        let digesting = range.filter(|_| answer.digests);
        let operation = DataOperation {
            origin,
            action: Some(action),
            begun: false,
            is_write,
            answer,
            digesting: digesting.map(|(offset, length, _)| Digesting::new(offset, length)),
            is_locked: false,
            intent: if is_write { Intent::Waiting(blocks) } else { Intent::None },
        };
        self.all.insert(number, operation);
    }

    /// The rebuild is to hold a range. It is to be [locked](Self::lock) next.
    pub fn add_hold(&mut self, number: OperationNumber, token: CopyToken) {
        let operation = DataOperation {
            origin: Origin::Rebuild(token),
            action: None,
            begun: false,
            is_write: true,
            answer: Answer::default(),
            digesting: None,
            is_locked: false,
            intent: Intent::None,
        };
        self.all.insert(number, operation);
    }

    /// Asks for the lock on the range of the operation that was added last. Returns whether it is
    /// granted at once; else it is when others are [over](Self::end).
    pub fn lock(&mut self, number: OperationNumber, range: Range<u64>) -> bool {
        let is_write = self.all.get(&number).is_some_and(|operation| operation.is_write);
        let mode = if is_write { LockMode::Exclusive } else { LockMode::Shared };
        let is_granted = self.locks.acquire(number, range, mode);
        if is_granted {
            self.granted(number);
        }
        is_granted
    }

    fn granted(&mut self, number: OperationNumber) {
        if let Some(operation) = self.all.get_mut(&number) {
            operation.is_locked = true;
        }
    }

    /// The copy for which the rebuild holds this range.
    pub fn copy_of(&self, number: OperationNumber) -> Option<CopyToken> {
        match self.all.get(&number)?.origin {
            Origin::Rebuild(token) => Some(token),
            Origin::Primary(..) | Origin::Copier(..) => None,
        }
    }

    /// The rebuild begins a disk action in a range that it holds.
    pub fn begin_held(&mut self, number: OperationNumber) {
        if let Some(operation) = self.all.get_mut(&number) {
            operation.begun = true;
        }
    }

    /// What an operation is to begin with now, if it has its lock and its regions are open.
    pub fn take_ready(&mut self, number: OperationNumber) -> Option<DiskAction<P>> {
        let operation = self.all.get_mut(&number)?;
        let is_open = matches!(operation.intent, Intent::None | Intent::Open(..));
        let action = operation.action.take_if(|_| operation.is_locked && is_open)?;
        operation.begun = true;
        Some(action)
    }

    /// Who wants an operation, and how it is answered.
    pub fn asked(&self, number: OperationNumber) -> Option<(Origin, Answer)> {
        self.all.get(&number).map(|operation| (operation.origin, operation.answer))
    }

    /// A read for digests has ended. `None`: that was another operation.
    pub fn digest_read(
        &mut self,
        number: OperationNumber,
        outcome: &Result<DiskOutcome<P>, DiskError>,
    ) -> Option<Digested<P>> {
        let digesting = self.all.get_mut(&number)?.digesting.as_mut()?;
        Some(match digesting.ended(outcome) {
            Some(action) => Digested::Next(action),
            None => Digested::All(digesting.take()),
        })
    }

    /// An operation is over, whether it had begun or not: gives its lock back.
    pub fn end(&mut self, number: OperationNumber) -> Option<Over> {
        let operation = self.all.remove(&number)?;
        let mut granted = Vec::new();
        self.locks.release(number, &mut granted);
        granted.iter().for_each(|number| self.granted(*number));
        let waited = matches!(operation.intent, Intent::Opening(..) | Intent::Waiting(_));
        let reserved = match operation.intent {
            Intent::Opening(slot, blocks) | Intent::Open(slot, blocks) => Some((slot, blocks)),
            Intent::None | Intent::Waiting(_) => None,
        };
        Some(Over { reserved, waited, granted })
    }

    /// Whether anything is under way for an opener of sessions.
    pub fn work_for(&self, opener: Opener) -> bool {
        self.all.values().any(|operation| operation.origin.opener() == Some(opener))
    }

    /// Whether a write up to `covers` that came over this link is not on the disk yet.
    pub fn have_earlier_write(&self, link: LinkId, covers: Sequence) -> bool {
        self.all.values().any(|operation| match operation.origin {
            Origin::Primary(from, _, id) => {
                operation.is_write && from == link && id.sequence <= covers
            }
            Origin::Copier(..) | Origin::Rebuild(_) => false,
        })
    }

    /// Those that came over a link and have not begun. Newest first, so that giving one up does not
    /// begin another one of them.
    pub fn waiting_of(&self, link: LinkId) -> Vec<OperationNumber> {
        let is_of = |operation: &DataOperation<P>| operation.origin.link() == Some(link);
        let waiting = self.all.iter().filter(|(_, operation)| is_of(operation) && !operation.begun);
        waiting.map(|(number, _)| *number).rev().collect()
    }

    /// Those of primaries that have not begun, with what to refuse. Newest first.
    pub fn waiting_of_primaries(&self) -> Vec<(OperationNumber, LinkId, Sequence)> {
        let waiting = self.all.iter().filter(|(_, operation)| !operation.begun);
        let of_primaries = waiting.filter_map(|(number, operation)| match operation.origin {
            Origin::Primary(link, _, id) => Some((*number, link, id.sequence)),
            Origin::Copier(..) | Origin::Rebuild(_) => None,
        });
        of_primaries.rev().collect()
    }

    /// Which of a primary's operations one is.
    pub fn write_id(&self, number: OperationNumber) -> Option<WriteId> {
        self.all.get(&number)?.write_id()
    }

    /// A write that waits for room in the intent log: who sent it, and for which blocks.
    pub fn wants_room(&self, number: OperationNumber) -> Option<(WriteId, Range<u64>)> {
        let operation = self.all.get(&number)?;
        match &operation.intent {
            Intent::Waiting(blocks) => Some((operation.write_id()?, blocks.clone())),
            Intent::None | Intent::Opening(..) | Intent::Open(..) => None,
        }
    }

    /// Room is reserved for a write in this slot; its regions are open on the disk, or will be.
    pub fn has_room(&mut self, number: OperationNumber, slot: u8, is_open: bool) {
        if let Some(operation) = self.all.get_mut(&number)
            && let Intent::Waiting(blocks) = &mut operation.intent
        {
            let blocks = core::mem::take(blocks);
            operation.intent = match is_open {
                true => Intent::Open(slot, blocks),
                false => Intent::Opening(slot, blocks),
            };
        }
    }

    /// A write whose regions are on their way into the log: in which slot, and for which blocks.
    pub fn opening(&self, number: OperationNumber) -> Option<(u8, Range<u64>)> {
        match &self.all.get(&number)?.intent {
            Intent::Opening(slot, blocks) => Some((*slot, blocks.clone())),
            Intent::None | Intent::Waiting(_) | Intent::Open(..) => None,
        }
    }

    /// The regions of a write are open on the disk.
    pub fn opened(&mut self, number: OperationNumber) {
        if let Some((slot, blocks)) = self.opening(number)
            && let Some(operation) = self.all.get_mut(&number)
        {
            operation.intent = Intent::Open(slot, blocks);
        }
    }
}
