//! Calls to the coordinator: one at a time, answered in whatever way, or never (rules V1, V5).

use core::time::Duration;

use super::edits::PendingEdit;
use crate::ids::*;
use crate::primary::{CoordinatorAnswer, Mismatch, Note};
use crate::time::Instant;
use crate::view::View;

/// Pause before the coordinator is asked again.
const CALL_PAUSE: Duration = Duration::from_millis(250);

/// What the coordinator is asked, and what is known of its answers.
#[derive(Debug)]
pub(in crate::primary) struct Calls {
    under_way: Option<Call>,
    /// A newer view is known to exist: read it as soon as no call is under way.
    must_read: bool,
    /// The highest generation that a replica has told of since the coordinator was last asked.
    learned_of: Generation,
    /// A swap was not answered: it may still be carried out.
    is_in_doubt: bool,
    /// When the coordinator may be asked again after it did not answer.
    retry_at: Instant,
    /// When the coordinator was last asked whether others have changed the view.
    polled_at: Instant,
    /// What is wrong with the view that the coordinator has last told.
    disbelieves: Option<Mismatch>,
    /// Since when the coordinator has not answered.
    silent_since: Option<Instant>,
}

/// A call to the coordinator that is not answered.
#[derive(Debug)]
struct Call {
    number: CoordinatorCall,
    kind: CallKind,
    since: Instant,
}

#[derive(Debug)]
enum CallKind {
    Read,
    /// Nothing depends on it: whether others have changed the view.
    Poll,
    Swap(Box<View>, Vec<PendingEdit>),
}

/// What the primary knows by which an answer is judged.
#[derive(Debug, Clone, Copy)]
pub(in crate::primary) struct Known<'a> {
    pub volume: VolumeId,
    pub view: Option<&'a View>,
    /// Whether it has no view of its own yet.
    pub is_starting: bool,
}

/// What an answer means.
#[derive(Debug)]
pub(in crate::primary) struct Answered {
    /// What an administrator wants to read of it.
    pub note: Option<Note>,
    /// What follows; `None` if nothing does.
    pub outcome: Option<Outcome>,
}

#[derive(Debug)]
pub(in crate::primary) enum Outcome {
    /// The view that was asked for is committed, and these edits are in it.
    Committed { view: Box<View>, edits: Vec<PendingEdit> },
    /// This is the newest view. These edits are not in it, or not for certain.
    Newest { view: Box<View>, edits: Vec<PendingEdit> },
    /// A replica that one of these edits adds has been given up.
    GivenUp { edits: Vec<PendingEdit> },
    /// The volume does not exist any more.
    NoVolume { edits: Vec<PendingEdit> },
    /// Nobody knows whether these edits are carried out. The coordinator may be asked again then.
    Unknown { edits: Vec<PendingEdit>, retry_at: Instant },
}

impl Calls {
    pub fn new(now: Instant) -> Self {
        Self {
            under_way: None,
            must_read: false,
            learned_of: Generation(0),
            is_in_doubt: false,
            retry_at: now,
            polled_at: now,
            disbelieves: None,
            silent_since: None,
        }
    }

    pub fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    /// Whether the view is being read.
    pub fn is_reading(&self) -> bool {
        self.under_way.as_ref().is_some_and(|call| matches!(call.kind, CallKind::Read))
    }

    /// Whether a call may begin.
    pub fn may_begin(&self, now: Instant) -> bool {
        self.under_way.is_none() && now >= self.retry_at
    }

    /// Whether the view has to be read anew, whatever replicas tell.
    pub fn must_read(&self) -> bool {
        self.must_read
    }

    /// Whether there is a newer view than the one of this generation, as far as is known here, or
    /// there may be.
    pub fn want_newer_than(&self, generation: Generation) -> bool {
        self.must_read || self.learned_of > generation
    }

    /// Whether a swap that was not answered may still be carried out.
    pub fn are_in_doubt(&self) -> bool {
        self.is_in_doubt
    }

    /// Whether the coordinator was silent when it was last asked.
    pub fn are_unanswered(&self) -> bool {
        self.silent_since.is_some()
    }

    /// Whether something waits for the call under way: a swap without edits only ends a doubt.
    pub fn are_awaited(&self) -> bool {
        self.under_way.as_ref().is_some_and(Call::is_wanted)
    }

