//! Volumes on real files, through the whole engine.

use crate::common::client::{Answer, Request};
use crate::common::{Cluster, Shape, pattern};
use evenkeel_core::Protocol;
use evenkeel_engine::counters::Kind;

#[test]
fn one_local_replica_keeps_what_is_written() {
    let mut cluster = Cluster::start(Shape::default());
    cluster.attach();
    let client = cluster.client();
    client.write(4096, pattern(1, 4096));
    client.write(512, pattern(2, 512));
    assert_eq!(client.read(4096, 4096), pattern(1, 4096));
    assert_eq!(client.read(512, 512), pattern(2, 512));
    assert_eq!(client.read(0, 512), vec![0; 512]);
    assert_eq!(client.call(Request::Flush), Ok(Answer::Done));
    drop(client);
    cluster.detach();
    assert_eq!(&cluster.data(0, 0)[4096..8192], &pattern(1, 4096)[..]);
}

#[test]
fn three_replicas_on_three_nodes_are_identical() {
    let shape =
        Shape { mirrors: vec![vec![0, 1, 2]], nodes: 3, size: 64 << 20, ..Shape::default() };
    let mut cluster = Cluster::start(shape);
    cluster.attach();
    let client = cluster.client();
    let lengths = [512usize, 4096, 20_480, 65_536, 1 << 20, (1 << 20) + 512, 5 << 20];
    let mut offset = 0;
    let mut answers = Vec::new();
    for (seed, length) in lengths.into_iter().enumerate() {
        let data = pattern(seed as u64, length);
        answers.push(client.begin(Request::Write(offset, data, false)));
        offset += length as u64;
    }
    for answer in answers {
        assert_eq!(answer.recv().unwrap(), Ok(Answer::Done));
    }
    offset = 0;
    for (seed, length) in lengths.into_iter().enumerate() {
        assert_eq!(client.read(offset, length as u32), pattern(seed as u64, length));
        offset += length as u64;
    }
    let (sender, receiver) = std::sync::mpsc::channel();
    cluster.engines[0].survey(move |workers| sender.send(workers).unwrap());
    let workers = receiver.recv().unwrap();
    assert_eq!(workers.len(), 2);
    let volume = workers.iter().flat_map(|worker| &worker.volumes).next().expect("one volume");
    let written = &volume.counters.kinds[Kind::Write as usize];
    assert_eq!(written.bytes, lengths.iter().sum::<usize>() as u64);
    assert_eq!(written.latency.count(), lengths.len() as u64);
    assert!(volume.links.iter().all(|link| link.counters.bytes_sent > written.bytes));
    cluster.wait_until_in_sync();
    cluster.detach();
    assert!(cluster.data(0, 0) == cluster.data(0, 1));
    assert!(cluster.data(0, 0) == cluster.data(0, 2));
}

/// A counter that is raised by compare-and-writes alone: of those that expect the same, one is
/// done.
#[test]
fn compare_and_writes_are_one_step_each() {
    let shape = Shape { mirrors: vec![vec![0, 1], vec![0, 1]], nodes: 2, ..Shape::default() };
    let mut cluster = Cluster::start(shape);
    cluster.attach();
    let client = cluster.client();
    // Over the border between two mirrors.
    let offset = (1 << 20) - 4096;
    let block = |value: u8| vec![value; 8192];
    for round in 0..20 {
        let compare = || Request::Compare(offset, block(round), block(round + 1));
        let answers: Vec<_> = (0..8).map(|_| client.begin(compare())).collect();
        let answers: Vec<_> = answers.iter().map(|answer| answer.recv().unwrap()).collect();
        let done = answers.iter().filter(|answer| **answer == Ok(Answer::Done)).count();
        let others = answers.iter().filter(|answer| **answer == Ok(Answer::Miscompare(0))).count();
        assert_eq!((done, others), (1, 7));
    }
    assert_eq!(client.read(offset, 8192), block(20));
    let mut almost = block(20);
    almost[5000] = 0;
    let refused = client.call(Request::Compare(offset, almost, block(21)));
    assert_eq!(refused, Ok(Answer::Miscompare(5000)));
    let writes = &cluster.status(0).counters.kinds[Kind::Write as usize];
    assert_eq!(writes.latency.count(), 20 * 8 + 1);
    assert_eq!(writes.bytes, 20 * 8192, "what differs is not written");
    cluster.detach();
}

#[test]
fn every_protocol_ends_with_identical_replicas() {
    for protocol in [Protocol::A, Protocol::B, Protocol::C] {
        for mirror in [vec![0, 1, 2], vec![1, 2]] {
            let shape =
                Shape { mirrors: vec![mirror.clone()], nodes: 3, protocol, ..Shape::default() };
            let mut cluster = Cluster::start(shape);
            cluster.attach();
            let client = cluster.client();
            let answers: Vec<_> = (0..100u64)
                .map(|n| {
                    let durable = n % 10 == 0;
                    client.begin(Request::Write(n % 7 * 4096, pattern(n, 8192), durable))
                })
                .collect();
            for answer in answers {
                assert_eq!(answer.recv().unwrap(), Ok(Answer::Done));
            }
            assert_eq!(client.call(Request::Flush), Ok(Answer::Done));
            let read = client.read(0, 8 * 4096);
            assert_eq!(cluster.status(0).links.len(), mirror.iter().filter(|n| **n != 0).count());
            cluster.wait_until_in_sync();
            cluster.detach();
            for index in 0..mirror.len() {
                assert!(cluster.data(0, index)[..8 * 4096] == read);
            }
        }
    }
}

#[test]
fn a_stripe_spreads_and_gathers() {
    let shape = Shape {
        mirrors: vec![vec![0, 1], vec![1, 0]],
        nodes: 2,
        size: 32 << 20,
        ..Shape::default()
    };
    let mut cluster = Cluster::start(shape);
    cluster.attach();
    let client = cluster.client();
    client.write(32 << 10, pattern(9, 3 << 20));
    assert_eq!(client.read(32 << 10, 3 << 20), pattern(9, 3 << 20));
    cluster.wait_until_in_sync();
    cluster.detach();
    assert!(cluster.data(0, 0) == cluster.data(0, 1));
    assert!(cluster.data(1, 0) == cluster.data(1, 1));
    assert!(cluster.data(0, 0) != cluster.data(1, 0));
}
