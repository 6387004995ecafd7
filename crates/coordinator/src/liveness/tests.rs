use super::*;

const EXPIRY: Duration = Duration::from_secs(10);

fn at(seconds: u64) -> Moment {
    Moment { steady: Duration::from_secs(seconds), unix: seconds }
}

/// A coordinator with what it has stored.
struct Bench {
    liveness: Liveness,
    stored: BTreeMap<String, Entry>,
    now: u64,
    commits: u64,
}

impl Bench {
    fn with_beta(is_shared: bool) -> Self {
        let mut liveness = Liveness::new(EXPIRY, is_shared, at(0), Default::default());
        liveness.saw("alpha", at(0));
        liveness.saw("beta", at(0));
        Self { liveness, stored: BTreeMap::new(), now: 0, commits: 0 }
    }

    fn put(&mut self, node: &str, milliseconds: u64) {
        self.commits += 1;
        let entry = Entry { milliseconds, revision: Some(self.commits) };
        self.stored.insert(node.to_owned(), entry);
    }

    fn is_dead(&mut self, node: &str) -> bool {
        let found = self.stored.get(node).copied();
        !self.may_live(node) && self.liveness.has_stood(node, found)
    }

    fn restart(&mut self) {
        let known = (vec!["alpha".to_owned(), "beta".to_owned()], self.stored.clone());
        self.liveness = Liveness::new(EXPIRY, false, at(self.now), known);
    }

    /// It looks each second, for so many seconds, and hears `alpha` each time.
    fn listen(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.now += 1;
            self.liveness.saw("alpha", at(self.now));
            self.liveness.store_answered();
            self.save();
        }
    }

    fn save(&mut self) -> Saving {
        if !self.liveness.take_due(at(self.now)) {
            return Saving::default();
        }
        let (saving, before) = (self.liveness.saving(&self.stored), self.stored.clone());
        saving.put.iter().for_each(|(node, silent)| self.put(node, *silent));
        self.stored.retain(|node, _| !saving.delete.contains(node));
        self.liveness.saved(&saving, &before);
        saving
    }

    fn may_live(&mut self, node: &str) -> bool {
        self.liveness.advance(at(self.now));
        self.liveness.may_live(node)
    }
}

#[test]
fn a_node_is_dead_when_it_was_silent_for_the_expiry() {
    let mut bench = Bench::with_beta(false);
    bench.listen(9);
    assert!(bench.may_live("beta"));
    bench.listen(1);
    assert!(!bench.may_live("beta"));
    assert!(bench.may_live("alpha"));
    assert!(bench.stored.contains_key("beta"));
    bench.liveness.saw("beta", at(bench.now));
    assert!(bench.may_live("beta"));
    bench.listen(1);
    assert!(!bench.stored.contains_key("beta"), "it is not silent any more");
}

#[test]
fn what_was_counted_outlives_restarts_and_each_gives_time_to_be_heard() {
    let mut bench = Bench::with_beta(false);
    bench.listen(9);
    // Down for an hour: nobody could be heard.
    bench.now += 3600;
    bench.restart();
    bench.listen(2);
    assert!(bench.may_live("beta"), "it has had no time to be heard");
    bench.listen(1);
    assert!(!bench.may_live("beta"));
    bench.restart();
    assert!(bench.may_live("beta"));
    bench.liveness.saw("beta", at(bench.now));
    bench.listen(9);
    assert!(bench.may_live("beta"), "it has its whole time again");
}

#[test]
fn a_frozen_coordinator_does_not_take_others_for_dead() {
    let mut bench = Bench::with_beta(false);
    bench.now += 60;
    assert!(bench.may_live("beta"), "nobody listened");
    bench.listen(7);
    assert!(bench.may_live("beta"));
    bench.listen(1);
    assert!(!bench.may_live("beta"));
}

/// Nobody knows of a node that was not heard since; and what it sent last may have waited to be
/// read.
#[test]
fn after_the_coordinator_stood_still_no_node_is_called_alive_before_it_was_heard_for_sure() {
    let mut bench = Bench::with_beta(false);
    bench.listen(1);
    assert!(bench.liveness.is_alive("alpha") && bench.liveness.is_alive("beta"));
    bench.now += 60;
    assert!(bench.may_live("beta"));
    assert!(!bench.liveness.is_alive("alpha") && !bench.liveness.is_alive("beta"));
    bench.liveness.saw("alpha", at(bench.now));
    bench.liveness.saw("beta", at(bench.now));
    assert!(!bench.liveness.is_alive("beta"), "it may have sent that long ago");
    assert_eq!(bench.liveness.last_proved("beta"), Some(at(0)));
    bench.listen(1);
    assert!(bench.liveness.is_alive("alpha") && !bench.liveness.is_alive("beta"));
    assert_eq!(bench.liveness.last_proved("alpha"), Some(at(bench.now)));
    bench.listen(9);
    assert!(!bench.may_live("beta") && !bench.liveness.is_alive("beta"));
    // It has come back.
    bench.liveness.saw("beta", at(bench.now));
    assert!(bench.liveness.is_alive("beta"));
}

