use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, channel};

use evenkeel_core::{Generation, Incarnation, Instant, OperationId, PrimaryId, Sequence};

use super::*;
use crate::api::EngineConfig;
use crate::ring::Ring;

const VOLUME: VolumeId = VolumeId(1);
const NODE: NodeId = NodeId(2);
const REPLICA: ReplicaId = ReplicaId(3);

struct Bench {
    cx: Context,
    links: Links,
    reported: Receiver<EngineEvent>,
    /// The volume's, and that of the replica.
    keys: [Key; 2],
}

impl Bench {
    fn new() -> Self {
        let (report, reported) = channel();
        let config = EngineConfig::new(move |event| drop(report.send(event)));
        let cx = Context::new(&config, Ring::new().expect("a ring"), Instant(0));
        let mut keys = Slab::new();
        let keys = [keys.insert(()), keys.insert(())];
        Self { cx, links: Links::new(config.memory_per_link), reported, keys }
    }

    fn call(&self) -> Call {
        let end = End::Primary(self.keys[0]);
        let caller = Caller::Primary(PrimaryId { node: NodeId(1), incarnation: Incarnation(7) });
        Call { volume: VOLUME, end, caller, replica: REPLICA }
    }

    /// Joins the primary and the replica; the ends of both.
    fn join(&mut self) -> [LinkId; 2] {
        let (call, host) = (self.call(), self.keys[1]);
        self.links.join(&mut self.cx, call, host);
        let theirs = match self.cx.next_work() {
            Some(Work::Replica(_, ReplicaEvent::LinkOpened { link, from: None })) => link,
            _ => panic!("the replica hears first that there is a link"),
        };
        let ours = match self.cx.next_work() {
            Some(Work::Primary(_, PrimaryEvent::LinkUp { replica: REPLICA, link })) => link,
            _ => panic!("then the primary does"),
        };
        [ours, theirs]
    }

    /// Asks for a connection of the primary.
    fn ask(&mut self) -> ConnectRequest {
        self.links.ask(&self.cx, self.call(), NODE);
        match self.reported.try_recv() {
            Ok(EngineEvent::Connect { volume: VOLUME, request, node: NODE, .. }) => request,
            other => panic!("{other:?}"),
        }
    }
}

fn flush() -> Message {
    let id = OperationId { generation: Generation(1), sequence: Sequence(7) };
    Message::Flush { id, covers: Sequence(6) }
}

#[test]
fn ends_on_one_node_pass_messages_in_memory() {
    let mut bench = Bench::new();
    let [ours, theirs] = bench.join();
    bench.links.send(&mut bench.cx, ours, flush(), None);
    match bench.cx.next_work() {
        Some(Work::Replica(host, ReplicaEvent::Message { link, message, payload: None })) => {
            assert_eq!((host, link, message), (bench.keys[1], theirs, flush()));
        }
        _ => panic!("the replica hears what the primary says"),
    }
    assert!(!bench.cx.has_work());
    assert!(bench.links.status_of(VOLUME).is_empty(), "it is no connection to another node");
}

#[test]
fn who_closes_an_end_hears_no_more_of_it_and_the_other_end_learns_of_it() {
    let mut bench = Bench::new();
    let [ours, theirs] = bench.join();
    bench.links.close(&mut bench.cx, theirs);
    assert!(!bench.links.has(theirs));
    match bench.cx.next_work() {
        Some(Work::Primary(_, PrimaryEvent::LinkDown { link, .. })) => assert_eq!(link, Some(ours)),
        _ => panic!("the primary learns of it"),
    }
    assert!(bench.links.has(ours), "until its owner has heard of it");
    bench.links.send(&mut bench.cx, ours, flush(), None);
    assert!(!bench.cx.has_work(), "what is said over it is lost");
    assert!(bench.links.forget(ours));
    assert!(!bench.links.forget(ours));
}

#[test]
fn an_owner_that_goes_waits_for_no_connection_any_more() {
    let mut bench = Bench::new();
    let request = bench.ask();
    let [_, theirs] = bench.join();
    bench.links.close_all_of(&mut bench.cx, End::Primary(bench.keys[0]));
    match bench.cx.next_work() {
        Some(Work::Replica(_, ReplicaEvent::LinkClosed { link })) => assert_eq!(link, theirs),
        _ => panic!("the replica learns of it"),
    }
    let (mut peer, connection) = UnixStream::pair().expect("two sockets");
    let connection = Some(OwnedFd::from(connection).into());
    bench.links.connected(&mut bench.cx, VOLUME, request, connection);
    assert!(!bench.cx.has_work());
    assert_eq!(peer.read(&mut [0]).expect("reads"), 0, "the connection is closed");
}

#[test]
fn a_request_for_a_connection_is_answered_once_and_for_its_volume() {
    let mut bench = Bench::new();
    let request = bench.ask();
    bench.links.connected(&mut bench.cx, VolumeId(9), request, None);
    assert!(!bench.cx.has_work(), "that is another volume");
    bench.links.connected(&mut bench.cx, VOLUME, request, None);
    match bench.cx.next_work() {
        Some(Work::Primary(_, PrimaryEvent::LinkDown { replica: REPLICA, link: None })) => {}
        _ => panic!("the primary learns that the replica is not reached"),
    }
    bench.links.connected(&mut bench.cx, VOLUME, request, None);
    assert!(!bench.cx.has_work());
}

#[test]
fn the_connections_with_a_node_end_when_it_is_removed() {
    let mut bench = Bench::new();
    let request = bench.ask();
    let (mut peer, connection) = UnixStream::pair().expect("two sockets");
    let connection = Some(OwnedFd::from(connection).into());
    bench.links.connected(&mut bench.cx, VOLUME, request, connection);
    assert_eq!(bench.links.status_of(VOLUME).len(), 1);
    assert!(matches!(bench.cx.next_work(), Some(Work::Primary(_, PrimaryEvent::LinkUp { .. }))));
    bench.links.disconnect(&mut bench.cx, NodeId(8));
    assert!(!bench.cx.has_work(), "that is another node");
    bench.links.disconnect(&mut bench.cx, NODE);
    assert!(matches!(bench.cx.next_work(), Some(Work::Primary(_, PrimaryEvent::LinkDown { .. }))));
    assert!(matches!(
        bench.reported.try_recv(),
        Ok(EngineEvent::LinkClosed { volume: VOLUME, .. })
    ));
    assert_eq!(peer.read(&mut [0]).expect("reads"), 0, "the connection is closed");
    assert!(bench.links.status_of(VOLUME).is_empty());
}

#[test]
fn a_replica_hears_which_node_has_connected() {
    let mut bench = Bench::new();
    let (_peer, connection) = UnixStream::pair().expect("two sockets");
    let (connection, called) = (OwnedFd::from(connection).into(), (REPLICA, bench.keys[1]));
    bench.links.accept(&mut bench.cx, VOLUME, called, NODE, connection);
    match bench.cx.next_work() {
        Some(Work::Replica(_, ReplicaEvent::LinkOpened { from: Some(NODE), .. })) => {}
        _ => panic!("the node is that of the connection"),
    }
}
