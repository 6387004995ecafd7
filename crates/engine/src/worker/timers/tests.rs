use super::*;
use crate::ring::Slab;

fn at(second: u64) -> Instant {
    Instant(second * 1_000_000_000)
}

/// Takes the wake-ups that are due, and says how many of them are wanted.
fn fired(timers: &mut Timers, alarm: &mut Alarm, wanted: Option<Instant>, now: Instant) -> usize {
    let mut fired = 0;
    while let Some((noted, timer)) = timers.take_due(now) {
        fired += usize::from(timers.is_due(timer, alarm, wanted, noted, now));
    }
    fired
}

#[test]
fn a_timer_fires_when_it_is_due() {
    let (mut timers, mut alarm) = (Timers::default(), Alarm::default());
    let timer = Timer::Replica(Slab::new().insert(()));
    timers.arm(timer, &mut alarm, Some(at(5)));
    assert_eq!(timers.next(), Some(at(5)));
    assert_eq!(fired(&mut timers, &mut alarm, Some(at(5)), at(4)), 0);
    assert_eq!(fired(&mut timers, &mut alarm, Some(at(5)), at(5)), 1);
    assert_eq!(timers.next(), None);
}

#[test]
fn a_wakeup_that_moves_to_later_is_noted_again_when_it_comes() {
    let (mut timers, mut alarm) = (Timers::default(), Alarm::default());
    let timer = Timer::Primary(Slab::new().insert(()));
    timers.arm(timer, &mut alarm, Some(at(5)));
    timers.arm(timer, &mut alarm, Some(at(8)));
    assert_eq!(timers.next(), Some(at(5)), "the later one has no entry of its own");
    assert_eq!(fired(&mut timers, &mut alarm, Some(at(8)), at(5)), 0);
    assert_eq!(timers.next(), Some(at(8)));
    assert_eq!(fired(&mut timers, &mut alarm, Some(at(8)), at(8)), 1);
}

#[test]
fn a_wakeup_that_moves_to_earlier_comes_then_and_not_twice() {
    let (mut timers, mut alarm) = (Timers::default(), Alarm::default());
    let timer = Timer::Frontend(Slab::new().insert(()));
    timers.arm(timer, &mut alarm, Some(at(5)));
    timers.arm(timer, &mut alarm, Some(at(3)));
    assert_eq!(fired(&mut timers, &mut alarm, Some(at(3)), at(3)), 1);
    assert_eq!(fired(&mut timers, &mut alarm, None, at(5)), 0, "it wants no wake-up any more");
    assert_eq!(timers.next(), None);
}
