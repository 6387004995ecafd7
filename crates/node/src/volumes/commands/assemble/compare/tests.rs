use super::*;

#[test]
fn blocks_that_lie_together_are_one_range() {
    let mut difference = Difference::default();
    for (mirror, block) in [(0, 1), (0, 2), (0, 5), (1, 6)] {
        difference.note(mirror, block * BLOCK as u64);
    }
    assert_eq!((difference.blocks, difference.bytes()), (4, 4 * 4096));
    let ranges: Vec<_> = difference.ranges.iter().map(|r| (r.mirror, r.offset, r.length)).collect();
    assert_eq!(ranges, [(0, 4096, 8192), (0, 20480, 4096), (1, 24576, 4096)]);
}

#[test]
fn more_ranges_than_can_be_listed_are_still_counted() {
    let mut difference = Difference::default();
    for block in 0..MAX_RANGES as u64 + 5 {
        difference.note(0, block * 2 * BLOCK as u64);
    }
    let reported = difference.of_branch(1);
    assert_eq!((reported.ranges.len(), reported.complete), (MAX_RANGES, false));
    assert_eq!(reported.blocks, MAX_RANGES as u64 + 5);
}

#[test]
fn only_blocks_that_differ_are_told() {
    let ours = vec![7; 3 * BLOCK + 100];
    let mut theirs = ours.clone();
    theirs[2 * BLOCK - 1] = 8;
    theirs[3 * BLOCK + 99] = 8;
    assert_eq!(differing(&ours, &theirs).collect::<Vec<_>>(), [1, 3]);
}

#[test]
fn holes_read_as_zeroes_and_data_as_they_are() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    file.set_len(4 << 20).unwrap();
    file.write_all_at(&[9; BLOCK], 2 << 20).unwrap();
    assert_eq!(read_piece(&file, 0, PIECE).unwrap(), vec![0; PIECE as usize]);
    let piece = read_piece(&file, 2 << 20, PIECE).unwrap();
    assert!(piece[..BLOCK].iter().all(|b| *b == 9) && piece[BLOCK..].iter().all(|b| *b == 0));
    assert!(read_piece(&file, (4 << 20) - 4096, PIECE).is_err(), "beyond its end");
}
