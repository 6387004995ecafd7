use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn primary(node: u128) -> PrimaryId {
    PrimaryId { node: NodeId(node), incarnation: Incarnation(1) }
}

fn at(seconds: u64) -> Instant {
    Instant(0) + Duration::from_secs(seconds)
}

#[test]
fn a_silence_grows_while_all_members_tell_of_it() {
    let mut silences = Silences::default();
    silences.seen_nothing_of(&[primary(1)], at(10));
    assert_eq!(silences.of(primary(1)), Duration::ZERO);
    silences.seen_nothing_of(&[primary(1), primary(2)], at(13));
    assert_eq!((silences.of(primary(1)), silences.of(primary(2))), (SECOND * 3, Duration::ZERO));
    silences.seen_nothing_of(&[primary(2)], at(14));
    assert_eq!((silences.of(primary(1)), silences.of(primary(2))), (Duration::ZERO, SECOND));
}

#[test]
fn what_passes_while_not_all_tell_does_not_count_and_takes_nothing_back() {
    let mut silences = Silences::default();
    silences.seen_nothing_of(&[primary(1)], at(0));
    silences.seen_nothing_of(&[primary(1)], at(2));
    silences.listen_no_more();
    silences.seen_nothing_of(&[primary(1)], at(9));
    assert_eq!(silences.of(primary(1)), SECOND * 2);
    silences.seen_nothing_of(&[primary(1)], at(10));
    assert_eq!(silences.of(primary(1)), SECOND * 3);
}

#[test]
fn a_pause_of_this_primary_begins_it_anew() {
    let mut silences = Silences::default();
    silences.seen_nothing_of(&[primary(1)], at(0));
    silences.seen_nothing_of(&[primary(1)], at(2));
    silences.forget();
    silences.seen_nothing_of(&[primary(1)], at(9));
    assert_eq!(silences.of(primary(1)), Duration::ZERO);
}

#[test]
#[should_panic(expected = "V5: ")]
fn no_primary_is_silent_to_itself() {
    let mut silences = Silences::default();
    silences.seen_nothing_of(&[primary(1)], at(0));
    silences.check_invariants(primary(2), at(0));
    silences.check_invariants(primary(1), at(0));
}

#[test]
#[should_panic(expected = "V5: ")]
fn a_silence_is_counted_from_the_past() {
    let mut silences = Silences::default();
    silences.seen_nothing_of(&[], at(2));
    silences.check_invariants(primary(1), at(2));
    silences.check_invariants(primary(1), at(1));
}
