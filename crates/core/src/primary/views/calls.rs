//! Calls to the coordinator: one at a time, answered in whatever way, or never (rules V1, V5).

use core::time::Duration;

use crate::ids::*;
use crate::payload::Payload;
use crate::primary::views::change::{Edit, PendingEdit, finish_command};
use crate::primary::{
    CommandError, Context, CoordinatorAnswer, EndReason, Mismatch, Note, Phase, Primary,
    PrimaryEffect,
};
use crate::time::Instant;
use crate::view::{PrimaryRecord, View};

/// Pause before the coordinator is asked again.
const CALL_PAUSE: Duration = Duration::from_millis(250);

/// A call to the coordinator that is not answered.
#[derive(Debug)]
pub(in crate::primary) struct Call {
    number: CoordinatorCall,
    kind: CallKind,
    since: Instant,
}

#[derive(Debug)]
enum CallKind {
    Read,
    /// Nothing depends on it: whether others have changed the view.
    Glance,
    Swap(Box<View>, Vec<PendingEdit>),
}

impl<P: Payload> Primary<P> {
    /// A swap that was not answered may still be carried out, however late. Once another view has been
    /// committed it can't be any more: if nothing else is wanted, one that changes nothing.
    pub(in crate::primary) fn end_doubt(&mut self, cx: &mut Context<'_, P>) {
        if self.is_in_doubt
            && matches!(self.phase, Phase::Serving)
            && let Some(view) = &self.view
        {
            self.call_swap(cx, view.successor());
        }
    }

    /// What the coordinator is asked to change.
    pub(in crate::primary) fn asked_edits(&self) -> &[PendingEdit] {
        match &self.call {
            Some(Call { kind: CallKind::Swap(_, edits), .. }) => edits,
            _ => &[],
        }
    }

    /// A replica tells of a view of this generation.
    pub(in crate::primary) fn hears_of(&mut self, generation: Generation) {
        self.told_of = self.told_of.max(generation);
    }

    /// Whether there is a newer view, as far as is known here, or there may be.
    pub(in crate::primary) fn wants_newest(&self) -> bool {
        self.must_read || self.told_of > self.generation()
    }

    /// The coordinator is not asked again at once.
    fn pause_calls(&mut self, now: Instant) {
        self.retry_call_at = now + CALL_PAUSE;
        self.tick_at = self.tick_at.min(self.retry_call_at);
    }

    pub(in crate::primary) fn call_read(&mut self, cx: &mut Context<'_, P>) {
        let number = CoordinatorCall(self.next_number());
        self.must_read = false;
        self.told_of = Generation(0);
        self.call = Some(Call { number, kind: CallKind::Read, since: cx.now });
        cx.effects.push(PrimaryEffect::ReadView { call: number });
    }

    /// Looks whether others have changed the view. A replica tells that when it has adopted theirs; of one
    /// whose primary has died before that nobody would.
    pub(in crate::primary) fn glance(&mut self, cx: &mut Context<'_, P>) {
        let is_shared = self.view.as_ref().is_some_and(View::is_shared);
        let is_due = cx.now.since(self.glanced_at) >= self.lease().time();
        if is_shared && is_due && matches!(self.phase, Phase::Serving) {
            let number = CoordinatorCall(self.next_number());
            self.glanced_at = cx.now;
            self.call = Some(Call { number, kind: CallKind::Glance, since: cx.now });
            cx.effects.push(PrimaryEffect::ReadView { call: number });
        }
    }

    pub(in crate::primary) fn call_swap(&mut self, cx: &mut Context<'_, P>, view: View) {
        self.call_swap_for(cx, view, Vec::new());
    }

    pub(in crate::primary) fn call_swap_for(
        &mut self,
        cx: &mut Context<'_, P>,
        view: View,
        edits: Vec<PendingEdit>,
    ) {
        debug_assert!(
            view.mirrors.iter().all(|mirror| mirror.in_sync().next().is_some()),
            "V2: the last in-sync replica of a mirror leaves"
        );
        // Each next view is made of the one that is known here.
        let Some(replaces) = self.view.clone().map(Box::new) else { return };
        self.doubt_lives(&view);
        let call = CoordinatorCall(self.next_number());
        let view = Box::new(view);
        cx.effects.push(PrimaryEffect::SwapView { call, view: view.clone(), replaces });
        self.call = Some(Call { number: call, kind: CallKind::Swap(view, edits), since: cx.now });
    }

