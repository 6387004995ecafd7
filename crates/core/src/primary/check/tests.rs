use super::*;

const BLOCKS: u64 = 4;

fn compared(digests: &[(ReplicaSet, [u64; BLOCKS as usize])], unreadable: ReplicaSet) -> Compared {
    Compared {
        sequence: Sequence(1),
        mirror: 0,
        bytes: 0..BLOCKS * u64::from(BLOCK),
        digests: digests.iter().map(|(bit, digests)| (*bit, digests.to_vec())).collect(),
        unreadable,
    }
}

fn found(compared: &Compared) -> Vec<(Range<u64>, ReplicaSet, bool)> {
    let blocks = |bytes: Range<u64>| bytes.start / u64::from(BLOCK)..bytes.end / u64::from(BLOCK);
    let found = compared.differences();
    found.into_iter().map(|d| (blocks(d.bytes), d.wrong, d.has_contents)).collect()
}

#[test]
fn equal_replicas_do_not_differ() {
    assert_eq!(found(&compared(&[(1, [1, 2, 3, 4]), (2, [1, 2, 3, 4])], 0)), []);
    assert_eq!(found(&compared(&[(1, [1, 2, 3, 4])], 0)), [], "nothing to compare with");
}

#[test]
fn most_replicas_are_right() {
    let three = [(1, [9, 2, 3, 4]), (2, [1, 2, 3, 4]), (4, [1, 2, 3, 8])];
    assert_eq!(found(&compared(&three, 0)), [(0..1, 1, true), (3..4, 4, true)]);
}

#[test]
fn of_two_that_differ_the_first_is_right() {
    let two = [(2, [5, 5, 3, 4]), (1, [1, 2, 3, 4])];
    assert_eq!(found(&compared(&two, 0)), [(0..2, 2, true)]);
}

#[test]
fn what_cannot_be_read_is_wrong_but_does_not_differ() {
    let two = [(1, [1, 2, 3, 4]), (2, [1, 2, 3, 4])];
    assert_eq!(found(&compared(&two, 4)), [(0..4, 4, false)]);
    assert_eq!(found(&compared(&[], 3)), [(0..4, 3, false)], "nobody can read it");
}
