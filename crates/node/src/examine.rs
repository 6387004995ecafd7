//! What a replica's disk says of itself, read without a running node, and without disturbing one.
//!
//! Nothing is written and no lock is taken, so a node may start or serve meanwhile. A superblock
//! that is just being saved looks torn: what fails its checksum is read again, a few times.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use evenkeel_api::sizes::{self, compared};
use evenkeel_api::types::{
    CopyVerdict, Examined, ExaminedCopy, ExaminedReplica, ReplicaProblem, ReplicaVerdict,
};
use evenkeel_format::{
    COPY_A_OFFSET, COPY_B_OFFSET, FormatError, Newest, NewestError, SUPERBLOCK_LENGTH, Superblock,
    SuperblockCopy, envelope, foreign_signature, newest,
};

use crate::disks::{length, length_of, open_to_read, read_copy};

mod locks;
mod tables;
mod view;

/// How often a copy that is not whole is read again, and the pause before.
const AGAIN: (u32, Duration) = (3, Duration::from_millis(20));
/// The ending of a replica's file in a directory.
const ENDING: &str = "replica";

/// A replica that was read, with its bytes decoded.
#[derive(Debug)]
pub struct Found {
    /// What is told of it.
    pub examined: Examined,
    /// Its superblock, if one can be used.
    pub superblock: Option<Superblock>,
}

/// Reads what is at a path: a file, a device, or all replica files of a directory. At least one
/// element: a place without a replica is told as such.
#[must_use]
pub fn examine(path: &Path) -> Vec<Found> {
    match replica_files(path) {
        Ok(files) if files.is_empty() => {
            let why = "the directory holds no replica file (none ends in .replica)";
            let action = "Name the directory that was given to a node as a disk";
            vec![without(path, ReplicaVerdict::NoReplica, why, action)]
        }
        Ok(files) => files.iter().map(|file| examine_one(file)).collect(),
        Err(e) => vec![without(path, ReplicaVerdict::NoReplica, &e.to_string(), advice(&e))],
    }
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "Check the path",
        io::ErrorKind::PermissionDenied => "Run this as root, with sudo for example",
        _ => "See the kernel's log, and check the disk",
    }
}

/// The replica files of a directory by name, or the path itself.
fn replica_files(path: &Path) -> io::Result<Vec<PathBuf>> {
    if !fs::metadata(path)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path)? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == ENDING) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// A place of which nothing more is known.
fn without(path: &Path, verdict: ReplicaVerdict, why: &str, action: &str) -> Found {
    let problem = ReplicaProblem { why: why.to_owned(), action: action.to_owned() };
    let examined = Examined {
        path: path.display().to_string(),
        size: 0,
        device: false,
        used_by: None,
        verdict,
        problems: vec![problem],
        superblocks: Vec::new(),
        replica: None,
    };
    Found { examined, superblock: None }
}

/// Reads one file or device.
#[must_use]
pub fn examine_one(path: &Path) -> Found {
    let kind = match fs::metadata(path) {
        Ok(metadata) => metadata.file_type(),
        Err(e) => return without(path, ReplicaVerdict::NoReplica, &e.to_string(), advice(&e)),
    };
    if !kind.is_file() && !kind.is_block_device() {
        let why = "it is neither a file, a block device nor a directory";
        return without(path, ReplicaVerdict::NoReplica, why, "Name a disk or a replica's file");
    }
    match open_to_read(path).and_then(|file| Ok((length(&file)?, file))) {
        Ok((size, file)) => read(path, &file, size, kind.is_block_device()),
        Err(e) => without(path, ReplicaVerdict::Unusable, &e.to_string(), advice(&e)),
    }
}

fn read(path: &Path, file: &File, size: u64, device: bool) -> Found {
    let copies = read_copies(file);
    let found = newest(&copies[0], &copies[1]);
    let counts = found.as_ref().ok().map(|newest| newest.copy);
    let superblocks = [SuperblockCopy::A, SuperblockCopy::B];
    let superblocks = superblocks.map(|copy| examined(copy, &copies, counts == Some(copy)));
    let mut examined = Examined {
        path: path.display().to_string(),
        size,
        device,
        used_by: file.metadata().ok().and_then(|m| locks::holder(m.dev(), m.ino())),
        verdict: ReplicaVerdict::Whole,
        problems: Vec::new(),
        superblocks: superblocks.to_vec(),
        replica: None,
    };
    match found {
        Ok(newest) => {
            fill(&mut examined, file, &newest);
            Found { examined, superblock: Some(newest.superblock) }
        }
        Err(error) => {
            (examined.verdict, examined.problems) = unusable(path, size, &error);
            Found { examined, superblock: None }
        }
    }
}

/// Both copies; one that is being written meanwhile is read again.
fn read_copies(file: &File) -> [Vec<u8>; 2] {
    let mut copies = [COPY_A_OFFSET, COPY_B_OFFSET].map(|offset| read_copy(file, offset));
    for _ in 0..AGAIN.0 {
        let torn =
            |copy: &Vec<u8>| matches!(Superblock::decode(copy), Err(FormatError::Checksum { .. }));
        if !copies.iter().any(torn) {
            break;
        }
        std::thread::sleep(AGAIN.1);
        copies = [COPY_A_OFFSET, COPY_B_OFFSET].map(|offset| read_copy(file, offset));
    }
    copies
}

