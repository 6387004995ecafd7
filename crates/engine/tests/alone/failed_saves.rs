//! Saves of which a disk fails some, by a limit on the size of files.

use std::fs::OpenOptions;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Duration;

use crate::common::client::{Answer, Request};
use crate::common::{Cluster, Shape, open_regions, pattern};
use evenkeel_core::Settings;
use evenkeel_engine::EngineEvent;
use evenkeel_format::{TABLE_LENGTH, TableCopy, newest_table};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Bytes of a region.
const REGION: u64 = 1 << 20;

/// Both copies of the first slot's table.
fn copies(path: &Path) -> [Vec<u8>; 2] {
    let file = OpenOptions::new().read(true).open(path).expect("opens");
    [TableCopy::A, TableCopy::B].map(|copy| {
        let mut bytes = vec![0; TABLE_LENGTH];
        file.read_exact_at(&mut bytes, copy.offset(0)).expect("readable");
        bytes
    })
}

/// Where the next table goes.
fn next_copy(cluster: &Cluster) -> TableCopy {
    let [a, b] = copies(&cluster.path(0, 0));
    newest_table(&a, &b, cluster.replica(0, 0), 0).write_next
}

/// What a power cut leaves of a write to this copy: its first sector.
fn tear(path: &Path, copy: TableCopy) {
    let file = OpenOptions::new().write(true).open(path).expect("opens");
    file.write_all_at(&[0; TABLE_LENGTH - 512], copy.offset(0) + 512).expect("written");
}

/// A table that can't be saved is tried again where it failed. So a power cut in the middle of that
/// finds the last one that was saved (I5).
#[test]
fn after_a_failed_save_the_last_good_table_is_not_written_over() {
    let _alone = crate::alone();
    // SAFETY: ignoring a signal has no preconditions.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    let settings = Settings { stabilize_after: Duration::from_secs(600), ..Settings::default() };
    let mut cluster = Cluster::start(Shape { settings, size: 200 * REGION, ..Shape::default() });
    cluster.attach();
    let client = cluster.client();
    let path = cluster.path(0, 0);
    let write =
        |region: u64| client.begin(Request::Write(region * REGION, pattern(1, 4096), false));
    let open = |regions: Range<u64>| {
        for answer in regions.map(write).collect::<Vec<_>>() {
            let answer = answer.recv_timeout(Duration::from_secs(60)).expect("in time");
            assert_eq!(answer, Ok(Answer::Done));
        }
    };
    // So many that a table is longer than a sector. Then one by one, until the next save goes to
    // copy B.
    open(0..150);
    let mut count = 150;
    while count < 152 || next_copy(&cluster) != TableCopy::B {
        open(count..count + 1);
        count += 1;
    }
    let good = copies(&path);
    assert!(open_regions(&path).into_iter().eq(0..count));
    // Whatever lies from copy B on can't be written.
    let maximum = getrlimit(Resource::Fsize).maximum;
    let set = |current| setrlimit(Resource::Fsize, Rlimit { current, maximum }).expect("set");
    set(Some(512 << 10));
    let _under_way = write(count);
    cluster.wait_for(
        "a failed save",
        |e| matches!(e, EngineEvent::DiskError { reason, .. } if reason.contains("saving the intent log")),
    );
    // It is tried again several times.
    std::thread::sleep(Duration::from_millis(500));
    set(maximum);
    cluster.stop();
    // Whatever a later attempt has written to is what a power cut would have torn.
    let written = good.iter().zip(copies(&path)).map(|(before, now)| *before != now);
    for (copy, _) in
        [TableCopy::A, TableCopy::B].iter().zip(written).filter(|(_, written)| *written)
    {
        tear(&path, *copy);
    }
    let found = open_regions(&path);
    assert!(found.iter().copied().eq(0..count), "{found:?}");
}
