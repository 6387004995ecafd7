use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;

fn candidate(incarnation: u64, before: &[u64], before_ended: bool) -> Candidate {
    let lineage = Lineage { before: before.to_vec(), before_ended };
    Candidate { counter: incarnation, incarnation, lineage, is_chosen: false }
}

fn present(incarnation: u64, before: &[u64]) -> Present {
    Present::default().admit(&candidate(incarnation, before, false))
}

#[test]
fn the_present_start_may_always_register_again() {
    for last_seen in [LastSeen::Silent, LastSeen::Before, LastSeen::Since] {
        assert_eq!(
            present(2, &[1]).judge(&candidate(2, &[1], false), last_seen),
            Verdict::Admitted
        );
    }
}

#[test]
fn a_successor_waits_for_a_goodbye_a_proof_or_silence() {
    let last = present(1, &[]);
    let next = candidate(2, &[1], false);
    assert_eq!(last.judge(&next, LastSeen::Before), Verdict::Waits);
    assert_eq!(last.judge(&next, LastSeen::Silent), Verdict::Admitted);
    assert_eq!(last.judge(&candidate(2, &[1], true), LastSeen::Before), Verdict::Admitted);
    assert_eq!(last.leave(1).unwrap().judge(&next, LastSeen::Before), Verdict::Admitted);
    assert_eq!(last.leave(7), None);
}

#[test]
fn a_proof_counts_for_the_start_that_it_is_about_only() {
    let other = present(5, &[1]);
    assert_eq!(other.judge(&candidate(2, &[1], true), LastSeen::Before), Verdict::Waits);
    assert_eq!(other.judge(&candidate(2, &[1], true), LastSeen::Since), Verdict::Copy);
}

#[test]
fn a_copy_is_refused_for_good_with_all_that_follow_it() {
    let original = present(1, &[]);
    assert_eq!(original.judge(&candidate(2, &[1], false), LastSeen::Since), Verdict::Copy);
    let original = original.note_copy(2);
    for last_seen in [LastSeen::Silent, LastSeen::Before] {
        assert_eq!(original.judge(&candidate(2, &[1], false), last_seen), Verdict::Copy);
        assert_eq!(original.judge(&candidate(3, &[2, 1], true), last_seen), Verdict::Copy);
    }
    assert_eq!(
        original.leave(1).unwrap().judge(&candidate(3, &[2], true), LastSeen::Before),
        Verdict::Copy
    );
    assert_eq!(original.judge(&candidate(4, &[1], true), LastSeen::Before), Verdict::Admitted);
}

#[test]
fn an_operator_may_choose_the_copy_once_the_original_is_silent() {
    let original = present(1, &[]).note_copy(2);
    let chosen = Candidate { is_chosen: true, ..candidate(2, &[1], false) };
    assert_eq!(original.judge(&chosen, LastSeen::Since), Verdict::Copy);
    assert_eq!(original.judge(&chosen, LastSeen::Before), Verdict::Waits);
    assert_eq!(original.judge(&chosen, LastSeen::Silent), Verdict::Admitted);
    let now = original.admit(&chosen);
    assert_eq!(now.judge(&candidate(3, &[2], true), LastSeen::Before), Verdict::Admitted);
    assert_eq!(now.judge(&candidate(1, &[], false), LastSeen::Silent), Verdict::Superseded);
}

#[test]
fn a_superseded_start_stays_so_however_silent_its_successor_is() {
    let next = present(2, &[1]);
    for last_seen in [LastSeen::Silent, LastSeen::Before, LastSeen::Since] {
        assert_eq!(next.judge(&candidate(1, &[], false), last_seen), Verdict::Superseded);
    }
}

/// Machines that run from copies of one state directory: what a step of the history does.
#[derive(Debug, Clone)]
enum Step {
    Start(usize),
    Kill(usize),
    Leave(usize),
    /// Copies the directory of one machine to another.
    Copy(usize, usize),
    Register(usize),
    Beat(usize),
    Expire,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let one = || 0..3usize;
    let step = prop_oneof![
        one().prop_map(Step::Start),
        one().prop_map(Step::Kill),
        one().prop_map(Step::Leave),
        (one(), one()).prop_map(|(from, to)| Step::Copy(from, to)),
        one().prop_map(Step::Register),
        one().prop_map(Step::Beat),
        select(vec![Step::Expire]),
    ];
    vec(step, 0..80)
}

#[derive(Default, Clone)]
struct Machine {
    /// The last start of its directory, whether it was admitted, and what it said of those before.
    directory: Option<(Candidate, bool)>,
    /// Whether the directory was copied since that start: no proof then.
    is_copied: bool,
    running: Option<Candidate>,
}

#[derive(Default)]
struct World {
    machines: [Machine; 3],
    present: Present,
    drawn: u64,
    silent: bool,
    asked: std::collections::BTreeMap<u64, bool>,
}

