use super::*;

fn tag(index: u16) -> Tag {
    Tag::of(index)
}

fn answer(index: u16, result: u64) -> AdminAnswer {
    AdminAnswer { tag: tag(index), status: Status::Success, result }
}

#[test]
fn an_abort_is_answered_when_its_queue_has_or_is_gone() {
    let mut aborts = Aborts::default();
    for (index, queue) in [(0, 1), (1, 1), (2, 2), (3, 1)] {
        assert_eq!(aborts.request(tag(index), queue, 7 + index), Ok(()));
    }
    assert_eq!(aborts.request(tag(4), 2, 9), Err(Status::AbortLimit));
    assert_eq!(aborts.take_unreported(), [(1, 7), (1, 8), (2, 9), (1, 10)]);
    assert_eq!((aborts.take_unreported(), aborts.take_answers()), (vec![], vec![]));
    aborts.answer(1, 7, true);
    aborts.answer(2, 9, false);
    aborts.answer(2, 7, true);
    assert_eq!(aborts.take_answers(), [answer(0, 0), answer(2, 1)]);
    assert_eq!(aborts.request(tag(2), 1, 11), Ok(()));
    aborts.gone(1);
    assert_eq!(aborts.take_answers(), [answer(1, 1), answer(3, 1), answer(2, 1)]);
    assert_eq!(aborts.take_unreported(), [], "who is gone is not told");
    aborts.check_invariants();
}
