//! Slow disks: a replica whose writes take far longer than those of its peers, and far longer than
//! its own used to, leaves the mirror, so that the volume is as fast as the others. It returns
//! after a pause, which grows each time.
//!
//! Judged are medians over a window of time, and several windows in a row: one slow request, or a
//! disk that all replicas share, moves nothing. The deadline ([`crate::primary::sessions`]) is for
//! a replica that does not answer at all.

use core::time::Duration;

use crate::ids::*;
use crate::policy::ReplicaSet;
use crate::primary::membership::Membership;
use crate::primary::membership::peer::Peer;
use crate::primary::{Context, Note};
use crate::settings::LagSettings;

/// Windows in a row that must be slow.
const SLOW_WINDOWS: u32 = 3;
/// Writes of a window below which it tells nothing.
const LEAST_WRITES: u32 = 4;
/// How many times its own best median a replica must take.
const TIMES_OWN: u32 = 8;
/// Powers of two of a microsecond that are told apart: up to 9 minutes.
const BUCKETS: usize = 30;

/// How long writes took, by powers of two of a microsecond.
#[derive(Debug, Clone, Default)]
struct Latencies([u32; BUCKETS]);

impl Latencies {
    fn note(&mut self, took: Duration) {
        let bits = 128 - took.as_micros().leading_zeros() as usize;
        self.0[bits.min(BUCKETS - 1)] += 1;
    }

    /// The median, at most twice too high; `None` if there are too few writes.
    fn median(&self) -> Option<Duration> {
        let count: u32 = self.0.iter().sum();
        let mut below = 0;
        let bucket = self.0.iter().position(|writes| {
            below += writes;
            below * 2 >= count
        });
        bucket.filter(|_| count >= LEAST_WRITES).map(|bits| Duration::from_micros(1 << bits))
    }
}

/// How fast one replica is.
#[derive(Debug, Default)]
pub(in crate::primary) struct Speed {
    window: Latencies,
    /// The median of its fastest window.
    best: Option<Duration>,
    slow_windows: u32,
    /// How long it stays away the next time that it is too slow.
    next_pause: Option<Duration>,
}

impl Speed {
    /// It has carried out a write.
    pub fn wrote(&mut self, took: Duration) {
        self.window.note(took);
    }

    /// The median of its present window.
    pub fn median(&self) -> Option<Duration> {
        self.window.median()
    }

    /// It leaves because it is slow: how long it stays away.
    pub fn pause(&mut self, settings: &LagSettings) -> Duration {
        let pause = self.next_pause.unwrap_or(settings.pause.first);
        self.next_pause = Some(settings.pause.after(pause));
        self.slow_windows = 0;
        pause
    }

    /// Takes the window's median in; tells whether this was one window of several that are too
    /// slow.
    fn judge(&mut self, others: Option<Duration>, settings: &LagSettings) -> Option<Duration> {
        let own = core::mem::take(&mut self.window).median()?;
        let best = *self.best.get_or_insert(own);
        self.best = Some(best.min(own));
        let is_slow = own >= settings.least
            && own >= best * TIMES_OWN
            && others.is_some_and(|others| own >= others * settings.times);
        self.slow_windows = if is_slow { self.slow_windows + 1 } else { 0 };
        (self.slow_windows >= SLOW_WINDOWS).then_some(own)
    }

    /// Panics if it would stay away for longer than it may, or counts as slow beside no window that
    /// was faster.
    pub fn check_invariants(&self, settings: &LagSettings) {
        let is_bounded = self.next_pause.is_none_or(|pause| pause <= settings.pause.longest);
        assert!(is_bounded, "I11: a slow replica stays away for {:?}", self.next_pause);
        let is_compared = self.slow_windows == 0 || self.best.is_some();
        assert!(is_compared, "V2: a replica is slow, and was never faster");
    }
}

/// A write that has taken long already.
#[derive(Debug, Clone, Copy)]
pub(in crate::primary) struct LateWrite {
    pub mirror: usize,
    /// To whom it was sent and who has not answered.
    pub unanswered: ReplicaSet,
    pub age: Duration,
}

impl Membership {
    /// Whether a window of time is over.
    pub fn is_speed_due<P>(&self, cx: &Context<'_, P>) -> bool {
        let settings = &cx.config.settings.lag;
        settings.times != 0 && cx.now.since(self.speed_judged_at) >= settings.window
    }

    /// At the end of each window: tells who holds the others up. `late`: writes that are not
    /// answered and have taken long already; they count, too.
    pub fn judge_speed<P>(
        &mut self,
        cx: &mut Context<'_, P>,
        late: &[LateWrite],
    ) -> Vec<ReplicaId> {
        let settings = cx.config.settings.lag;
        self.speed_judged_at = cx.now;
        self.note_unanswered(late);
        let mut slow = Vec::new();
        for mirror in 0..self.mirrors.len() {
            let peers = &self.mirrors[mirror];
            let members: Vec<_> = peers.ids(peers.members()).collect();
            let median = |id| (id, self.known(id).and_then(Peer::median));
            let medians: Vec<_> = peers.ids(peers.in_sync()).map(median).collect();
            for replica in members {
                let others = medians.iter().filter(|(id, _)| *id != replica);
                let fastest = others.filter_map(|(_, median)| *median).min();
                if let Some(peer) = self.known_mut(replica)
                    && let Some(took) = peer.speed().judge(fastest, &settings)
                {
                    let others = fastest.unwrap_or_default();
                    cx.note(Note::Lagging { replica, took, others });
                    slow.push(replica);
                }
            }
        }
        slow
    }

    fn note_unanswered(&mut self, late: &[LateWrite]) {
        for peer in self.known.values_mut() {
            let (mirror, bit) = (peer.mirror(), peer.bit());
            let own = late.iter().filter(|it| it.mirror == mirror && it.unanswered & bit != 0);
            own.for_each(|late| peer.speed().wrote(late.age));
        }
    }
}

#[cfg(test)]
mod tests;
