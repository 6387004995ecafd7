use super::*;

const BLOCKS: u64 = 4;
/// Damaged.
const D: u64 = 1;
/// Unreadable.
const U: u64 = 0;

fn compared(digests: &[(ReplicaSet, [u64; BLOCKS as usize])]) -> Compared {
    let mut compared = Compared::new(Sequence(1), 0, 0..BLOCKS * u64::from(BLOCK));
    for (bit, digests) in digests {
        compared.take(*bit, digests.iter().map(|digest| BlockDigest(*digest)).collect());
    }
    compared
}

/// Blocks; whose content is not the one that counts; whose copy is damaged; whose disk can't read it.
type Found = (Range<u64>, ReplicaSet, ReplicaSet, ReplicaSet);

fn found(compared: &Compared) -> Vec<Found> {
    let blocks = |bytes: Range<u64>| bytes.start / u64::from(BLOCK)..bytes.end / u64::from(BLOCK);
    let found = compared.differences(None).into_iter();
    found.map(|d| (blocks(d.bytes.clone()), d.differs(), d.damaged, d.unreadable)).collect()
}

#[test]
fn equal_replicas_do_not_differ() {
    assert_eq!(found(&compared(&[(1, [2, 3, 4, 5]), (2, [2, 3, 4, 5])])), []);
    assert_eq!(found(&compared(&[(1, [2, 3, 4, 5])])), [], "nothing to compare with");
}

#[test]
fn most_replicas_are_right() {
    let three = [(1, [9, 3, 4, 5]), (2, [2, 3, 4, 5]), (4, [2, 3, 4, 8])];
    assert_eq!(found(&compared(&three)), [(0..1, 1, 0, 0), (3..4, 4, 0, 0)]);
}

#[test]
fn of_two_that_differ_none_is_right_unless_one_is_named() {
    let two = compared(&[(2, [6, 6, 4, 5]), (1, [2, 3, 4, 5])]);
    assert_eq!(found(&two), [(0..2, 3, 0, 0)]);
    assert!(two.differences(None).iter().all(|d| d.is_undecided && !d.is_lost));
    for (named, wrong) in [(2, 1), (1, 2)] {
        let found = two.differences(Some((0, named)));
        assert_eq!((found.len(), found[0].differs(), found[0].is_undecided), (1, wrong, false));
    }
    assert!(two.differences(Some((1, 2)))[0].is_undecided, "of another mirror");
    assert!(two.differences(Some((0, 4)))[0].is_undecided, "it tells nothing");
}

#[test]
fn a_named_replica_outvotes_no_majority() {
    let three = compared(&[(1, [9, 3, 4, 5]), (2, [2, 3, 4, 5]), (4, [2, 3, D, 5])]);
    let found = three.differences(Some((0, 1)));
    assert_eq!((found[0].differs(), found[0].is_undecided), (1, false));
    let four = compared(&[(1, [9; 4]), (2, [9; 4]), (4, [2; 4]), (8, [D; 4])]);
    assert!(!four.differences(None)[0].is_undecided);
    let tie = compared(&[(1, [9; 4]), (2, [9; 4]), (4, [2; 4]), (8, [2; 4])]);
    assert!(tie.differences(None)[0].is_undecided);
}

#[test]
fn what_contradicts_its_checksum_is_wrong_and_outvotes_nobody() {
    let three = [(1, [D, D, 4, 5]), (2, [D, 3, U, 5]), (4, [2, 3, 4, 7])];
    let wrong = [(0..1, 0, 3, 0), (1..2, 0, 1, 0), (2..3, 0, 0, 2), (3..4, 4, 0, 0)];
    assert_eq!(found(&compared(&three)), wrong);
    let two_differ = [(1, [D, 3, 4, 5]), (2, [7, 3, 4, 5]), (4, [8, 3, 4, 5])];
    assert_eq!(found(&compared(&two_differ)), [(0..1, 6, 1, 0)]);
}

#[test]
fn what_nobody_has_is_lost() {
    let mut nobody = compared(&[(1, [D, U, 4, 5]), (2, [D, D, 4, 5])]);
    assert_eq!(found(&nobody), [(0..1, 0, 3, 0), (1..2, 0, 2, 1)]);
    assert!(nobody.differences(None).iter().all(|d| d.is_lost));
    nobody.take_nothing(1);
    nobody.take_nothing(2);
    assert_eq!(found(&nobody), [(0..4, 0, 0, 3)]);
}
