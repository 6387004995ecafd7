use super::*;

const EXPIRY: Duration = Duration::from_secs(10);

/// A coordinator that looks each second.
struct Bench {
    clock: Listening,
    now: u64,
}

impl Bench {
    fn new() -> Self {
        Self { clock: Listening::new(Duration::ZERO, EXPIRY), now: 0 }
    }

    /// So many seconds pass, and after each this becomes of the store.
    fn each(&mut self, seconds: u64, what: impl Fn(&mut Listening)) {
        for _ in 0..seconds {
            self.now += 1;
            self.clock.advance(Duration::from_secs(self.now), None);
            what(&mut self.clock);
        }
    }

    fn listened(&self) -> u64 {
        self.clock.listened().as_secs()
    }
}

fn nothing(_: &mut Listening) {}

#[test]
fn what_has_passed_since_the_store_last_answered_is_taken_back_and_counts_again_once_it_does() {
    let mut bench = Bench::new();
    bench.each(5, Listening::store_answered);
    bench.each(3, nothing);
    assert_eq!(bench.listened(), 8);
    bench.clock.store_failed();
    assert_eq!(bench.listened(), 5);
    bench.each(4, nothing);
    bench.each(4, Listening::store_failed);
    assert_eq!(bench.listened(), 5);
    bench.clock.store_answered();
    bench.each(2, Listening::store_answered);
    assert_eq!(bench.listened(), 7);
}

/// As on a full disk: what is there is read.
#[test]
fn after_a_commit_has_failed_nothing_counts_until_one_succeeds() {
    let mut bench = Bench::new();
    bench.each(5, Listening::store_answered);
    bench.each(2, nothing);
    bench.clock.commit_failed();
    assert_eq!(bench.listened(), 5);
    bench.each(60, Listening::store_answered);
    // A disk that also does not answer for a moment is no better when it does.
    bench.each(3, Listening::store_failed);
    bench.each(60, Listening::store_answered);
    assert_eq!(bench.listened(), 5);
    bench.clock.committed();
    bench.each(1, Listening::store_answered);
    assert_eq!(bench.listened(), 6);
}

/// Nor does a store that is found to commit nothing once it answers again.
#[test]
fn reads_that_fail_first_hide_no_commits_that_fail() {
    let mut bench = Bench::new();
    bench.each(5, Listening::store_answered);
    bench.clock.store_failed();
    bench.clock.commit_failed();
    bench.each(60, Listening::store_answered);
    assert_eq!(bench.listened(), 5);
    bench.clock.committed();
    assert!(!bench.clock.do_commits_fail());
}

#[test]
fn a_commit_is_tried_ever_less_often_and_not_once_they_work() {
    let mut bench = Bench::new();
    assert!(!bench.clock.is_trial_due());
    bench.clock.commit_failed();
    let mut tried = Vec::new();
    for _ in 0..32 {
        bench.each(1, Listening::store_answered);
        if bench.clock.is_trial_due() {
            tried.push(bench.now);
            bench.clock.note_trial();
            bench.clock.commit_failed();
        }
    }
    assert_eq!(tried, [1, 3, 7, 15, 23, 31]);
    bench.clock.committed();
    bench.each(32, Listening::store_answered);
    assert!(!bench.clock.is_trial_due());
    bench.clock.commit_failed();
    bench.each(1, Listening::store_answered);
    assert!(bench.clock.is_trial_due());
}

/// Who was there again all the time, and could not be admitted, has time to be.
#[test]
fn after_a_long_failure_all_have_time_to_be_heard_and_after_a_short_one_nobody_has_more() {
    let mut bench = Bench::new();
    bench.each(20, Listening::store_answered);
    bench.clock.commit_failed();
    bench.each(4, Listening::store_answered);
    bench.clock.committed();
    assert_eq!(bench.clock.listened_anew(), Duration::from_secs(20));
    bench.clock.commit_failed();
    bench.each(5, Listening::store_answered);
    bench.clock.committed();
    assert_eq!(bench.clock.listened_anew(), Duration::ZERO);
    bench.each(3, Listening::store_answered);
    assert_eq!(bench.clock.listened_anew(), Duration::from_secs(3));
}

#[test]
fn it_stood_still_where_nothing_was_read_for_long_and_not_where_only_commits_failed() {
    let mut bench = Bench::new();
    bench.each(5, Listening::store_answered);
    bench.clock.commit_failed();
    bench.each(60, Listening::store_answered);
    bench.clock.committed();
    assert_eq!(bench.clock.resumed(), None);
    bench.each(60, Listening::store_failed);
    bench.clock.store_answered();
    assert_eq!(bench.clock.resumed(), Some(Duration::from_secs(bench.now)));
}

#[test]
fn nothing_counts_after_somebody_has_waited_for_too_long() {
    let mut bench = Bench::new();
    bench.each(5, nothing);
    let seconds = Duration::from_secs;
    for now in 6..60 {
        bench.clock.advance(seconds(now), Some(seconds(8)));
    }
    assert_eq!(bench.listened(), 8);
    bench.clock.advance(seconds(61), None);
    assert_eq!(bench.listened(), 10, "between two looks at most 2 s count");
}
