//! A disk that hangs holds up what lies on it, and nothing else on its worker.
//!
//! `TMPDIR=/dev/shm HUNG_SECONDS=60 cargo test --release -p evenkeel-engine --test alone
//! hung_disk -- --nocapture` has them hang for so long and prints what was measured
//! (`docs/decisions/0052-nothing-blocks-a-worker.md`). In memory, or it measures what the machine's
//! own disk does beside it.

use std::fs::OpenOptions;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::common::client::{Client, Request};
use crate::common::hanging::HangingFile;
use crate::common::{Cluster, Shape, ask, pattern};
use evenkeel_core::Settings;
use evenkeel_engine::{EngineError, SpaceStep, SpaceTask};
use evenkeel_format::disk_length;

const CHUNK: u64 = 64 << 10;
/// Mirrors whose disks hang, beside one whose disk does not: more flushes than the kernel has
/// threads for by default on a machine with two processors.
const HUNG: u64 = 12;
const MIRRORS: u64 = HUNG + 1;
/// Operations elsewhere that end at least while the disks hang. Each of them shows the same: how
/// long it took says more of the machine than of the worker.
const OPERATIONS: u64 = 200;
/// For what would not come at all.
const PATIENCE: Duration = Duration::from_secs(60);
/// No operation elsewhere takes longer, on a machine that has nothing else to do: asserted only by
/// hand.
const MAX_WAIT: Duration = Duration::from_millis(100);

