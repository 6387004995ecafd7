//! A replica: guards one full copy of one mirror on one disk.
//!
//! It runs an operation only in the generation that it has adopted ([`adopting`]), keeps
//! overlapping ones apart and in order ([`operations`]), shares device flushes among those who
//! wait for one ([`flush`]), and, when it lacks data, pulls it from an in-sync replica
//! ([`rebuild`]).

mod adopting;
mod adoption;
mod cluster_locking;
mod cluster_locks;
mod flush;
mod flush_queue;
mod intent_log;
mod intent_work;
mod intents;
mod interface;
mod invariants;
mod missing;
mod operations;
mod rebuild;
mod rebuilding;
mod sessions;
mod slots;

pub use intent_log::{ALL_OPEN, OpenRegions};
pub use interface::*;
pub use missing::{FoundPage, MissingPage};

use self::adoption::Adoption;
use self::cluster_locks::ClusterLocks;
use self::flush_queue::FlushQueue;
use self::intent_work::IntentWork;
use self::missing::Missing;
use self::operations::Operations;
use self::rebuild::Rebuild;
use self::sessions::{Asked, Confirmations, Links, Recorded};
use self::slots::IntentSlots;
use crate::ids::*;
use crate::message::Message;
use crate::payload::Payload;
use crate::settings::BLOCK;
use crate::time::Instant;
use crate::view::{ReplicaRecord, ReplicaState, View};

/// Guards one full copy of one mirror on one disk. See the module's documentation.
#[derive(Debug)]
pub struct Replica<P> {
    config: ReplicaConfig,
    /// The adopted view: the one in the superblocks.
    view: View,
    links: Links,
    /// The permission that each primary may still hold.
    confirmations: Confirmations,
    operations: Operations<P>,
    flushes: FlushQueue,
    intents: IntentSlots,
    intent_work: IntentWork,
    /// What other replicas lack, and this one while it is not in-sync.
    missing: Missing,
    cluster_locks: ClusterLocks,
    /// The incarnations that the superblocks list.
    recorded: Recorded,
    adoption: Adoption,
    rebuild: Option<Rebuild>,
    last_number: u64,
    bytes_written: u64,
    disk_errors: u64,
}

/// The present moment, and where effects go.
struct Context<'a, P> {
    now: Instant,
    effects: &'a mut Vec<ReplicaEffect<P>>,
}

impl<P> Context<'_, P> {
    fn send(&mut self, link: LinkId, message: Message, payload: Option<P>) {
        self.effects.push(ReplicaEffect::Send { link, message, payload });
    }

    fn disk(&mut self, ticket: DiskTicket, action: DiskAction<P>) {
        self.effects.push(ReplicaEffect::Disk { ticket, action });
    }

    fn disconnect(&mut self, link: LinkId) {
        self.effects.push(ReplicaEffect::Disconnect { link });
    }
}

impl<P: Payload> Replica<P> {
    /// A replica that has just been opened; its view is the one read from its superblock.
    #[must_use]
    pub fn new(config: ReplicaConfig, now: Instant) -> Self {
        let view = config.view.clone();
        let confirmations = Confirmations::at_start(&view, now);
        let size = view.replica_size();
        let intents = IntentSlots::new(&view, &config.open_regions, now);
        let blocks = size.div_ceil(u64::from(BLOCK));
        let missing = view.replica(config.id).map_or_else(Missing::default, |(mirror, _)| {
            Missing::found(&view.mirrors[mirror], config.id, &config.missing, blocks)
        });
        let recorded = Recorded::found(config.incarnation, config.incarnations);
        let mut replica = Self {
            config,
            view,
            links: Links::default(),
            confirmations,
            operations: Operations::default(),
            flushes: FlushQueue::default(),
            intents,
            intent_work: IntentWork::default(),
            missing,
            cluster_locks: ClusterLocks::default(),
            recorded,
            adoption: Adoption::default(),
            rebuild: None,
            last_number: 0,
            bytes_written: 0,
            disk_errors: 0,
        };
        replica.distrust_open_regions();
        replica
    }

    /// Handles one event; what is to be done about it is appended to `effects`.
    pub fn step(
        &mut self,
        now: Instant,
        event: ReplicaEvent<P>,
        effects: &mut Vec<ReplicaEffect<P>>,
    ) {
        let cx = &mut Context { now, effects };
        match event {
            ReplicaEvent::LinkOpened { link } => self.links.opened(link),
            ReplicaEvent::LinkClosed { link } => self.link_closed(cx, link),
            ReplicaEvent::SourceLink { replica, link } => self.source_link(cx, replica, link),
            ReplicaEvent::Message { link, message, payload } => {
                self.message(cx, link, message, payload);
            }
            ReplicaEvent::Disk { ticket, outcome } => self.disk_done(cx, ticket, outcome),
            ReplicaEvent::FlushFailed => self.flush_failed(cx),
            ReplicaEvent::Tick => {}
        }
        self.advance_adoption(cx);
        self.advance_rebuild(cx);
        self.advance_intents(cx);
        if cfg!(debug_assertions) {
            self.check_invariants();
        }
    }

