//! The view: the record of who is who for a volume, and every permitted change of it.
//!
//! Views form a chain: each names its parent, and the coordinator commits one only if the parent
//! is still the newest (compare-and-swap). The changes below are pure functions from a view to its
//! successor; they keep two rules: a mirror never loses its last in-sync replica, and a replica
//! becomes in-sync only from `rebuilding`.

mod changes;
mod epochs;
mod layout;
mod lease;
mod members;
mod messages;
mod no_coordinator;
mod reservations;

pub use epochs::Epoch;
pub use layout::{IntentLayout, LayoutError};
pub use lease::Lease;
pub use members::{Circumstances, Newcomer, Role};
pub use no_coordinator::NoCoordinatorPolicy;
pub use reservations::{Registrant, Reservation, ReservationChange, ReservationKind, Reservations};

use crate::ids::*;
use crate::settings::*;
use crate::stripe::{self, Geometry};

/// When a write is acknowledged, in DRBD's terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// The local replica has written it and the rest is queued; without a local replica, the first
    /// in-sync replica has written it.
    A,
    /// Every replica has received it, and a local one has written it.
    B,
    /// Every replica has written it.
    C,
}

/// How closely replicas remember, across a crash, where they may differ from each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Bitmap {
    /// Not at all: after a crash of a replica all of it counts as different.
    None,
    /// By regions, in the intent log of each replica.
    #[default]
    Internal,
}

/// How fast rebuilds of a volume may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RebuildLimit {
    /// As fast as the clients' requests leave room for.
    #[default]
    None,
    /// At most so many bytes per second and rebuilding replica; neither zero nor [`u64::MAX`].
    BytesPerSecond(u64),
    /// Not at all, until that is changed.
    Paused,
}

/// A change of a volume as a whole that its next view brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// When a write is acknowledged.
    Protocol(Protocol),
    /// Where replicas may differ after a crash, and how many slots there are: with one the volume
    /// is attached on one node at a time, with more on so many at once.
    Bitmap {
        /// How closely replicas remember.
        bitmap: Bitmap,
        /// 1 to [`crate::settings::MAX_PRIMARIES`].
        slots: u8,
    },
    /// The size of the intent logs.
    Intents(IntentLayout),
    /// How fast rebuilds may go.
    RebuildLimit(RebuildLimit),
    /// What one confirmation of a replica is worth.
    Lease(Lease),
    /// What clients' requests do while the coordinator is away.
    NoCoordinator(NoCoordinatorPolicy),
    /// How many milliseconds clients' requests wait for data; with 0 they fail at once.
    NoData(u32),
    /// Which hosts may read and write. Done when nothing is under way that was permitted before.
    Reservation(ReservationChange),
}

/// What a replica is to its mirror.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReplicaState {
    /// Has every write that was acknowledged, as the protocol defines that.
    InSync,
    /// Gets every new write and copies the older ones; is not read.
    Rebuilding,
    /// Known to lack writes; returns by itself when it can be reached.
    Stale,
    /// Failed, by an operator or by its disk; waits for a command.
    Faulty,
    /// Holds nothing yet; stands in for another one that fails.
    Spare,
}

/// Why a replica is not in-sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// Nothing unusual: it is in-sync, or has just been made.
    None,
    /// Its connection was lost.
    Disconnected,
    /// It left a request unanswered for longer than the deadline.
    Late,
    /// Its process or machine restarted.
    Restarted,
    /// It did not answer when the volume was attached.
    Unreachable,
    /// The last primary ended without detaching; the mirror's copies may differ.
    UncleanEnd,
    /// Its disk reported an error: of input and output, or it can't be written to.
    Medium,
    /// Its disk is full.
    NoSpace,
    /// An operator failed it.
    Operator,
    /// It belongs to another line of descent of the data.
    OtherHistory,
    /// Its source could not take a write that it has itself.
    SourceFailed,
    /// Its writes took far longer than those of the other replicas.
    Lagging,
    /// The volume was put together from its disks, and this replica counted. Until it has adopted
    /// that, it may go on in the epoch before, unseen (V7).
    Unconfirmed,
    /// Its disk is a stale clone, which was put back: saved in an earlier incarnation than the
    /// volume knows.
    StaleClone,
    /// It is larger than the volume, which had grown on a branch that was not kept.
    TooLarge,
}

/// One replica in a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplicaRecord {
    /// Its identity, which no other replica ever has.
    pub id: ReplicaId,
    /// The node that has its disk.
    pub node: NodeId,
    /// What it is to the mirror.
    pub state: ReplicaState,
    /// The generation in which it took this state. If it is the same in two views, the replica
    /// never left in between.
    pub since: Generation,
    /// The incarnation of it that this view knows; zero before its first session.
    pub incarnation: Incarnation,
    /// Why it is not in-sync.
    pub cause: Cause,
    /// The generation in which it ceased to be in-sync: what has changed since is in the bitmaps
    /// that the others keep for it. `None` while it is in-sync, and for one that lacks everything.
    pub missing_since: Option<Generation>,
    /// Why it is in the mirror.
    pub role: Role,
}

