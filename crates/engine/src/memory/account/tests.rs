use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::memory::Pool;

const PAGE: usize = 4096;
const NOW: Instant = Instant(0);

/// Accounts in a budget of so many pages.
fn accounts<const N: usize>(pages: usize) -> [Account; N] {
    let budget = Budget::new(Pool::new(pages * PAGE), pages * PAGE);
    std::array::from_fn(|_| Account::new(budget.clone()))
}

fn take(account: &Account, pages: usize, now: Instant) -> Option<Reservation> {
    account.reserve_all([pages * PAGE], now).map(|[room]| room)
}

/// Takes pages, one after the other, until it is refused.
fn fill(account: &Account, now: Instant) -> Vec<Reservation> {
    std::iter::from_fn(|| take(account, 1, now)).collect()
}

#[test]
fn one_that_takes_all_it_gets_leaves_half() {
    let [greedy, modest, third] = accounts(64);
    let held = fill(&greedy, NOW);
    assert_eq!(held.len(), 32);
    assert!(!greedy.waits(), "it waits for its own");
    let rest = fill(&modest, NOW);
    assert_eq!(rest.len(), 21, "a portion of three");
    let own = fill(&third, NOW);
    assert_eq!(own.len(), 11, "all that is left");
    assert!(third.waits() && greedy.is_above_share() && !modest.is_above_share());
    drop((held, own));
    assert_eq!(fill(&third, NOW).len(), 16, "it has had to wait");
    drop(rest);
}

#[test]
fn who_holds_nothing_takes_whatever_fits() {
    let [first, second, third] = accounts(64);
    let _first = take(&first, 32, NOW).expect("it leaves as much");
    let _second = take(&second, 32, NOW).expect("it fits");
    assert!(take(&second, 1, NOW).is_none() && !second.waits());
    assert!(take(&third, 32, NOW).is_none() && third.waits());
    assert!(first.others_wait() && !third.others_wait());
    let alone = accounts::<1>(2);
    assert!(take(&alone[0], 64, NOW).is_some(), "an empty budget admits one request");
}

#[test]
fn who_waits_and_who_has_too_much_is_known() {
    let [first, second, third, fourth] = accounts(64);
    let room = take(&first, 64, NOW).expect("it is empty");
    assert!(!first.is_above_share(), "there is nobody else");
    drop(room);
    let room = take(&first, 32, NOW).expect("it is empty");
    let _second = take(&second, 32, NOW).expect("it fits");
    assert!(!first.is_above_share() && !second.is_above_share());
    assert!(take(&third, 1, NOW).is_none());
    assert!(first.is_above_share() && first.others_wait(), "there are three now");
    assert!(take(&fourth, 32, NOW).is_none());
    third.stop_waiting();
    assert!(first.others_wait(), "another one does");
    fourth.stop_waiting();
    assert!(!first.others_wait() && !first.is_above_share());
    drop(room);
    assert_eq!((first.held(), second.held()), (0, 32 * PAGE));
}

/// One that wants all of it has its turn when nobody waits who would leave something.
#[test]
fn who_is_within_his_portion_comes_first() {
    let [first, large, small] = accounts(64);
    let room = take(&first, 64, NOW).expect("it is empty");
    assert!(take(&large, 64, NOW).is_none() && take(&small, 1, NOW).is_none());
    drop(room);
    let pool = first.budget().pool().clone();
    assert!(pool.take_released());
    assert!(take(&large, 64, NOW).is_none());
    assert!(!pool.take_released());
    small.stop_waiting();
    assert!(pool.take_released(), "it may try again");
    assert!(take(&large, 64, NOW).is_some());
}

/// Two that hold all with one request each, and come back with the same when they are ended.
#[test]
fn those_that_come_back_at_once_leave_a_portion() {
    let [first, second, victim] = accounts(64);
    let held = [take(&first, 32, NOW), take(&second, 32, NOW)].map(Option::unwrap);
    assert!(take(&victim, 1, NOW).is_none());
    drop(held);
    assert!(take(&victim, 1, NOW).is_some());
    victim.stop_waiting();
    let later = NOW + (STRICT - Duration::from_secs(1));
    let _first = take(&first, 32, later).expect("a portion is left");
    assert!(take(&second, 32, later).is_none() && second.waits(), "none would be");
    let _second = fill(&second, later);
    assert_eq!(second.held(), 16 * PAGE);
    assert_eq!(fill(&victim, later).len(), 16, "nobody has its portion");
}

#[test]
fn after_a_quiet_minute_nobody_is_kept_to_a_portion() {
    let [first, second, victim] = accounts(64);
    let held = [take(&first, 32, NOW), take(&second, 32, NOW)];
    assert!(take(&victim, 1, NOW).is_none());
    victim.stop_waiting();
    drop(held);
    let is_strict = fill(&first, NOW).len();
    assert_eq!(is_strict, 16);
    let held = fill(&first, NOW + STRICT);
    assert_eq!(held.len(), 32);
}

#[derive(Debug, Clone)]
enum Step {
    Take { who: usize, pages: usize },
    GiveBack { which: usize },
    StopWaiting { who: usize },
    Pass { seconds: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..6usize, 1..24usize).prop_map(|(who, pages)| Step::Take { who, pages }),
        3 => (0..64usize).prop_map(|which| Step::GiveBack { which }),
        1 => (0..6usize).prop_map(|who| Step::StopWaiting { who }),
        1 => (0..90u64).prop_map(|seconds| Step::Pass { seconds }),
    ]
}

proptest! {
    /// The sums are right, and who waits within his portion waits for one above its share.
    #[test]
    fn somebody_above_its_share_is_to_blame(steps in vec(step(), 1..200)) {
        let all: [Account; 6] = accounts(64);
        let budget = all[0].budget();
        let (mut rooms, mut now) = (Vec::new(), NOW);
        for step in steps {
            match step {
                Step::Take { who, pages } => {
                    let account = &all[who];
                    let room = take(account, pages, now);
                    let is_within =
                        account.held() + buffer_size(pages * PAGE) <= account.portion(now);
                    if room.is_none() && is_within {
                        prop_assert!(account.waits());
                        let mut others = all.iter().enumerate().filter(|(other, _)| *other != who);
                        prop_assert!(others.any(|(_, other)| other.is_above_share()));
                    }
                    rooms.extend(room);
                }
                Step::GiveBack { which } if !rooms.is_empty() => {
                    drop(rooms.swap_remove(which % rooms.len()));
                }
                Step::GiveBack { .. } => {}
                Step::StopWaiting { who } => all[who].stop_waiting(),
                Step::Pass { seconds } => now = now + Duration::from_secs(seconds),
            }
            prop_assert_eq!(all.iter().map(Account::held).sum::<usize>(), budget.used());
            let active = all.iter().filter(|account| account.is_active()).count();
            prop_assert_eq!(active, budget.accounts().active.get());
            let waiting = all.iter().filter(|account| account.waits()).count();
            prop_assert_eq!(waiting, budget.accounts().waiting.get());
            let within = all.iter().filter(|it| it.0.waits.get() == Waits::Within).count();
            prop_assert_eq!(within, budget.accounts().waiting_within.get());
        }
    }
}
