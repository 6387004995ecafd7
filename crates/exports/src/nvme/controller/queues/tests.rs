use proptest::prelude::*;

use super::*;

const MAX: u16 = 4;

#[test]
fn a_queue_is_connected_once() {
    let mut queues = Queues::new(MAX);
    assert_eq!(queues.add(1), Ok(()));
    assert_eq!(queues.add(4), Ok(()));
    assert_eq!(queues.add(1), Err(Status::Sequence.into()));
    for queue in [0, 5, u16::MAX] {
        assert_eq!(queues.add(queue), Err(Refusal::in_entry(42)));
    }
}

#[test]
fn a_host_has_as_many_queues_as_it_was_granted() {
    let mut queues = Queues::new(MAX);
    assert_eq!((queues.granted(), queues.grant(9), queues.grant(2)), (4, Ok(4), Ok(2)));
    assert_eq!(queues.add(3), Err(Refusal::in_entry(42)));
    assert_eq!(queues.add(2), Ok(()));
    assert_eq!(queues.grant(4), Err(Status::Sequence));
}

#[test]
fn without_its_admin_queue_an_association_ends() {
    let mut queues = Queues::new(MAX);
    queues.add(1).unwrap();
    queues.add(2).unwrap();
    queues.gone(0);
    assert!(queues.has_ended());
    assert_eq!((queues.take_closing(), queues.take_closing()), (vec![1, 2], vec![]));
    for queue in [1, 2] {
        assert!(!queues.are_gone());
        queues.gone(queue);
    }
    assert!(queues.are_gone());
}

#[test]
fn a_lost_queue_takes_the_others_for_io_with_it() {
    let mut queues = Queues::new(MAX);
    (1..=3).for_each(|queue| queues.add(queue).unwrap());
    queues.gone(2);
    assert_eq!((queues.take_closing(), queues.has_ended()), (vec![1, 3], false));
    // Their numbers are free when they are gone, and the host may connect them again.
    assert_eq!((queues.add(2), queues.add(3)), (Ok(()), Err(Status::ControllerBusy.into())));
    queues.gone(3);
    queues.gone(1);
    assert_eq!((queues.add(3), queues.take_closing()), (Ok(()), vec![]));
}

#[test]
fn a_deleted_queue_ends_alone_and_its_number_is_free_when_it_is_gone() {
    let mut queues = Queues::new(MAX);
    queues.add(1).unwrap();
    queues.add(2).unwrap();
    queues.delete(1);
    assert_eq!(queues.add(1), Err(Status::ControllerBusy.into()));
    assert_eq!(queues.take_closing(), [1]);
    assert_eq!(queues.add(1), Err(Status::ControllerBusy.into()));
    queues.gone(1);
    assert!(!queues.has_ended());
    assert_eq!(queues.add(1), Ok(()));
}

#[test]
fn a_reset_leaves_the_admin_queue() {
    let mut queues = Queues::new(MAX);
    queues.grant(2).unwrap();
    queues.add(1).unwrap();
    queues.reset();
    assert_eq!((queues.take_closing(), queues.are_idle()), (vec![1], false));
    queues.gone(1);
    assert!(queues.are_idle() && !queues.has_ended());
    assert_eq!(queues.granted(), 4);
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Grant(u16),
    Add(u16),
    Delete(u16),
    Reset,
    Gone(u16),
    End,
    Take,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => (0..9u16).prop_map(Step::Grant),
        8 => (0..6u16).prop_map(Step::Add),
        2 => (0..6u16).prop_map(Step::Delete),
        1 => Just(Step::Reset),
        2 => (0..6u16).prop_map(Step::Gone),
        1 => Just(Step::End),
        2 => Just(Step::Take),
    ]
}

proptest! {
    #[test]
    fn nothing_goes_on_after_the_end(steps in proptest::collection::vec(step(), 0..40)) {
        let mut queues = Queues::new(MAX);
        let mut closing = Vec::new();
        for step in steps {
            let had_ended = queues.has_ended();
            match step {
                Step::Grant(count) => drop(queues.grant(count)),
                // Its caller adds none after the end.
                Step::Add(_) if had_ended => {}
                Step::Add(queue) => drop(queues.add(queue)),
                Step::Delete(0) => {}
                Step::Delete(queue) => queues.delete(queue),
                Step::Reset => queues.reset(),
                Step::Gone(queue) => {
                    queues.gone(queue);
                    closing.retain(|closed| *closed != queue);
                }
                Step::End => queues.end(),
                Step::Take => closing.extend(queues.take_closing()),
            }
            queues.check_invariants();
            prop_assert!(!had_ended || queues.has_ended());
            prop_assert!(closing.iter().all(|queue| queues.queues.contains_key(queue)));
        }
    }
}
