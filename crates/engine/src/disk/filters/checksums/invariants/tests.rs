//! What must hold of requests and checksums is broken by hand, and found.

use evenkeel_core::ReplicaId;

use super::*;
use crate::disk::checksums::recover::Recovered;
use crate::disk::checksums::{Area, Commit};
use crate::disk::filters::bench::Bench;
use crate::disk::simulation::queue::Queue;
use crate::disk::trips::trips;

type Checked = Checksums<Queue, ()>;

fn over(bench: &Bench, has_checksums: bool) -> Checked {
    let area = Area::of(&Bench::superblock());
    let store = has_checksums.then(|| ChecksumStore::new(area, Recovered::default()));
    let (file, layout, flushes) = bench.disk();
    Checksums::new(file, layout, flushes, None, ReplicaId(7), store)
}

fn read() -> Request {
    Request::Read { offset: 0, length: 4096 }
}

/// That this change is found, in these words, while a read is under way, or waits for its page.
fn breaks(words: &str, is_loaded: bool, change: impl FnOnce(&mut Checked, &mut Bench)) {
    let mut bench = Bench::new();
    let mut checked = over(&bench, true);
    checked.begin(&mut bench.means(), read(), ());
    if is_loaded {
        let (key, completion) = bench.end(None);
        assert!(checked.completed(&mut bench.means(), key, completion).is_none());
    }
    checked.check_invariants();
    assert_eq!(checked.awaited().count(), 1);
    change(&mut checked, &mut bench);
    trips(words, || checked.check_invariants());
}

fn store(checked: &mut Checked) -> &mut ChecksumStore {
    checked.store.as_mut().expect("it has checksums")
}

#[test]
fn pages_are_used_by_what_is_under_way() {
    breaks("users of page 0", true, |checked, _| store(checked).unpin(&(0..4096)));
    breaks("users of page 0", true, |checked, _| assert!(store(checked).pin(&(0..4096))));
    breaks("is not in memory", true, |checked, _| {
        let area = Area::of(&Bench::superblock());
        store(checked).begin_anew(area);
    });
}

#[test]
fn pages_are_read_that_are_said_to_be() {
    breaks("other pages are read", false, |checked, _| store(checked).loaded(0..1, None));
}

#[test]
fn one_write_of_pages_and_one_commit_are_under_way() {
    breaks("0 commits", true, |checked, _| {
        assert!(matches!(store(checked).commit(), Commit::Journal(_)));
    });
    breaks("0 writes of pages", true, |checked, _| {
        store(checked).flush_failed();
        assert!(matches!(store(checked).commit(), Commit::Pages(_)));
    });
}

#[test]
fn what_waits_is_gone_on_with() {
    breaks("waits for nothing", true, |checked, _| {
        checked.waiting.push_back(Waiting::Pages(read(), ()));
    });
    breaks("waits for nothing", true, |checked, bench| {
        let failures = checked.raw().failures();
        checked.commit_checksums(&mut bench.means(), failures, ());
        checked.commit_checksums(&mut bench.means(), failures, ());
        let waiting = checked.waiting.pop_back().expect("one waits for the other");
        drop(bench.queue.end_at(0, None));
        let (key, completion) = bench.end(None);
        assert!(checked.completed(&mut bench.means(), key, completion).is_some());
        checked.waiting.push_back(waiting);
    });
}

#[test]
fn no_flush_is_noticed_before_it_fails() {
    breaks("not failed yet", true, |checked, _| {
        let (_, _, mut more) = Bench::new().disk();
        more.flush_failed(&std::io::Error::from_raw_os_error(libc::EIO));
        checked.noticed = more.failed();
    });
}

#[test]
fn nothing_waits_for_checksums_where_there_are_none() {
    let mut checked = over(&Bench::new(), false);
    checked.check_invariants();
    checked.waiting.push_back(Waiting::Pages(read(), ()));
    trips("that it lacks", || checked.check_invariants());
}
