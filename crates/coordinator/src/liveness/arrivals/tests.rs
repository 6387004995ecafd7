use super::*;

fn at(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn oldest(arrivals: &Arrivals, now: u64) -> Option<u64> {
    let oldest = arrivals.oldest(at(now), |node| node != "stranger");
    oldest.map(|at| at.as_millis() as u64)
}

#[test]
fn one_waits_from_when_it_comes_until_it_is_answered() {
    let arrivals = Arrivals::default();
    assert_eq!(oldest(&arrivals, 0), None);
    let first = arrivals.came("alpha", at(1000));
    let second = arrivals.came("beta", at(3000));
    let _of_nobody = arrivals.came("stranger", at(0));
    assert_eq!(oldest(&arrivals, 60_000), Some(1000));
    first.answered();
    assert_eq!(oldest(&arrivals, 60_000), Some(3000));
    second.answered();
    assert_eq!(oldest(&arrivals, 60_000), None);
}

/// It has a second to send the next one, and each of them may be lost.
#[test]
fn who_was_lost_waits_still_until_heard_or_until_nothing_more_comes() {
    let arrivals = Arrivals::default();
    drop(arrivals.came("alpha", at(1000)));
    assert_eq!(oldest(&arrivals, 4000), Some(1000));
    assert_eq!(oldest(&arrivals, 6000), Some(1000));
    let next = arrivals.came("alpha", at(6400));
    // However long that one waits.
    assert_eq!(oldest(&arrivals, 30_000), Some(1000));
    drop(next);
    assert_eq!(oldest(&arrivals, 32_000), Some(1000));
    assert_eq!(oldest(&arrivals, 34_400), Some(1000));
    assert_eq!(oldest(&arrivals, 34_500), None, "it was there last 2.5 s ago");
    drop(arrivals.came("alpha", at(40_000)));
    arrivals.heard("alpha");
    assert_eq!(oldest(&arrivals, 40_000), None);
}

/// Else somebody who sends one after the other without a pause kept all alive.
#[test]
fn who_always_has_one_on_its_way_waits_no_longer_than_each_of_them() {
    let arrivals = Arrivals::default();
    let mut before = arrivals.came("alpha", at(0));
    for now in 1..100 {
        let next = arrivals.came("alpha", at(now));
        std::mem::replace(&mut before, next).answered();
        assert_eq!(oldest(&arrivals, now), Some(now));
    }
}