fn examined(copy: SuperblockCopy, copies: &[Vec<u8>; 2], counts: bool) -> ExaminedCopy {
    let bytes = match copy {
        SuperblockCopy::A => &copies[0],
        SuperblockCopy::B => &copies[1],
    };
    let decoded = Superblock::decode(bytes);
    let verdict = match &decoded {
        Ok(_) => CopyVerdict::Good,
        Err(error) if error.is_from_newer_software() => CopyVerdict::Newer,
        Err(_) if bytes.len() == SUPERBLOCK_LENGTH && bytes.iter().all(|byte| *byte == 0) => {
            CopyVerdict::Empty
        }
        Err(_) => CopyVerdict::Damaged,
    };
    let head = envelope(bytes);
    let good = decoded.as_ref().ok();
    ExaminedCopy {
        copy: copy.to_string(),
        offset: copy.offset(),
        verdict,
        counts,
        problem: decoded.as_ref().err().map(ToString::to_string),
        format: head.as_ref().map(|head| head.version),
        checksum: head.as_ref().map(|head| format!("{:08x}", head.checksum)),
        sequence: head.as_ref().map(|head| head.sequence),
        saved: good.map(|superblock| superblock.saved).filter(|saved| *saved != 0),
        generation: good.map(|superblock| superblock.view.generation.0),
        features: head
            .as_ref()
            .map(|head| [head.compatible, head.read_only_compatible, head.incompatible]),
        writer: head.and_then(|head| head.writer),
    }
}

/// What the superblock that counts tells, and what is wrong in spite of it.
fn fill(examined: &mut Examined, file: &File, newest: &Newest) {
    let superblock = &newest.superblock;
    if let Some((copy, error)) = &newest.damaged {
        let other = copy.other();
        examined.problems.push(ReplicaProblem {
            why: format!("superblock copy {copy} is bad, and copy {other} is good: {error}"),
            action: format!(
                "Nothing by hand: copy {other} is used, and the next change of the view writes both. Check the disk if it happens again"
            ),
        });
        examined.verdict = ReplicaVerdict::Impaired;
    }
    let end = length_of(superblock);
    if examined.size < end {
        let [size, end] = compared(examined.size, end);
        examined.problems.push(ReplicaProblem {
            why: format!("it has {size} and its superblock says {end}: it was cut off"),
            action: "Restore all of it, or remove this replica from its volume and add another one"
                .into(),
        });
        examined.verdict = ReplicaVerdict::Unusable;
    }
    let tables = tables::read(file, examined.size, superblock);
    let (intents, bitmaps, problems) = match tables {
        Ok(tables) => (tables.intents, tables.bitmaps, tables.problems),
        Err(e) => {
            let action = "See the kernel's log, and check the disk".to_owned();
            let why = format!("its intent log and bitmaps cannot be read: {e}");
            (tables::none(superblock), Vec::new(), vec![ReplicaProblem { why, action }])
        }
    };
    if !problems.is_empty() && examined.verdict == ReplicaVerdict::Whole {
        examined.verdict = ReplicaVerdict::Impaired;
    }
    examined.problems.extend(problems);
    examined.replica = Some(ExaminedReplica {
        id: superblock.replica.to_string(),
        mirror: superblock.mirror as usize,
        volume_id: superblock.volume.to_string(),
        volume: superblock.name.clone(),
        incarnation: format!("{:016x}", superblock.incarnations.newest().0),
        data_offset: superblock.data_offset,
        data_size: superblock.data_length,
        metadata_offset: superblock.metadata_offset,
        has_checksums: superblock.has_checksums,
        view: view::describe(&superblock.view, superblock.replica),
        intents,
        bitmaps,
    });
}

/// Why there is no superblock to be used, and what to do.
fn unusable(path: &Path, size: u64, error: &NewestError) -> (ReplicaVerdict, Vec<ReplicaProblem>) {
    let (verdict, why, action) = match error {
        error if error.is_no_replica() || size < COPY_B_OFFSET => {
            let what = signature(path, size);
            let what = what.map_or_else(String::new, |found| format!("; it holds {found}"));
            let why = match size < COPY_B_OFFSET {
                true => {
                    format!("it holds no replica: {} are too few for one{what}", sizes::size(size))
                }
                false => format!(
                    "it holds no replica: there is no evenkeel superblock at either place{what}"
                ),
            };
            (
                ReplicaVerdict::NoReplica,
                why,
                "Check the path. If this was a replica, its superblocks are gone: remove it from its volume, and add another one",
            )
        }
        NewestError::Neither { a: FormatError::Unreadable, b: FormatError::Unreadable } => {
            let why = format!("neither superblock can be read, and it has {}", sizes::size(size));
            (ReplicaVerdict::Unusable, why, "Check the path, and the disk: see the kernel's log")
        }
        NewestError::Newer { .. } => (
            ReplicaVerdict::Unusable,
            error.to_string(),
            "Use the software that wrote it, or a newer one; it was not touched",
        ),
        NewestError::Contradiction(_) => (
            ReplicaVerdict::Unusable,
            error.to_string(),
            "Restore all of it, or remove this replica from its volume and add another one",
        ),
        NewestError::Neither { .. } => (
            ReplicaVerdict::Unusable,
            error.to_string(),
            "Check the disk. Remove this replica from its volume and add another one; if it is the only one, its data are still at their place (`losetup --offset 1048576`)",
        ),
    };
    (verdict, vec![ReplicaProblem { why, action: action.to_owned() }])
}

/// What somebody else has left there. Reads through the page cache: signatures are not aligned.
fn signature(path: &Path, size: u64) -> Option<&'static str> {
    use std::os::unix::fs::FileExt as _;
    let file = File::open(path).ok()?;
    foreign_signature(size, |offset, buffer| file.read_exact_at(buffer, offset)).ok().flatten()
}

#[cfg(test)]
mod tests;
