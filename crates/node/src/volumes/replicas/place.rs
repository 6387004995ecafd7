//! Where the replicas of a new volume go.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_api::sizes::compared;
use evenkeel_api::types::{CreateVolumeRequest, Disk, DiskKind};
use evenkeel_api::{ApiError, ErrorCode};
use evenkeel_format::disk_length;

mod more;

pub(in crate::volumes) use more::{DiskPlace, OneMore, one_more};

/// The data of the smallest replica.
const SMALLEST: u64 = 4096;

/// Disks for all replicas, mirror by mirror, by their index in `disks`.
pub(in crate::volumes) type Placement = Vec<Vec<usize>>;

/// Chooses disks: those that are named, or the ones with the most free space, each replica of a
/// mirror on another node.
pub(in crate::volumes) fn choose(
    request: &CreateVolumeRequest,
    disks: &[Disk],
    data_length: u64,
    what: &str,
) -> Result<Placement, ApiError> {
    let needed = disk_length(data_length);
    if request.on.is_empty() {
        return automatic(request, disks, needed, what);
    }
    let wanted = request.stripe * request.replicas;
    if request.on.len() != wanted {
        let (named, replicas, mirrors) = (request.on.len(), request.replicas, request.stripe);
        let count = |number: usize, noun: &str| match number {
            1 => format!("1 {noun}"),
            _ => format!("{number} {noun}s"),
        };
        let (named, each) = (count(named, "place"), count(replicas, "replica"));
        let why = match mirrors {
            1 => format!("{named} named with --on, for {each}"),
            _ => {
                format!("{named} named with --on, for {mirrors} mirrors of {each}: {wanted} in all")
            }
        };
        return Err(ApiError::new(
            ErrorCode::BadRequest,
            what,
            why,
            "Name a place for each replica",
        ));
    }
    let named = request.on.iter().map(|place| named(place, disks, what));
    let named: Vec<usize> = named.collect::<Result<_, _>>()?;
    let placement: Placement = named.chunks(request.replicas).map(<[usize]>::to_vec).collect();
    check_nodes(request, disks, &placement, what)?;
    check_space(request, disks, &placement, needed, what)?;
    Ok(placement)
}

fn named(place: &str, disks: &[Disk], what: &str) -> Result<usize, ApiError> {
    let Some((node, disk)) = place.rsplit_once(':') else {
        let why = format!("{place:?} is no place: NODE:DISK is expected");
        return Err(ApiError::new(ErrorCode::BadRequest, what, why, "See `evenkeel disk list`"));
    };
    let is = |d: &Disk| (d.node.name == node || d.node.id == node) && d.name == disk;
    disks.iter().position(is).ok_or_else(|| {
        let has_disks = disks.iter().any(|d| d.node.name == node || d.node.id == node);
        let why = match has_disks {
            true => format!("there is no disk {disk} on node {node}"),
            false => format!("there is no node {node} with a disk"),
        };
        ApiError::new(ErrorCode::NoSuchDisk, what, why, "See `evenkeel disk list`")
    })
}

/// Two replicas on one node are lost together.
fn check_nodes(
    request: &CreateVolumeRequest,
    disks: &[Disk],
    placement: &Placement,
    what: &str,
) -> Result<(), ApiError> {
    for mirror in placement {
        let nodes: BTreeSet<&str> = mirror.iter().map(|i| disks[*i].node.id.as_str()).collect();
        // Mirrors between the disks of one machine are wanted at times: then all are there.
        if nodes.len() < mirror.len() && nodes.len() > 1 && !request.allow_same_node {
            let why = "two replicas of one mirror would be on the same node and be lost together";
            let advice = "Name disks of different nodes, or permit it (--same-node)";
            return Err(ApiError::new(ErrorCode::NotEnoughDisks, what, why, advice));
        }
        let chosen: BTreeSet<usize> = mirror.iter().copied().collect();
        if chosen.len() < mirror.len() && !request.allow_same_node {
            let why = "two replicas of one mirror would be on the same disk and be lost together";
            let advice = "Name different disks, or permit it (--same-node)";
            return Err(ApiError::new(ErrorCode::NotEnoughDisks, what, why, advice));
        }
    }
    Ok(())
}

fn check_space(
    request: &CreateVolumeRequest,
    disks: &[Disk],
    placement: &Placement,
    needed: u64,
    what: &str,
) -> Result<(), ApiError> {
    let mut counts: BTreeMap<usize, u64> = BTreeMap::new();
    for index in placement.iter().flatten() {
        *counts.entry(*index).or_default() += 1;
    }
    for (index, count) in counts {
        let disk = &disks[index];
        let place = format!("disk {} of node {}", disk.name, disk.node.name);
        if let Some(problem) = &disk.problem {
            let why = format!("{place} cannot be used: {problem}");
            return Err(ApiError::new(ErrorCode::System, what, why, "Choose another disk"));
        }
        let thin = request.thin && disk.kind == DiskKind::Directory;
        if needed.saturating_mul(count) > disk.free && !thin {
            let [free, needed] = compared(disk.free, needed.saturating_mul(count));
            let why = format!("{place} has {free} free and {needed} are needed");
            let advice =
                "Choose another disk or a smaller size, or promise more than there is (--thin)";
            return Err(ApiError::new(ErrorCode::DiskTooSmall, what, why, advice));
        }
        if disk.kind == DiskKind::Device && (count > 1 || !disk.replicas.is_empty()) {
            let why = format!("{place} is a block device, which holds one replica");
            return Err(ApiError::new(ErrorCode::DiskInUse, what, why, "Choose another disk"));
        }
    }
    Ok(())
}

