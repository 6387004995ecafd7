//! A replica on a block device: a loop device, where this machine lets the test make one.

mod common;

use std::fs::File;
use std::path::PathBuf;
use std::process::Command;

use common::client::{Answer, Request};
use common::{Cluster, Shape, open_direct, pattern};
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

#[test]
fn a_block_device_holds_a_replica() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let Some(device) = LoopDevice::make(&directory, 512) else {
        return eprintln!("skipped: no loop device can be made here");
    };
    let mut cluster = Cluster::start_on(directory, Some(device.0.clone()), Shape::default());
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
    let map = client.call(Request::Map(0, 4 << 20));
    assert_eq!(map, Ok(Answer::Extents(vec![(4 << 20, true)])));
    drop(client);
    cluster.detach();
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
