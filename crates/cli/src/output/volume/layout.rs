//! How a volume is laid out, and what was chosen for it.

use std::time::Duration;

use evenkeel_api::types::{
    MirrorStatus, NoCoordinator, NoData, RebuildRate, ReplicaRole, StatusSource, VolumeBitmap,
    VolumeStatus,
};

use crate::output::phrases::count;
use crate::output::{rate, size, span};

/// All of it in one line.
pub(super) fn layout(volume: &VolumeStatus) -> String {
    let replicas = numbers(volume, ReplicaRole::Copy);
    let spares = match numbers(volume, ReplicaRole::Spare).as_str() {
        "0 spares" => String::new(),
        some => format!(" and {some}"),
    };
    let mirrors = match volume.mirrors.len() {
        0 | 1 => String::new(),
        many => format!("a stripe of {many} mirrors of "),
    };
    let patience = match volume.no_data {
        _ if volume.source == StatusSource::Replica => "generations may have followed".to_owned(),
        NoData::Suspend { seconds } => {
            format!("without data requests wait {}", span(Duration::from_secs(seconds)))
        }
        NoData::Error => "without data requests fail at once".to_owned(),
    };
    let alone = match volume.no_coordinator {
        NoCoordinator::Suspend => String::new(),
        NoCoordinator::Fail { seconds } => {
            let limit = span(Duration::from_secs(seconds));
            format!("; without the coordinator they fail after {limit}")
        }
    };
    let pace = match volume.rebuild {
        RebuildRate::None => String::new(),
        RebuildRate::Paused => "; rebuilds are paused".to_owned(),
        RebuildRate::Rate { bytes_per_second } => {
            format!("; rebuilds at most {}", rate(bytes_per_second))
        }
    };
    format!(
        "{}, {mirrors}{}{spares}, protocol {:?}, bitmap {}, block size {}, generation {}; {patience}{alone}{pace}{}",
        size(volume.size),
        replicas,
        volume.protocol,
        match volume.bitmap {
            VolumeBitmap::None => "none".to_owned(),
            VolumeBitmap::Internal => format!("internal ({})", regions(volume)),
            VolumeBitmap::Clustered => {
                format!("clustered ({} in each of {} slots)", regions(volume), volume.slots)
            }
        },
        volume.block_size,
        volume.generation,
        lease(volume),
    )
}

/// How many replicas of a role each mirror has: `3 replicas`, or, where they have not as many,
/// `3 and 2 replicas`.
fn numbers(volume: &VolumeStatus, role: ReplicaRole) -> String {
    let (one, word) = match role {
        ReplicaRole::Spare => ("spare", "spares"),
        _ => ("replica", "replicas"),
    };
    let of = |mirror: &MirrorStatus| mirror.replicas.iter().filter(|r| r.role == role).count();
    let each: Vec<usize> = volume.mirrors.iter().map(of).collect();
    let first = each.first().copied().unwrap_or(0);
    if each.iter().all(|other| *other == first) {
        return count(first, one);
    }
    let texts: Vec<String> = each.iter().map(ToString::to_string).collect();
    let (last, others) = texts.split_last().map_or(("", &[][..]), |(l, o)| (l.as_str(), o));
    format!("{} and {last} {word}", others.join(", "))
}

/// The lease, where it is not the usual one.
fn lease(volume: &VolumeStatus) -> String {
    match (volume.lease_ms, volume.lease_margin_ms) {
        (6000, 500) => String::new(),
        (lease, margin) => {
            let [lease, margin] = [lease, margin].map(|ms| span(Duration::from_millis(ms)));
            format!("; lease {lease} and {margin}")
        }
    }
}

fn regions(volume: &VolumeStatus) -> String {
    format!("{} regions of {}", volume.open_regions, size(volume.region_size))
}
