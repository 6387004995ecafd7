use super::*;

const REPLICA: usize = 1;
const SAME: Primaries<'_> = Primaries { present: &[0], are_others: false };

/// A primary sends each of three replicas a write to region 3.
fn sends(minimal: &mut Minimal, primary: usize, sequence: u64) {
    (0..3).for_each(|replica| minimal.sends((primary, Sequence(sequence)), (0, replica), 3..4));
}

/// A write to region 3, and replica 1 of three that leaves.
fn story(reported: &[(usize, u64)]) -> Minimal {
    let mut minimal = Minimal::default();
    sends(&mut minimal, 0, 5);
    reported
        .iter()
        .for_each(|(replica, through)| minimal.reported((0, *replica), 0, Sequence(*through)));
    minimal.committed(&[(0, true), (0, false), (0, true)], SAME);
    minimal
}

#[test]
fn what_all_know_to_be_stable_need_not_be_copied() {
    assert!(story(&[(0, 5), (1, 5), (2, 6)]).copies(REPLICA, (0, 3)).is_err());
    assert!(
        story(&[(0, 5), (1, 5), (2, 4)]).copies(REPLICA, (0, 3)).is_ok(),
        "one does not know it"
    );
    assert!(story(&[(0, 5), (2, 5)]).copies(REPLICA, (0, 3)).is_ok(), "open in its own log");
    assert!(story(&[(0, 5)]).copies(REPLICA, (0, 3)).is_ok());
    assert!(story(&[]).copies(REPLICA, (0, 4)).is_err(), "never written");
}

#[test]
fn what_changes_afterwards_is_copied() {
    let mut minimal = story(&[(0, 5), (1, 5), (2, 5)]);
    sends(&mut minimal, 0, 6);
    assert!(minimal.copies(REPLICA, (0, 3)).is_ok());
    minimal.committed(&[(0, true), (0, true), (0, true)], SAME);
    (0..3).for_each(|replica| minimal.reported((0, replica), 0, Sequence(6)));
    minimal.committed(&[(0, true), (0, false), (0, true)], SAME);
    assert!(minimal.copies(REPLICA, (0, 3)).is_err(), "it has been in-sync since");
}

#[test]
fn a_resend_of_an_older_write_does_not_hide_a_newer_one() {
    let mut minimal = story(&[]);
    sends(&mut minimal, 0, 4);
    (0..3).for_each(|replica| minimal.reported((0, replica), 0, Sequence(4)));
    minimal.committed(&[(0, true), (0, true), (0, true)], SAME);
    minimal.committed(&[(0, true), (0, false), (0, true)], SAME);
    assert!(minimal.copies(REPLICA, (0, 3)).is_ok(), "write 5 is not stable");
}

#[test]
fn after_a_takeover_nothing_is_clean_until_all_are_in_sync() {
    let mut minimal = story(&[(0, 5), (1, 5), (2, 5)]);
    minimal.committed(
        &[(0, true), (0, true), (0, false)],
        Primaries { present: &[1], are_others: true },
    );
    sends(&mut minimal, 1, 1);
    (0..3).for_each(|replica| minimal.reported((0, replica), 1, Sequence(1)));
    minimal.committed(
        &[(0, true), (0, false), (0, false)],
        Primaries { present: &[1], are_others: false },
    );
    assert!(minimal.copies(REPLICA, (0, 3)).is_ok());
    minimal.committed(
        &[(0, true), (0, true), (0, true)],
        Primaries { present: &[1], are_others: false },
    );
    minimal.committed(
        &[(0, true), (0, false), (0, true)],
        Primaries { present: &[1], are_others: false },
    );
    assert!(minimal.copies(REPLICA, (0, 3)).is_err());
}

#[test]
fn what_was_found_open_is_copied() {
    let mut minimal = story(&[(0, 5), (1, 5), (2, 5)]);
    minimal.found_open((0, 0), Some(3));
    assert!(minimal.copies(REPLICA, (0, 3)).is_ok() && minimal.copies(REPLICA, (0, 9)).is_err());
    minimal.found_open((0, 0), None);
    assert!(minimal.copies(REPLICA, (0, 9)).is_ok() && minimal.copies(REPLICA, (1, 9)).is_err());
}

#[test]
fn what_was_found_open_stays_so_until_that_is_told_or_the_finder_begins_anew() {
    let all = [(0, true), (0, true), (0, true)];
    let story = |is_reported: bool, found: Option<u64>| {
        let mut minimal = Minimal::default();
        minimal.found_open((0, 2), found);
        sends(&mut minimal, 0, 5);
        minimal.committed(&all, SAME);
        (0..3).for_each(|replica| minimal.reported((0, replica), 0, Sequence(5)));
        if is_reported {
            minimal.reported_of_earlier_incarnations((0, 2));
        }
        minimal.committed(&[(0, true), (0, false), (0, true)], SAME);
        minimal.copies(REPLICA, (0, 3))
    };
    for found in [Some(3), None] {
        assert!(story(false, found).is_ok());
        assert!(story(true, found).is_err());
    }
}

#[test]
fn of_several_primaries_each_has_to_tell() {
    let all = [(0, true), (0, true), (0, true)];
    let left = [(0, true), (0, false), (0, true)];
    let story = |second: bool, present: &[usize]| {
        let mut minimal = Minimal::default();
        sends(&mut minimal, 0, 5);
        sends(&mut minimal, 1, 7);
        (0..3).for_each(|replica| minimal.reported((0, replica), 0, Sequence(5)));
        if second {
            (0..3).for_each(|replica| minimal.reported((0, replica), 1, Sequence(7)));
        }
        minimal.committed(&all, Primaries { present: &[0, 1], are_others: false });
        minimal.committed(&left, Primaries { present, are_others: false });
        minimal.copies(REPLICA, (0, 3))
    };
    assert!(story(true, &[0, 1]).is_err() && story(true, &[0]).is_err());
    assert!(story(false, &[0, 1]).is_ok() && story(false, &[0]).is_ok());
}

#[test]
fn what_is_open_at_one_that_rebuilds_counts_when_it_is_in_sync() {
    let story = |is_reported: bool, is_out: bool, becomes_in_sync: bool| {
        let mut minimal = Minimal::default();
        minimal.committed(&[(0, true), (0, true), (0, false)], SAME);
        sends(&mut minimal, 0, 5);
        let reported = if is_reported { 0..3 } else { 0..2 };
        reported.for_each(|replica| minimal.reported((0, replica), 0, Sequence(5)));
        if is_out {
            minimal.is_out(2);
        }
        minimal.committed(&[(0, true), (0, false), (0, false)], SAME);
        minimal.committed(&[(0, true), (0, false), (0, becomes_in_sync)], SAME);
        minimal.copies(REPLICA, (0, 3))
    };
    assert!(story(false, false, true).is_ok());
    assert!(story(false, false, false).is_err(), "nobody asks it");
    assert!(story(true, false, true).is_err(), "it was closed there");
    assert!(story(false, true, true).is_err(), "it has noted it for itself only");
}