    /// Whether the coordinator has left something that is wanted, or all that it was asked,
    /// unanswered for so long.
    pub fn take_long(&self, now: Instant, patience: Duration) -> bool {
        let is_long = |since: Instant| now.since(since) >= patience;
        let wanted = self.under_way.as_ref().filter(|call| call.is_wanted());
        self.silent_since.is_some_and(is_long) || wanted.is_some_and(|call| is_long(call.since))
    }

    /// Since when the coordinator has not answered, or has not yet.
    pub fn unanswered_since(&self) -> Option<Instant> {
        self.silent_since.or(self.under_way.as_ref().map(|call| call.since))
    }

    /// Whether it is time to look whether others have changed the view.
    pub fn is_poll_due(&self, now: Instant, period: Duration) -> bool {
        now.since(self.polled_at) >= period
    }

    /// What the coordinator is asked to change.
    pub fn edits(&self) -> &[PendingEdit] {
        self.under_way.as_ref().map_or(&[], Call::edits)
    }

    /// The same, to take commands from them that wait no longer.
    pub fn edits_mut(&mut self) -> &mut [PendingEdit] {
        match &mut self.under_way {
            Some(Call { kind: CallKind::Swap(_, edits), .. }) => edits,
            _ => &mut [],
        }
    }

    /// The view is to be read as soon as no call is under way.
    pub fn read_soon(&mut self) {
        self.must_read = true;
    }

    /// The view is to be read at this moment, and nothing asked before.
    pub fn read_at(&mut self, at: Instant) {
        self.must_read = true;
        self.retry_at = at;
    }

    /// A replica tells of a view of this generation.
    pub fn learn_of(&mut self, generation: Generation) {
        self.learned_of = self.learned_of.max(generation);
    }

    /// The coordinator is not asked again at once, but then.
    pub fn pause(&mut self, now: Instant) -> Instant {
        self.retry_at = now + CALL_PAUSE;
        self.retry_at
    }

    /// The coordinator may be asked again at once.
    pub fn end_pause(&mut self, now: Instant) {
        self.retry_at = now;
    }

    /// Another view is committed than one that was asked for without an answer: that one can't be
    /// any more.
    pub fn end_doubt(&mut self) {
        self.is_in_doubt = false;
    }

    /// The coordinator tells of an older view than it has told before: it counts as silent, and is
    /// asked again then.
    pub fn are_answered_by_the_past(&mut self, now: Instant) -> Instant {
        self.silent_since.get_or_insert(now);
        self.must_read = true;
        self.pause(now)
    }

    /// The view is read. What replicas have told before is told with it.
    pub fn read(&mut self, number: CoordinatorCall, now: Instant) {
        self.must_read = false;
        self.learned_of = Generation(0);
        self.begin(number, CallKind::Read, now);
    }

    /// The view is read, and nobody waits for it.
    pub fn poll(&mut self, number: CoordinatorCall, now: Instant) {
        self.polled_at = now;
        self.begin(number, CallKind::Poll, now);
    }

    /// A view is to be committed in which these edits are.
    pub fn swap(
        &mut self,
        number: CoordinatorCall,
        view: Box<View>,
        edits: Vec<PendingEdit>,
        now: Instant,
    ) {
        self.begin(number, CallKind::Swap(view, edits), now);
    }

    fn begin(&mut self, number: CoordinatorCall, kind: CallKind, since: Instant) {
        debug_assert!(self.under_way.is_none(), "two calls at once");
        self.under_way = Some(Call { number, kind, since });
    }