/// One heartbeat that waited to be read in each of two pauses, and one of a node that was never
/// heard before, say nothing of now.
#[test]
fn what_is_heard_once_after_each_pause_is_no_proof() {
    let mut bench = Bench::with_beta(false);
    for _ in 0..2 {
        bench.now += 60;
        bench.liveness.saw("beta", at(bench.now));
        bench.liveness.saw("gamma", at(bench.now));
        assert!(bench.may_live("beta") && !bench.liveness.is_alive("beta"));
        assert_eq!(bench.liveness.last_proved("gamma"), None);
    }
    // What comes later was not waiting.
    bench.now += 3;
    bench.liveness.saw("gamma", at(bench.now));
    assert!(bench.liveness.is_alive("gamma") && !bench.liveness.is_alive("beta"));
}

/// It has read nothing for less time than a silent node is alive for.
#[test]
fn a_coordinator_that_paused_for_a_moment_knows_who_is_alive() {
    let mut bench = Bench::with_beta(false);
    bench.listen(1);
    bench.now += 4;
    assert!(bench.may_live("beta") && bench.liveness.is_alive("beta"));
}

#[test]
fn nothing_is_saved_while_all_are_heard_or_dead() {
    let mut bench = Bench::with_beta(false);
    for _ in 0..5 {
        bench.now += 1;
        bench.liveness.saw("alpha", at(bench.now));
        bench.liveness.saw("beta", at(bench.now));
        assert_eq!(bench.save(), Saving::default());
    }
    bench.listen(11);
    let stored: Vec<_> = bench.stored.iter().map(|(n, e)| (n.as_str(), e.milliseconds)).collect();
    assert_eq!(stored, [("beta", 10_000)]);
    bench.now += 1;
    bench.liveness.saw("alpha", at(bench.now));
    assert_eq!(bench.save(), Saving::default());
}

#[test]
fn where_others_may_hear_it_the_same_entry_must_have_stood() {
    let mut bench = Bench::with_beta(true);
    bench.listen(9);
    assert!(!bench.is_dead("beta"));
    bench.listen(2);
    assert!(bench.is_dead("beta"));
    // Another coordinator has heard it, and a third one has not.
    let milliseconds = bench.stored["beta"].milliseconds;
    bench.put("beta", milliseconds);
    assert!(!bench.is_dead("beta"));
    assert_eq!(bench.liveness.saving(&bench.stored).seen_elsewhere, ["beta"]);
    bench.listen(9);
    assert!(bench.may_live("beta"), "it has its whole time again");
    bench.listen(3);
    assert!(bench.is_dead("beta"));
}

#[test]
fn who_is_heard_elsewhere_is_not_dead_here() {
    let mut bench = Bench::with_beta(true);
    bench.listen(9);
    bench.stored.remove("beta");
    bench.listen(1);
    assert!(!bench.stored.contains_key("beta"), "that is known");
    bench.listen(9);
    assert!(bench.may_live("beta"), "it has its whole time again");
    bench.listen(3);
    assert!(bench.is_dead("beta"));
}

/// A takeover waits until it is known again who lives.
#[test]
fn no_node_dies_while_commits_fail_and_one_that_is_dead_does_once_they_work() {
    let mut bench = Bench::with_beta(false);
    bench.listen(9);
    bench.liveness.commit_failed();
    for _ in 0..60 {
        bench.listen(1);
        assert!(bench.may_live("beta"), "it may have been started again");
    }
    bench.liveness.committed();
    bench.listen(2);
    assert!(bench.may_live("beta"), "it has had no time to be heard");
    bench.listen(1);
    assert!(bench.is_dead("beta"));
    assert!(bench.may_live("alpha"));
}

/// It is dead still, whoever has failed since.
#[test]
fn who_was_dead_before_commits_failed_stays_so() {
    let mut bench = Bench::with_beta(false);
    bench.listen(12);
    assert!(bench.is_dead("beta"));
    bench.liveness.commit_failed();
    bench.listen(60);
    assert!(bench.is_dead("beta"));
}

/// Where some commits fail, as of what is large on a disk that is nearly full, and others succeed.
#[test]
fn a_dead_node_dies_although_commits_fail_time_and_again() {
    let mut bench = Bench::with_beta(false);
    for _ in 0..12 {
        bench.listen(1);
        bench.liveness.commit_failed();
        bench.listen(1);
        bench.liveness.committed();
    }
    assert!(bench.is_dead("beta"));
}

#[test]
fn while_commits_fail_who_is_heard_is_alive_and_of_who_is_not_nobody_knows() {
    let mut bench = Bench::with_beta(false);
    bench.listen(1);
    bench.liveness.commit_failed();
    for second in 2..30 {
        bench.listen(1);
        assert!(bench.liveness.is_alive("alpha") && bench.may_live("beta"));
        assert_eq!(bench.liveness.is_alive("beta"), second < EXPIRY.as_secs());
    }
}