/// Seconds for which it hangs: `HUNG_SECONDS`, or 2.
fn duration() -> Duration {
    let seconds = std::env::var("HUNG_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(2))
}

/// Durable writes and reads in the first mirror.
#[derive(Debug)]
struct Elsewhere {
    operations: u64,
    /// Turns of the workers meanwhile.
    turns: u64,
    longest: Duration,
    /// Since the start of the workers.
    _longest_turn: Duration,
}

/// So many at least, and for so long.
fn elsewhere(cluster: &Cluster, client: &Client, during: Duration) -> Elsewhere {
    let (began, mut longest, mut operations) = (Instant::now(), Duration::ZERO, 0);
    let (before, _) = turns(cluster);
    while operations < OPERATIONS || began.elapsed() < during {
        let at = operations % 16 * MIRRORS * CHUNK;
        let write = Request::Write(at, pattern(operations, 4096), true);
        for request in [write, Request::Read(at, 4096)] {
            let begun = Instant::now();
            let answer = client.begin(request).recv_timeout(PATIENCE).expect("it ends");
            assert!(answer.is_ok(), "{answer:?}");
            longest = longest.max(begun.elapsed());
            operations += 1;
        }
    }
    let (after, longest_turn) = turns(cluster);
    Elsewhere { operations, turns: after - before, longest, _longest_turn: longest_turn }
}

/// How many turns the workers have taken since the start, and the longest one.
fn turns(cluster: &Cluster) -> (u64, Duration) {
    let workers = ask(|answer| cluster.engines[0].survey(answer));
    let longest = workers.iter().map(|worker| worker.counters.longest_turn).max();
    (workers.iter().map(|worker| worker.counters.loops).sum(), longest.unwrap_or_default())
}

type Room = Receiver<Result<Option<SpaceTask>, EngineError>>;

/// A step of making room on the disk of a mirror, to twice as much.
fn begin_space(cluster: &Cluster, mirror: usize, step: SpaceStep) -> Room {
    let (sender, receiver) = channel();
    let (volume, replica) = (cluster.volume, cluster.replica(mirror, 0));
    cluster.engines[0].make_space(volume, replica, 8 << 20, step, None, move |result| {
        let _ = sender.send(result);
    });
    receiver
}

#[test]
fn disks_that_hang_hold_up_nothing_else() {
    let _alone = crate::alone();
    [false, true].into_iter().for_each(hold_up_nothing_else);
}

fn hold_up_nothing_else(has_checksums: bool) {
    // Longer than they hang: no replica leaves, and nothing fails.
    let deadline = 10 * duration() + 10 * PATIENCE;
    let settings = Settings { deadline, ..Settings::default() };
    let mirrors = vec![vec![0]; MIRRORS as usize];
    let size = MIRRORS << 22;
    let shape = Shape { mirrors, settings, size, has_checksums, ..Shape::default() };
    let mut cluster = Cluster::start(shape);
    let mut files = Vec::new();
    for mirror in 1..MIRRORS as usize {
        cluster.close_replica(0, mirror, 0);
        let path = cluster.path(mirror, 0);
        // Long enough to make room.
        let file = OpenOptions::new().write(true).open(&path).expect("opens");
        file.set_len(disk_length(8 << 20)).expect("sized");
        let Some(file) = HangingFile::over(&path) else {
            return eprintln!("skipped: no FUSE can be mounted here");
        };
        files.push(file);
        cluster.open_replica(0, mirror, 0, 2).expect("opens");
    }
    cluster.attach();
    let client = cluster.client();
    let hung_chunk = |n: u64| (n / HUNG * MIRRORS + 1 + n % HUNG) * CHUNK;
    (0..HUNG).for_each(|n| client.write(hung_chunk(n), pattern(1, 4096)));
    let usual = elsewhere(&cluster, &client, duration());
    files.iter().for_each(|file| file.hang(true));
    // The last of them have nothing under way when they are to grow.
    let busy = HUNG - 4;
    let mut hung: Vec<_> = (0..64)
        .filter(|n| n % HUNG < busy)
        .map(|n| client.begin(Request::Read(hung_chunk(n), 4096)))
        .collect();
    hung.extend((0..busy).map(|n| client.begin(Request::Map(hung_chunk(n), 4096))));
    let room = |mirror| begin_space(&cluster, mirror as usize, SpaceStep::MoveMetadata);
    let grown: Vec<Room> = (1..=HUNG).map(room).collect();
    hung.push(client.begin(Request::Flush));
    hung.extend(
        (0..HUNG).map(|n| client.begin(Request::Write(hung_chunk(n), pattern(n, 4096), false))),
    );
    let found = elsewhere(&cluster, &client, duration());
    // So each of those ended with all of these under way: none waited for a disk that hangs.
    assert!(hung.iter().all(|answer| answer.try_recv().is_err()), "the disks do not hang");
    assert!(grown.iter().all(|answer| answer.try_recv().is_err()), "growth does not hang");
    assert!(found.turns >= found.operations, "a worker stood still: {found:?}");
    eprintln!("with checksums: {has_checksums}; before: {usual:?}");
    eprintln!("while {HUNG} disks hung: {found:?}");
    let is_quiet = std::env::var("HUNG_SECONDS").is_ok();
    assert!(!is_quiet || found.longest < MAX_WAIT, "something waited: {found:?}");
    files.iter().for_each(|file| file.hang(false));
    for answer in hung {
        let answer = answer.recv_timeout(PATIENCE).expect("in time");
        assert!(answer.is_ok(), "{answer:?}");
    }
    for (mirror, answer) in (1..).zip(grown) {
        let task = answer.recv_timeout(PATIENCE).expect("in time");
        assert!(matches!(task, Ok(Some(SpaceTask::Zero(_)))), "{task:?}");
        let answer = begin_space(&cluster, mirror, SpaceStep::Use);
        let task = answer.recv_timeout(PATIENCE).expect("in time");
        assert!(matches!(task, Ok(None)), "{task:?}");
    }
    (0..HUNG).for_each(|n| assert_eq!(client.read(hung_chunk(n), 4096), pattern(n, 4096)));
    cluster.detach();
    (1..MIRRORS as usize).for_each(|mirror| cluster.close_replica(0, mirror, 0));
    cluster.stop();
}