/// One primary in a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrimaryRecord {
    /// Its node and the incarnation that it drew at its attach.
    pub id: PrimaryId,
    /// Its slot of the intent logs, which no other primary of the view has.
    pub slot: u8,
}

/// One mirror of the stripe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MirrorView {
    /// 1 to [`MAX_REPLICAS`].
    pub replicas: Vec<ReplicaRecord>,
}

/// The record of who is who.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// The volume.
    pub volume: VolumeId,
    /// The number of this view.
    pub generation: Generation,
    /// The number of the view that it replaces.
    pub parent: Generation,
    /// The line of descent of the data.
    pub history: History,
    /// Who committed it.
    pub coordinator: CoordinatorId,
    /// The epochs that it supersedes, the newest first; at most [`MAX_EPOCHS`].
    pub epochs: Vec<Epoch>,
    /// Size and layout.
    pub geometry: Geometry,
    /// When a write is acknowledged.
    pub protocol: Protocol,
    /// Where replicas may differ after a crash.
    pub bitmap: Bitmap,
    /// The size of the intent log of each replica.
    pub intents: IntentLayout,
    /// How fast rebuilds may go.
    pub rebuild_limit: RebuildLimit,
    /// What one confirmation of a replica is worth to a primary.
    pub lease: Lease,
    /// What clients' requests do while the view has to change and the coordinator does not answer.
    pub no_coordinator: NoCoordinatorPolicy,
    /// How many milliseconds clients' requests wait while no in-sync replica of a mirror answers;
    /// with 0 they fail at once. `None`: as the primary was told at its start
    /// ([`crate::Settings::no_data`]).
    pub no_data: Option<u32>,
    /// 1 to [`MAX_MIRRORS`], in stripe order.
    pub mirrors: Vec<MirrorView>,
    /// The primaries. None: detached cleanly, and all in-sync replicas of a mirror are identical.
    pub primaries: Vec<PrimaryRecord>,
    /// Which hosts may read and write.
    pub reservations: Reservations,
}

/// Why a change of a view is not permitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ViewError {
    /// The view does not hold such a replica.
    UnknownReplica,
    /// It would leave a mirror without an in-sync replica.
    LastInSync,
    /// The replica is not in the state that the change starts from.
    WrongState(ReplicaState),
    /// The replica has had another incarnation since.
    WrongIncarnation,
    /// There are as many primaries as a volume may have.
    TooManyPrimaries,
    /// The volume has no such mirror.
    UnknownMirror,
    /// There are as many replicas as a mirror may have.
    TooManyReplicas,
    /// The replica is a spare, or is itself to replace another one.
    NoCopy,
    /// Another replica is in its place, or on its way there.
    ReplacedAlready,
    /// A volume does not become smaller, and its size is a multiple of the block size.
    WrongSize,
    /// A replica is not in-sync.
    NotAllInSync,
    /// A slot of the intent logs that would go is a primary's.
    SlotHeld(u8),
    /// In a slot of the intent logs that would go, regions are open.
    SlotOpen(u8),
    /// The replica has not adopted an assembly from the disks yet.
    Unconfirmed,
    /// Several primaries need protocol C: what one of them has acknowledged, the others have to
    /// find.
    NotProtocolC,
    /// There is no room for so many slots.
    WrongSlots,
    /// Another host has reserved the volume, or this one is not registered with that key.
    ReservationConflict,
    /// The reservation is of another kind.
    WrongReservation,
    /// There is no room for so many registered hosts.
    TooManyRegistrants,
}

impl ReplicaState {
    /// Whether it gets every new write.
    #[must_use]
    pub const fn takes_writes(self) -> bool {
        matches!(self, Self::InSync | Self::Rebuilding)
    }
}

impl ReplicaRecord {
    /// One of a volume's first view: in-sync, and of an incarnation that nobody knows yet.
    #[must_use]
    pub const fn first(id: ReplicaId, node: NodeId) -> Self {
        Self {
            id,
            node,
            state: ReplicaState::InSync,
            since: Generation(1),
            incarnation: Incarnation(0),
            cause: Cause::None,
            missing_since: None,
            role: Role::Own,
        }
    }

    /// Whether they are generations of some view: those of nothing are not told apart on a disk.
    fn has_valid_generations(&self) -> bool {
        let views = 1..1 << 48;
        self.since.0 < views.end && self.missing_since.is_none_or(|since| views.contains(&since.0))
    }
}

impl MirrorView {
    /// The in-sync replicas.
    pub fn in_sync(&self) -> impl Iterator<Item = &ReplicaRecord> {
        self.replicas.iter().filter(|r| r.state == ReplicaState::InSync)
    }

    /// The in-sync and rebuilding replicas.
    pub fn members(&self) -> impl Iterator<Item = &ReplicaRecord> {
        self.replicas.iter().filter(|r| r.state.takes_writes())
    }
}

