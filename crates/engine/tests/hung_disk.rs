//! A disk that hangs holds up what lies on it, and nothing else on its worker.

mod common;

use std::time::{Duration, Instant};

use common::client::{Client, Request};
use common::hanging::HangingFile;
use common::{Cluster, Shape, pattern};
use evenkeel_core::Settings;

const CHUNK: u64 = 64 << 10;
/// Mirrors whose disks hang, beside one whose disk does not: more flushes than the kernel has threads for by
/// default on a machine with two processors.
const HUNG: u64 = 12;
const MIRRORS: u64 = HUNG + 1;
/// How long an operation elsewhere may take, if that is no longer than usual.
const BOUND: Duration = Duration::from_millis(100);

/// Seconds for which it hangs: `HUNG_SECONDS`, or 2.
fn duration() -> Duration {
    let seconds = std::env::var("HUNG_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(2))
}

/// The longest of durable writes and reads in the first mirror.
fn longest_elsewhere(client: &Client, during: Duration) -> Duration {
    let (began, mut longest, mut number) = (Instant::now(), Duration::ZERO, 0);
    while began.elapsed() < during {
        let at = number % 16 * MIRRORS * CHUNK;
        for request in [Request::Write(at, pattern(number, 4096), true), Request::Read(at, 4096)] {
            let begun = Instant::now();
            let answer = client.begin(request).recv_timeout(during).expect("in time");
            assert!(answer.is_ok(), "{answer:?}");
            longest = longest.max(begun.elapsed());
        }
        number += 1;
    }
    longest
}

#[test]
fn disks_that_hang_hold_up_nothing_else() {
    // Longer than they hang: no replica leaves, and nothing fails.
    let settings = Settings { deadline: duration() * 10, ..Settings::default() };
    let mirrors = vec![vec![0]; MIRRORS as usize];
    // With checksums a flush writes before, and that is what hangs.
    let has_checksums = false;
    let size = MIRRORS << 22;
    let shape = Shape { mirrors, settings, size, has_checksums, ..Shape::default() };
    let mut cluster = Cluster::start(shape);
    let mut files = Vec::new();
    for mirror in 1..MIRRORS as usize {
        cluster.close_replica(0, mirror, 0);
        let Some(file) = HangingFile::over(&cluster.path(mirror, 0)) else {
            return eprintln!("skipped: no FUSE can be mounted here");
        };
        files.push(file);
        cluster.open_replica(0, mirror, 0, 2).expect("opens");
    }
    cluster.attach();
    let client = cluster.client();
    let hung_chunk = |n: u64| (n / HUNG * MIRRORS + 1 + n % HUNG) * CHUNK;
    (0..HUNG).for_each(|n| client.write(hung_chunk(n), pattern(1, 4096)));
    let usual = longest_elsewhere(&client, duration());
    files.iter().for_each(|file| file.hang(true));
    let mut hung = vec![client.begin(Request::Flush)];
    hung.extend((0..64).map(|n| client.begin(Request::Read(hung_chunk(n), 4096))));
    hung.extend((0..HUNG).map(|n| client.begin(Request::Map(hung_chunk(n), 4096))));
    let bound = BOUND.max(3 * usual);
    // A machine that others use too may be late by itself; what a hung disk holds up is late each time.
    let mut longest = longest_elsewhere(&client, duration());
    for _ in 0..2 {
        if longest >= bound {
            longest = longest_elsewhere(&client, duration());
        }
    }
    assert!(hung.iter().all(|answer| answer.try_recv().is_err()), "the disks do not hang");
    assert!(longest < bound, "{longest:?}; before they hung {usual:?}");
    files.iter().for_each(|file| file.hang(false));
    for answer in hung {
        let answer = answer.recv_timeout(Duration::from_secs(20)).expect("in time");
        assert!(answer.is_ok(), "{answer:?}");
    }
    cluster.detach();
    (1..MIRRORS as usize).for_each(|mirror| cluster.close_replica(0, mirror, 0));
    cluster.stop();
}
