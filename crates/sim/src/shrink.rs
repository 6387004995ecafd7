//! The minimiser: finds a small part of a failing run that still fails in the same way.
//!
//! It leaves out kinds of faults, then single faults, then operations of clients, then what clients
//! have under way at once, then time, and starts again with single faults as long as that helps.
//! A part stays left out if the same oracle still fails. Everything else draws what it drew before
//! ([`tape`](crate::tape)), so most parts that the failure does not depend on can be left out.
//! Lists shrink by delta debugging: halves, quarters and so on, down to single members.

use std::fmt;
use std::rc::Rc;

use crate::log::Log;
use crate::oracles::Violation;
use crate::queue::{MILLISECOND, Time};
use crate::reduction::{Kind, Numbers, Reduction};
use crate::run::{Outcome, Run, reported};
use crate::tape::Tape;

/// How often it begins anew, at most.
const ROUNDS: usize = 4;

/// Into how many steps the time of a run is cut.
const STEPS: Time = 64;

/// The size of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Kinds of faults that strike, and what goes wrong at a rate.
    pub kinds: usize,
    /// Faults that were carried out.
    pub faults: usize,
    /// Operations that clients asked for.
    pub operations: usize,
    /// Virtual time.
    pub time: Time,
}

/// The result of shrinking a failing run.
#[derive(Debug)]
pub struct Shrunk {
    /// The run.
    pub run: Run,
    /// How it ends, with the outline of what happens.
    pub outcome: Outcome,
    /// What it was before, and what it is now.
    pub sizes: (Size, Size),
    /// How many runs were made.
    pub runs: u64,
    /// Whether nothing more can be left out, or the time was over.
    pub is_complete: bool,
}

impl Shrunk {
    /// What is left, what happens in it, and the command line that repeats it.
    #[must_use]
    pub fn report(&self) -> String {
        let Some(Violation { oracle, text }) = &self.outcome.failure else { return String::new() };
        let (before, after) = self.sizes;
        let end = if self.is_complete { "nothing more can go" } else { "the time was over" };
        format!(
            "seed {}: {oracle} is broken\n  {text}\nwas  {before}\nleft {after}\n     after {} runs; {end}\n{}{}replay: {}\n",
            self.run.seed,
            self.runs,
            self.run.profile.summary(),
            reported(&self.outcome),
            self.run.command(),
        )
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kinds, faults, operations, time } = self;
        let seconds = *time as f64 / 1e9;
        write!(
            f,
            "faults {faults:>4}, operations {operations:>5}, kinds of faults {kinds:>3}, virtual seconds {seconds:>8.3}"
        )
    }
}

/// Leaves out of a failing run what it can, while `may_go_on`, which is told how many runs there
/// were. `None` if it does not fail.
#[must_use]
pub fn shrink(run: &Run, may_go_on: impl Fn(u64) -> bool) -> Option<Shrunk> {
    let (_, tape) = run.record();
    let outcome = run.replay(&tape, Log::Off);
    let wanted = signature(outcome.failure.as_ref()?);
    let before = size(run, &outcome);
    let mut shrinker =
        Shrinker { run: run.clone(), tape, wanted, outcome, runs: 2, may_go_on: &may_go_on };
    shrinker.leave_out_kinds();
    for _ in 0..ROUNDS {
        let last = shrinker.run.reduction.clone();
        shrinker.leave_out_faults();
        shrinker.leave_out_operations();
        shrinker.leave_out_depth();
        shrinker.leave_out_time();
        if shrinker.run.reduction == last {
            break;
        }
    }
    let is_complete = may_go_on(shrinker.runs);
    shrinker.say_it_shortly();
    let after = size(&shrinker.run, &shrinker.outcome);
    let outcome = shrinker.run.replay(&shrinker.tape, Log::outline());
    Some(Shrunk {
        outcome,
        sizes: (before, after),
        runs: shrinker.runs,
        is_complete,
        run: shrinker.run,
    })
}

/// By what two failures are the same: the oracle, and where that says little, the words without
/// their numbers.
fn signature(violation: &Violation) -> String {
    match violation.oracle {
        "panic" | "internal" => {
            let text: String = violation.text.chars().filter(|c| !c.is_ascii_digit()).collect();
            format!("{}: {text}", violation.oracle)
        }
        oracle => oracle.to_owned(),
    }
}

fn size(run: &Run, outcome: &Outcome) -> Size {
    let left = |kind: &Kind| match kind {
        Kind::Fault(fault) => outcome.struck.iter().any(|(_, struck)| struck == fault),
        Kind::Rate(_) => kind.is_in(&run.profile) && !run.reduction.without.contains(kind),
    };
    let asked = |number: &u64| run.reduction.asks(*number);
    Size {
        kinds: Kind::all().filter(left).count(),
        faults: outcome.struck.len(),
        operations: (1..=outcome.counters.operations).filter(asked).count(),
        time: outcome.counters.time,
    }
}

