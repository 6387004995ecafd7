use super::*;

fn entry(begun: Moment, action: Action) -> Entry {
    Entry { disk: 0, file: "a".into(), begun, ended: begun + 1, action }
}

fn write(begun: Moment, offset: u64, value: u8, durable: bool) -> Entry {
    entry(begun, Action::Write { offset, data: vec![value; SECTOR].into(), durable })
}

/// The first byte of each of three sectors after a cut.
fn left(cut: &Cut) -> [u8; 3] {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("a"), vec![9; 3 * SECTOR]).unwrap();
    let tape = [
        write(0, 0, 1, false),
        entry(10, Action::Flush),
        write(20, 512, 2, false),
        write(30, 1024, 3, true),
        entry(40, Action::Zero { offset: 0, length: 512 }),
    ];
    cut.leave(0, directory.path(), &tape, &mut Random::new(1)).unwrap();
    let data = fs::read(directory.path().join("a")).unwrap();
    [data[0], data[SECTOR], data[2 * SECTOR]]
}

#[test]
fn what_is_durable_stays_and_the_rest_as_the_cut_says() {
    let cut = |at, loses, kept| Cut { at, loses: vec![loses], kept, torn: 0 };
    assert_eq!(left(&cut(50, true, 0)), [1, 9, 3]);
    assert_eq!(left(&cut(50, true, 100)), [0, 2, 3]);
    assert_eq!(left(&cut(50, false, 0)), [0, 2, 3], "its node died only");
    assert_eq!(left(&cut(10, true, 0)), [9, 9, 9], "the flush was not answered yet");
    assert_eq!(left(&cut(30, true, 0)), [1, 9, 9], "nor was the durable write");
    assert_eq!(left(&cut(30, true, 100)), [1, 2, 3], "but it may be there");
}

#[test]
fn a_torn_write_is_there_in_whole_sectors() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("a"), vec![0; 64 * SECTOR]).unwrap();
    let data = vec![7; 64 * SECTOR].into();
    let tape = [entry(0, Action::Write { offset: 0, data, durable: false })];
    let cut = Cut { at: 5, loses: vec![true], kept: 100, torn: 100 };
    cut.leave(0, directory.path(), &tape, &mut Random::new(3)).unwrap();
    let left = fs::read(directory.path().join("a")).unwrap();
    let is_whole = |sector: &[u8]| sector.iter().all(|byte| *byte == sector[0]);
    assert!(left.chunks(SECTOR).all(is_whole));
    assert!(left.contains(&0) && left.contains(&7));
}