    pub(in crate::primary) fn coordinator(
        &mut self,
        cx: &mut Context<'_, P>,
        number: CoordinatorCall,
        answer: CoordinatorAnswer,
    ) {
        let Some(call) = self.call.take_if(|call| call.number == number) else { return };
        let answer = self.believable(cx, answer);
        let is_glance = matches!(call.kind, CallKind::Glance);
        if is_glance && !self.tells_news(&answer) {
            return;
        }
        let mut edits = Vec::new();
        let mut proposed = None;
        if let CallKind::Swap(view, applied) = call.kind {
            (edits, proposed) = (applied, Some(*view));
        }
        if !matches!(answer, CoordinatorAnswer::Unknown) && !self.is_outdated(&answer) {
            self.coordinator_silent_since = None;
        }
        match answer {
            CoordinatorAnswer::Committed => {
                self.is_in_doubt = false;
                edits.into_iter().for_each(|pending| self.edit_done(cx, pending));
                if let Some(view) = proposed {
                    self.committed(cx, view);
                }
            }
            CoordinatorAnswer::Newest(view) => {
                self.edits.splice(0..0, edits);
                self.newest(cx, *view);
            }
            CoordinatorAnswer::GivenUp => {
                let (adds, others): (Vec<_>, Vec<_>) =
                    edits.into_iter().partition(|p| matches!(p.edit, Edit::Add(_)));
                self.edits.splice(0..0, others);
                for pending in adds {
                    finish_command(cx, pending, Err(CommandError::GivenUp));
                }
            }
            CoordinatorAnswer::NoVolume => {
                // With them their commands are answered.
                self.edits.splice(0..0, edits);
                self.end(cx, EndReason::NoVolume);
            }
            CoordinatorAnswer::Unknown => {
                self.edits.splice(0..0, edits);
                self.coordinator_silent_since.get_or_insert(call.since);
                self.pause_calls(cx.now);
                let is_starting = matches!(self.phase, Phase::Starting(_));
                self.must_read |= proposed.is_none() || is_starting;
                self.is_in_doubt |= proposed.is_some();
            }
        }
    }

    /// What the coordinator has answered. A view that can't be one of this volume counts as no answer: its store
    /// is damaged, and this primary goes on by the view that it knows.
    fn believable(
        &mut self,
        cx: &mut Context<'_, P>,
        answer: CoordinatorAnswer,
    ) -> CoordinatorAnswer {
        let CoordinatorAnswer::Newest(newest) = &answer else { return answer };
        let mismatch = self.mismatch(newest);
        let told = core::mem::replace(&mut self.disbelieves, mismatch);
        let Some(mismatch) = mismatch else { return answer };
        if told != Some(mismatch) {
            cx.note(Note::ViewRefused(newest.generation, mismatch));
        }
        CoordinatorAnswer::Unknown
    }

    /// Why a view can't be one of this volume.
    fn mismatch(&self, newest: &View) -> Option<Mismatch> {
        if newest.volume != self.config.volume {
            return Some(Mismatch::OtherVolume);
        }
        if !newest.is_valid() {
            return Some(Mismatch::Invalid);
        }
        let known = self.view.as_ref()?;
        let (old, new) = (known.geometry, newest.geometry);
        let has_shrunk =
            newest.is_of_era(known) && newest.generation > known.generation && new.size < old.size;
        let is_cut_alike = (new.block_size, new.chunk, newest.mirrors.len())
            == (old.block_size, old.chunk, known.mirrors.len());
        let stays = |(mirror, id)| known.replica(id).is_none_or(|(before, _)| before == mirror);
        let stay = newest.replicas().all(|(mirror, record)| stays((mirror, record.id)));
        (has_shrunk || !is_cut_alike || !stay).then_some(Mismatch::OtherLayout)
    }

    /// Whether an answer tells of another view.
    fn tells_news(&self, answer: &CoordinatorAnswer) -> bool {
        match answer {
            CoordinatorAnswer::Newest(newest) => self.view.as_ref() != Some(&**newest),
            CoordinatorAnswer::NoVolume => true,
            _ => false,
        }
    }

    /// Whether the coordinator was restored from a backup that is older than what it had this primary
    /// told: as good as silent.
    fn is_outdated(&self, answer: &CoordinatorAnswer) -> bool {
        let CoordinatorAnswer::Newest(newest) = answer else { return false };
        let is_starting = matches!(self.phase, Phase::Starting(_));
        !is_starting && self.view.as_ref().is_some_and(|view| newest.generation < view.generation)
    }