    /// When [`ReplicaEvent::Tick`] is due, if nothing else happens before. Ask after each step.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Instant> {
        let change = if self.adoption.is_under_way() {
            self.adoption.next_wakeup()
        } else {
            let rebuild = self.rebuild.as_ref().filter(|_| !self.is_unsaved());
            rebuild.and_then(Rebuild::next_wakeup)
        };
        let saves = Instant::earliest(self.intent_work.next_wakeup(), self.missing.next_wakeup());
        Instant::earliest(change, saves)
    }

    /// Whether this byte is in a block that a rebuild of the whole replica is still to copy, so
    /// that what is written there comes with the copy.
    #[must_use]
    pub fn is_to_be_copied(&self, offset: u64) -> bool {
        let block = self.intents.blocks(offset, 1);
        self.rebuild_of_all().is_some_and(|rebuild| rebuild.is_learning() || rebuild.lacks(&block))
    }

    /// The rebuild under way, if all of the replica is copied: no bitmap says what it lacks.
    fn rebuild_of_all(&self) -> Option<&Rebuild> {
        let lacks_all = self.record().is_some_and(|record| record.missing_since.is_none());
        self.rebuild.as_ref().filter(|_| lacks_all)
    }

    /// The view that it has adopted.
    #[must_use]
    pub fn view(&self) -> &View {
        &self.view
    }

    /// The replica's state.
    #[must_use]
    pub fn status(&self) -> ReplicaStatus {
        ReplicaStatus {
            id: self.config.id,
            view: self.view.clone(),
            is_adopting: self.adoption.is_under_way() || self.is_unsaved(),
            sessions: self.links.open_primaries().map(|(_, primary)| primary).collect(),
            operations: self.operations.len(),
            rebuild: self.rebuild.as_ref().map(Rebuild::progress),
            bytes_written: self.bytes_written,
            disk_errors: self.disk_errors,
            open_regions: self.intents.open_regions(),
            intent_saves: self.intent_work.saves(),
        }
    }

    fn message(
        &mut self,
        cx: &mut Context<'_, P>,
        link: LinkId,
        message: Message,
        payload: Option<P>,
    ) {
        match message {
            Message::OpenSession { session, opener, named_incarnations: named } => {
                self.open_session(cx, link, Asked { session, opener, named });
            }
            Message::Adopt { view } => self.adopt(cx, link, *view),
            Message::Write { .. }
            | Message::Zero { .. }
            | Message::Read { .. }
            | Message::Digest { .. }
            | Message::Map { .. }
            | Message::Flush { .. } => self.operation(cx, link, message, payload),
            Message::Copy { generation, token, offset, length } => {
                self.copy_asked(cx, link, generation, token, offset, length);
            }
            Message::Ping { generation, number } => self.ping(cx, link, generation, number),
            Message::FenceConfirmed { generation } => self.fence_confirmed(link, generation),
            Message::Drained { generation, token, is_busy } => {
                self.drained(cx, link, generation, token, is_busy);
            }
            Message::SessionOpened { session: _, report } => self.source_opened(cx, link, report),
            Message::Copied { token, content } => self.copied(cx, link, token, content, payload),
            Message::ClusterLock { generation, requester, number, range } => {
                self.cluster_lock_asked(cx, link, generation, (requester, number), range);
            }
            Message::Granted { generation, requester, number } => {
                self.yields(cx, link, generation, (requester, number));
            }
            Message::Stable { generation, through, last_of_earlier_incarnations } => {
                self.stable(link, generation, through, last_of_earlier_incarnations);
            }
            Message::AskMissing { generation, replica, page } => {
                self.missing_asked(cx, link, generation, replica, page);
            }
            Message::MissingBlocks { replica, asked, content } => {
                self.missing_told(cx, link, replica, asked, content);
            }
            Message::WritesFinished { generation, number } => {
                self.writes_finished(link, generation, number);
            }
            Message::ClearBits { generation, offset, length } => {
                self.clear_bits(link, generation, offset, length);
            }
            // Only a replica says these; whoever says them to one is not worth listening to.
            Message::Adopted { .. }
            | Message::DiskFailed { .. }
            | Message::Refused { .. }
            | Message::Received { .. }
            | Message::Done { .. }
            | Message::Data { .. }
            | Message::Digests { .. }
            | Message::Extents { .. }
            | Message::Pong { .. }
            | Message::Fenced { .. }
            | Message::Drain { .. }
            | Message::LogFilling { .. }
            | Message::RebuildProgress { .. }
            | Message::RebuildCopied { .. }
            | Message::RebuildDone { .. } => self.drop_link(cx, link),
        }
    }

    fn disk_done(
        &mut self,
        cx: &mut Context<'_, P>,
        ticket: DiskTicket,
        outcome: Result<DiskOutcome<P>, DiskError>,
    ) {
        self.disk_errors += u64::from(outcome.is_err());
        let ended = outcome.as_ref().map(|_| ()).map_err(|error| *error);
        match ticket {
            DiskTicket::Operation(number) => self.operation_done(cx, number, outcome),
            DiskTicket::Copy(token) => self.copy_written(cx, token, ended),
            DiskTicket::Flush => self.flush_done(cx, ended),
            DiskTicket::Adoption => self.view_saved(cx, ended),
            DiskTicket::Incarnation => self.incarnation_saved(cx, ended),
            DiskTicket::Intents => self.intents_saved(cx, ended),
            DiskTicket::Bitmaps => self.missing_saved(cx, ended),
        }
        self.answer_waiting_sessions(cx);
    }

    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// What the adopted view says of this replica.
    fn record(&self) -> Option<&ReplicaRecord> {
        self.view.replica(self.config.id).map(|(_, record)| record)
    }

    fn state(&self) -> Option<ReplicaState> {
        self.record().map(|record| record.state)
    }

    fn size(&self) -> u64 {
        self.view.replica_size()
    }
}
