use std::fs;
use std::time::Duration;

use evenkeel_api::types::DiskState;

use super::super::tests::{Place, node, place};
use super::*;

/// The disks of a node of which the only one was put aside, there.
fn with_one_away() -> (Place, PathBuf, Disks) {
    let place = place();
    let (disks, _) = Disks::open(place.state.clone(), node()).unwrap();
    disks.add(&place.disk, None, false).unwrap();
    drop(disks);
    let aside = place.disk.with_file_name("aside");
    fs::rename(&place.disk, &aside).unwrap();
    let (disks, _) = Disks::open(place.state.clone(), node()).unwrap();
    (place, aside, disks)
}

/// A disk that stays away for months is not asked all the time, and one that comes back is not left
/// waiting.
#[test]
fn a_disk_that_stays_away_is_tried_less_and_less_often() {
    let (place, aside, disks) = with_one_away();
    for pause in [400, 800, 1600, 3200, 6400, 12_800, 15_000, 15_000, 15_000] {
        let pause = Duration::from_millis(pause);
        let at = disks.next_try().unwrap();
        assert_eq!(disks.due(at.checked_sub(Duration::from_millis(1)).unwrap()).len(), 0);
        let probe = disks.due(at).remove(0);
        assert_eq!((disks.next_try(), disks.due(at).len()), (None, 0), "it is tried once");
        let before = Instant::now();
        assert!(disks.open_again(probe).is_empty());
        let next = disks.next_try().unwrap();
        assert!(before + pause <= next && next <= Instant::now() + pause, "after {pause:?}");
    }
    let listed = disks.list().remove(0);
    assert_eq!(listed.state, DiskState::Absent);
    assert!(listed.problem.unwrap().contains("tried again, at least every 15 s"));

    fs::rename(&aside, &place.disk).unwrap();
    let probe = disks.due(disks.next_try().unwrap()).remove(0);
    disks.open_again(probe);
    assert_eq!(disks.list()[0].state, DiskState::Serving);
    assert_eq!(disks.next_try(), None);
}

/// The pause has grown while the disk was away. Who has it for a moment when it returns does not
/// cost as much again.
#[test]
fn a_disk_that_returns_and_is_held_is_tried_again_soon() {
    let (place, aside, disks) = with_one_away();
    let try_again = || {
        let probe = disks.due(disks.next_try().unwrap()).remove(0);
        disks.open_again(probe);
        disks.list()[0].state
    };
    for _ in 0..8 {
        assert_eq!(try_again(), DiskState::Absent);
    }
    fs::rename(&aside, &place.disk).unwrap();
    let holder = fs::File::open(place.disk.join(".evenkeel.lock")).unwrap();
    rustix::fs::flock(&holder, rustix::fs::FlockOperation::LockExclusive).unwrap();
    assert_eq!(try_again(), DiskState::Held);
    assert!(disks.next_try().unwrap() < Instant::now() + Duration::from_millis(201));
    drop(holder);
    assert_eq!(try_again(), DiskState::Serving);
}
