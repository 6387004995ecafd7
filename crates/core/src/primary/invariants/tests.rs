//! Each invariant is broken by hand, in a primary that has a write under way, and found by its
//! label.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use super::super::io::{Client, Origin, RequestNumber};
use super::super::membership::peer::{Peer, Place};
use super::super::views::check_sources;
use super::super::{CoordinatorAnswer, Informed};
use crate::cluster::{Bytes, Cluster, replica};
use crate::operation::Operation;
use crate::view::ReplicaRecord;
use crate::*;

/// A mirror of two whose disks stand still: the write of its primary is under way.
pub(in crate::primary) fn writing() -> Cluster {
    let mut cluster = Cluster::new(1, 2, Protocol::C);
    let primary = cluster.attach(0);
    cluster.pass(Duration::from_secs(1));
    cluster.frozen.extend([replica(0, 0), replica(0, 1)]);
    cluster.write(primary, 0, 1, 4096);
    cluster
}

/// What is said when a check fails.
pub(in crate::primary) fn text_of(check: impl FnOnce()) -> String {
    let failed = catch_unwind(AssertUnwindSafe(check)).expect_err("it holds");
    let text = failed.downcast_ref::<String>().cloned();
    text.or_else(|| failed.downcast_ref::<&str>().map(ToString::to_string)).expect("a text")
}

/// That this change of a primary breaks this rule, which held before.
pub(in crate::primary) fn breaks(label: &str, change: impl FnOnce(&mut Primary<Bytes>)) {
    let mut cluster = writing();
    let now = cluster.now;
    let primary = cluster.primary(0);
    primary.check_invariants(now);
    change(primary);
    let text = text_of(|| primary.check_invariants(now));
    assert!(text.starts_with(&format!("{label}: ")), "not {label}, but {text}");
}

#[test]
fn members_are_those_of_the_view() {
    breaks("I4", |primary| {
        let Informed { views, membership, .. } = primary.informed();
        let mut mirror = views.view().mirrors[0].clone();
        mirror.replicas.push(ReplicaRecord { id: ReplicaId(99), ..mirror.replicas[0] });
        membership.mirror_mut(0).update(&mirror, NodeId(0));
    });
    let place = |id| Place { id, node: NodeId(0), mirror: 1, bit: 0 };
    let peer = |place| Peer::new(place, Duration::ZERO, Duration::ZERO, Instant(0));
    breaks("I4", |primary| primary.informed().membership.know(peer(place(ReplicaId(99)))));
    breaks("I4", |primary| {
        let membership = &mut primary.informed().membership;
        membership.forget();
        membership.know(peer(place(replica(0, 0))));
    });
}

#[test]
fn only_members_are_waited_for() {
    breaks("V2", |primary| {
        primary.informed().views.adoption_mut().confirm_by([ReplicaId(99)].into_iter());
    });
}

#[test]
fn operations_go_to_the_incarnation_that_the_view_names() {
    let restart = |peer: &mut Peer| {
        peer.incarnations_mut().said(Incarnation(99), BootId(1), false);
    };
    breaks("W3", |primary| primary.informed().membership.values_mut().for_each(restart));
}

#[test]
fn it_looks_again_in_time() {
    breaks("I11", |primary| {
        primary.clock.tick_at = primary.clock.tick_at + Duration::from_secs(3600)
    });
}

#[test]
fn nothing_waits_after_the_stated_time() {
    let mut cluster = writing();
    (0..2).for_each(|r| cluster.kill(replica(0, r)));
    cluster.pass(Duration::from_secs(600));
    let now = cluster.now;
    let primary = cluster.primary(0);
    primary.check_invariants(now);
    let client = Client { request: RequestId(1), since: now };
    let mut effects = Vec::new();
    let cx = &mut primary.context(now, &mut effects);
    let (io, lower) = &mut primary.informed().io();
    let origin = Origin { host: HostId(1), path: PathNumber(1) };
    io.accept(cx, lower, Some(client), origin, Operation::Flush);
    assert!(text_of(|| primary.check_invariants(now)).starts_with("V6: "));
}

#[test]
fn who_serves_is_a_primary_of_the_view() {
    breaks("V5", |primary| primary.informed().views.view_mut().primaries.clear());
}

#[test]
fn a_change_of_reservations_keeps_others_out() {
    breaks("I13", |primary| {
        primary.informed().io.clear(RequestNumber(99), CommandId(1));
    });
}

#[test]
fn only_those_confirm_an_assembly_that_counted() {
    let mut cluster = writing();
    let now = cluster.now;
    let view = cluster.primary(0).view().cloned().expect("it serves");
    let config = *cluster.primary(0).config;
    let mut primary: Primary<Bytes> = Primary::new(config, now);
    primary.step(now, PrimaryEvent::Start, &mut Vec::new());
    let (call, newest) = (
        CoordinatorCall(1),
        CoordinatorAnswer::Newest(Box::new(View { primaries: Vec::new(), ..view })),
    );
    primary.step(now, PrimaryEvent::Coordinator { call, answer: newest }, &mut Vec::new());
    primary.check_invariants(now);
    primary.informed().views.adoption_mut().confirm_by([replica(0, 0)].into_iter());
    assert!(text_of(|| primary.check_invariants(now)).starts_with("V7: "));
}

#[test]
fn the_next_view_follows_the_one_that_is_known() {
    let mut cluster = writing();
    let now = cluster.now;
    let primary = cluster.primary(0);
    let same = primary.view().cloned().expect("it serves");
    let mut effects = Vec::new();
    let cx = &mut primary.context(now, &mut effects);
    let Informed { views, membership, .. } = primary.informed();
    let text = text_of(|| views.call_swap(cx, membership, same));
    assert!(text.starts_with("V1: "), "{text}");
}

#[test]
fn the_last_in_sync_replica_stays() {
    let mut cluster = writing();
    let now = cluster.now;
    let primary = cluster.primary(0);
    let mut next = primary.view().expect("it serves").successor();
    next.mirrors[0].replicas.iter_mut().for_each(|record| record.state = ReplicaState::Stale);
    let mut effects = Vec::new();
    let cx = &mut primary.context(now, &mut effects);
    let Informed { views, membership, .. } = primary.informed();
    let text = text_of(|| views.call_swap(cx, membership, next));
    assert!(text.starts_with("V2: "), "{text}");
}

#[test]
fn a_takeover_has_one_source_in_each_mirror() {
    let view = crate::view::tests::view(1, 2);
    assert!(text_of(|| check_sources(&view)).starts_with("V4: "));
}

#[test]
fn nobody_writes_where_replicas_are_compared() {
    breaks("I9", |primary| {
        let mut effects = Vec::new();
        let cx = &mut primary.context(primary.clock.tick_at, &mut effects);
        let primary = primary.informed();
        primary.io.must_repair(0, 0..4096);
        primary.advance_check(cx);
        let number = primary.scrub.check().expect("it is begun").number();
        primary.io.end_kept(number);
    });
}
