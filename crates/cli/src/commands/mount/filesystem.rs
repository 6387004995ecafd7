//! The filesystem on a volume: what it carries, and making one.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Seek as _, SeekFrom};
use std::path::Path;

use crate::args::{Filesystem, MountArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::size;

/// What runs a program with these words, and gives what it prints.
pub type Run<'a> = &'a dyn Fn(&str, &[&OsStr]) -> Result<String, Failure>;

/// The smallest XFS that `mkfs.xfs` makes.
const SMALLEST_XFS: u64 = 300 << 20;

/// A volume carries another filesystem than the one that is to be made.
pub fn carries_other(name: &str, kind: &str, wanted: Filesystem) -> Failure {
    Failure::new(
        format!("no {} filesystem was made on volume `{name}`", wanted.name()),
        format!("it carries {kind} already, whose data would be lost"),
    )
    .exit(Exit::Unsafe)
    .advise(format!(
        "mount it without --mkfs, or remove what is on it with `wipefs -a` on its device and try \
         again (the data is lost then), or use another volume than `{name}`"
    ))
}

/// A volume carries nothing, and nothing is to be made.
pub fn carries_nothing(args: &MountArgs, device: &Path) -> Failure {
    let kind = size_of(device).map_or(Filesystem::Xfs, fitting);
    Failure::new(
        format!("volume `{}` cannot be mounted", args.name),
        "it carries no filesystem that is known here",
    )
    .advise(format!(
        "make one: evenkeel mount {} {} --mkfs {}",
        args.name,
        args.directory.display(),
        kind.name()
    ))
}

/// The kernel refused to mount a filesystem. `mount` calls that a bad superblock also where the
/// filesystem is well and an earlier mount of it has not ended, on the device of a daemon that was
/// killed.
pub fn not_mounted(failure: Failure, kind: &str) -> Failure {
    let advice = match kind {
        "xfs" => {
            "see the end of `dmesg`; if it says `duplicate UUID`, the filesystem is well, and an earlier \
             mount of it has not ended: unmount that one (`umount -l`), wait until `dmesg` says `Unmounting \
             Filesystem`, and try again"
        }
        _ => "see the end of `dmesg`, and try again when that is repaired",
    };
    failure.advise(advice)
}

/// It is not mounted, and a filesystem was made on it.
pub fn made(mut failure: Failure, wanted: Filesystem) -> Failure {
    let before = if failure.why.is_empty() { String::new() } else { format!("{}; ", failure.why) };
    failure.why = format!("{before}the {} filesystem was made", wanted.name());
    failure
}

/// The filesystem that a volume of so many bytes is advised to carry.
const fn fitting(size: u64) -> Filesystem {
    match size < SMALLEST_XFS {
        true => Filesystem::Ext4,
        false => Filesystem::Xfs,
    }
}

/// What a device carries, as `blkid` names it.
///
/// # Errors
/// If the device cannot be read.
pub fn signature(device: &Path, run: Run<'_>) -> Result<Option<String>, Failure> {
    // wipefs ends with 0 also where it finds nothing, unlike blkid.
    let words = ["--no-act", "--parsable", "--noheadings", "--output", "TYPE"].map(OsStr::new);
    let found = run("wipefs", &[&words[..], &[device.as_os_str()]].concat())?;
    Ok(found.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned))
}

/// Makes a filesystem on the device of a volume that carries nothing.
///
/// # Errors
/// If the volume is too small for it, or the program fails or is missing.
pub fn make(
    volume: &str,
    device: &Path,
    filesystem: Filesystem,
    run: Run<'_>,
) -> Result<(), Failure> {
    if filesystem == Filesystem::Xfs
        && let Some(size) = size_of(device)
    {
        refuse_too_small(volume, size)?;
    }
    let words = [OsStr::new("-q"), device.as_os_str()];
    match filesystem {
        Filesystem::Xfs => run("mkfs.xfs", &words),
        Filesystem::Ext4 => run("mkfs.ext4", &words),
    }
    .map(drop)
    .map_err(without_usage)
}

fn refuse_too_small(volume: &str, bytes: u64) -> Result<(), Failure> {
    if bytes >= SMALLEST_XFS {
        return Ok(());
    }
    let why = format!("it has {}, which is too small for XFS", size(bytes));
    Err(Failure::new(format!("no xfs filesystem was made on volume `{volume}`"), why)
        .advise(format!("choose --mkfs ext4, or a volume of at least {}", size(SMALLEST_XFS))))
}

/// A mkfs that refuses its arguments tells all that it takes: only what it says before is of use.
fn without_usage(mut failure: Failure) -> Failure {
    let said = failure.why.lines().take_while(|line| !line.to_lowercase().starts_with("usage"));
    let said = said.collect::<Vec<_>>().join("\n");
    if !said.is_empty() {
        failure.why = said;
    }
    failure
}

/// Bytes; `None`: it cannot be opened, which whoever uses it next says.
fn size_of(device: &Path) -> Option<u64> {
    File::open(device).and_then(|mut file| file.seek(SeekFrom::End(0))).ok()
}

impl Filesystem {
    /// As mount and wipefs name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Xfs => "xfs",
            Self::Ext4 => "ext4",
        }
    }
}

#[cfg(test)]
mod tests;
