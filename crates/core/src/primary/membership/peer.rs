//! One replica, as its primary sees it.

mod disk;
mod incarnations;
mod session;

pub(in crate::primary) use self::session::Session;

use core::time::Duration;

use self::disk::Disk;
use self::incarnations::PeerIncarnations;
use self::session::Reconnection;
use crate::ids::*;
use crate::message::{RebuildProgress, ReplicaReport, SlotBits};
use crate::policy::ReplicaSet;
use crate::primary::membership::lag::Speed;
use crate::primary::membership::returns::Returns;
use crate::settings::{LagSettings, Settings};
use crate::time::Instant;
use crate::view::Cause;

/// So often a replica may refuse the newest view: it may have been asked for another one just then.
const MAX_REFUSED_VIEWS: u32 = 3;

/// One replica, as its primary sees it.
#[derive(Debug)]
pub(in crate::primary) struct Peer {
    place: Place,
    session: Session,
    reconnection: Reconnection,
    incarnations: PeerIncarnations,
    /// The latest moment of asking for which it has confirmed the generation.
    confirmed: Option<Instant>,
    /// What that is worth: the shortest lease of the view that it was last known to have adopted
    /// and of all since. It honours a longer one only when it has adopted that, and a shorter one
    /// binds at once.
    lease: Duration,
    reported: Reported,
    disk: Disk,
    /// It has refused something: it is not asked again before the coordinator has told the newest
    /// view.
    has_refused: bool,
    /// How often it has refused to adopt what turned out to be the newest view.
    refused_views: u32,
    /// Since when what it does not answer counts: its session was opened, it adopted the view, or
    /// this process went on after a pause.
    answers_since: Instant,
    /// Since when it is known to be no member.
    absent_since: Option<Instant>,
    returns: Returns,
    progress: Option<RebuildProgress>,
    speed: Speed,
}

/// Which replica it is, and where.
#[derive(Debug, Clone, Copy)]
pub(in crate::primary) struct Place {
    pub id: ReplicaId,
    pub node: NodeId,
    pub mirror: usize,
    /// The number of its bit in the sets of its mirror, for as long as it belongs to the volume.
    pub bit: u32,
}

/// What it last said of the slots of its intent log.
#[derive(Debug, Default)]
struct Reported {
    slots: SlotBits,
    /// Which primaries of the present generation it has heard, and when that was asked.
    seen: Option<(u32, Instant)>,
    /// When it was asked what it last said of that in any generation. A change of the view outdates
    /// what it said, and not that it can be reached.
    asked_at: Option<Instant>,
}

/// What came of a session that has ended.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::primary) struct SessionEnd {
    /// It was as short as the one before.
    pub is_again: bool,
    /// None has brought an answer for too long.
    pub is_hopeless: bool,
}

impl Peer {
    pub fn new(place: Place, lease: Duration, retry_pause: Duration, now: Instant) -> Self {
        Self {
            place,
            session: Session::Down,
            reconnection: Reconnection::new(retry_pause, now),
            incarnations: PeerIncarnations::default(),
            confirmed: None,
            lease,
            reported: Reported::default(),
            disk: Disk::default(),
            has_refused: false,
            refused_views: 0,
            answers_since: now,
            absent_since: None,
            returns: Returns::default(),
            progress: None,
            speed: Speed::default(),
        }
    }

    #[inline]
    pub fn id(&self) -> ReplicaId {
        self.place.id
    }

    pub fn node(&self) -> NodeId {
        self.place.node
    }

    #[inline]
    pub fn mirror(&self) -> usize {
        self.place.mirror
    }

    #[inline]
    pub fn bit(&self) -> ReplicaSet {
        1 << self.place.bit
    }

    #[inline]
    pub fn session(&self) -> Session {
        self.session
    }

    /// The link over which operations may be sent.
    #[inline]
    pub fn ready_link(&self) -> Option<LinkId> {
        self.session.ready_link()
    }

    #[inline]
    pub fn open_link(&self) -> Option<LinkId> {
        self.session.open_link()
    }

    pub fn any_link(&self) -> Option<LinkId> {
        self.session.any_link()
    }

    /// Whether operations may be sent: the session is with the incarnation that the view knows.
    #[inline]
    pub fn is_ready(&self) -> bool {
        self.ready_link().is_some()
    }

    /// Whether data can be relied upon to be there.
    #[inline]
    pub fn is_healthy(&self) -> bool {
        self.session.is_in_time() && !self.disk.is_lost()
    }

    /// Whether it is not asked for data because it is late, and for nothing else.
    pub fn is_only_late(&self) -> bool {
        self.session.is_overdue() && !self.disk.is_lost() && !self.is_failing()
    }

    /// Whether its confirmation still permits to answer reads.
    #[inline]
    pub fn grants(&self, now: Instant) -> bool {
        self.confirmed.is_some_and(|asked| now.since(asked) < self.lease)
    }

    /// Whether nothing about it needs watching more often than the lease does.
    pub fn is_quiet(&self) -> bool {
        self.open_link().is_some() && self.session.pinged_at().is_none()
    }