struct Shrinker<'a> {
    /// The smallest run so far that fails.
    run: Run,
    tape: Rc<Tape>,
    wanted: String,
    /// How that run ends.
    outcome: Outcome,
    runs: u64,
    may_go_on: &'a dyn Fn(u64) -> bool,
}

impl Shrinker<'_> {
    /// Takes this reduction if the run fails with it as it did. Returns whether it does.
    fn takes(&mut self, reduction: Reduction) -> bool {
        self.takes_if(reduction, |_, _| true)
    }

    /// The same, if it is also better than the smallest run so far.
    fn takes_if(
        &mut self,
        reduction: Reduction,
        is_better: impl Fn(&Outcome, &Outcome) -> bool,
    ) -> bool {
        if !(self.may_go_on)(self.runs) {
            return false;
        }
        self.runs += 1;
        let run = Run { reduction, ..self.run.clone() };
        let outcome = run.replay(&self.tape, Log::Off);
        let fails = outcome.failure.as_ref().is_some_and(|v| signature(v) == self.wanted);
        let is_taken = fails && is_better(&outcome, &self.outcome);
        if is_taken {
            (self.run, self.outcome) = (run, outcome);
        }
        is_taken
    }

    /// Thins a list of what stays in the run, from halves down to single members.
    fn thin<T: Copy>(&mut self, mut kept: Vec<T>, reduce: impl Fn(&Reduction, &[T]) -> Reduction) {
        if self.takes(reduce(&self.run.reduction, &[])) {
            return;
        }
        let mut length = kept.len().div_ceil(2);
        while length > 0 {
            let mut first = 0;
            while first < kept.len() {
                let end = (first + length).min(kept.len());
                let fewer: Vec<_> = [&kept[..first], &kept[end..]].concat();
                if self.takes(reduce(&self.run.reduction, &fewer)) {
                    kept = fewer;
                } else {
                    first = end;
                }
            }
            length = if length == 1 { 0 } else { length.div_ceil(2) };
        }
    }

    fn leave_out_kinds(&mut self) {
        let is_out = |kind: &Kind| self.run.reduction.without.contains(kind);
        let (_, present): (Vec<_>, Vec<_>) =
            Kind::all().filter(|kind| kind.is_in(&self.run.profile)).partition(is_out);
        let all: Vec<_> = self.run.reduction.without.iter().chain(&present).copied().collect();
        self.thin(present, |reduction, kept| {
            let without = all.iter().filter(|kind| !kept.contains(kind)).copied().collect();
            Reduction { without, ..reduction.clone() }
        });
    }

    fn leave_out_faults(&mut self) {
        let struck = self.outcome.struck.iter().map(|(number, _)| *number).collect();
        self.thin(struck, |reduction, kept| {
            let faults = Some(kept.iter().copied().collect::<Numbers>());
            Reduction { faults, ..reduction.clone() }
        });
    }

    fn leave_out_operations(&mut self) {
        let asked = |number: &u64| self.run.reduction.asks(*number);
        let asked = (1..=self.outcome.counters.operations).filter(asked).collect();
        self.thin(asked, |reduction, kept| {
            let operations = Some(kept.iter().copied().collect::<Numbers>());
            Reduction { operations, ..reduction.clone() }
        });
    }

    fn leave_out_depth(&mut self) {
        let present = self.run.reduction.depth.unwrap_or(self.run.profile.depth);
        let fewer = (0..).map(|power| 1 << power).take_while(|depth| *depth < present);
        for depth in fewer.collect::<Vec<usize>>() {
            let reduction = Reduction { depth: Some(depth), ..self.run.reduction.clone() };
            if self.takes(reduction) {
                return;
            }
        }
    }

    /// Names no kind of which no fault strikes anyhow, and no fault or operation that the run does
    /// not come to.
    fn say_it_shortly(&mut self) {
        let Self { run: Run { reduction, .. }, outcome, .. } = self;
        reduction.without.retain(|kind| matches!(kind, Kind::Rate(_)));
        reduction.faults = Some(outcome.struck.iter().map(|(number, _)| *number).collect());
        let reached = 1..=outcome.counters.operations;
        let asked = reached.filter(|number| reduction.asks(*number)).collect();
        reduction.operations = reduction.operations.take().map(|_| asked);
    }

    /// Has the faults end earlier: what they do later is not needed, or the end of the run finds
    /// the failure.
    fn leave_out_time(&mut self) {
        let all = self.run.reduction.end.unwrap_or(self.outcome.counters.time);
        let (mut fails_not, mut fails) = (0, STEPS);
        while fails - fails_not > 1 {
            let middle = fails_not.midpoint(fails);
            let end = (all / STEPS * middle).next_multiple_of(MILLISECOND);
            let reduction = Reduction { end: Some(end), ..self.run.reduction.clone() };
            let is_taken = self
                .takes_if(reduction, |shorter, whole| shorter.counters.time < whole.counters.time);
            *(if is_taken { &mut fails } else { &mut fails_not }) = middle;
        }
    }
}

#[cfg(test)]
mod tests;
