//! The words for a volume, its state and its replicas, and what stands behind one that is in doubt.

use evenkeel_api::types::{
    PrimaryStatus, ReplicaState, StatusSource, Suspended, VolumeHealth, VolumeState, VolumeStatus,
};

use crate::output::Painted as _;

/// `[UU_]`, one pair of brackets for each mirror; `[UU_]?` if that was so once.
pub fn summary(volume: &VolumeStatus) -> String {
    let mirrors = volume.mirrors.iter();
    let letters: String =
        mirrors.map(|mirror| format!("[{}]", mirror.summary.trim_matches(['[', ']']))).collect();
    letters + doubt(is_old(volume))
}

/// Whether all of it is from a view that may have been replaced since.
pub(super) fn is_old(volume: &VolumeStatus) -> bool {
    volume.source == StatusSource::Replica
}

/// What stands behind a word that need not be true any more.
pub(super) const fn doubt(is_doubtful: bool) -> &'static str {
    if is_doubtful { "?" } else { "" }
}

/// A node on which a volume is attached, or was when that was last known.
pub(super) fn user(volume: &VolumeStatus, primary: &PrimaryStatus) -> String {
    let is_silent = is_silent(volume) || !primary.alive;
    format!("{}{}", primary.node.name, doubt(is_silent || is_old(volume)))
}

/// Whether the node on which it is attached does not answer, and nobody else is its primary.
fn is_silent(volume: &VolumeStatus) -> bool {
    volume.state == VolumeState::Unreachable && !volume.not_given_up
}

/// The word for a volume's health, `degraded?` if that was so once.
pub(super) fn health_word(volume: &VolumeStatus) -> String {
    let is_known = volume.health != VolumeHealth::Unknown;
    health(volume.health).to_owned() + doubt(is_known && is_old(volume))
}

/// The word for a volume's health.
pub const fn health(health: VolumeHealth) -> &'static str {
    match health {
        VolumeHealth::InSync => "in-sync",
        VolumeHealth::Rebuilding => "rebuilding",
        VolumeHealth::Degraded => "degraded",
        VolumeHealth::Unknown => "unknown",
        VolumeHealth::Unreachable => "unreachable",
    }
}

pub(super) fn painted(text: &str, health: VolumeHealth) -> String {
    match health {
        VolumeHealth::InSync => text.good(),
        VolumeHealth::Rebuilding | VolumeHealth::Unknown => text.warning(),
        VolumeHealth::Degraded | VolumeHealth::Unreachable => text.bad(),
    }
}

pub(super) fn state(volume: &VolumeStatus) -> String {
    let word = state_word(volume);
    match volume.state {
        VolumeState::Stopped | VolumeState::Detached => word.dim(),
        VolumeState::Starting | VolumeState::Unknown => word.warning(),
        VolumeState::Serving => word.good(),
        VolumeState::Suspended | VolumeState::Unreachable => word.bad(),
    }
}

pub(super) fn state_word(volume: &VolumeStatus) -> &'static str {
    let is_over = |waits: &Suspended| waits.fails_in == Some(0) || waits.limit_seconds == Some(0);
    match volume.state {
        VolumeState::Suspended if volume.suspended.as_ref().is_some_and(is_over) => {
            "suspended, requests fail"
        }
        VolumeState::Stopped => "stopped",
        VolumeState::Detached => "detached",
        VolumeState::Starting => "starting",
        VolumeState::Serving => "serving",
        VolumeState::Suspended => "suspended",
        VolumeState::Unreachable if volume.not_given_up => "not given up",
        VolumeState::Unreachable => "primary unreachable",
        VolumeState::Unknown => "unknown whether attached",
    }
}

/// The word for what a replica is to its mirror.
pub fn replica_state(state: ReplicaState) -> String {
    match state {
        ReplicaState::InSync => "in-sync".good(),
        ReplicaState::Rebuilding => "rebuilding".warning(),
        ReplicaState::Stale => "stale".warning(),
        ReplicaState::Faulty => "faulty".bad(),
        ReplicaState::Spare => "spare".dim(),
    }
}
