use evenkeel_api::types::VolumeHealth;

use super::*;
use crate::output::volume::tests::volume;

/// A line without its time.
fn reported(lines: &str) -> Vec<&str> {
    lines.lines().map(|line| line.split_once(' ').unwrap().1).collect()
}

#[test]
fn only_changes_are_reported() {
    let mut changes = Changes::default();
    let mut music = volume();
    let first = "music [UUR] rebuilding, serving: the replica on n3 is rebuilding";
    assert_eq!(reported(&changes.of(std::slice::from_ref(&music), true)), [first]);
    music.mirrors[0].replicas[2].rebuild.as_mut().unwrap().done += 1;
    assert_eq!(changes.of(std::slice::from_ref(&music), true), "", "progress is no change");
    music.health = VolumeHealth::InSync;
    music.mirrors[0].summary = "[UUU]".into();
    music.reason = None;
    assert_eq!(reported(&changes.of(&[music], true)), ["music [UUU] in-sync, serving"]);
    assert_eq!(reported(&changes.of(&[], true)), ["music is gone"]);
}

#[test]
fn a_volume_is_not_gone_because_the_coordinator_is() {
    let mut changes = Changes::default();
    let music = std::slice::from_ref(&volume()).to_vec();
    changes.of(&music, true);
    let unknown = "music unknown: the coordinator does not answer, and nothing of this volume is on this node";
    assert_eq!(reported(&changes.of(&[], false)), [unknown]);
    assert_eq!(changes.of(&[], false), "", "it is said once");
    assert_eq!(reported(&changes.of(&music, true)).len(), 1, "what it is now is told again");
    assert_eq!(reported(&changes.of(&[], true)), ["music is gone"]);
}

#[test]
fn a_node_that_is_away_is_told_once() {
    let mut changes = Changes::default();
    changes.of(&[volume()], true);
    assert_eq!(reported(&changes.failure("no answer\n")), ["no answer"]);
    assert_eq!(changes.failure("no answer\n"), "");
    let again = changes.of(&[volume()], true);
    let again = reported(&again);
    assert_eq!((again[0], again.len()), ("the node answers again", 2), "and what is so now");
    assert_eq!(changes.of(&[volume()], true), "");
}

#[test]
fn a_page_is_drawn_over_the_last_one() {
    let page = drawn("a\nb\n", None);
    assert!(page.starts_with("\u{1b}[H"), "no clearing of the screen, which flickers");
    assert!(page.ends_with("a\u{1b}[K\nb\u{1b}[K\n\u{1b}[J"));
}

#[test]
fn a_page_that_is_higher_than_the_window_keeps_its_top() {
    let page = "1\n2\n3\n4\n5\n";
    assert_eq!(fitting(page, 8, 80), page);
    assert_eq!(fitting(page, 7, 80), "1\n2\n3\n… and 2 more lines, for a larger window");
    // A line that is too long takes two rows; colours take none.
    let wide = "123456789\n\u{1b}[31m1\u{1b}[0m\n3\n";
    assert_eq!(fitting(wide, 7, 5), wide);
    assert!(fitting(wide, 6, 5).starts_with("123456789\n…"), "{}", fitting(wide, 6, 5));
    let drawn = drawn(page, Some((7, 80)));
    let rows = drawn.matches('\n').count();
    assert_eq!(rows, 6, "the time, an empty row, and what there is room for above the cursor");
}