/// What is left of the disks while replicas are placed.
struct Room<'a> {
    disks: &'a [Disk],
    free: Vec<u64>,
    taken: Vec<usize>,
    needed: u64,
    thin: bool,
}

impl Room<'_> {
    fn fits(&self, index: usize) -> bool {
        let disk = &self.disks[index];
        let thin = self.thin && disk.kind == DiskKind::Directory;
        let vacant = disk.kind == DiskKind::Directory
            || (disk.replicas.is_empty() && self.taken[index] == 0);
        disk.problem.is_none() && vacant && (thin || self.free[index] >= self.needed)
    }

    /// The best disk that none of `avoid` stands against: the one that has got the fewest of the
    /// new replicas, of these the one with the most free space.
    fn best(&self, avoid: impl Fn(usize) -> bool) -> Option<usize> {
        let fitting = (0..self.disks.len()).filter(|i| self.fits(*i) && !avoid(*i));
        fitting.max_by_key(|i| (std::cmp::Reverse(self.taken[*i]), self.free[*i]))
    }

    fn take(&mut self, index: usize) {
        self.free[index] = self.free[index].saturating_sub(self.needed);
        self.taken[index] += 1;
    }
}

fn automatic(
    request: &CreateVolumeRequest,
    disks: &[Disk],
    needed: u64,
    what: &str,
) -> Result<Placement, ApiError> {
    fitting(request, disks, needed).ok_or_else(|| too_few(request, disks, needed, what))
}

/// Disks for all replicas. `None`: there are too few.
fn fitting(request: &CreateVolumeRequest, disks: &[Disk], needed: u64) -> Option<Placement> {
    let free = disks.iter().map(|disk| disk.free).collect();
    let taken = vec![0; disks.len()];
    let mut room = Room { disks, free, taken, needed, thin: request.thin };
    let mut placement = Placement::new();
    for _ in 0..request.stripe {
        let mut mirror: Vec<usize> = Vec::new();
        for _ in 0..request.replicas {
            let same_node = |i: usize| mirror.iter().any(|j| disks[*j].node.id == disks[i].node.id);
            let same_disk = |i: usize| mirror.contains(&i);
            let chosen = room.best(same_node).or_else(|| {
                let any = request.allow_same_node;
                any.then(|| room.best(same_disk).or_else(|| room.best(|_| false))).flatten()
            });
            let chosen = chosen?;
            room.take(chosen);
            mirror.push(chosen);
        }
        placement.push(mirror);
    }
    Some(placement)
}

fn too_few(request: &CreateVolumeRequest, disks: &[Disk], needed: u64, what: &str) -> ApiError {
    let usable: Vec<&Disk> = disks.iter().filter(|disk| disk.problem.is_none()).collect();
    let nodes: BTreeSet<&str> = usable.iter().map(|disk| disk.node.name.as_str()).collect();
    let largest = usable.iter().map(|disk| disk.free).max().unwrap_or(0);
    let (code, why) = if disks.is_empty() {
        (ErrorCode::NotEnoughDisks, "the cluster has no disks".to_owned())
    } else if nodes.is_empty() {
        (ErrorCode::NotEnoughDisks, "no disk of the cluster can be used".to_owned())
    } else if nodes.len() < request.replicas && !request.allow_same_node {
        let why = format!(
            "{} replicas need disks on as many nodes, and there are disks that can be used on {} ({})",
            request.replicas,
            nodes.len(),
            nodes.into_iter().collect::<Vec<_>>().join(", ")
        );
        (ErrorCode::NotEnoughDisks, why)
    } else {
        let [needed, largest] = compared(needed, largest);
        let why = format!(
            "each replica takes {needed}, and there are not enough disks with so much free space (the most is {largest})"
        );
        (ErrorCode::DiskTooSmall, why)
    };
    ApiError::new(code, what, why, ways_out(request, disks, needed))
}

/// What would be possible, and nothing that would be refused.
fn ways_out(request: &CreateVolumeRequest, disks: &[Disk], needed: u64) -> String {
    let fits = |wanted: &CreateVolumeRequest, needed| fitting(wanted, disks, needed).is_some();
    let with = |replicas| CreateVolumeRequest { replicas, ..request.clone() };
    let mut ways = vec!["Add disks (`evenkeel disk add`)".to_owned()];
    if let Some(most) = (1..request.replicas).rev().find(|fewer| fits(&with(*fewer), needed)) {
        ways.push(format!("take {most} replica{}", if most == 1 { "" } else { "s" }));
    }
    if fits(request, disk_length(SMALLEST)) {
        ways.push("take a smaller size".to_owned());
    }
    let thin = CreateVolumeRequest { thin: true, ..request.clone() };
    if !request.thin && fits(&thin, needed) {
        ways.push("promise more than there is (--thin)".to_owned());
    }
    let shared = CreateVolumeRequest { allow_same_node: true, ..request.clone() };
    if !request.allow_same_node && fits(&shared, needed) {
        ways.push("for trials, let replicas share a node (--same-node)".to_owned());
    }
    ways.join("; or ")
}

#[cfg(test)]
mod tests;
