use super::*;
use crate::ids::*;
use crate::incarnations::Incarnations;
use crate::view::{MirrorView, ReplicaRecord, ReplicaState};

pub(super) const HERE: NodeId = NodeId(50);

/// A view of one mirror with replicas 1 to 3 in these states, in generation 9.
pub(super) fn view(states: [ReplicaState; 3]) -> View {
    let sample = crate::view::tests::view(1, 1);
    let record = |(n, state)| ReplicaRecord {
        id: ReplicaId(n),
        state,
        since: Generation(7),
        incarnation: Incarnation(3),
        missing_since: (state != ReplicaState::InSync).then_some(Generation(7)),
        ..sample.mirrors[0].replicas[0]
    };
    let replicas = (1..).zip(states).map(record).collect();
    View { generation: Generation(9), mirrors: vec![MirrorView { replicas }], ..sample.clone() }
}

/// What is on a replica's disk.
#[derive(Debug, Clone)]
pub(super) struct Disk {
    pub replica: ReplicaId,
    pub incarnations: Incarnations,
    pub view: View,
}

pub(super) fn disk(id: u128, view: &View) -> Disk {
    Disk {
        replica: ReplicaId(id),
        incarnations: Incarnations::of([Incarnation(3)]),
        view: view.clone(),
    }
}

pub(super) fn start(force: bool) -> Start {
    let (coordinator, history) = (CoordinatorId(90), History(91));
    Start { coordinator, history, now: 1, here: HERE, force }
}

pub(super) fn present(disks: &[Disk]) -> Vec<Present<'_>> {
    disks
        .iter()
        .map(|Disk { replica, incarnations, view }| Present {
            replica: *replica,
            incarnations: *incarnations,
            view,
            node: HERE,
        })
        .collect()
}

/// The first view of a new epoch, begun by force from these disks under ids of its own.
pub(super) fn begun(base: &View, disks: &[Disk], mark: u128) -> View {
    let start = Start { history: History(mark), coordinator: CoordinatorId(mark), ..start(true) };
    next_view(base, &present(disks), &[], start).unwrap()
}

/// Asks with these disks and what the coordinator knows.
fn decide(
    disks: &[Disk],
    known: Option<&View>,
    keep: Option<usize>,
    force: bool,
) -> Result<Decision, Refusal> {
    let views: Vec<&View> = disks.iter().map(|disk| &disk.view).chain(known).collect();
    let (present, branches) = (present(disks), branches(&views));
    let question =
        Question { present: &present, known, is_attached: false, branches: &branches, keep };
    question.decide(start(force))
}

use ReplicaState::{InSync, Stale};

#[test]
fn asked_again_it_is_known() {
    let newest = view([InSync, InSync, Stale]);
    let disks = [disk(1, &newest), disk(2, &newest)];
    let Ok(Decision::Begin(first)) = decide(&disks, None, None, false) else { panic!() };
    for force in [false, true] {
        assert_eq!(decide(&disks, Some(&first), None, force), Ok(Decision::Known));
    }
    // One that was lost since can be forced.
    assert_eq!(decide(&disks[..1], Some(&first), None, false), Ok(Decision::Known));
    let forced = decide(&disks[..1], Some(&first), None, true);
    assert!(matches!(forced, Ok(Decision::Begin(view)) if view.continues(&first)));
}

#[test]
fn branches_need_a_choice_and_nothing_is_refused() {
    let base = view([InSync, InSync, Stale]);
    let alone = |id: u128, mark: u128| begun(&base, &[disk(id, &base)], mark);
    let disks = [disk(1, &alone(1, 20)), disk(2, &alone(2, 21))];
    assert_eq!(decide(&disks, None, None, true), Err(Refusal::Diverged));
    let Ok(Decision::Begin(kept)) = decide(&disks, None, Some(1), false) else { panic!() };
    let states: Vec<_> = kept.mirrors[0].replicas.iter().map(|record| record.state).collect();
    assert_eq!(states, [Stale, InSync, Stale]);
    assert_eq!(decide(&[], None, None, true), Err(Refusal::NothingFound));
}
