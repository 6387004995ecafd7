//! A replica on a block device: a loop device, where this machine lets the test make one.

use std::fs::File;
use std::path::PathBuf;
use std::process::Command;

use crate::common::client::{Answer, Request};
use crate::common::{Cluster, Shape, open_direct, pattern};
use evenkeel_engine::{EngineError, smallest_block};

/// A loop device that goes away with the test.
struct LoopDevice(PathBuf);

impl LoopDevice {
    /// `None` without the right to make one.
    fn make(directory: &tempfile::TempDir, sector: u32) -> Option<Self> {
        let path = directory.path().join("backing");
        File::create(&path).ok()?.set_len(32 << 20).ok()?;
        let output = Command::new("losetup")
            .args(["--find", "--show", "--sector-size", &sector.to_string()])
            .arg(&path)
            .output()
            .ok()?;
        let name = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| Self(name.trim().into()))
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.0).status();
    }
}

/// A cluster whose one replica is on a loop device; `None`, and a word, where none can be made.
fn start() -> Option<(Cluster, LoopDevice)> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let Some(device) = LoopDevice::make(&directory, 512) else {
        eprintln!("skipped: no loop device can be made here");
        return None;
    };
    let cluster = Cluster::start_on(directory, Some(device.0.clone()), Shape::default());
    Some((cluster, device))
}

#[test]
fn a_block_device_holds_a_replica() {
    let Some((mut cluster, device)) = start() else { return };
    cluster.attach();
    let client = cluster.client();
    client.write(512, pattern(1, 3 << 20));
    assert_eq!(client.call(Request::Zero(4096, 1 << 20, true)), Ok(Answer::Done));
    assert_eq!(client.call(Request::Zero(2 << 20, 512, false)), Ok(Answer::Done));
    assert_eq!(client.call(Request::Flush), Ok(Answer::Done));
    let mut expected = pattern(1, 3 << 20);
    expected[4096 - 512..(1 << 20) + 4096 - 512].fill(0);
    expected[(2 << 20) - 512..2 << 20].fill(0);
    assert!(client.read(512, 3 << 20) == expected);
    drop(client);
    cluster.detach();
    cluster.stop();
    drop(device);
}

const MIB: u64 = 1 << 20;

#[test]
fn what_was_never_written_or_was_trimmed_is_known_after_a_restart() {
    let Some((mut cluster, device)) = start() else { return };
    cluster.attach();
    let client = cluster.client();
    let map = |client: &crate::common::client::Client| client.call(Request::Map(0, 6 << 20));
    assert_eq!(map(&client), Ok(Answer::Extents(vec![(6 * MIB, false)])));
    client.write(512, pattern(1, 3 << 20));
    assert_eq!(map(&client), Ok(Answer::Extents(vec![(4 * MIB, true), (2 * MIB, false)])));
    assert_eq!(client.call(Request::Zero(MIB, 2 << 20, true)), Ok(Answer::Done));
    // A power cut might take that back still.
    assert_eq!(map(&client), Ok(Answer::Extents(vec![(4 * MIB, true), (2 * MIB, false)])));
    client.write(2 * MIB, pattern(2, 4096));
    assert_eq!(client.call(Request::Flush), Ok(Answer::Done));
    let trimmed = vec![(MIB, true), (MIB, false), (2 * MIB, true), (2 * MIB, false)];
    assert_eq!(map(&client), Ok(Answer::Extents(trimmed.clone())));
    drop(client);
    cluster.detach();
    cluster.close_replica(0, 0, 0);
    cluster.open_replica(0, 0, 0, 2).expect("opens");
    cluster.attach();
    let client = cluster.client();
    assert_eq!(map(&client), Ok(Answer::Extents(trimmed)));
    assert!(client.read(MIB, 1 << 20).iter().all(|byte| *byte == 0));
    assert_eq!(client.read(2 * MIB, 4096), pattern(2, 4096));
    drop(client);
    cluster.detach();
    cluster.stop();
    drop(device);
}

#[test]
fn whatever_is_written_and_trimmed_no_data_lie_where_the_map_has_none() {
    let Some((mut cluster, device)) = start() else { return };
    let mut random = 7u64;
    let mut draw = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) % below
    };
    let mut expected = vec![0; 6 << 20];
    for incarnation in 2..6 {
        cluster.attach();
        let client = cluster.client();
        for round in 0..40 {
            let (at, length) = (draw(11) * (MIB / 2), (draw(3) + 1) * (MIB / 4));
            let range = at as usize..(at + length) as usize;
            match draw(5) {
                0 | 1 => {
                    let data = pattern(round + 1, length as usize);
                    expected[range].copy_from_slice(&data);
                    client.write(at, data);
                }
                2 | 3 => {
                    let at = at / MIB * MIB;
                    expected[at as usize..(at + MIB) as usize].fill(0);
                    assert_eq!(client.call(Request::Zero(at, 1 << 20, true)), Ok(Answer::Done));
                }
                _ => assert_eq!(client.call(Request::Flush), Ok(Answer::Done)),
            }
            let Ok(Answer::Extents(extents)) = client.call(Request::Map(0, 6 << 20)) else {
                panic!("no map")
            };
            let mut at = 0;
            for (length, allocated) in extents {
                let range = at..at + length as usize;
                at = range.end;
                assert!(allocated || expected[range].iter().all(|byte| *byte == 0));
            }
        }
        assert!(client.read(0, 6 << 20) == expected);
        drop(client);
        cluster.detach();
        cluster.close_replica(0, 0, 0);
        cluster.open_replica(0, 0, 0, incarnation).expect("opens");
    }
    cluster.stop();
    drop(device);
}

#[test]
fn a_disk_with_large_blocks_refuses_a_volume_with_small_ones() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let Some(device) = LoopDevice::make(&directory, 4096) else {
        return eprintln!("skipped: no loop device can be made here");
    };
    assert_eq!(smallest_block(open_direct(&device.0)).expect("known"), 4096);
    let shape = Shape { block_size: 4096, ..Shape::default() };
    let mut cluster = Cluster::start_on(directory, Some(device.0.clone()), shape);
    cluster.attach();
    let client = cluster.client();
    client.write(4096, pattern(1, 8192));
    assert_eq!(client.read(4096, 8192), pattern(1, 8192));
    drop(client);
    cluster.detach();
    cluster.close_replica(0, 0, 0);
    let refused = cluster.try_open_with_block_size(512);
    assert!(
        matches!(refused, Err(EngineError::BlockSize { disk: 4096, volume: 512 })),
        "{refused:?}"
    );
    cluster.stop();
    drop(device);
}
