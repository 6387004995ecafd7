//! Where one more replica of a mirror goes.

use evenkeel_api::sizes::compared;
use evenkeel_api::types::{Disk, DiskKind};
use evenkeel_api::{ApiError, ErrorCode};

use super::{Room, named};

/// A disk of some node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::volumes) struct DiskPlace {
    /// The node's identity.
    pub node: String,
    /// The disk's name there.
    pub disk: String,
}

impl DiskPlace {
    fn is(&self, disk: &Disk) -> bool {
        self.node == disk.node.id && self.disk == disk.name
    }
}

/// What is wanted.
#[derive(Debug, Clone, Copy)]
pub(in crate::volumes) struct OneMore<'a> {
    /// `NODE:DISK`, or `NODE` for the disk there with the most free space; `None`: on any node.
    pub on: Option<&'a str>,
    /// Those of the mirror's replicas that stay.
    pub beside: &'a [DiskPlace],
    /// One that is to be left.
    pub leaving: Option<&'a DiskPlace>,
    /// Bytes that the replica takes on its disk.
    pub needed: u64,
    /// Logical block size of the volume.
    pub block_size: u32,
    /// Whether it may share a node, or even a disk, with another one.
    pub same_node: bool,
    /// Whether it may promise more than there is, where that is possible: on a directory.
    pub thin: bool,
}

/// Chooses the disk: the one that is named, or the one with the most free space on a node of its
/// own.
///
/// # Errors
/// If the named one is not fit, or there is none.
pub(in crate::volumes) fn one_more<'a>(
    wanted: &OneMore<'_>,
    disks: &'a [Disk],
    what: &str,
) -> Result<&'a Disk, ApiError> {
    match wanted.on {
        Some(place) if place.contains(':') => {
            let disk = &disks[named(place, disks, what)?];
            check(wanted, disk, what)?;
            Ok(disk)
        }
        Some(node) => on_node(wanted, node, disks, what),
        None => automatic(wanted, disks, what),
    }
}

impl OneMore<'_> {
    fn shares_node(&self, disk: &Disk) -> bool {
        self.beside.iter().any(|place| place.node == disk.node.id)
    }

    fn shares_disk(&self, disk: &Disk) -> bool {
        self.beside.iter().chain(self.leaving).any(|place| place.is(disk))
    }

    /// Whether it is the disk that is to be left.
    fn is_left(&self, disk: &Disk) -> bool {
        self.leaving.is_some_and(|place| place.is(disk))
    }

    /// Mirrors between the disks of one machine are wanted at times: then all are there, also the
    /// one that is to be left.
    fn is_within_one_node(&self, disk: &Disk) -> bool {
        self.beside.iter().chain(self.leaving).all(|place| place.node == disk.node.id)
    }
}

fn check(wanted: &OneMore<'_>, disk: &Disk, what: &str) -> Result<(), ApiError> {
    let place = format!("disk {} of node {}", disk.name, disk.node.name);
    let refuse = |code, why: String, advice: &str| Err(ApiError::new(code, what, why, advice));
    if let Some(problem) = &disk.problem {
        let why = format!("{place} cannot be used: {problem}");
        return refuse(ErrorCode::System, why, "Choose another disk");
    }
    if wanted.is_left(disk) && !wanted.same_node {
        let why = format!("the replica is on {place} already");
        return refuse(
            ErrorCode::NotEnoughDisks,
            why,
            "Name another node or disk: `evenkeel disk list`",
        );
    }
    if wanted.shares_disk(disk) && !wanted.same_node {
        let why = format!("{place} holds another replica of this mirror");
        return refuse(ErrorCode::NotEnoughDisks, why, "Name another disk");
    }
    if wanted.shares_node(disk) && !wanted.is_within_one_node(disk) && !wanted.same_node {
        let why = format!(
            "node {} holds another replica of this mirror, and they would be lost together",
            disk.node.name
        );
        let advice = "Name a disk of another node, or permit it (--same-node)";
        return refuse(ErrorCode::NotEnoughDisks, why, advice);
    }
    if disk.block_size > wanted.block_size {
        let why = format!(
            "{place} permits direct I/O in units of {} bytes only, and the volume's blocks have {}",
            disk.block_size, wanted.block_size
        );
        return refuse(ErrorCode::BadRequest, why, "Choose another disk");
    }
    if disk.kind == DiskKind::Device && !disk.replicas.is_empty() {
        let why = format!("{place} is a block device, which holds one replica");
        return refuse(ErrorCode::DiskInUse, why, "Choose another disk");
    }
    let is_directory = disk.kind == DiskKind::Directory;
    if disk.free < wanted.needed && !(wanted.thin && is_directory) {
        let [needed, free] = compared(wanted.needed, disk.free);
        let why = format!("{place} has {free} free, and {needed} are needed");
        let advice = match is_directory {
            true => "Choose another disk, or promise more than there is (--thin)",
            false => "Choose another disk",
        };
        return refuse(ErrorCode::DiskTooSmall, why, advice);
    }
    Ok(())
}

