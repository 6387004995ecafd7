use super::*;

fn at(millis: u64) -> Instant {
    Instant(millis * 1_000_000)
}

fn runs(aside: &SetAside, out_of_sync: &BlockSet) -> Vec<(u64, u64)> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(run) = aside.first_run(out_of_sync, from..100) {
        let piece = aside.piece(run);
        from = piece.end;
        found.push((piece.start, piece.end));
    }
    found
}

#[test]
fn what_failed_is_read_block_by_block_and_what_fails_alone_is_set_aside() {
    let mut out_of_sync = BlockSet::default();
    out_of_sync.insert(10..20);
    let mut aside = SetAside::default();
    assert_eq!(runs(&aside, &out_of_sync), [(10, 20)]);
    assert_eq!(aside.first(), None);
    aside.failed(at(0), 12..15);
    assert_eq!(runs(&aside, &out_of_sync), [(10, 12), (12, 13), (13, 14), (14, 15), (15, 20)]);
    assert_eq!(aside.first(), Some(12));
    aside.failed(at(0), 13..14);
    assert_eq!(runs(&aside, &out_of_sync), [(10, 12), (12, 13), (14, 15), (15, 20)]);
    assert_eq!(aside.first(), Some(13));
    for copied in [10..12, 12..13, 14..15, 15..20] {
        aside.copied(copied.clone());
        out_of_sync.remove(copied);
    }
    assert_eq!(runs(&aside, &out_of_sync), []);
    assert_eq!(aside.first(), Some(13));
    aside.advance(at(100));
    assert_eq!(runs(&aside, &out_of_sync), [(13, 14)]);
    assert_eq!(aside.first(), Some(13));
    aside.copied(13..14);
    assert_eq!(aside.first(), None);
}

#[test]
fn each_pause_is_twice_as_long_up_to_a_limit() {
    let (mut aside, mut now, mut pauses) = (SetAside::default(), at(0), Vec::new());
    for _ in 0..12 {
        aside.failed(now, 5..6);
        aside.failed(now, 7..8);
        let until = aside.until.unwrap();
        pauses.push(until.since(now));
        aside.advance(now);
        assert!(!aside.blocks.is_empty(), "before its time");
        now = until;
        aside.advance(now);
        assert!(aside.blocks.is_empty());
    }
    assert_eq!(pauses[..3], [100, 200, 400].map(Duration::from_millis));
    assert_eq!(pauses[11], MAX_PAUSE);
    aside.copied(5..8);
    aside.failed(now, 9..10);
    assert_eq!(aside.until.unwrap().since(now), FIRST_PAUSE, "it went on");
}
