//! Disks that are given away to be measured.

use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use crate::failure::{Failure, Kind};
use crate::interrupt::Interrupt;
use crate::process;
use crate::scratch::{Scratch, Undo};
use crate::tools;

/// Makes an XFS filesystem on each and mounts it; dropping the scratch unmounts them.
///
/// # Errors
/// If one is not a block device, is mounted or in use, or carries data and `force` is not given.
pub fn prepare(
    disks: &[PathBuf],
    force: bool,
    interrupt: &Interrupt,
) -> Result<(Vec<PathBuf>, Scratch), Failure> {
    tools::MKFS_XFS.require()?;
    // All are looked at before any is changed.
    for disk in disks {
        check(disk, force)?;
    }
    let mut scratch = Scratch::create(&std::env::temp_dir())?;
    let mut places = Vec::new();
    for (index, disk) in disks.iter().enumerate() {
        let point = scratch.directory(&format!("disk-{index}"))?;
        let device = disk.display().to_string();
        process::helper(interrupt, ["mkfs.xfs", "-f", "-q", &device])?;
        scratch.note(Undo::Mount { point: point.clone() })?;
        process::helper(interrupt, ["mount", &device, &point.display().to_string()])?;
        places.push(point);
    }
    Ok((places, scratch))
}

fn check(disk: &Path, force: bool) -> Result<(), Failure> {
    let refused = |why: &dyn std::fmt::Display| {
        Failure::new(format!("cannot measure on {}", disk.display()), why).kind(Kind::Unsafe)
    };
    let metadata = std::fs::metadata(disk).map_err(|error| refused(&error))?;
    if !metadata.file_type().is_block_device() {
        return Err(refused(&"it is not a block device").advise("use --scratch for a directory"));
    }
    // Exclusive opening fails while it is mounted, part of an array, or open likewise by another.
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::EXCL | rustix::fs::OFlags::CLOEXEC;
    rustix::fs::open(disk, flags, rustix::fs::Mode::empty()).map_err(|error| {
        refused(&format!("it is mounted or in use ({error})"))
            .advise("unmount it, or choose another")
    })?;
    let found = process::quiet([
        "wipefs".as_ref(),
        "--noheadings".as_ref(),
        "--output".as_ref(),
        "TYPE".as_ref(),
        disk.as_os_str(),
    ]);
    let found = found.map_err(|why| refused(&why))?;
    let found: Vec<&str> = found.split_whitespace().collect();
    if !found.is_empty() && !force {
        return Err(refused(&format!("there is something on it: {}", found.join(", ")))
            .advise("choose an empty one, or give it away with --force: all on it is lost"));
    }
    Ok(())
}
