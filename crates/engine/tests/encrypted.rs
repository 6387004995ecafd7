//! Links with TLS, through the whole engine.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::common::client::{Answer, Request};
use crate::common::tls::Keys;
use crate::common::{Cluster, Shape, pattern};
use evenkeel_core::settings::Pauses;
use evenkeel_core::{Lease, NodeId, ReplicaState, Settings};
use evenkeel_engine::{Connection, EngineEvent};

fn three() -> Shape {
    Shape {
        mirrors: vec![vec![0, 1, 2]],
        nodes: 3,
        settings: Settings {
            deadline: Duration::from_millis(800),
            reconnect_grace: Duration::from_millis(100),
            retry_pause: Pauses::new(Duration::from_millis(50), Duration::from_millis(200)),
            ..Settings::default()
        },
        lease: Lease::new(Duration::from_secs(1), Duration::from_millis(200)).unwrap(),
        keys: Some(Keys::new()),
        ..Shape::default()
    }
}

/// Writes 16 MiB at once, reads them, and compares the replicas.
fn fill(mut cluster: Cluster) {
    cluster.attach();
    let client = cluster.client();
    let answers: Vec<_> = (0..16u64)
        .map(|n| client.begin(Request::Write(n << 20, pattern(n, 1 << 20), false)))
        .collect();
    for answer in answers {
        assert_eq!(answer.recv_timeout(Duration::from_secs(60)).unwrap(), Ok(Answer::Done));
    }
    for number in 0..64u64 {
        client.write(number * 4608, pattern(number, 4096));
    }
    for number in 1..16u64 {
        assert!(client.read(number << 20, 1 << 20) == pattern(number, 1 << 20));
    }
    // On a busy machine one may be late, leave, and come back.
    cluster.wait_until_in_sync();
    cluster.detach();
    assert!(cluster.data(0, 0) == cluster.data(0, 1));
    assert!(cluster.data(0, 0) == cluster.data(0, 2));
}

#[test]
fn replicas_are_identical_that_are_written_over_tls() {
    fill(Cluster::start(three()));
}

#[test]
fn sockets_that_take_little_at_a_time_lose_nothing_of_a_record() {
    fill(Cluster::start(Shape { small_sockets: true, ..three() }));
}

#[test]
fn a_replica_is_copied_over_tls() {
    let mut cluster = Cluster::start(three());
    cluster.attach();
    let client = cluster.client();
    client.write(0, pattern(1, 1 << 20));
    cluster.cut.lock().unwrap().push(2);
    cluster.close_replica(2, 0, 2);
    client.write(0, pattern(2, 4 << 20));
    cluster.wait_until_left(cluster.replica(0, 2));
    cluster.open_replica(2, 0, 2, 2).expect("opens again");
    cluster.cut.lock().unwrap().clear();
    cluster.wait_until_in_sync();
    cluster.detach();
    assert!(cluster.data(0, 0) == cluster.data(0, 2));
}

#[test]
fn a_bit_that_is_flipped_on_the_way_ends_the_link_alone() {
    let mut shape = three();
    // No replica leaves because it is late, and no other link ends.
    shape.settings.deadline = Duration::from_secs(60);
    let mut cluster = Cluster::start(shape);
    cluster.attach();
    let client = cluster.client();
    client.write(0, pattern(6, 8192));
    let replica = cluster.replica(0, 1);
    let keys = cluster.shape.keys.clone().expect("keys");
    // Without a flip it is decrypted, and no frame.
    for flip in [None, Some(1), Some(5), Some(2000), Some(4181)] {
        let (mut ours, theirs) = UnixStream::pair().expect("a pair");
        let (mut tls, other) = keys.shake();
        let mut cipher = vec![0; 5000];
        let length = tls.seal(&[0x55; 4160], &mut cipher).expect("it can send");
        cipher.truncate(length);
        if let Some(flip) = flip {
            cipher[flip] ^= 1;
        }
        let connection = Connection::encrypted(theirs.into(), other, Vec::new());
        cluster.engines[1].accept_link(cluster.volume, replica, NodeId(100), connection);
        ours.write_all(&cipher).expect("there is room");
        cluster.wait_for("a closed link", |event| match event {
            EngineEvent::LinkClosed { reason, .. } => {
                assert_eq!(reason.contains("TLS"), flip.is_some(), "{flip:?}: {reason}");
                true
            }
            _ => false,
        });
    }
    assert_eq!(client.read(0, 8192), pattern(6, 8192));
    assert!(cluster.view.lock().unwrap().replicas().all(|(_, r)| r.state == ReplicaState::InSync));
}
