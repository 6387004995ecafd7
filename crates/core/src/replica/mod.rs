//! A replica: guards one full copy of one mirror on one disk.
//!
//! What it knows is in five rooms with fields that nobody else sees, and each uses only those
//! before it: [`views`] the view that is adopted and the one that is being adopted, [`sessions`]
//! who is connected, [`log`] which writes others may lack, [`data`] what is under way on the disk,
//! [`rebuilds`] what is pulled from an in-sync replica when data are lacking here. A method takes
//! the lower rooms that it uses, and tells its caller what a higher one has to do; only the data
//! have a rebuild do its part at once, as a [`data::Copier`]. [`Replica`] has
//! what all share, routes events, and does what follows for several rooms: it adopts views
//! ([`adopting`]) and closes links ([`linking`]).

mod adopting;
mod data;
mod interface;
mod invariants;
mod linking;
mod log;
mod rebuilds;
mod sessions;
mod views;

use std::rc::Rc;

pub use self::log::{ALL_OPEN, FoundPage, MissingPage, OpenRegions};
pub use interface::*;

use self::data::{Data, FlushWaiter, Lower};
use self::log::Log;
use self::rebuilds::{Below, Rebuilds};
use self::sessions::{Asked, Sessions};
use self::views::Views;
use crate::ids::*;
use crate::message::Message;
use crate::payload::Payload;
use crate::settings::Settings;
use crate::time::Instant;
use crate::view::View;

/// Guards one full copy of one mirror on one disk. See the module's documentation.
#[derive(Debug)]
pub struct Replica<P> {
    me: Rc<Me>,
    views: Views,
    sessions: Sessions,
    log: Log,
    data: Data<P>,
    rebuilds: Rebuilds,
    last_number: u64,
    disk_errors: u64,
}

/// What stays as it is while a replica is open.
#[derive(Debug)]
struct Me {
    id: ReplicaId,
    boot: BootId,
    has_fua: bool,
    settings: Settings,
}

/// What all parts of a replica share during one step: the present moment, who it is, the numbers
/// that it gives, and where effects go.
struct Context<'a, P> {
    now: Instant,
    me: Rc<Me>,
    last_number: u64,
    effects: &'a mut Vec<ReplicaEffect<P>>,
}

impl<P> Context<'_, P> {
    /// A number that was not given before.
    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

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

/// Who says something that is only meant in one view.
#[derive(Debug, Clone, Copy)]
struct Sender {
    /// Over which link it came.
    link: LinkId,
    /// The view that the sender had adopted.
    generation: Generation,
}

/// Somebody broke the protocol: its link is to be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Violation;

/// Whether what somebody says is to be listened to. It is the last that is done about a message.
type Obeyed = Result<(), Violation>;

impl<P: Payload> Replica<P> {
    /// A replica that has just been opened; its view is the one read from its superblock.
    #[must_use]
    pub fn new(config: ReplicaConfig, now: Instant) -> Self {
        let sessions = Sessions::new(&config, now);
        let ReplicaConfig { id, boot, view, settings, has_fua, .. } = config;
        let views = Views::new(id, view);
        let log = Log::new(id, &views, &config.open_regions, &config.missing, now);
        Self {
            me: Rc::new(Me { id, boot, has_fua, settings }),
            views,
            sessions,
            log,
            data: Data::default(),
            rebuilds: Rebuilds::default(),
            last_number: 0,
            disk_errors: 0,
        }
    }

    /// Handles one event; what is to be done about it is appended to `effects`.
    pub fn step(
        &mut self,
        now: Instant,
        event: ReplicaEvent<P>,
        effects: &mut Vec<ReplicaEffect<P>>,
    ) {
        let (me, last_number) = (self.me.clone(), self.last_number);
        let cx = &mut Context { now, me, last_number, effects };
        match event {
            ReplicaEvent::LinkOpened { link, from } => self.sessions.opened(link, from),
            ReplicaEvent::LinkClosed { link } => self.link_closed(cx, link),
            ReplicaEvent::SourceLink { replica, link } => {
                let (rebuilds, below) = &mut self.rebuilds();
                rebuilds.source_link(cx, below, replica, link);
            }
            ReplicaEvent::Message { link, message, payload } => {
                let obeyed = self.message(cx, link, message, payload);
                self.drop_violator(cx, link, obeyed);
            }
            ReplicaEvent::Disk { ticket, outcome } => self.disk_done(cx, ticket, outcome),
            ReplicaEvent::FlushFailed => {
                self.disk_errors += 1;
                let (data, lower) = &mut self.data();
                data.flush_failed(cx, lower);
            }
            ReplicaEvent::Tick => {}
        }
        self.advance_adoption(cx);
        let (rebuilds, below) = &mut self.rebuilds();
        rebuilds.advance(cx, below);
        let (data, lower) = &mut self.data();
        data.advance_log(cx, lower);
        self.last_number = cx.last_number;
        if cfg!(debug_assertions) {
            self.check_invariants();
        }
    }

