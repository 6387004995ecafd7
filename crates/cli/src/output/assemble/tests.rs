use evenkeel_node::api::types::{DifferingRange, SplitReplica};

use super::*;

fn side(id: &str, place: &str, generation: u64) -> SplitSide {
    let replica = SplitReplica { id: id.into(), place: place.into(), mirror: 0 };
    SplitSide {
        replicas: vec![replica],
        generation,
        lineage: format!("{id}-lineage"),
        coordinator: "c".into(),
        saved: None,
        parted: None,
    }
}

fn answer(ranges: Vec<DifferingRange>, complete: bool) -> AssembleAnswer {
    let difference = SplitDifference { side: 1, blocks: 20, bytes: 81920, ranges, complete };
    let split = SplitBrain {
        sides: vec![side("3fa9c1d2", "n1:fast", 9), side("0badcafe", "/mnt/old", 8)],
        differences: vec![difference],
        not_compared: None,
    };
    let volume = Assembled {
        id: "5e".into(),
        name: "music".into(),
        outcome: AssembleOutcome::Refused,
        message: "apart".into(),
        error: None,
        split: Some(split),
    };
    AssembleAnswer { version: 1, volumes: vec![volume], warnings: Vec::new() }
}

#[test]
fn the_sides_of_a_split_brain_are_shown_with_what_differs() {
    let range = DifferingRange { mirror: 0, offset: 4096, length: 8192 };
    let expected = "\
volume music: 2 sides were written apart
  side 1 (the newest): generation 9, lineage 3fa9c1d2
    replica 3fa9c1d2 at n1:fast, mirror 0
  side 2: generation 8, lineage 0badcafe
    replica 0badcafe at /mnt/old, mirror 0
  side 2 differs from side 1 in 20 blocks of 4K, 80K
    mirror 0: bytes 4096 to 12288, 8K
";
    assert_eq!(page(&answer(vec![range], true)), expected);
}

#[test]
fn many_ranges_are_cut_short() {
    let range = |n: u64| DifferingRange { mirror: 0, offset: n * 8192, length: 4096 };
    let page = page(&answer((0..20).map(range).collect(), false));
    assert!(page.ends_with("    and at least 4 more ranges: see --json\n"), "{page}");
}
