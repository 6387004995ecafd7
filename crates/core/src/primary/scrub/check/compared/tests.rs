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

/// Blocks; whose content is not the one that counts; whose copy is damaged; whose disk can't read
/// it.
type Found = (Range<u64>, ReplicaSet, ReplicaSet, ReplicaSet);

fn found(compared: &Compared) -> Vec<Found> {
    let blocks = |bytes: Range<u64>| bytes.start / u64::from(BLOCK)..bytes.end / u64::from(BLOCK);
    let found = compared.differences(None, false).into_iter();
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
    assert!(two.differences(None, false).iter().all(|d| d.is_undecided && !d.is_lost));
    for (named, wrong) in [(2, 1), (1, 2)] {
        let found = two.differences(Some((0, named)), false);
        assert_eq!((found.len(), found[0].differs(), found[0].is_undecided), (1, wrong, false));
    }
    assert!(two.differences(Some((1, 2)), false)[0].is_undecided, "of another mirror");
    assert!(two.differences(Some((0, 4)), false)[0].is_undecided, "it tells nothing");
}

#[test]
fn a_named_replica_outvotes_no_majority() {
    let three = compared(&[(1, [9, 3, 4, 5]), (2, [2, 3, 4, 5]), (4, [2, 3, D, 5])]);
    let found = three.differences(Some((0, 1)), false);
    assert_eq!((found[0].differs(), found[0].is_undecided), (1, false));
    let four = compared(&[(1, [9; 4]), (2, [9; 4]), (4, [2; 4]), (8, [D; 4])]);
    assert!(!four.differences(None, false)[0].is_undecided);
    let tie = compared(&[(1, [9; 4]), (2, [9; 4]), (4, [2; 4]), (8, [2; 4])]);
    assert!(tie.differences(None, false)[0].is_undecided);
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
    assert!(nobody.differences(None, false).iter().all(|d| d.is_lost));
    nobody.take_nothing(1);
    nobody.take_nothing(2);
    assert_eq!(found(&nobody), [(0..4, 0, 0, 3)]);
}

/// A content that fits its checksum; one without any; one whose checksum was lost.
const fn fits(content: u64) -> u64 {
    content
}

const fn unverified(content: u64) -> u64 {
    BlockDigest(content).unverified().0
}

const fn forgotten(content: u64) -> u64 {
    BlockDigest(content).forgotten().0
}

/// Of the first block: whose content does not count, whether that is undecided, and whether what is
/// right may be written without being asked for.
fn first(digests: &[(ReplicaSet, u64)], source: Option<ReplicaSet>) -> (ReplicaSet, bool, bool) {
    let of_all: Vec<_> = digests.iter().map(|(bit, digest)| (*bit, [*digest; 4])).collect();
    let found = compared(&of_all).differences(source.map(|bit| (0, bit)), true);
    assert!(found.len() <= 1, "all blocks are the same: {found:?}");
    found.first().map_or((0, false, false), |d| (d.differs(), d.is_undecided, d.is_to_be_renewed))
}

#[test]
fn a_copy_that_fits_its_checksum_wins_over_those_that_nothing_vouches_for() {
    for unknown in [unverified, forgotten] {
        let is_lost = unknown(9) == forgotten(9);
        for source in [None, Some(1), Some(2)] {
            let two = [(1, unknown(9)), (2, fits(8))];
            assert_eq!(first(&two, source), (1, false, is_lost), "also over a named one");
            let three = [(1, unknown(9)), (2, fits(8)), (4, unknown(9))];
            assert_eq!(first(&three, source), (5, false, is_lost), "also over a majority");
        }
    }
}

#[test]
fn of_copies_that_nothing_vouches_for_only_a_named_one_counts() {
    for unknown in [unverified, forgotten] {
        let two = [(1, unknown(9)), (2, unknown(8))];
        assert_eq!(first(&two, None), (3, true, false));
        assert_eq!(first(&two, Some(1)), (2, false, false));
        let three = [(1, unknown(9)), (2, unknown(8)), (4, unknown(9))];
        assert_eq!(first(&three, None), (7, true, false), "also against a majority");
        assert_eq!(first(&three, Some(1)), (2, false, false));
        assert_eq!(first(&three, Some(2)), (5, false, false), "also if it is the only one");
        let with_damage = [(1, unknown(9)), (2, unknown(9)), (4, D), (8, unknown(8))];
        assert_eq!(first(&with_damage, None), (11, true, false));
        assert_eq!(first(&with_damage, Some(4)), (11, true, false), "it holds nothing");
    }
}

/// Nothing else is left: no content is overwritten that might be right.
#[test]
fn copies_that_nothing_vouches_for_and_that_agree_repair_one_that_has_nothing() {
    for unknown in [unverified, forgotten] {
        for nothing in [D, U] {
            let three = [(1, unknown(9)), (2, nothing), (4, unknown(9))];
            let of_all: Vec<_> = three.iter().map(|(bit, d)| (*bit, [*d; 4])).collect();
            let found = &compared(&of_all).differences(None, true)[0];
            assert_eq!((found.wrong, found.is_undecided, found.is_lost), (2, false, false));
        }
    }
}

/// Two fit their checksums and differ: one that nothing vouches for can't decide between them, nor
/// stand above both because it was named.
#[test]
fn a_copy_that_nothing_vouches_for_decides_nothing_between_two_that_fit() {
    let three = [(1, fits(8)), (2, fits(9)), (4, forgotten(9))];
    assert_eq!(first(&three, None), (7, true, false));
    assert_eq!(first(&three, Some(4)), (1, false, false), "what it holds fits elsewhere");
    let three = [(1, fits(8)), (2, fits(9)), (4, forgotten(7))];
    assert_eq!(first(&three, Some(4)), (7, true, false));
    assert_eq!(first(&three, Some(1)), (6, false, false));
}

/// Equal copies do not differ; a lost checksum comes back if nothing else can be right.
#[test]
fn a_lost_checksum_is_renewed_by_a_copy_that_fits_or_if_all_are_equal() {
    assert_eq!(first(&[(1, forgotten(9)), (2, fits(9))], None), (0, false, true));
    assert_eq!(first(&[(1, forgotten(9)), (2, forgotten(9))], None), (0, false, true));
    assert_eq!(first(&[(1, forgotten(9)), (2, unverified(9))], None), (0, false, true));
    assert_eq!(first(&[(1, forgotten(9))], None), (0, false, true), "there is no other replica");
    assert_eq!(first(&[(1, unverified(9)), (2, fits(9))], None), (0, false, false));
    assert_eq!(first(&[(1, unverified(9)), (2, unverified(9))], None), (0, false, false));
    let equal = compared(&[(1, [forgotten(9); 4]), (2, [forgotten(9); 4])]);
    assert_eq!(equal.differences(None, false), [], "another replica may have something else");
    let vouched = compared(&[(1, [forgotten(9); 4]), (2, [fits(9); 4])]);
    assert!(vouched.differences(None, false)[0].is_to_be_renewed);
}

#[test]
fn what_a_peer_says_of_a_block_without_content_is_no_content() {
    let strange = [unverified(D), forgotten(D), unverified(U), forgotten(U)];
    for digest in strange {
        assert_eq!(first(&[(1, digest), (2, fits(9))], Some(1)), (0, false, false));
        let found = compared(&[(1, [digest; 4]), (2, [fits(9); 4])]).differences(None, true);
        assert_eq!((found[0].wrong, found[0].unreadable), (1, 1));
    }
}
