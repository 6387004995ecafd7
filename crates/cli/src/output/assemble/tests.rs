use evenkeel_api::types::{DifferingRange, SplitReplica};
use evenkeel_api::{ApiError, ErrorCode};

use super::*;

fn branch(id: &str, place: &str, generation: u64) -> SplitBranch {
    let replica = SplitReplica { id: id.into(), place: place.into(), mirror: 0 };
    SplitBranch {
        replicas: vec![replica],
        generation,
        history: format!("{id}-history"),
        coordinator: "c".into(),
        saved: None,
        diverged: None,
    }
}

fn answer(ranges: Vec<DifferingRange>, complete: bool) -> AssembleAnswer {
    let difference = SplitDifference { branch: 1, blocks: 20, bytes: 81920, ranges, complete };
    let split = SplitBrain {
        branches: vec![branch("3fa9c1d2", "n1:fast", 9), branch("0badcafe", "/mnt/old", 8)],
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
fn the_branches_of_a_split_brain_are_shown_with_what_differs() {
    let range = DifferingRange { mirror: 0, offset: 4096, length: 8192 };
    let expected = "\
volume music: 2 branches have diverged
  branch 1 (the newest): generation 9, history 3fa9c1d2
    replica 3fa9c1d2 at n1:fast, mirror 0
  branch 2: generation 8, history 0badcafe
    replica 0badcafe at /mnt/old, mirror 0
  branch 2 differs from branch 1 in 20 blocks of 4K, 80K
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

#[test]
fn a_plan_tells_what_would_be_kept_and_what_discarded_with_its_loss() {
    let kept = KeptReplica {
        id: "47709a37-1".into(),
        place: "n3:left".into(),
        mirror: 0,
        generation: Some(8),
        saved: None,
    };
    let lost = |place: &str, generation, loses| DiscardedReplica {
        id: "c0ea6f89-1".into(),
        place: place.into(),
        mirror: 0,
        generation,
        saved: None,
        loses,
    };
    let volume = AssemblePlan {
        id: "1".into(),
        name: "music".into(),
        outcome: AssembleOutcome::Assembled,
        message: "volume music would be assembled from generation 8".into(),
        error: None,
        split: None,
        keeps: vec![kept],
        rebuilds: Vec::new(),
        discards: vec![lost("n3:right", Some(8), Some(90_112)), lost("n4", None, None)],
    };
    let mut answer = AssemblePlanAnswer { version: 1, volumes: vec![volume], warnings: Vec::new() };
    let text = plan(&answer);
    let lines: Vec<Vec<&str>> = text.lines().map(|l| l.split_whitespace().collect()).collect();
    assert_eq!(lines[1].join(" "), "would be kept:");
    assert_eq!(lines[3], ["47709a37", "n3:left", "0", "8", "-"]);
    assert_eq!(lines[4].join(" "), "would be discarded:");
    assert_eq!(lines[6], ["c0ea6f89", "n3:right", "0", "8", "-", "88K"]);
    assert_eq!(lines[7], ["c0ea6f89", "n4", "0", "not", "found", "-", "unknown"]);
    let missing = KeptReplica { generation: None, ..answer.volumes[0].keeps[0].clone() };
    answer.volumes[0].keeps = vec![missing];
    let text = plan(&answer);
    assert!(!text.contains("would be kept"), "{text}");
    assert!(
        text.contains("not found: they stay in the volume, and whether they are there"),
        "{text}"
    );
    answer.volumes[0].discards.clear();
    assert!(plan(&answer).ends_with("no replica would be discarded\n"));
    let refused = ApiError::new(ErrorCode::Incomplete, "cannot", "n4 is missing", "bring it");
    (answer.volumes[0].message, answer.volumes[0].error) = (refused.why.clone(), Some(refused));
    assert_eq!(plan(&answer), "", "one that is refused is an error like any other");
    answer.volumes.push(answer.volumes[0].clone());
    assert!(
        plan(&answer)
            .starts_with("volume music: would be refused: n4 is missing\n  do: bring it\n")
    );
}
