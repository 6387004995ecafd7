//! Each invariant is broken by hand, in a primary that has a write under way, and found by its
//! label.

use std::time::Duration;

use super::super::CoordinatorAnswer;
use super::super::io::{Client, Origin};
use super::super::membership::peer::{Peer, Place};
use crate::cluster::{Bytes, Cluster, replica};
use crate::operation::Operation;
use crate::trips::trips;
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

/// That this change of a primary breaks this rule, which held before.
pub(in crate::primary) fn breaks(label: &str, change: impl FnOnce(&mut Primary<Bytes>)) {
    let mut cluster = writing();
    let now = cluster.now;
    let primary = cluster.primary(0);
    primary.check_invariants(now);
    change(primary);
    trips(label, || primary.check_invariants(now));
}

/// A client's flush is taken in, whatever the primary does at present.
pub(in crate::primary) fn accept(primary: &mut Primary<Bytes>, now: Instant) {
    let client = Client { request: RequestId(1), since: now };
    let origin = Origin { host: HostId(1), path: PathNumber(1) };
    let mut effects = Vec::new();
    let cx = &mut primary.context(now, &mut effects);
    let (io, lower) = &mut primary.informed().io();
    io.accept(cx, lower, Some(client), origin, Operation::Flush);
}

#[test]
fn replicas_are_those_of_the_view() {
    breaks("I4", |primary| primary.informed().views.view_mut().mirrors.clear());
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
fn who_serves_is_a_primary_of_the_view() {
    breaks("V5", |primary| primary.informed().views.view_mut().primaries.clear());
}

/// One that has read the view of an assembly, and waits until those confirm it that counted.
fn starting() -> Cluster {
    let mut cluster = writing();
    let (now, primary) = (cluster.now, cluster.primary(0));
    let view = View { primaries: Vec::new(), ..primary.view().cloned().expect("it serves") };
    *primary = Primary::new(*primary.config, now);
    primary.step(now, PrimaryEvent::Start, &mut Vec::new());
    let newest = CoordinatorAnswer::Newest(Box::new(view));
    let event = PrimaryEvent::Coordinator { call: CoordinatorCall(1), answer: newest };
    primary.step(now, event, &mut Vec::new());
    primary.check_invariants(now);
    cluster
}

#[test]
fn only_those_confirm_an_assembly_that_counted() {
    let mut cluster = starting();
    let (now, primary) = (cluster.now, cluster.primary(0));
    primary.informed().views.adoption_mut().confirm_by([replica(0, 0)].into_iter());
    trips("V7", || primary.check_invariants(now));
}

#[test]
fn nothing_is_done_before_it_is_a_primary() {
    let mut cluster = starting();
    let (now, primary) = (cluster.now, cluster.primary(0));
    accept(primary, now);
    trips("W3", || primary.check_invariants(now));
}
