use core::cell::Cell;

use super::*;
use crate::trips::trips;

fn waiter(sequence: u64) -> FlushWaiter {
    let sequence = Sequence(sequence);
    let id = OperationId { generation: Generation(1), sequence };
    FlushWaiter::Primary { link: LinkId(1), id, after: Some(sequence) }
}

#[test]
fn who_covers_a_write_that_is_not_on_the_disk_waits_for_the_next_flush() {
    let mut queue = FlushQueue::default();
    (1..=2).for_each(|sequence| queue.wait(waiter(sequence)));
    let is_second = |_, covers| covers == Sequence(2);
    assert!(matches!(queue.begin(is_second), NextFlush::Begins));
    assert!(matches!(queue.ended(Ok(())), (first, Ok(())) if first.len() == 1));
    assert!(matches!(queue.begin(is_second), NextFlush::None));
    assert!(matches!(queue.begin(|_, _| false), NextFlush::Begins));
}

/// A write comes to light when the flush that covers it was found to be ready.
#[test]
fn no_flush_begins_before_what_it_covers_is_on_the_disk() {
    let mut queue = FlushQueue::default();
    queue.wait(waiter(1));
    let is_known = Cell::new(false);
    trips("W4", || drop(queue.begin(|_, _| is_known.replace(true))));
}
