//! What must hold of saves is broken by hand, and found.

use super::*;
use crate::disk::invariants::tests::breaks;

#[test]
fn a_save_waits_for_another_one_only() {
    breaks("waits for nothing", |disk| {
        let Saving { asked, bytes, .. } = disk.superblocks.current.take().expect("one is saved");
        disk.superblocks.waiting.push_back((asked, bytes));
    });
}

#[test]
fn nothing_is_saved_when_it_is_not_known_what_was() {
    breaks("knows nothing", |disk| disk.superblocks.become_unknown());
}

#[test]
fn the_newest_copy_is_not_written_over() {
    breaks("cost something", |disk| {
        let saving = disk.superblocks.current.as_mut().expect("one is saved");
        saving.copy = saving.copy.other();
    });
}
