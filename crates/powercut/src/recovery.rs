//! The recovery: a new machine gets the disks as the power cut left them, and the shipped commands
//! do the rest. Then every flushed write has to be there, and the replicas have to be the same.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::clients::{BLOCK, History};
use crate::nbd::Client;
use crate::nodes::Node;
use crate::recording::{SIZE, VOLUME};
use crate::tape::Moment;

/// Where a replica's data begin in its file.
const DATA: u64 = 1 << 20;
/// Bytes that are read at a time.
const READ: u32 = 1 << 20;

/// Assembles what is on these disks, rebuilds it, and judges it.
///
/// # Errors
/// What went wrong, in words.
pub fn recover(
    program: &Path,
    place: &Path,
    disks: &[PathBuf],
    history: &History,
    at: Moment,
) -> Result<(), String> {
    let reported = |error: io::Error| error.to_string();
    let mut node = Node::new(program, place.join("node"), "n", None).map_err(reported)?;
    node.start().map_err(reported)?;
    let names: Vec<_> = disks.iter().map(|disk| disk.to_string_lossy()).collect();
    let names = names.iter().map(AsRef::as_ref);
    let assemble: Vec<&str> = ["volume", "assemble", "--scan"].into_iter().chain(names).collect();
    node.run(&assemble).map_err(reported)?;
    node.run(&["attach", VOLUME, "--as", "nbd"]).map_err(reported)?;
    judge(&node, history, at)?;
    let wait = ["volume", "status", VOLUME, "--wait", "in-sync", "--timeout", "2m", "--quiet"];
    node.run(&wait).map_err(reported)?;
    judge(&node, history, at)?;
    judge_checksums(&node)?;
    node.run(&["detach", VOLUME]).map_err(reported)?;
    compare(disks)
}

/// Has all replicas read: no block may contradict its checksum, since a power cut damages none.
fn judge_checksums(node: &Node) -> Result<(), String> {
    let run = |arguments: &[&str]| node.run(arguments).map_err(|error| error.to_string());
    run(&["volume", "verify", VOLUME, "--wait"])?;
    let reported = run(&["volume", "status", VOLUME, "--json"])?;
    let reported: Value = serde_json::from_str(&reported).map_err(|error| error.to_string())?;
    let mirrors = reported["volume"]["mirrors"].as_array().into_iter().flatten();
    let replicas = mirrors.flat_map(|mirror| mirror["replicas"].as_array().into_iter().flatten());
    let failed: Vec<_> = replicas.map(|replica| replica["failed_reads"].as_u64()).collect();
    if failed.is_empty() || failed.iter().any(|failed| *failed != Some(0)) {
        return Err(format!("after the rebuild reads fail on the replicas: {failed:?}"));
    }
    Ok(())
}

/// Reads the whole volume.
fn judge(node: &Node, history: &History, at: Moment) -> Result<(), String> {
    let read = |client: &mut Client, offset| client.read(offset, READ).map_err(|e| e.to_string());
    let mut client =
        Client::connect(&node.export(VOLUME), VOLUME).map_err(|error| error.to_string())?;
    for offset in (0..SIZE << 20).step_by(READ as usize) {
        let data = read(&mut client, offset)?;
        for (number, block) in (offset / BLOCK as u64..).zip(data.chunks(BLOCK)) {
            history.judge(at, number, block)?;
        }
    }
    Ok(())
}

/// Whether the data of all replicas are the same.
fn compare(disks: &[PathBuf]) -> Result<(), String> {
    let load = |disk: &PathBuf| -> io::Result<Vec<u8>> {
        let mut data = vec![0; (SIZE << 20) as usize];
        File::open(replica_of(disk)?)?.read_exact_at(&mut data, DATA)?;
        Ok(data)
    };
    let first = load(&disks[0]).map_err(|error| error.to_string())?;
    for (number, disk) in disks.iter().enumerate().skip(1) {
        let data = load(disk).map_err(|error| error.to_string())?;
        if let Some(at) = data.iter().zip(&first).position(|(a, b)| a != b) {
            return Err(format!(
                "after the rebuild the replicas 0 and {number} differ at byte {at}"
            ));
        }
    }
    Ok(())
}

fn replica_of(disk: &Path) -> io::Result<PathBuf> {
    for entry in fs::read_dir(disk)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "replica") {
            return Ok(path);
        }
    }
    Err(io::Error::other(format!("{} holds no replica", disk.display())))
}
