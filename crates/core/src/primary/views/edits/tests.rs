use super::*;

const LEAVE: Edit =
    Edit::Leave { replica: ReplicaId(1), state: ReplicaState::Stale, cause: Cause::Late };
const DETACH: Edit = Edit::Detach;
const ME: PrimaryId = PrimaryId { node: NodeId(1), incarnation: Incarnation(1) };

fn wanted(edits: &Edits) -> Vec<Edit> {
    edits.iter().map(PendingEdit::edit).collect()
}

#[test]
fn what_was_asked_for_in_vain_comes_before_what_is_wanted_since() {
    let mut edits = Edits::default();
    edits.want(LEAVE);
    edits.want(LEAVE);
    let asked = edits.take();
    edits.want(DETACH);
    edits.put_back(asked);
    assert_eq!(wanted(&edits), [LEAVE, DETACH]);
}

#[test]
fn what_is_wanted_again_while_it_is_asked_for_is_wanted_once() {
    let mut edits = Edits::default();
    edits.want(LEAVE);
    edits.want_for(CommandId(1), DETACH, Instant(0));
    for _ in 0..3 {
        let asked = edits.take();
        edits.want(LEAVE);
        edits.put_back(asked);
        edits.check_invariants(ME, &[]);
    }
    assert_eq!(wanted(&edits), [LEAVE, DETACH]);
}

#[test]
fn two_commands_that_wait_no_longer_leave_one_wish() {
    let mut edits = Edits::default();
    (1..3).for_each(|id| edits.want_for(CommandId(id), LEAVE, Instant(0)));
    let mut asked = edits.take();
    let commands = asked.iter_mut().filter_map(|pending| pending.take_command(Instant(0)));
    assert_eq!(commands.count(), 2);
    edits.put_back(asked);
    edits.check_invariants(ME, &[]);
    assert_eq!(wanted(&edits), [LEAVE]);
}

#[test]
#[should_panic(expected = "I11: ")]
fn nothing_is_wanted_twice() {
    let pending = PendingEdit { edit: LEAVE, command: None };
    Edits { wanted: vec![pending, pending] }.check_invariants(ME, &[]);
}

#[test]
#[should_panic(expected = "I11: ")]
fn no_command_waits_twice() {
    let mut edits = Edits::default();
    edits.want_for(CommandId(1), LEAVE, Instant(0));
    let asked = [PendingEdit { edit: DETACH, command: Some((CommandId(1), Instant(0))) }];
    edits.check_invariants(ME, &asked);
}

#[test]
#[should_panic(expected = "V5: ")]
fn no_primary_evicts_itself() {
    let mut edits = Edits::default();
    edits.want(Edit::Evict(ME));
    edits.check_invariants(ME, &[]);
}

#[test]
fn another_view_outdates_what_rests_on_the_one_before() {
    let mut edits = Edits::default();
    let source_failed = Edit::Leave {
        replica: ReplicaId(2),
        state: ReplicaState::Stale,
        cause: Cause::SourceFailed,
    };
    [LEAVE, source_failed, DETACH].into_iter().for_each(|edit| edits.want(edit));
    edits.want_for(CommandId(1), LEAVE, Instant(0));
    edits.forget_outdated();
    assert_eq!(wanted(&edits), [source_failed, DETACH, LEAVE]);
}

#[test]
fn only_commands_are_given_up_and_only_those_that_came_before() {
    let mut edits = Edits::default();
    edits.want(LEAVE);
    edits.want_for(CommandId(1), DETACH, Instant(5));
    edits.want_for(CommandId(2), DETACH, Instant(6));
    let mut given_up = Vec::new();
    edits.give_up(Instant(5), &mut given_up);
    assert_eq!(given_up, [CommandId(1)]);
    assert_eq!(edits.iter().filter_map(PendingEdit::command).collect::<Vec<_>>(), [CommandId(2)]);
    assert_eq!(wanted(&edits), [LEAVE, DETACH]);
}

#[test]
fn an_adoption_waits_for_those_that_leave_and_no_others() {
    let mut edits = Edits::default();
    edits.want(LEAVE);
    assert!(edits.unblock(&BTreeSet::from([ReplicaId(1)])));
    assert!(!edits.unblock(&BTreeSet::from([ReplicaId(2)])));
    assert!(edits.have_leave(ReplicaId(1)) && !edits.have_leave(ReplicaId(2)));
}