    /// Takes an answer in. One to a call that is not under way means nothing: it is late.
    pub fn answered(
        &mut self,
        number: CoordinatorCall,
        answer: CoordinatorAnswer,
        known: Known<'_>,
        now: Instant,
    ) -> Answered {
        let Some(call) = self.under_way.take_if(|call| call.number == number) else {
            return Answered { note: None, outcome: None };
        };
        let (answer, note) = self.believable(answer, known);
        let is_poll = matches!(call.kind, CallKind::Poll);
        if is_poll && !has_news(&answer, known) {
            return Answered { note, outcome: None };
        }
        if !matches!(answer, CoordinatorAnswer::Unknown) && !is_outdated(&answer, known) {
            self.silent_since = None;
        }
        let (proposed, edits) = match call.kind {
            CallKind::Swap(view, edits) => (Some(view), edits),
            CallKind::Read | CallKind::Poll => (None, Vec::new()),
        };
        let outcome = match answer {
            CoordinatorAnswer::Committed => {
                self.is_in_doubt = false;
                // Of a read it says nothing.
                proposed.map(|view| Outcome::Committed { view, edits })
            }
            CoordinatorAnswer::Newest(view) => Some(Outcome::Newest { view, edits }),
            CoordinatorAnswer::GivenUp => Some(Outcome::GivenUp { edits }),
            CoordinatorAnswer::NoVolume => Some(Outcome::NoVolume { edits }),
            CoordinatorAnswer::Unknown => {
                self.silent_since.get_or_insert(call.since);
                self.must_read |= proposed.is_none() || known.is_starting;
                self.is_in_doubt |= proposed.is_some();
                Some(Outcome::Unknown { edits, retry_at: self.pause(now) })
            }
        };
        Answered { note, outcome }
    }

    /// What the coordinator has answered. A view that can't be one of this volume counts as no
    /// answer: its store is damaged, and this primary goes on by the view that it knows.
    fn believable(
        &mut self,
        answer: CoordinatorAnswer,
        known: Known<'_>,
    ) -> (CoordinatorAnswer, Option<Note>) {
        let CoordinatorAnswer::Newest(newest) = &answer else { return (answer, None) };
        let mismatch = mismatch(newest, known);
        let reported = core::mem::replace(&mut self.disbelieves, mismatch);
        let Some(mismatch) = mismatch else { return (answer, None) };
        let note = Note::ViewRefused(newest.generation, mismatch);
        (CoordinatorAnswer::Unknown, (reported != Some(mismatch)).then_some(note))
    }

    /// The primary has ended: nobody waits for an answer.
    pub fn forget(&mut self) {
        self.under_way = None;
    }

    /// Panics if a newer view than the one of this generation is known of, and nothing reads it.
    pub fn check_invariants(&self, now: Instant, generation: Generation) {
        let is_due = self.want_newer_than(generation) && self.may_begin(now);
        assert!(!is_due, "I11: a newer view than {generation} is not read");
    }
}

impl Call {
    fn edits(&self) -> &[PendingEdit] {
        match &self.kind {
            CallKind::Swap(_, edits) => edits,
            CallKind::Read | CallKind::Poll => &[],
        }
    }

    /// Whether anything waits for it: a swap without edits only ends a doubt.
    fn is_wanted(&self) -> bool {
        match &self.kind {
            CallKind::Read => true,
            CallKind::Poll => false,
            CallKind::Swap(_, edits) => !edits.is_empty(),
        }
    }
}

/// Why a view can't be one of this volume.
fn mismatch(newest: &View, known: Known<'_>) -> Option<Mismatch> {
    if newest.volume != known.volume {
        return Some(Mismatch::OtherVolume);
    }
    if !newest.is_valid() {
        return Some(Mismatch::Invalid);
    }
    let known = known.view?;
    let (old, new) = (known.geometry, newest.geometry);
    let has_shrunk =
        newest.is_of_epoch(known) && newest.generation > known.generation && new.size < old.size;
    let is_cut_alike = (new.block_size, new.chunk, newest.mirrors.len())
        == (old.block_size, old.chunk, known.mirrors.len());
    let stays = |(mirror, id)| known.replica(id).is_none_or(|(before, _)| before == mirror);
    let stay = newest.replicas().all(|(mirror, record)| stays((mirror, record.id)));
    (has_shrunk || !is_cut_alike || !stay).then_some(Mismatch::OtherLayout)
}

/// Whether an answer tells of another view.
fn has_news(answer: &CoordinatorAnswer, known: Known<'_>) -> bool {
    match answer {
        CoordinatorAnswer::Newest(newest) => known.view != Some(&**newest),
        CoordinatorAnswer::NoVolume => true,
        _ => false,
    }
}

/// Whether the coordinator was restored from a backup that is older than what it had this primary
/// told: as good as silent.
fn is_outdated(answer: &CoordinatorAnswer, known: Known<'_>) -> bool {
    let CoordinatorAnswer::Newest(newest) = answer else { return false };
    !known.is_starting && known.view.is_some_and(|view| newest.generation < view.generation)
}

#[cfg(test)]
mod tests;
