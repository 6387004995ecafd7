use super::*;
use crate::superblock::tests::{sample, seal};
use crate::{SUPERBLOCK_LENGTH, SuperblockBytes};

type Disk = [Box<SuperblockBytes>; 2];

fn saved(sequence: u64) -> Box<SuperblockBytes> {
    Superblock { sequence, ..sample() }.encode().unwrap()
}

fn index(copy: SuperblockCopy) -> usize {
    usize::from(copy == SuperblockCopy::B)
}

#[test]
fn the_higher_sequence_counts_and_the_other_is_written_first() {
    for (a, b, copy, first) in [
        (5, 4, SuperblockCopy::A, SuperblockCopy::B),
        (4, 5, SuperblockCopy::B, SuperblockCopy::A),
        (5, 5, SuperblockCopy::A, SuperblockCopy::A),
    ] {
        let found = newest(&saved(a).0, &saved(b).0).unwrap();
        assert_eq!((found.copy, found.write_first, found.damaged), (copy, first, None));
        assert_eq!(found.superblock.sequence, 5);
    }
}

#[test]
fn one_whole_copy_is_enough_and_is_not_overwritten_first() {
    let mut torn = saved(6);
    torn.0[600..].fill(0);
    for (a, b, copy) in
        [(saved(5), torn.clone(), SuperblockCopy::A), (torn, saved(5), SuperblockCopy::B)]
    {
        let found = newest(&a.0, &b.0).unwrap();
        assert_eq!((found.copy, found.write_first), (copy, copy.other()));
        let (bad, error) = found.damaged.unwrap();
        assert_eq!(bad, copy.other());
        assert!(matches!(error, FormatError::Checksum { .. }));
    }
    assert_eq!(newest(&[], &saved(5).0).unwrap().copy, SuperblockCopy::B);
}

#[test]
fn no_copy_is_an_error_that_names_both() {
    let error = newest(&[], &[0; SUPERBLOCK_LENGTH]).unwrap_err();
    let message = error.to_string();
    assert!(message.contains("Slot A: the superblock could not be read"), "{message}");
    assert!(message.contains("Slot B: there is no evenkeel superblock"), "{message}");
    assert!(!error.is_no_replica());
    assert!(newest(&[0; 16384], &[0; 16384]).unwrap_err().is_no_replica());
}

#[test]
fn a_copy_of_newer_software_forbids_the_other() {
    let mut newer = saved(2);
    newer.0[16] = 2;
    seal(&mut newer.0);
    for other in [&saved(9).0[..], &[]] {
        let error = newest(&newer.0, other);
        assert!(matches!(error, Err(NewestError::Newer { copy: SuperblockCopy::A, .. })));
        let error = newest(other, &newer.0);
        assert!(matches!(error, Err(NewestError::Newer { copy: SuperblockCopy::B, .. })));
    }
}

#[test]
fn copies_that_contradict_each_other_are_refused() {
    let other = Superblock { replica: evenkeel_core::ReplicaId(3), ..sample() }.encode().unwrap();
    assert!(matches!(newest(&saved(9).0, &other.0), Err(NewestError::Contradiction(_))));
    let twin = Superblock { name: "other".to_owned(), ..sample() }.encode().unwrap();
    assert!(matches!(newest(&saved(9).0, &twin.0), Err(NewestError::Contradiction(_))));
}

/// Three saves, each cut off at any sector of either write, one after the other: the old or the
/// new superblock is always found.
#[test]
fn a_save_cut_off_anywhere_leaves_the_old_or_the_new_one() {
    let mut disks: Vec<Disk> = vec![[saved(1), saved(1)]];
    for _ in 0..3 {
        let cut_off: Vec<Disk> = disks.iter().flat_map(after_a_cut_off_save).collect();
        disks = cut_off.into_iter().step_by(5).collect();
    }
}

/// Every state in which a crash during a save can leave this disk; each is checked.
fn after_a_cut_off_save(disk: &Disk) -> Vec<Disk> {
    let found = newest(&disk[0].0, &disk[1].0).expect("the disk can be opened before the save");
    let sequence = found.superblock.sequence;
    let new = saved(sequence + 1);
    let mut disk = disk.clone();
    let mut states = Vec::new();
    for (copy, least) in [(found.write_first, sequence), (found.write_first.other(), sequence + 1)]
    {
        for sectors in (0..=SUPERBLOCK_LENGTH).step_by(512) {
            let mut state = disk.clone();
            state[index(copy)].0[..sectors].copy_from_slice(&new.0[..sectors]);
            let after = newest(&state[0].0, &state[1].0).expect("and after the crash");
            assert!((least..=sequence + 1).contains(&after.superblock.sequence));
            states.push(state);
        }
        disk[index(copy)] = new.clone();
    }
    states
}
