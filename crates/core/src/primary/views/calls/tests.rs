use super::*;
use crate::primary::views::edits::{Edit, Edits};
use crate::view::tests::view;

const FIRST: CoordinatorCall = CoordinatorCall(1);
const NOW: Instant = Instant(1_000_000_000);

fn known(view: &View) -> Known<'_> {
    Known { volume: view.volume, view: Some(view), is_starting: false }
}

fn newest(view: &View) -> CoordinatorAnswer {
    CoordinatorAnswer::Newest(Box::new(view.clone()))
}

/// Calls of which one is under way that asks for a change.
fn swapping(view: &View) -> Calls {
    let mut calls = Calls::new(NOW);
    let mut edits = Edits::default();
    edits.want(Edit::Detach);
    calls.swap(FIRST, Box::new(view.successor()), edits.take(), NOW);
    calls
}

#[test]
fn an_answer_to_an_older_call_means_nothing() {
    let view = view(1, 2);
    let mut calls = swapping(&view);
    let late = calls.answered(CoordinatorCall(0), CoordinatorAnswer::NoVolume, known(&view), NOW);
    assert!(late.outcome.is_none() && calls.is_under_way());
}

#[test]
fn a_swap_without_an_answer_leaves_a_doubt_and_gives_its_edits_back() {
    let view = view(1, 2);
    let mut calls = swapping(&view);
    assert_eq!((calls.edits().len(), calls.are_awaited()), (1, true));
    let answered = calls.answered(FIRST, CoordinatorAnswer::Unknown, known(&view), NOW);
    let Some(Outcome::Unknown { edits, retry_at }) = answered.outcome else {
        panic!("{answered:?}");
    };
    assert_eq!((edits.len(), retry_at), (1, NOW + CALL_PAUSE));
    assert!(calls.are_in_doubt() && calls.are_unanswered() && !calls.must_read());
    assert!(!calls.may_begin(NOW) && calls.may_begin(retry_at));
    assert!(calls.take_long(retry_at, CALL_PAUSE) && !calls.take_long(NOW, CALL_PAUSE));
}

#[test]
fn a_read_without_an_answer_is_wanted_still() {
    let view = view(1, 2);
    let mut calls = Calls::new(NOW);
    calls.learn_of(view.generation.next());
    assert!(calls.want_newer_than(view.generation));
    calls.read(FIRST, NOW);
    assert!(!calls.want_newer_than(view.generation));
    calls.answered(FIRST, CoordinatorAnswer::Unknown, known(&view), NOW);
    assert!(calls.want_newer_than(view.generation) && !calls.are_in_doubt());
}

#[test]
fn a_commit_ends_the_doubt_and_says_nothing_of_a_read() {
    let view = view(1, 2);
    let mut calls = swapping(&view);
    calls.answered(FIRST, CoordinatorAnswer::Unknown, known(&view), NOW);
    calls.swap(FIRST, Box::new(view.successor()), Vec::new(), NOW);
    assert!(!calls.are_awaited(), "it only ends the doubt");
    let answered = calls.answered(FIRST, CoordinatorAnswer::Committed, known(&view), NOW);
    let Some(Outcome::Committed { view: next, .. }) = answered.outcome else {
        panic!("{answered:?}");
    };
    assert_eq!(*next, view.successor());
    assert!(!calls.are_in_doubt() && !calls.are_unanswered());
    calls.read(FIRST, NOW);
    let answered = calls.answered(FIRST, CoordinatorAnswer::Committed, known(&view), NOW);
    assert!(answered.outcome.is_none());
}

#[test]
fn a_poll_tells_only_news() {
    let view = view(1, 2);
    let mut calls = Calls::new(NOW);
    for (answer, reports) in [
        (newest(&view), false),
        (CoordinatorAnswer::Unknown, false),
        (newest(&view.successor()), true),
        (CoordinatorAnswer::NoVolume, true),
    ] {
        calls.poll(FIRST, NOW);
        assert_eq!(calls.answered(FIRST, answer, known(&view), NOW).outcome.is_some(), reports);
    }
    assert!(!calls.are_unanswered() && !calls.must_read());
}

#[test]
fn a_view_that_cannot_be_of_the_volume_counts_as_silence_and_is_told_once() {
    let view = view(1, 2);
    let mut other = view.successor();
    other.volume = VolumeId(view.volume.0 + 1);
    let mut calls = Calls::new(NOW);
    for is_reported in [true, false] {
        calls.read(FIRST, NOW);
        let answered = calls.answered(FIRST, newest(&other), known(&view), NOW);
        assert!(matches!(answered.outcome, Some(Outcome::Unknown { .. })));
        assert_eq!(answered.note.is_some(), is_reported);
        assert!(calls.are_unanswered());
    }
    calls.read(FIRST, NOW);
    let answered = calls.answered(FIRST, newest(&view), known(&view), NOW);
    assert!(matches!(answered.outcome, Some(Outcome::Newest { .. })) && answered.note.is_none());
    assert!(!calls.are_unanswered());
}

#[test]
fn a_view_of_the_past_does_not_end_the_silence() {
    let view = view(1, 2);
    let next = view.successor();
    let mut calls = Calls::new(NOW);
    calls.are_answered_by_the_past(NOW);
    calls.read(FIRST, NOW);
    calls.answered(FIRST, newest(&view), known(&next), NOW);
    assert!(calls.are_unanswered());
}

#[test]
#[should_panic(expected = "I11: ")]
fn a_newer_view_is_read() {
    let mut calls = Calls::new(NOW);
    calls.check_invariants(NOW, Generation(1));
    calls.learn_of(Generation(2));
    calls.check_invariants(NOW, Generation(1));
}
