use super::*;

fn lives(numbers: &[u64]) -> Lives {
    Lives::of(numbers.iter().map(|number| Incarnation(*number)))
}

#[test]
fn what_a_view_may_name_stays_however_many_lives_follow() {
    let mut known = lives(&[5, 4]);
    for life in 6..30 {
        known = known.followed_by(Incarnation(life), &lives(&[4, 5]));
        assert!(known.knows(Incarnation(4)) && known.knows(Incarnation(5)));
        assert_eq!(known.newest(), Incarnation(life));
    }
    assert_eq!(known, lives(&[29, 4, 5, 28, 27, 26, 25, 24]));
}

#[test]
fn a_life_is_listed_once() {
    assert_eq!(lives(&[7, 5]).followed_by(Incarnation(7), &lives(&[7])), lives(&[7, 5]));
    assert_eq!(lives(&[]).followed_by(Incarnation(7), &lives(&[])), lives(&[7]));
}

#[test]
fn a_life_that_another_disk_lived_is_not_listed() {
    assert_eq!(lives(&[5]).followed_by(Incarnation(7), &lives(&[5, 6])), lives(&[7, 5]));
}

#[test]
fn none_is_known_to_all() {
    assert!(lives(&[3]).knows(Incarnation(0)));
    assert!(!lives(&[3]).knows(Incarnation(4)));
}

#[test]
fn whoever_does_not_list_all_that_was_told_is_another_disk() {
    let copied_then = lives(&[5, 4]);
    let went_on = copied_then.followed_by(Incarnation(6), &lives(&[5]));
    let named_and_doubted = lives(&[5, 6]);
    assert!(went_on.know_all(&named_and_doubted) && !copied_then.know_all(&named_and_doubted));
    assert!(copied_then.know_all(&lives(&[])));
}
