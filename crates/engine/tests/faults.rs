//! Faults and limits, through the whole engine.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::common::client::{Answer, Request};
use crate::common::{Cluster, Shape, pattern};
use evenkeel_core::settings::Pauses;
use evenkeel_core::{Lease, NodeId, ReplicaState, Settings};
use evenkeel_engine::EngineEvent;

fn quick() -> Settings {
    Settings {
        deadline: Duration::from_millis(800),
        reconnect_grace: Duration::from_millis(100),
        retry_pause: Pauses::new(Duration::from_millis(50), Duration::from_millis(200)),
        ..Settings::default()
    }
}

fn quick_lease() -> Lease {
    Lease::new(Duration::from_secs(1), Duration::from_millis(200)).unwrap()
}

fn three(memory: Option<usize>) -> Shape {
    Shape {
        mirrors: vec![vec![0, 1, 2]],
        nodes: 3,
        size: 16 << 20,
        settings: quick(),
        lease: quick_lease(),
        memory,
        ..Shape::default()
    }
}

#[test]
fn a_replica_that_is_cut_off_leaves_and_comes_back_whole() {
    let mut cluster = Cluster::start(three(None));
    cluster.attach();
    let client = cluster.client();
    client.write(0, pattern(1, 1 << 20));
    cluster.cut.lock().unwrap().push(2);
    cluster.close_replica(2, 0, 2);
    client.write(1 << 20, pattern(2, 1 << 20));
    client.write(0, pattern(3, 4096));
    cluster.wait_until_left(cluster.replica(0, 2));
    cluster.open_replica(2, 0, 2, 2).expect("opens again");
    cluster.cut.lock().unwrap().clear();
    cluster.wait_until_in_sync();
    assert_eq!(client.read(0, 4096), pattern(3, 4096));
    assert_eq!(client.read(1 << 20, 1 << 20), pattern(2, 1 << 20));
    cluster.detach();
    assert!(cluster.data(0, 0) == cluster.data(0, 1));
    assert!(cluster.data(0, 0) == cluster.data(0, 2));
    let states = cluster.view.lock().unwrap().clone();
    assert!(states.replicas().all(|(_, r)| r.state == ReplicaState::InSync));
}

#[test]
fn writes_and_reads_go_on_while_replicas_come_and_go() {
    let mut cluster = Cluster::start(three(None));
    cluster.attach();
    let client = cluster.client();
    let mut model = vec![0u8; 4 << 20];
    for round in 0..6u64 {
        let (node, index) = if round % 2 == 0 { (1, 1) } else { (2, 2) };
        cluster.cut.lock().unwrap().push(node);
        cluster.close_replica(node, 0, index);
        let mut answers = Vec::new();
        for number in 0..64u64 {
            let data = pattern(round * 1000 + number, 512 << (number % 8));
            let offset = (number * 7919 * 512 + round * 4096) as usize % (3 << 20) / 512 * 512;
            model[offset..offset + data.len()].copy_from_slice(&data);
            answers.push(client.begin(Request::Write(offset as u64, data, number % 5 == 0)));
        }
        for answer in answers {
            assert_eq!(answer.recv_timeout(Duration::from_secs(60)).unwrap(), Ok(Answer::Done));
        }
        assert!(client.read(0, 4 << 20) == model);
        cluster.open_replica(node, 0, index, round + 2).expect("opens again");
        cluster.cut.lock().unwrap().clear();
        cluster.wait_until_in_sync();
    }
    assert!(client.read(0, 4 << 20) == model);
    cluster.detach();
    assert!(cluster.data(0, 0)[..4 << 20] == model);
    assert!(cluster.data(0, 0) == cluster.data(0, 1));
    assert!(cluster.data(0, 0) == cluster.data(0, 2));
}

#[test]
fn little_memory_slows_down_and_stops_nothing() {
    for memory in [4096, 64 << 10] {
        let mut cluster = Cluster::start(three(Some(memory)));
        cluster.attach();
        let clients = [cluster.client(), cluster.client()];
        let mut answers = Vec::new();
        for number in 0..200u64 {
            let client = &clients[(number % 2) as usize];
            let length = 512 << (number % 12);
            let offset = number % 8 * (1 << 20);
            answers.push(client.begin(Request::Write(offset, pattern(number, length), false)));
            answers.push(client.begin(Request::Read(offset, length as u32)));
        }
        for answer in answers {
            assert!(answer.recv_timeout(Duration::from_secs(60)).expect("in time").is_ok());
        }
        // On a busy machine one may be late, leave, and come back.
        cluster.wait_until_in_sync();
        assert_eq!(cluster.status(0).memory.0, 0, "all room has returned");
        cluster.detach();
        assert!(cluster.data(0, 0) == cluster.data(0, 2));
    }
}

#[test]
fn sockets_that_take_little_at_a_time_lose_nothing() {
    let mut cluster = Cluster::start(Shape { small_sockets: true, ..three(None) });
    cluster.attach();
    let client = cluster.client();
    let answers: Vec<_> = (0..16u64)
        .map(|n| client.begin(Request::Write(n << 20, pattern(n, 1 << 20), false)))
        .collect();
    for answer in answers {
        assert_eq!(answer.recv_timeout(Duration::from_secs(60)).unwrap(), Ok(Answer::Done));
    }
    for number in 0..16u64 {
        assert!(client.read(number << 20, 1 << 20) == pattern(number, 1 << 20));
    }
    // On a busy machine one may be late, leave, and come back.
    cluster.wait_until_in_sync();
    cluster.detach();
    assert!(cluster.data(0, 0) == cluster.data(0, 1));
}