impl View {
    /// The first view of a volume: attached nowhere, by protocol C, each policy as by default, and
    /// an intent log for its size.
    #[must_use]
    pub fn first(
        volume: VolumeId,
        history: History,
        coordinator: CoordinatorId,
        geometry: Geometry,
        mirrors: Vec<MirrorView>,
    ) -> Self {
        Self {
            volume,
            generation: Generation(1),
            parent: Generation(0),
            history,
            coordinator,
            epochs: Vec::new(),
            geometry,
            protocol: Protocol::C,
            bitmap: Bitmap::default(),
            intents: IntentLayout::for_size(stripe::replica_size(geometry, mirrors.len())),
            rebuild_limit: RebuildLimit::default(),
            lease: Lease::default(),
            no_coordinator: NoCoordinatorPolicy::default(),
            no_data: None,
            mirrors,
            primaries: Vec::new(),
            reservations: Reservations::default(),
        }
    }

    /// The replica with this identity, with the index of its mirror.
    #[must_use]
    pub fn replica(&self, id: ReplicaId) -> Option<(usize, &ReplicaRecord)> {
        self.replicas().find(|(_, record)| record.id == id)
    }

    /// All replicas with the indices of their mirrors.
    pub fn replicas(&self) -> impl Iterator<Item = (usize, &ReplicaRecord)> {
        self.mirrors
            .iter()
            .enumerate()
            .flat_map(|(index, mirror)| mirror.replicas.iter().map(move |r| (index, r)))
    }

    /// Whether several primaries may run it at once: each has an intent slot of its own.
    #[must_use]
    pub const fn is_shared(&self) -> bool {
        self.intents.slots > 1
    }

    /// Whether several primaries run it at present.
    #[must_use]
    pub const fn has_several_primaries(&self) -> bool {
        self.primaries.len() > 1
    }

    /// The replica that keeps the order in which primaries lock ranges: as long as the view is the
    /// newest it is in-sync, so that none of them can go on without it.
    #[must_use]
    pub fn lock_manager(&self) -> Option<ReplicaId> {
        self.mirrors.first()?.in_sync().map(|record| record.id).min()
    }

    /// Whether this incarnation of this primary may act.
    #[must_use]
    pub fn has_primary(&self, primary: PrimaryId) -> bool {
        self.slot_of(primary).is_some()
    }

    /// The slot of a primary.
    #[must_use]
    pub fn slot_of(&self, primary: PrimaryId) -> Option<u8> {
        self.primaries.iter().find(|record| record.id == primary).map(|record| record.slot)
    }

    /// Whether each primary has a slot of its own, of those that there are.
    fn slots_are_valid(&self) -> bool {
        let mut taken = 0u64;
        self.primaries.iter().all(|record| {
            let bit = 1u64.checked_shl(record.slot.into()).unwrap_or(0);
            let is_free = record.slot < self.intents.slots && taken & bit == 0;
            taken |= bit;
            is_free
        })
    }

    /// Bytes that each replica must hold.
    #[must_use]
    pub fn replica_size(&self) -> u64 {
        stripe::replica_size(self.geometry, self.mirrors.len())
    }

    /// Whether the numbers are within the stated limits and every mirror has an in-sync replica.
    /// What comes from a disk or a network is checked by this before anything relies on it.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let g = self.geometry;
        let mirrors_are_valid = self.mirrors.iter().all(|mirror| {
            (1..=MAX_REPLICAS).contains(&mirror.replicas.len())
                && mirror.in_sync().count() > 0
                && mirror.has_valid_roles()
        });
        matches!(g.block_size, 512 | 4096)
            && g.size > 0
            && g.size.is_multiple_of(u64::from(g.block_size))
            && g.size <= 1 << 60
            && g.chunk >= 4096
            && g.chunk.is_power_of_two()
            && g.chunk <= 1 << 30
            && (1..=MAX_MIRRORS).contains(&self.mirrors.len())
            && self.slots_are_valid()
            && (!self.is_shared() || self.protocol == Protocol::C)
            && self.generation.0 < 1 << 48
            && self.intents.is_valid(self.replica_size())
            && !matches!(self.rebuild_limit, RebuildLimit::BytesPerSecond(0 | u64::MAX))
            && self.epochs.len() <= MAX_EPOCHS
            && self.replicas().all(|(_, record)| record.has_valid_generations())
            && mirrors_are_valid
            && self.replicas().count() <= MAX_REPLICAS_IN_ALL
            && self.reservations.are_valid()
            && self.replicas_are_distinct()
    }

    /// Whether the coordinator may commit this view in place of `newest`, as far as it has to know.
    #[must_use]
    pub fn follows(&self, newest: &Self) -> bool {
        self.volume == newest.volume
            && self.coordinator == newest.coordinator
            && self.parent == newest.generation
            && self.generation == newest.generation.next()
            && self.is_valid()
    }

    fn replicas_are_distinct(&self) -> bool {
        let mut ids: Vec<_> = self.replicas().map(|(_, record)| record.id).collect();
        ids.sort_unstable();
        ids.windows(2).all(|pair| pair[0] != pair[1])
    }

    /// The next view, equal to this one but for its number.
    #[must_use]
    pub fn successor(&self) -> Self {
        let mut next = self.clone();
        next.parent = self.generation;
        next.generation = self.generation.next();
        next
    }
}

#[cfg(test)]
pub(crate) mod tests;