/// The fitting disk of a node with the most free space; if none fits, why the largest does not.
fn on_node<'a>(
    wanted: &OneMore<'_>,
    node: &str,
    disks: &'a [Disk],
    what: &str,
) -> Result<&'a Disk, ApiError> {
    let is_there = |disk: &&Disk| disk.node.name == node || disk.node.id == node;
    let mut there: Vec<&Disk> = disks.iter().filter(is_there).collect();
    there.sort_by_key(|disk| std::cmp::Reverse(disk.free));
    let Some(largest) = there.first() else {
        let why = format!("there is no node {node} with a disk");
        return Err(ApiError::new(ErrorCode::NoSuchDisk, what, why, "See `evenkeel disk list`"));
    };
    match there.iter().find(|disk| check(wanted, disk, what).is_ok()) {
        Some(disk) => Ok(disk),
        None => check(wanted, largest, what).map(|()| *largest),
    }
}

fn automatic<'a>(
    wanted: &OneMore<'_>,
    disks: &'a [Disk],
    what: &str,
) -> Result<&'a Disk, ApiError> {
    fitting(wanted, disks).ok_or_else(|| none_fits(wanted, disks, what))
}

/// The fitting disk with the most free space.
fn fitting<'a>(wanted: &OneMore<'_>, disks: &'a [Disk]) -> Option<&'a Disk> {
    let free = disks.iter().map(|disk| disk.free).collect();
    let taken = vec![0; disks.len()];
    let room = Room { disks, free, taken, needed: wanted.needed, thin: wanted.thin };
    let is_coarse = |i: usize| disks[i].block_size > wanted.block_size;
    let shares_node = |i: usize| is_coarse(i) || wanted.shares_node(&disks[i]);
    let shares_disk = |i: usize| is_coarse(i) || wanted.shares_disk(&disks[i]);
    // The disk that is to be left is not chosen for what replaces it.
    let elsewhere = |i: usize| shares_node(i) || wanted.shares_disk(&disks[i]);
    let chosen = room.best(elsewhere).or_else(|| {
        let any = wanted.same_node;
        any.then(|| room.best(shares_disk).or_else(|| room.best(is_coarse))).flatten()
    });
    chosen.map(|index| &disks[index])
}

fn none_fits(wanted: &OneMore<'_>, disks: &[Disk], what: &str) -> ApiError {
    // What is to be left is no place either.
    let is_other = |disk: &&Disk| !wanted.shares_node(disk) && !wanted.shares_disk(disk);
    let largest = disks.iter().filter(is_other).map(|disk| disk.free).max();
    let (code, why) = match largest {
        None => (
            ErrorCode::NotEnoughDisks,
            "every other disk is on a node that holds a replica of this mirror already".to_owned(),
        ),
        Some(largest) if largest >= wanted.needed => (
            ErrorCode::NotEnoughDisks,
            "the disks of other nodes that are large enough cannot be used: they have a problem, hold a replica as a block device, or have larger blocks than the volume".to_owned(),
        ),
        Some(largest) => {
            let [needed, largest] = compared(wanted.needed, largest);
            let why = format!("it takes {needed}, and no usable disk on another node has so much free space (the most is {largest})");
            (ErrorCode::DiskTooSmall, why)
        }
    };
    // Nothing is advised that would be refused.
    let fits = |other: &OneMore<'_>| fitting(other, disks).is_some();
    let mut ways = vec!["Add a disk on another node (`evenkeel disk add`)"];
    if !wanted.thin && fits(&OneMore { thin: true, ..*wanted }) {
        ways.push("promise more than there is (--thin)");
    }
    if !wanted.same_node && fits(&OneMore { same_node: true, ..*wanted }) {
        ways.push("for trials, let replicas share a node (--same-node)");
    }
    ApiError::new(code, what, why, ways.join("; or "))
}

#[cfg(test)]
mod tests;