#[test]
fn garbage_on_a_link_closes_that_link_alone() {
    // No replica leaves because it is late.
    let settings = Settings { deadline: Duration::from_secs(60), ..quick() };
    let mut cluster = Cluster::start(Shape { settings, ..three(None) });
    cluster.attach();
    let client = cluster.client();
    let replica = cluster.replica(0, 1);
    for length in [1usize, 64, 100_000] {
        let (mut ours, theirs) = UnixStream::pair().expect("a pair");
        let connection = OwnedFd::from(theirs).into();
        cluster.engines[1].accept_link(cluster.volume, replica, NodeId(100), connection);
        // It may be closed before all is written.
        let _ = ours.write_all(&pattern(5, length));
        drop(ours);
        cluster.wait_for("a closed link", |e| matches!(e, EngineEvent::LinkClosed { .. }));
    }
    client.write(0, pattern(6, 8192));
    assert_eq!(client.read(0, 8192), pattern(6, 8192));
    assert!(cluster.view.lock().unwrap().replicas().all(|(_, r)| r.state == ReplicaState::InSync));
}

#[test]
fn the_links_with_a_node_end_at_either_end_and_no_others() {
    // The primary's end on node 0, and the replica's on node 1.
    for (engine, node) in [(0, 101), (1, 100)] {
        let mut cluster = Cluster::start(three(None));
        cluster.attach();
        let client = cluster.client();
        // All have acknowledged it: their links are open.
        client.write(0, pattern(1, 4096));
        cluster.engines[engine].disconnect(NodeId(150));
        cluster.engines[engine].disconnect(NodeId(node));
        let closed = cluster.wait_for("a closed link", |event| {
            matches!(event, EngineEvent::LinkClosed { reason, .. } if reason.contains("removed"))
        });
        let EngineEvent::LinkClosed { replica, .. } = closed else { panic!("{closed:?}") };
        assert_eq!(replica, cluster.replica(0, 1));
        client.write(4096, pattern(2, 4096));
        assert_eq!(client.read(4096, 4096), pattern(2, 4096));
        cluster.wait_until_in_sync();
        cluster.detach();
    }
}

#[test]
fn zeroes_and_maps_tell_the_truth() {
    let mut cluster = Cluster::start(Shape::default());
    cluster.attach();
    let client = cluster.client();
    client.write(0, pattern(1, 4 << 20));
    let whole = client.call(Request::Map(0, 8 << 20));
    assert_eq!(whole, Ok(Answer::Extents(vec![(4 << 20, true), (4 << 20, false)])));
    assert_eq!(client.call(Request::Zero(1 << 20, 1 << 20, true)), Ok(Answer::Done));
    assert_eq!(client.call(Request::Zero(512, 1024, true)), Ok(Answer::Done));
    assert_eq!(client.call(Request::Zero(3 << 20, 4096, false)), Ok(Answer::Done));
    let mut expected = pattern(1, 4 << 20);
    expected[1 << 20..2 << 20].fill(0);
    expected[512..1536].fill(0);
    expected[3 << 20..(3 << 20) + 4096].fill(0);
    assert!(client.read(0, 4 << 20) == expected);
    let Ok(Answer::Extents(extents)) = client.call(Request::Map(0, 3 << 20)) else { panic!() };
    assert_eq!(extents[..2], [(1 << 20, true), (1 << 20, false)]);
    assert_eq!(client.call(Request::Flush), Ok(Answer::Done));
    let status = cluster.status(0);
    assert!(status.replicas[0].disk.kinds.iter().all(|kind| kind.errors == 0));
}

#[test]
fn files_on_tmpfs_work_too() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a temporary directory");
    let mut cluster = Cluster::start_in(directory, Shape::default());
    cluster.attach();
    let client = cluster.client();
    client.write(0, pattern(1, 3 << 20));
    // There is no ZERO_RANGE on tmpfs: zeroes are written.
    assert_eq!(client.call(Request::Zero(4096, (2 << 20) + 512, false)), Ok(Answer::Done));
    assert_eq!(client.call(Request::Zero(0, 4096, true)), Ok(Answer::Done));
    assert_eq!(client.call(Request::Flush), Ok(Answer::Done));
    let mut expected = pattern(1, 3 << 20);
    expected[..4096 + (2 << 20) + 512].fill(0);
    assert!(client.read(0, 3 << 20) == expected);
}

#[test]
fn unaligned_memory_reaches_the_disk_as_it_is() {
    let mut cluster = Cluster::start(Shape::default());
    cluster.attach();
    let client = cluster.client();
    let answer = client.call(Request::WriteUnaligned(8192, pattern(3, 12_288)));
    assert_eq!(answer, Ok(Answer::Done));
    assert_eq!(client.read(8192, 12_288), pattern(3, 12_288));
}

#[test]
fn front_ends_come_and_go_with_requests_under_way() {
    let mut cluster = Cluster::start(three(None));
    cluster.attach();
    for round in 0..10u64 {
        let client = cluster.client();
        let _dropped: Vec<_> = (0..32)
            .map(|n| client.begin(Request::Write(n << 16, pattern(n, 1 << 16), false)))
            .collect();
        if round % 2 == 0 {
            cluster.remove(&client);
        }
    }
    let client = cluster.client();
    client.write(0, pattern(1, 4096));
    assert_eq!(client.read(0, 4096), pattern(1, 4096));
    cluster.wait_until_in_sync();
    cluster.detach();
    assert!(cluster.data(0, 0) == cluster.data(0, 1));
}

#[test]
fn an_engine_stops_with_requests_under_way() {
    let mut cluster = Cluster::start(three(None));
    cluster.attach();
    let client = cluster.client();
    let _dropped: Vec<_> = (0..64)
        .map(|n| client.begin(Request::Write(n << 16, pattern(n, 1 << 16), false)))
        .collect();
    cluster.stop();
}
