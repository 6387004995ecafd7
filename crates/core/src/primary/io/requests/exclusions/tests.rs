use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn at(seconds: u64) -> Instant {
    Instant(0) + SECOND * seconds as u32
}

#[test]
fn each_ends_when_its_own_cluster_lock_is_granted() {
    let mut exclusions = Exclusions::default();
    exclusions.join(RequestNumber(1));
    exclusions.clear(RequestNumber(2), CommandId(7), at(0));
    assert_eq!(exclusions.granted(RequestNumber(3)), None);
    assert_eq!(exclusions.granted(RequestNumber(2)), Some(Exclusion::Clearing(CommandId(7))));
    assert_eq!(exclusions.granted(RequestNumber(2)), None);
    assert!(exclusions.are_joining());
    assert_eq!(exclusions.granted(RequestNumber(1)), Some(Exclusion::Joining));
    assert!(!exclusions.are_joining());
}

#[test]
fn changes_are_given_up_in_their_order_and_not_early() {
    let mut exclusions = Exclusions::default();
    exclusions.clear(RequestNumber(1), CommandId(7), at(0));
    exclusions.clear(RequestNumber(2), CommandId(8), at(5));
    assert_eq!(exclusions.give_up(SECOND * 4, at(3)), None);
    assert_eq!(exclusions.give_up(SECOND * 4, at(4)), Some((RequestNumber(1), CommandId(7))));
    assert_eq!(exclusions.give_up(SECOND * 4, at(8)), None);
    assert_eq!(exclusions.commands().collect::<Vec<_>>(), [CommandId(8)]);
}