    /// Since when it is connected to again, if it is not.
    pub fn retry_at(&self) -> Instant {
        self.reconnection.retry_at()
    }

    /// Whether its disk failed: it leaves as soon as another replica can go on without it.
    #[inline]
    pub fn is_failing(&self) -> bool {
        self.disk.failing().is_some()
    }

    /// Whether it has refused something since the coordinator has told the newest view.
    pub fn has_refused(&self) -> bool {
        self.has_refused
    }

    pub fn disk(&self) -> &Disk {
        &self.disk
    }

    pub fn disk_mut(&mut self) -> &mut Disk {
        &mut self.disk
    }

    pub fn incarnations(&self) -> &PeerIncarnations {
        &self.incarnations
    }

    pub fn incarnations_mut(&mut self) -> &mut PeerIncarnations {
        &mut self.incarnations
    }

    /// Its incarnation, as it said in the last session.
    pub fn incarnation(&self) -> Option<Incarnation> {
        self.incarnations.present()
    }

    /// How long its writes take.
    #[inline]
    pub fn speed(&mut self) -> &mut Speed {
        &mut self.speed
    }

    /// Panics if what is known of its speed contradicts itself.
    pub fn check_speed(&self, settings: &LagSettings) {
        self.speed.check_invariants(settings);
    }

    /// The median of its writes lately.
    pub fn median(&self) -> Option<Duration> {
        self.speed.median()
    }

    /// How far its rebuild is, as far as it has told.
    pub fn progress(&self) -> Option<RebuildProgress> {
        self.progress
    }

    pub fn rebuilds(&mut self, progress: RebuildProgress) {
        self.progress = Some(progress);
    }

    /// What it last said of the slots of its intent log.
    pub fn slots(&self) -> SlotBits {
        self.reported.slots
    }

    /// Which primaries of the present generation it last said that it has heard; `None` if it was
    /// not asked.
    pub fn seen(&self) -> Option<u32> {
        self.reported.seen.map(|(slots, _)| slots)
    }

    /// Whether it has not been asked for so long which primaries it has heard.
    pub fn seen_before(&self, now: Instant, period: Duration) -> bool {
        self.reported.seen.is_none_or(|(_, at)| now.since(at) >= period)
    }

    /// When it was asked what it last said.
    pub fn reported_at(&self) -> Option<Instant> {
        self.reported.asked_at
    }

    /// Since when it is known to be no member.
    pub fn absent_since(&self) -> Option<Instant> {
        self.absent_since
    }

    /// By the view it is a member, or is none.
    pub fn is_member_now(&mut self, is_member: bool, now: Instant) {
        if is_member && self.absent_since.is_some() {
            self.returns.taken_in(self.incarnation(), now);
        }
        self.absent_since = if is_member { None } else { self.absent_since.or(Some(now)) };
    }

    /// How often in a row it has left soon after its return, if it stays away longer for that.
    pub fn stays_away_after(&self, now: Instant) -> Option<u32> {
        self.returns.stays_away_after(now)
    }

    /// A connection is wanted.
    pub fn connect(&mut self) {
        self.session = Session::Connecting;
    }

    /// There is a connection: the session that is asked for over it. `None` if none was wanted.
    pub fn link_up(&mut self, link: LinkId, now: Instant) -> Option<SessionNumber> {
        if self.session != Session::Connecting {
            return None;
        }
        self.has_refused = false;
        self.session = Session::Opening(link, now);
        Some(self.reconnection.next_session())
    }

    /// Whether the answer to the session that was asked for comes over this link, and with this
    /// number.
    pub fn awaits_session(&self, link: LinkId, session: SessionNumber) -> bool {
        matches!(self.session, Session::Opening(wanted, _) if wanted == link)
            && self.reconnection.last_session() == session
    }

    /// The session that was asked for is open.
    pub fn session_opened(&mut self, link: LinkId, report: &ReplicaReport, now: Instant) {
        self.incarnations.said(report.incarnation, report.boot, report.is_stale_clone);
        self.reported.slots = report.slots;
        self.session = Session::opened(link);
        self.answers_since = now;
    }

    /// Operations may be sent: the incarnation with which the session is open is the one that the
    /// view knows.
    fn become_ready(&mut self) {
        self.session.become_ready();
        self.disk.is_there();
        self.incarnations.rely();
    }

    /// The same incarnation is back: it is sent what it has not answered.
    pub fn resume(&mut self, shortest_pause: Duration) {
        self.become_ready();
        self.reconnection.begin_anew(shortest_pause);
    }

    /// The connection has ended over which a session was open.
    pub fn session_lost(&mut self, now: Instant) -> SessionEnd {
        self.session = Session::Down;
        self.reconnection.session_lost(now)
    }

    /// No session came of a connection, or no connection.
    pub fn connect_failed(&mut self, now: Instant, longest: Duration) {
        self.session = Session::Down;
        self.reconnection.put_off(now, longest);
    }

