use super::*;

const SOURCE: ReplicaId = ReplicaId(1);

fn drain(link: u64, token: u64, parts: &[u64]) -> Drain {
    let parts = parts.iter().map(|part| Sequence(*part)).collect();
    Drain { link: LinkId(link), token: CopyToken(token), parts, source: SOURCE }
}

fn ended(waits: &mut RebuildWaits, part: u64, by: ReplicaId) -> Vec<u64> {
    let mut ended = Vec::new();
    waits.written(Sequence(part), |id| id == by, |drain| ended.push(drain.token.0));
    ended
}

#[test]
fn a_range_is_drained_when_its_source_has_all_that_was_under_way() {
    let mut waits = RebuildWaits::default();
    waits.drain(drain(1, 1, &[4, 5]));
    waits.drain(drain(1, 2, &[5]));
    assert_eq!(ended(&mut waits, 5, ReplicaId(2)), [], "another replica has it");
    assert_eq!(ended(&mut waits, 5, SOURCE), [2]);
    assert_eq!(ended(&mut waits, 5, SOURCE), []);
    assert_eq!(ended(&mut waits, 4, SOURCE), [1]);
    assert!(waits.are_drained());
}

#[test]
fn who_asks_for_more_than_it_can_hold_has_let_go_of_the_oldest() {
    let mut waits = RebuildWaits::default();
    waits.drain(drain(2, 0, &[1]));
    (0..=MAX_DRAINS as u64).for_each(|token| waits.drain(drain(1, token, &[1])));
    let ended = ended(&mut waits, 1, SOURCE);
    assert_eq!(ended.len(), MAX_DRAINS + 1);
    assert_eq!(ended[..2], [0, 1], "the other's, then the second");
}

#[test]
fn nobody_waits_over_a_closed_link() {
    let mut waits = RebuildWaits::default();
    waits.drain(drain(1, 1, &[4]));
    waits.drain(drain(2, 2, &[4]));
    waits.forget_link(LinkId(1));
    assert_eq!(ended(&mut waits, 4, SOURCE), [2]);
}

#[test]
fn what_is_to_be_finished_is_what_was_sent_when_a_question_was_first_asked() {
    let mut waits = RebuildWaits::default();
    let through = |waits: &RebuildWaits| waits.finishing().map(|(_, c)| c.through.0).next();
    let asked = |generation, number, through| Copied {
        generation: Generation(generation),
        number: BarrierNumber(number),
        through: Sequence(through),
    };
    waits.copied(SOURCE, asked(1, 1, 5));
    waits.copied(SOURCE, asked(1, 1, 9));
    assert_eq!(through(&waits), Some(5), "said again");
    waits.copied(SOURCE, asked(1, 2, 9));
    assert_eq!(through(&waits), Some(9), "another question");
    waits.copied(SOURCE, asked(2, 2, 12));
    assert_eq!(through(&waits), Some(12), "in another view");
    waits.finished(SOURCE);
    assert_eq!(through(&waits), None);
}
