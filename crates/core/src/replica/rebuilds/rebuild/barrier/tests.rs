use super::*;
use crate::ids::{Incarnation, NodeId};

fn primary(node: u64) -> PrimaryId {
    PrimaryId { node: NodeId(node.into()), incarnation: Incarnation(1) }
}

fn records(nodes: &[u64]) -> Vec<PrimaryRecord> {
    let record =
        |(slot, node): (usize, &u64)| PrimaryRecord { id: primary(*node), slot: slot as u8 };
    nodes.iter().enumerate().map(record).collect()
}

fn blocks(range: core::ops::Range<u64>) -> BlockSet {
    let mut set = BlockSet::default();
    set.insert(range);
    set
}

#[test]
fn a_question_covers_what_was_durable_when_it_was_asked() {
    let mut barrier = Barrier::default();
    assert!(!barrier.wants_question(false), "nothing is copied");
    barrier.add(&blocks(0..4));
    assert!(barrier.wants_question(false));
    barrier.ask(BarrierNumber(1), false);
    barrier.add(&blocks(8..9));
    assert!(!barrier.wants_question(false), "one at a time");

    barrier.answered(BarrierNumber(1), primary(1));
    assert!(barrier.pass(&records(&[1, 2])).is_none(), "the other one has not finished");
    barrier.answered(BarrierNumber(1), primary(2));
    assert_eq!(barrier.pass(&records(&[1, 2])), Some(blocks(0..4)));
    assert!(!barrier.has_passed(), "there was more to copy");
    assert!(barrier.wants_question(false), "for what became durable meanwhile");
}

#[test]
fn an_answer_to_an_earlier_question_does_not_count() {
    let mut barrier = Barrier::default();
    barrier.add(&blocks(0..4));
    barrier.ask(BarrierNumber(1), false);
    barrier.begin_anew();
    barrier.ask(BarrierNumber(2), true);
    barrier.answered(BarrierNumber(1), primary(1));
    assert!(barrier.pass(&records(&[1])).is_none());

    barrier.answered(BarrierNumber(2), primary(1));
    assert_eq!(barrier.pass(&records(&[1])), Some(blocks(0..4)), "it waited over the change");
    assert!(barrier.has_passed());
    assert!(!barrier.wants_question(true));
    barrier.begin_anew();
    assert!(barrier.wants_question(true), "another view has other primaries");
}
