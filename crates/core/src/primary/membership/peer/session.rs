//! The session with a replica, and when the next one is tried.

use core::time::Duration;

use super::SessionEnd;
use crate::ids::*;
use crate::time::Instant;

/// A replica whose sessions end this often without an answer is as good as gone.
const MAX_UNANSWERED_SESSIONS: u32 = 3;

/// The session with a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::primary) enum Session {
    Down,
    Connecting,
    /// It has been asked for.
    Opening(LinkId, Instant),
    Open(Open),
}

/// A session that is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::primary) struct Open {
    link: LinkId,
    /// It is with the incarnation that the view knows, so operations may be sent.
    is_ready: bool,
    /// The replica has left something unanswered for longer than the deadline.
    is_late: bool,
    /// What it was asked to confirm the generation, and has not answered.
    ping: Option<Ping>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ping {
    number: PingNumber,
    asked_at: Instant,
}

impl Session {
    /// One that was opened over this link just now.
    pub fn opened(link: LinkId) -> Self {
        Self::Open(Open { link, is_ready: false, is_late: false, ping: None })
    }

    fn open(&self) -> Option<&Open> {
        match self {
            Self::Open(open) => Some(open),
            Self::Down | Self::Connecting | Self::Opening(..) => None,
        }
    }

    fn open_mut(&mut self) -> Option<&mut Open> {
        match self {
            Self::Open(open) => Some(open),
            Self::Down | Self::Connecting | Self::Opening(..) => None,
        }
    }

    #[inline]
    pub fn open_link(&self) -> Option<LinkId> {
        self.open().map(|open| open.link)
    }

    /// The link over which operations may be sent.
    #[inline]
    pub fn ready_link(&self) -> Option<LinkId> {
        self.open().filter(|open| open.is_ready).map(|open| open.link)
    }

    pub fn any_link(&self) -> Option<LinkId> {
        match self {
            Self::Opening(link, _) => Some(*link),
            _ => self.open_link(),
        }
    }

    /// Whether operations may be sent, and are answered in time.
    #[inline]
    pub fn is_in_time(&self) -> bool {
        self.open().is_some_and(|open| open.is_ready && !open.is_late)
    }

    pub fn has_been_late(&self) -> bool {
        self.open().is_some_and(|open| open.is_late)
    }

    /// Whether operations may be sent, but are not answered in time.
    pub fn is_overdue(&self) -> bool {
        self.open().is_some_and(|open| open.is_ready && open.is_late)
    }

    pub fn pinged_at(&self) -> Option<Instant> {
        self.open().and_then(|open| open.ping).map(|ping| ping.asked_at)
    }

    pub fn become_ready(&mut self) {
        if let Some(open) = self.open_mut() {
            open.is_ready = true;
        }
    }

    pub fn is_late(&mut self, is_late: bool) {
        if let Some(open) = self.open_mut() {
            open.is_late = is_late;
        }
    }

    /// There is another view: whether operations may be sent is to be seen, and a ping of the old
    /// generation won't be answered as asked.
    pub fn follow_view(&mut self) {
        if let Some(open) = self.open_mut() {
            (open.is_ready, open.ping) = (false, None);
        }
    }

    /// The replica is no member: nothing is asked of it.
    pub fn stand_down(&mut self) {
        self.follow_view();
        self.is_late(false);
    }

    pub fn forget_ping(&mut self) {
        if let Some(open) = self.open_mut() {
            open.ping = None;
        }
    }

    /// Asks for a confirmation, if operations may be sent and none is asked for.
    pub fn ping(&mut self, number: PingNumber, now: Instant) -> Option<LinkId> {
        let open = self.open_mut().filter(|open| open.is_ready && open.ping.is_none())?;
        open.ping = Some(Ping { number, asked_at: now });
        Some(open.link)
    }

    /// A ping is answered: when it was asked. `None` if it is not this one that was.
    pub fn pong(&mut self, number: PingNumber) -> Option<Instant> {
        let ping = self.open_mut()?.ping.take_if(|ping| ping.number == number)?;
        Some(ping.asked_at)
    }
}

/// When a replica without a session is connected to.
#[derive(Debug)]
pub(super) struct Reconnection {
    last_session: SessionNumber,
    /// How many sessions were since it last answered anything.
    unanswered: u32,
    /// Since when there is no session.
    down_since: Instant,
    retry_at: Instant,
    retry_pause: Duration,
}

impl Reconnection {
    pub fn new(pause: Duration, now: Instant) -> Self {
        Self {
            last_session: SessionNumber(0),
            unanswered: 0,
            down_since: now,
            retry_at: now,
            retry_pause: pause,
        }
    }

    pub fn retry_at(&self) -> Instant {
        self.retry_at
    }

    pub fn last_session(&self) -> SessionNumber {
        self.last_session
    }

    pub fn next_session(&mut self) -> SessionNumber {
        self.last_session = self.last_session.next();
        self.last_session
    }

    /// The replica has answered something.
    #[inline]
    pub fn answered(&mut self) {
        self.unanswered = 0;
    }

    /// A session was open and has ended: the next one is tried at once, unless this one was as
    /// short as the one before.
    pub fn session_lost(&mut self, now: Instant) -> SessionEnd {
        self.down_since = now;
        self.unanswered += 1;
        let is_again = self.unanswered > 1;
        self.retry_at = if is_again { now + self.retry_pause } else { now };
        SessionEnd { is_again, is_hopeless: self.unanswered > MAX_UNANSWERED_SESSIONS }
    }

    /// An attempt has failed: the next one comes after a pause, which grows.
    pub fn put_off(&mut self, now: Instant, longest: Duration) {
        self.retry_at = now + self.retry_pause;
        self.retry_pause = (self.retry_pause * 2).min(longest);
    }

    /// The replica has left: it is tried again after this pause, or as if an attempt had failed.
    pub fn left(&mut self, pause: Option<Duration>, longest: Duration, now: Instant) {
        self.unanswered = 0;
        self.put_off(now, longest);
        if let Some(pause) = pause {
            self.retry_at = now + pause;
        }
    }

    /// Pauses are as short as at first.
    pub fn begin_anew(&mut self, shortest: Duration) {
        self.retry_pause = shortest;
    }

    pub fn retry_now(&mut self, now: Instant) {
        self.retry_at = now;
    }

    /// The time without a session counts from now, and one is tried at once.
    pub fn expect(&mut self, now: Instant) {
        (self.down_since, self.retry_at) = (now, now);
    }

    /// The time without a session counts from now.
    pub fn excuse(&mut self, now: Instant) {
        self.down_since = self.down_since.max(now);
    }

    pub fn is_down_for(&self, grace: Duration, now: Instant) -> bool {
        now.since(self.down_since) >= grace
    }
}