    /// Answers commands that have waited for the coordinator for too long. What was asked of it may
    /// have been committed.
    pub(in crate::primary) fn give_up_commands(&mut self, cx: &mut Context<'_, P>) {
        let patience = self.config.settings.coordinator_patience;
        let is_long = |since: Instant| cx.now.since(since) >= patience;
        let silent_since = self.coordinator_silent_since.or(self.call.as_ref().map(Call::since));
        if !silent_since.is_some_and(is_long) {
            return;
        }
        let limit = Instant(cx.now.0.saturating_sub(patience.as_nanos() as u64));
        let asked = match &mut self.call {
            Some(Call { kind: CallKind::Swap(_, edits), .. }) => edits.as_mut_slice(),
            _ => &mut [],
        };
        let mut given_up: Vec<_> = asked.iter_mut().filter_map(|p| p.take_command(limit)).collect();
        self.edits.retain_mut(|pending| match pending.take_command(limit) {
            Some(id) => {
                given_up.push(id);
                false
            }
            None => true,
        });
        for id in given_up {
            let result = Err(CommandError::NoCoordinator);
            cx.effects.push(PrimaryEffect::CommandDone { id, result });
        }
    }

    fn committed(&mut self, cx: &mut Context<'_, P>, view: View) {
        if matches!(self.phase, Phase::Starting(_)) {
            self.started(cx, view);
        } else {
            self.install(cx, view);
        }
    }

    /// The coordinator's newest view: perhaps this primary's own, committed unanswered; perhaps
    /// another's.
    fn newest(&mut self, cx: &mut Context<'_, P>, newest: View) {
        let is_primary = newest.has_primary(self.config.id);
        if matches!(self.phase, Phase::Starting(_)) {
            return if is_primary { self.started(cx, newest) } else { self.gather(cx, newest) };
        }
        let Some(view) = &self.view else { return };
        // Who took over from it would not be known here.
        let is_known = |other: &PrimaryRecord| view.has_primary(other.id);
        let own_detach = self.is_giving_up() && newest.primaries.iter().all(is_known);
        match newest.generation.cmp(&view.generation) {
            _ if !is_primary && self.has_given_up() => self.end(cx, EndReason::Detached),
            _ if !is_primary && !own_detach => {
                // Also if those that went on without it have ended since.
                let is_evicted = newest.is_shared() && newest.is_of_era(view);
                self.end(cx, if is_evicted { EndReason::Evicted } else { EndReason::Fenced });
            }
            core::cmp::Ordering::Greater => {
                self.is_in_doubt = false;
                self.forget_outdated_edits();
                self.install(cx, newest);
            }
            core::cmp::Ordering::Equal if newest == *view => self.still_newest(cx),
            core::cmp::Ordering::Equal => self.end(cx, EndReason::Fenced),
            core::cmp::Ordering::Less => {
                self.coordinator_silent_since.get_or_insert(cx.now);
                self.must_read = true;
                self.pause_calls(cx.now);
            }
        }
    }

    /// A refusal was passing: whoever refused adopted nothing newer. Ask it again.
    fn still_newest(&mut self, cx: &mut Context<'_, P>) {
        self.pause_calls(cx.now);
        self.give_up_refusing(cx);
        self.peers.values_mut().for_each(|peer| peer.has_refused = false);
        let ready: Vec<_> =
            self.peers.values().filter(|p| p.ready_link().is_some()).map(|p| p.id).collect();
        for replica in ready {
            if self.unadopted.contains(&replica) {
                self.send_adopt(cx, replica);
            } else {
                self.resend(cx, replica);
            }
        }
    }
}

impl Call {
    /// The commands that wait for this call.
    pub(in crate::primary) fn commands(&self) -> impl Iterator<Item = CommandId> {
        let edits = match &self.kind {
            CallKind::Swap(_, edits) => edits.as_slice(),
            CallKind::Read | CallKind::Glance => &[],
        };
        edits.iter().filter_map(PendingEdit::command)
    }

    /// Whether anything waits for it: a swap without edits only ends a doubt.
    pub(in crate::primary) fn is_wanted(&self) -> bool {
        match &self.kind {
            CallKind::Read => true,
            CallKind::Glance => false,
            CallKind::Swap(_, edits) => !edits.is_empty(),
        }
    }

    /// Since when it waits.
    pub(in crate::primary) fn since(&self) -> Instant {
        self.since
    }
}