    /// When [`ReplicaEvent::Tick`] is due, if nothing else happens before. Ask after each step.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Instant> {
        let change = if self.views.is_paused() {
            self.views.next_wakeup()
        } else {
            self.rebuilds.next_wakeup()
        };
        Instant::earliest(change, self.log.next_wakeup())
    }

    /// Whether this byte is in a block that a rebuild of the whole replica is still to copy, so
    /// that what is written there comes with the copy.
    #[must_use]
    pub fn is_to_be_copied(&self, offset: u64) -> bool {
        let block = self.log.blocks(offset, 1);
        self.views.is_all_out_of_sync() && self.rebuilds.is_to_be_copied(&block)
    }

    /// The view that it has adopted.
    #[must_use]
    pub const fn view(&self) -> &View {
        self.views.view()
    }

    /// The replica's state.
    #[must_use]
    pub fn status(&self) -> ReplicaStatus {
        ReplicaStatus {
            id: self.me.id,
            view: self.view().clone(),
            is_adopting: self.views.is_paused(),
            sessions: self.sessions.open_primaries().map(|(_, primary)| primary).collect(),
            operations: self.data.operations(),
            rebuild: self.rebuilds.progress(),
            bytes_written: self.data.bytes_written(),
            disk_errors: self.disk_errors,
            open_regions: self.log.open_regions(),
            intent_saves: self.log.saves(),
        }
    }

    /// What is noted of writes, and what that uses.
    fn log(&mut self) -> (&mut Log, log::Lower<'_>) {
        let Self { views, sessions, log, .. } = self;
        (log, log::Lower { views, sessions })
    }

    /// What is under way on the disk, and what that uses.
    fn data(&mut self) -> (&mut Data<P>, Lower<'_>) {
        let Self { views, sessions, log, data, rebuilds, .. } = self;
        (data, Lower { views, sessions, log, copier: rebuilds })
    }

    /// The rebuild, and what that uses.
    fn rebuilds(&mut self) -> (&mut Rebuilds, Below<'_, P>) {
        let Self { views, sessions, log, data, rebuilds, .. } = self;
        (rebuilds, Below { views, sessions, log, data })
    }

    fn message(
        &mut self,
        cx: &mut Context<'_, P>,
        link: LinkId,
        message: Message,
        payload: Option<P>,
    ) -> Obeyed {
        match message {
            Message::OpenSession { session, opener, named_incarnations: named } => {
                return self.open_session(cx, link, Asked { session, opener, named: *named });
            }
            Message::Adopt { view } => return self.adopt(cx, link, *view),
            Message::Write { .. }
            | Message::Zero { .. }
            | Message::Read { .. }
            | Message::Digest { .. }
            | Message::Map { .. }
            | Message::Flush { .. } => {
                let (data, lower) = &mut self.data();
                return data.operation(cx, lower, link, message, payload);
            }
            Message::Copy { generation, token, offset, length } => {
                let (data, lower) = &mut self.data();
                let from = Sender { link, generation };
                return data.copy_asked(cx, lower, from, token, offset, length);
            }
            Message::Ping { generation, number } => {
                let open_slots = self.log.open_slots();
                let from = Sender { link, generation };
                self.sessions.ping(cx, &self.views, from, number, open_slots);
            }
            Message::FenceConfirmed { generation } => {
                self.sessions.fence_confirmed(link, generation);
            }
            Message::ClusterLock { generation, requester, number, range } => {
                let from = Sender { link, generation };
                let (sessions, views) = (&mut self.sessions, &self.views);
                return sessions.cluster_lock_asked(cx, views, from, requester, number, range);
            }
            Message::Granted { generation, requester, number } => {
                let from = Sender { link, generation };
                self.sessions.yields(cx, &self.views, from, requester, number);
            }
            Message::Stable { generation, through, last_of_earlier_incarnations: last } => {
                let (log, lower) = self.log();
                log.stable(lower, Sender { link, generation }, through, last);
            }
            Message::AskMissing { generation, replica, page } => {
                let (log, lower) = self.log();
                let from = Sender { link, generation };
                return log.missing_asked(cx, lower, from, replica, page);
            }
            Message::ClearBits { generation, offset, length } => {
                let (log, lower) = self.log();
                log.clear_bits(lower, Sender { link, generation }, offset, length);
            }
            Message::Drained { .. }
            | Message::SessionOpened { .. }
            | Message::Copied { .. }
            | Message::MissingBlocks { .. }
            | Message::WritesFinished { .. } => {
                let (rebuilds, below) = &mut self.rebuilds();
                rebuilds.message(cx, below, link, message, payload);
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
            | Message::RebuildDone { .. } => return Err(Violation),
        }
        Ok(())
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
            DiskTicket::Operation(number) => {
                let (data, lower) = &mut self.data();
                data.operation_done(cx, lower, number, outcome);
            }
            DiskTicket::Copy(token) => {
                let (rebuilds, below) = &mut self.rebuilds();
                rebuilds.copy_written(cx, below, token, ended);
            }
            DiskTicket::Flush => {
                let (data, lower) = &mut self.data();
                data.flush_done(cx, lower, ended);
            }
            DiskTicket::Adoption => self.view_saved(cx, ended),
            DiskTicket::Incarnation => self.incarnation_saved(cx, ended),
            DiskTicket::Intents => {
                let (data, lower) = &mut self.data();
                data.table_saved(cx, lower, ended);
            }
            DiskTicket::Bitmaps => {
                let (log, lower) = self.log();
                log.missing_saved(cx, lower, ended);
            }
        }
        let (data, lower) = &mut self.data();
        data.answer_waiting_sessions(cx, lower);
    }
}
