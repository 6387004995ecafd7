use super::*;

/// Three writes of block 7: flushed, acknowledged, neither.
fn history() -> History {
    let write = |stamp, begun, acknowledged| Written { stamp, begun, acknowledged, flushed: None };
    let writes = vec![write(1, 10, Some(11)), write(2, 20, Some(21)), write(3, 30, None)];
    let mut history = History { blocks: HashMap::from([(7, writes)]), flushes: vec![(12, 15)] };
    history.note_flushes();
    history
}

fn block(stamps: &[u64]) -> Vec<u8> {
    let sector = |stamp: &u64| stamp.to_le_bytes().repeat(SECTOR / 8);
    stamps.iter().flat_map(sector).collect()
}

#[test]
fn what_a_flush_covers_is_there_and_later_writes_may_be() {
    for stamp in [1, 2, 3] {
        assert!(history().judge(40, 7, &block(&[stamp; 8])).is_ok());
    }
    assert!(history().judge(40, 7, &block(&[1, 2, 3, 1, 2, 3, 1, 2])).is_ok(), "torn by sectors");
    assert!(history().judge(40, 7, &block(&[0; 8])).is_err(), "lost");
    assert!(history().judge(25, 7, &block(&[3; 8])).is_err(), "not begun yet");
    assert!(history().judge(40, 7, &block(&[9; 8])).is_err(), "nobody wrote it");
    let mut torn = block(&[2; 8]);
    torn[8] ^= 1;
    assert!(history().judge(40, 7, &torn).is_err(), "torn within a sector");
}

#[test]
fn before_the_flush_was_acknowledged_nothing_is_promised() {
    assert!(history().judge(14, 7, &block(&[0; 8])).is_ok());
    assert!(history().judge(14, 7, &block(&[1; 8])).is_ok());
    assert!(history().judge(15, 7, &block(&[0; 8])).is_err());
    assert!(history().judge(40, 8, &block(&[0; 8])).is_ok(), "never written");
}

#[test]
fn of_several_flushes_the_first_answer_counts() {
    let mut history = history();
    history.flushes = vec![(13, 40), (14, 18), (2, 12)];
    history.note_flushes();
    assert_eq!(
        history.blocks[&7].iter().map(|w| w.flushed).collect::<Vec<_>>(),
        [Some(18), None, None]
    );
}
