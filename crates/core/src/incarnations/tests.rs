use super::*;

fn incarnations(numbers: &[u64]) -> Incarnations {
    Incarnations::of(numbers.iter().map(|number| Incarnation(*number)))
}

#[test]
fn what_a_view_may_name_stays_however_many_incarnations_follow() {
    let mut known = incarnations(&[5, 4]);
    for incarnation in 6..30 {
        known = known.followed_by(Incarnation(incarnation), &incarnations(&[4, 5]));
        assert!(known.knows(Incarnation(4)) && known.knows(Incarnation(5)));
        assert_eq!(known.newest(), Incarnation(incarnation));
    }
    assert_eq!(known, incarnations(&[29, 4, 5, 28, 27, 26, 25, 24]));
}

#[test]
fn an_incarnation_is_listed_once() {
    assert_eq!(
        incarnations(&[7, 5]).followed_by(Incarnation(7), &incarnations(&[7])),
        incarnations(&[7, 5])
    );
    assert_eq!(
        incarnations(&[]).followed_by(Incarnation(7), &incarnations(&[])),
        incarnations(&[7])
    );
}

#[test]
fn an_incarnation_that_another_disk_lived_is_not_listed() {
    assert_eq!(
        incarnations(&[5]).followed_by(Incarnation(7), &incarnations(&[5, 6])),
        incarnations(&[7, 5])
    );
}

#[test]
fn none_is_known_to_all() {
    assert!(incarnations(&[3]).knows(Incarnation(0)));
    assert!(!incarnations(&[3]).knows(Incarnation(4)));
}

#[test]
fn whoever_does_not_list_all_that_was_told_is_another_disk() {
    let copied_then = incarnations(&[5, 4]);
    let went_on = copied_then.followed_by(Incarnation(6), &incarnations(&[5]));
    let named_and_doubted = incarnations(&[5, 6]);
    assert!(went_on.know_all(&named_and_doubted) && !copied_then.know_all(&named_and_doubted));
    assert!(copied_then.know_all(&incarnations(&[])));
}
