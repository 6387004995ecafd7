//! Each invariant of a rebuild is broken by hand, and found by its label.

use crate::message::CopyContent;
use crate::replica::invariants::tests::{breaks, rebuilding};
use crate::replica::rebuilds::rebuild::copies::{Copy, CopyPhase};
use crate::replica::rebuilds::rebuild::{Phase, Rebuild, Source};
use crate::view::Cause;
use crate::*;

fn breaks_of(label: &str, change: impl FnOnce(&mut Rebuild)) {
    breaks(label, rebuilding(), |replica| {
        change(replica.rebuilds.rebuild.as_mut().expect("it rebuilds"));
    });
}

fn copy(rebuild: &mut Rebuild) -> &mut Copy {
    rebuild.copies.values_mut().next().expect("a range is copied")
}

#[test]
fn a_range_is_copied_when_it_is_held_and_drained() {
    breaks_of("B1", |rebuild| copy(rebuild).writing = 1);
    breaks_of("B1", |rebuild| copy(rebuild).is_let_go = true);
    breaks_of("B1", |rebuild| copy(rebuild).phase = CopyPhase::Locking);
}

#[test]
fn no_range_is_copied_twice() {
    breaks_of("B1", |rebuild| {
        let Copy { unit, blocks, .. } = copy(rebuild);
        let (unit, blocks, next) = (unit.clone(), blocks.clone(), blocks.start);
        let (phase, lock) = (CopyPhase::Locking, OperationNumber(9999));
        let second = Copy { unit, blocks, next, lock, phase, ..*copy(rebuild) };
        rebuild.copies.insert(CopyToken(9999), second);
    });
}

#[test]
fn its_source_is_in_sync() {
    breaks("B2", rebuilding(), |replica| {
        let source = &mut replica.views.view_mut().mirrors[0].replicas[0];
        (source.state, source.cause) = (ReplicaState::Faulty, Cause::Medium);
    });
}

#[test]
fn what_is_held_is_copied() {
    breaks_of("I11", |rebuild| rebuild.runs.clear());
}

#[test]
fn it_is_complete_when_nothing_is_lacking() {
    breaks_of("B4", |rebuild| rebuild.phase = Phase::Complete);
    breaks_of("B4", |rebuild| {
        rebuild.phase = Phase::Complete;
        rebuild.out_of_sync = Default::default();
        rebuild.copies.clear();
        rebuild.runs.clear();
        rebuild.unflushed.insert(0..1);
    });
}

/// A source tells of a run that it was to send how it begins, as if it were a long one.
#[test]
fn a_source_that_answers_another_question_is_given_up() {
    let (mut cluster, id) = rebuilding();
    let now = cluster.now;
    let replica = cluster.replica(id);
    let rebuild = replica.rebuilds.rebuild.as_ref().expect("it rebuilds");
    let token = *rebuild.runs.keys().next().expect("a run is copied");
    let link = rebuild.source.link().expect("a source");
    let content = CopyContent::Begins { zeroes: 4096, data: 0 };
    let message = Message::Copied { token, content };
    let mut effects = Vec::new();
    replica.step(now, ReplicaEvent::Message { link, message, payload: None }, &mut effects);
    assert_eq!(replica.rebuilds.rebuild.as_ref().map(|rebuild| rebuild.source), Some(Source::None));
}
