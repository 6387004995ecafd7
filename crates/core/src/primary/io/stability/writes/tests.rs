use super::*;

#[test]
fn a_flush_covers_what_was_acknowledged_when_it_began() {
    let mut writes = Writes::default();
    let (first, second) = (writes.send_next(), writes.send_next());
    writes.acknowledge(second);
    writes.acknowledge(first);
    let covers = writes.acknowledged();
    assert!(covers == second && writes.are_unflushed());
    let third = writes.send_next();
    writes.acknowledge(third);
    writes.flush(covers);
    assert!(writes.are_unflushed());
    writes.flush(third);
    writes.flush(covers);
    assert!(!writes.are_unflushed());
    assert_eq!(writes.upcoming(), third.next());
    writes.check_invariants();
}

#[test]
fn what_another_primary_may_have_written_is_not_flushed() {
    let mut writes = Writes::default();
    writes.inherit();
    assert!(writes.are_unflushed() && writes.last() == writes.acknowledged());
    writes.check_invariants();
}

#[test]
#[should_panic(expected = "I4: ")]
fn what_is_acknowledged_was_sent() {
    let mut writes = Writes::default();
    writes.acknowledge(Sequence(1));
    writes.check_invariants();
}

#[test]
#[should_panic(expected = "W4: ")]
fn what_is_flushed_was_acknowledged() {
    let mut writes = Writes::default();
    let first = writes.send_next();
    writes.flush(first);
    writes.check_invariants();
}
