//! Which volumes a command shows, and in which order.

use evenkeel_api::types::{VolumeHealth, VolumeState, VolumeStatus};
use wildmatch::WildMatch;

/// What a user asked to see. Without patterns: every volume.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    patterns: Vec<(String, WildMatch)>,
    unhealthy: bool,
}

impl Selection {
    /// Volumes of which one of these patterns (`*` and `?`) matches the name, or all if there is
    /// none; with `unhealthy` only those that want attention.
    pub fn new(patterns: &[String], unhealthy: bool) -> Self {
        let pattern = |text: &String| (text.clone(), WildMatch::new(text));
        Self { patterns: patterns.iter().map(pattern).collect(), unhealthy }
    }

    /// The patterns that match no volume.
    pub fn missing(&self, volumes: &[VolumeStatus]) -> Vec<String> {
        let has_none = |(_, pattern): &&(String, WildMatch)| {
            !volumes.iter().any(|volume| pattern.matches(&volume.name))
        };
        self.patterns.iter().filter(has_none).map(|(text, _)| text.clone()).collect()
    }

    /// Those of the volumes that were asked for, in natural order: `vm2` comes before `vm10`.
    pub fn of(&self, mut volumes: Vec<VolumeStatus>) -> Vec<VolumeStatus> {
        volumes.retain(|volume| self.has(volume));
        volumes.sort_by(|a, b| alphanumeric_sort::compare_str(&a.name, &b.name));
        volumes
    }

    /// How many of them were named, in whatever state they are.
    pub fn named(&self, volumes: &[VolumeStatus]) -> usize {
        volumes.iter().filter(|volume| self.names(volume)).count()
    }

    fn names(&self, volume: &VolumeStatus) -> bool {
        self.patterns.is_empty()
            || self.patterns.iter().any(|(_, pattern)| pattern.matches(&volume.name))
    }

    fn has(&self, volume: &VolumeStatus) -> bool {
        self.names(volume) && (!self.unhealthy || !is_healthy(volume))
    }
}

/// Whether a name is a pattern rather than that of one volume.
pub fn is_pattern(name: &str) -> bool {
    name.contains(['*', '?'])
}

/// How long an attach may take before somebody should look, in seconds.
const MAX_START: u64 = 30;

/// Whether nothing about the volume wants attention. One that is detached or stopped by an
/// operator is healthy if its replicas are.
pub fn is_healthy(volume: &VolumeStatus) -> bool {
    volume.health == VolumeHealth::InSync
        && !is_starting_late(volume)
        && !is_missed(volume)
        && volume.dead_devices.is_empty()
        // Of a shared volume one may be silent, and others answer.
        && volume.primaries.iter().all(|primary| primary.alive)
        && !matches!(
            volume.state,
            VolumeState::Suspended | VolumeState::Unreachable | VolumeState::Unknown
        )
}

/// Whether a node is meant to have it attached, or shown by a device or export, and cannot now, or
/// nobody knows whether it is there: its users wait, or get errors.
fn is_missed(volume: &VolumeStatus) -> bool {
    volume.wanted_on.iter().any(|on| on.why.is_some() || on.alive != Some(true))
}

/// Whether it is being attached for longer than an attach takes.
pub fn is_starting_late(volume: &VolumeStatus) -> bool {
    let waited = volume.suspended.as_ref().map_or(0, |waits| waits.seconds);
    volume.state == VolumeState::Starting && waited > MAX_START
}

#[cfg(test)]
mod tests;