    /// Its link is closed from here. It is connected to again as before.
    pub fn close(&mut self) -> Option<LinkId> {
        let link = self.any_link()?;
        self.session = Session::Down;
        Some(link)
    }

    /// It is connected to again at once.
    pub fn retry_now(&mut self, now: Instant) {
        self.reconnection.retry_now(now);
    }

    /// Others have made it a member: it has the time to be reached from here. Tells whether it is
    /// not yet.
    pub fn expect(&mut self, now: Instant) -> bool {
        let is_down = self.session == Session::Down;
        if is_down {
            self.reconnection.expect(now);
        }
        is_down
    }

    /// What it has left unanswered so far counts from now: this process stood still.
    pub fn excuse(&mut self, now: Instant) {
        self.answers_since = self.answers_since.max(now);
        self.reconnection.excuse(now);
    }

    /// How long it has left something unanswered that was asked then.
    pub fn waited(&self, since: Instant, now: Instant) -> Duration {
        now.since(since.max(self.answers_since))
    }

    /// Whether it has left something unanswered for longer than the deadline. That counts as long
    /// as a session is open.
    pub fn is_late(&mut self, is_late: bool) {
        self.session.is_late(is_late);
    }

    /// Why it is to leave, if it is: its disk failed, it is late, or there was no session for so
    /// long.
    pub fn cause_to_leave(&self, now: Instant, grace: Duration) -> Option<Cause> {
        let is_gone = || self.open_link().is_none() && self.reconnection.is_down_for(grace, now);
        match self.disk.failing() {
            Some(cause) => Some(cause),
            None if self.session.has_been_late() => Some(Cause::Late),
            None if is_gone() => Some(Cause::Disconnected),
            None => None,
        }
    }

    /// Whether it has confirmed nothing for so long.
    pub fn is_silent(&self, now: Instant, period: Duration) -> bool {
        self.confirmed.is_none_or(|at| now.since(at) >= period)
    }

    /// Asks it to confirm the generation. Tells over which link; `None` if it can't be asked now.
    pub fn ping(&mut self, number: PingNumber, now: Instant) -> Option<LinkId> {
        if self.has_refused { None } else { self.session.ping(number, now) }
    }

    /// It answers a ping, in the present generation or another one. Tells whether it confirms that.
    pub fn pong(&mut self, number: PingNumber, slots: SlotBits, is_current: bool) -> bool {
        self.reported.slots = slots;
        let Some(asked) = self.session.pong(number) else { return false };
        self.reported.asked_at = Some(asked);
        if is_current {
            self.confirm(asked);
            self.reported.seen = Some((slots.seen, asked));
        }
        is_current
    }

    /// It has answered what was asked then in the present generation.
    #[inline]
    pub fn confirm(&mut self, asked: Instant) {
        self.confirmed = Some(self.confirmed.map_or(asked, |confirmed| confirmed.max(asked)));
        self.reconnection.answered();
    }

    /// The next view has this lease: nobody counts on more from now on.
    pub fn bound_lease(&mut self, lease: Duration) {
        self.lease = self.lease.min(lease);
    }

    /// It has adopted the view, for which it was asked then.
    pub fn adopted(&mut self, lease: Duration, asked: Instant, now: Instant) {
        self.lease = lease;
        self.answers_since = now;
        self.refused_views = 0;
        self.confirm(asked);
    }

    /// There is another view, in which it is a member with this incarnation, or none.
    pub fn follow_view(&mut self, member: Option<Incarnation>) {
        self.session.follow_view();
        if member.is_some() && member == self.incarnation() && self.open_link().is_some() {
            self.become_ready();
        }
        self.has_refused = false;
        self.reported.seen = None;
    }

    /// It is in-sync anew: the next time that it is lost it is connected to as if it were the
    /// first.
    pub fn completed(&mut self, shortest_pause: Duration) {
        self.reconnection.begin_anew(shortest_pause);
    }

    /// It has refused something.
    pub fn refused(&mut self) {
        self.session.forget_ping();
        self.has_refused = true;
    }

    /// What it refused was the newest view. Tells whether it has refused that too often, if it was
    /// asked for it.
    pub fn refuses_newest(&mut self, was_asked: bool) -> bool {
        self.refused_views += u32::from(was_asked);
        self.refused_views > MAX_REFUSED_VIEWS
    }

    /// It may be asked again.
    pub fn ask_again(&mut self) {
        self.has_refused = false;
    }

    /// It is no member any more, for this cause: what is known of it as one is over.
    pub fn left(&mut self, cause: Cause, settings: &Settings, now: Instant) {
        self.session.stand_down();
        self.disk = Disk::default();
        self.confirmed = None;
        self.refused_views = 0;
        self.progress = None;
        let of_slow = (cause == Cause::Lagging).then(|| self.speed.pause(&settings.lag));
        let of_short = self.returns.left(cause, &settings.returns, now);
        self.reconnection.left(of_slow.max(of_short), settings.retry_pause.longest, now);
    }
}

#[cfg(test)]
mod tests;
