//! The clock that counts for how long a coordinator has listened.
//!
//! Where reads fail, nobody knows what nodes have sent; where commits fail, a node that was started
//! again cannot be admitted, and where others share the store nobody can tell them who was heard.
//! So the clock stands from the first failure until the same works again. A read that succeeds says
//! nothing of commits: a full disk gives back what it has. If nobody else changes anything, a
//! commit is [tried](Listening::is_trial_due) now and then: else dead nodes would be alive for
//! good. It also stands while somebody who has sent a sign of life waits to be answered.

use std::time::Duration;

/// The most that counts between two looks: between more the coordinator did not listen.
const MAX_STEP: Duration = Duration::from_secs(2);
/// First and longest pause between two trials whether commits still fail. Each may have the store's
/// file opened anew.
const TRIAL_PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(8));

/// How much of the store works, as far as is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Works {
    All,
    /// A read has failed, and nothing has succeeded since.
    Nothing {
        /// Since when something fails.
        since: Duration,
    },
    /// A commit has failed, and none has succeeded since.
    Reads {
        /// Since when something fails.
        since: Duration,
    },
}

/// When it was last tried whether commits still fail.
#[derive(Debug, Clone, Copy)]
struct Trial {
    at: Duration,
    /// The pause before the next one.
    pause: Duration,
}

/// For how long the coordinator has listened.
#[derive(Debug)]
pub(super) struct Listening {
    /// Less than this lets nobody be called alive for much longer than the expiry time.
    max_pause: Duration,
    looked_at: Duration,
    /// For how long the coordinator has listened since its start.
    listened: Duration,
    /// When the store answered last, and for how long the coordinator had listened then.
    answered: (Duration, Duration),
    works: Works,
    trial: Trial,
    /// When the coordinator went on after it had stood still.
    resumed: Option<Duration>,
    /// For how long it had listened when the store worked again after a long failure.
    recovered: Duration,
}

impl Listening {
    pub(super) fn new(now: Duration, expiry: Duration) -> Self {
        Self {
            max_pause: MAX_STEP.max(expiry / 2),
            looked_at: now,
            listened: Duration::ZERO,
            answered: (now, Duration::ZERO),
            works: Works::All,
            trial: Trial { at: now, pause: TRIAL_PAUSE.0 },
            resumed: None,
            recovered: Duration::ZERO,
        }
    }

    /// The last moment that was told here.
    pub(super) const fn looked_at(&self) -> Duration {
        self.looked_at
    }

    /// For how long the coordinator has listened since its start.
    pub(super) const fn listened(&self) -> Duration {
        self.listened
    }

    /// For how long it has since its start, or since its store worked again after a long failure.
    pub(super) fn listened_anew(&self) -> Duration {
        self.listened.saturating_sub(self.recovered)
    }

    /// When the coordinator went on after it had stood still, if it ever had.
    pub(super) const fn resumed(&self) -> Option<Duration> {
        self.resumed
    }

    /// Time has passed, and of that nothing counts after `until`.
    pub(super) fn advance(&mut self, now: Duration, until: Option<Duration>) {
        if now.saturating_sub(self.looked_at) >= self.max_pause {
            self.resumed = Some(now);
        }
        if self.works == Works::All {
            let until = until.map_or(now, |until| until.min(now));
            self.listened += until.saturating_sub(self.looked_at).min(MAX_STEP);
        }
        self.looked_at = self.looked_at.max(now);
    }

    /// The store has answered a question.
    pub(super) fn store_answered(&mut self) {
        let works = if self.do_commits_fail() { self.works } else { Works::All };
        self.answered(works);
    }

    /// It has not.
    pub(super) fn store_failed(&mut self) {
        self.take_back();
        if self.works == Works::All {
            self.works = Works::Nothing { since: self.answered.0 };
        }
    }

    /// A commit has succeeded.
    pub(super) fn committed(&mut self) {
        self.answered(Works::All);
    }

    /// A commit has failed.
    pub(super) fn commit_failed(&mut self) {
        self.take_back();
        let since = match self.works {
            Works::Reads { .. } => return,
            Works::Nothing { since } => since,
            Works::All => self.answered.0,
        };
        self.works = Works::Reads { since };
        self.trial = Trial { at: self.looked_at, pause: TRIAL_PAUSE.0 };
    }

    /// Whether commits fail.
    pub(super) const fn do_commits_fail(&self) -> bool {
        matches!(self.works, Works::Reads { .. })
    }

    /// Whether it is time to try whether they still do.
    pub(super) fn is_trial_due(&self) -> bool {
        self.do_commits_fail() && self.looked_at >= self.trial.at + self.trial.pause
    }

    /// That is about to be tried.
    pub(super) fn note_trial(&mut self) {
        if self.do_commits_fail() {
            let pause = (self.trial.pause * 2).min(TRIAL_PAUSE.1);
            self.trial = Trial { at: self.looked_at, pause };
        }
    }

    /// Nothing was listened to since the store last answered.
    fn take_back(&mut self) {
        self.listened = self.listened.min(self.answered.1);
        self.note_gap();
    }

    fn note_gap(&mut self) {
        if self.looked_at.saturating_sub(self.answered.0) >= self.max_pause {
            self.resumed = Some(self.looked_at);
        }
    }

    /// The store has answered, and so much of it works now. What failed for a moment only gives
    /// nobody more time: else nobody were ever dead where something fails time and again.
    fn answered(&mut self, works: Works) {
        if let Works::Nothing { since } | Works::Reads { since } = self.works {
            self.note_gap();
            let was_long = self.looked_at.saturating_sub(since) >= self.max_pause;
            if works == Works::All && was_long {
                self.recovered = self.listened;
            }
        }
        self.works = works;
        self.answered = (self.looked_at, self.listened);
    }
}

#[cfg(test)]
mod tests;