impl World {
    fn start(&mut self, at: usize) {
        self.drawn += 1;
        let machine = &mut self.machines[at];
        if machine.running.is_some() {
            return;
        }
        let mut next = candidate(self.drawn, &[], false);
        if let Some((last, admitted)) = &machine.directory {
            next.lineage.before.push(last.incarnation);
            next.lineage.before_ended = !machine.is_copied;
            if !admitted {
                next.lineage.before.extend(&last.lineage.before);
                let rest = last.lineage.before_ended || last.lineage.before.is_empty();
                next.lineage.before_ended &= rest;
            }
        }
        machine.directory = Some((next.clone(), false));
        machine.is_copied = false;
        machine.running = Some(next);
    }

    fn register(&mut self, at: usize) -> Result<(), TestCaseError> {
        let Some(candidate) = self.machines[at].running.clone() else { return Ok(()) };
        let last_seen = match self.asked.get(&candidate.incarnation) {
            _ if self.silent || self.present == Present::default() => LastSeen::Silent,
            Some(true) => LastSeen::Since,
            _ => LastSeen::Before,
        };
        self.asked.entry(candidate.incarnation).or_insert(false);
        match self.present.judge(&candidate, last_seen) {
            Verdict::Admitted => {
                let is_new = self.present.incarnation != candidate.incarnation;
                let present = self.present.incarnation;
                let mut running = self.machines.iter().filter_map(|m| m.running.as_ref());
                let lives = running.any(|running| running.incarnation == present);
                prop_assert!(!is_new || !lives || self.silent, "took over from one that lives");
                self.present = self.present.admit(&candidate);
                self.machines[at].directory = Some((candidate, true));
                self.silent = false;
                self.asked.clear();
            }
            Verdict::Copy => self.present = self.present.note_copy(candidate.incarnation),
            Verdict::Waits | Verdict::Superseded => {}
        }
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match *step {
            Step::Start(at) => self.start(at),
            Step::Kill(at) => self.machines[at].running = None,
            Step::Leave(at) => {
                if let Some(candidate) = self.machines[at].running.take() {
                    self.present =
                        self.present.leave(candidate.incarnation).unwrap_or(self.present.clone());
                }
            }
            Step::Copy(from, to) if from != to && self.machines[to].running.is_none() => {
                let directory = self.machines[from].directory.clone();
                self.machines[to] = Machine { directory, is_copied: true, running: None };
            }
            Step::Copy(..) => {}
            Step::Register(at) => self.register(at)?,
            Step::Beat(at) => {
                let present = self.present.incarnation;
                if self.machines[at].running.as_ref().is_some_and(|r| r.incarnation == present) {
                    self.silent = false;
                    self.asked.values_mut().for_each(|since| *since = true);
                }
            }
            Step::Expire => self.silent = true,
        }
        Ok(())
    }
}

/// Else the first copy would be admitted as soon as the node is silent.
#[test]
fn of_more_copies_than_are_remembered_none_is_admitted() {
    let candidate = |incarnation: u64, before: Vec<u64>| Candidate {
        counter: incarnation,
        incarnation,
        lineage: Lineage { before, before_ended: false },
        is_chosen: false,
    };
    let mut present = Present::default().admit(&candidate(1000, Vec::new()));
    for copy in 1..=40 {
        present = present.note_copy(copy);
    }
    for copy in 1..=41 {
        assert_eq!(present.judge(&candidate(copy, Vec::new()), LastSeen::Silent), Verdict::Copy);
    }
    let chosen = Candidate { is_chosen: true, ..candidate(40, Vec::new()) };
    assert_eq!(present.judge(&chosen, LastSeen::Silent), Verdict::Admitted);
    let next = candidate(1001, vec![1000]);
    assert_eq!(present.judge(&next, LastSeen::Silent), Verdict::Admitted);
    assert_eq!(present.judge(&next, LastSeen::Before), Verdict::Waits);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// However directories are copied, no start becomes the present one while the one before lives
    /// and is heard.
    #[test]
    fn nobody_takes_over_from_a_start_that_lives(steps in steps()) {
        let mut world = World::default();
        for step in &steps {
            world.step(step)?;
        }
    }

    /// On one machine no start ever waits, however its daemon ends.
    #[test]
    fn one_machine_never_waits(steps in steps()) {
        let mut world = World::default();
        for step in steps.iter().filter(|step| !matches!(step, Step::Copy(..) | Step::Expire)) {
            let step = match *step {
                Step::Start(_) => Step::Start(0),
                Step::Kill(_) => Step::Kill(0),
                Step::Leave(_) => Step::Leave(0),
                Step::Register(_) => Step::Register(0),
                _ => Step::Beat(0),
            };
            world.step(&step)?;
            if let (Step::Register(_), Some(running)) = (&step, &world.machines[0].running) {
                prop_assert_eq!(world.present.incarnation, running.incarnation);
            }
        }
    }
}
