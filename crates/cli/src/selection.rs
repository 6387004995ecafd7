//! Which volumes a command shows, and in which order.

use evenkeel_api::types::{VolumeHealth, VolumeState, VolumeStatus};
use wildmatch::WildMatch;

/// What a user asked to see. Without patterns: every volume.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    patterns: Vec<WildMatch>,
    unhealthy: bool,
}

impl Selection {
    /// Volumes of which one of these patterns (`*` and `?`) matches the name, or all if there is
    /// none; with `unhealthy` only those that want attention.
    pub fn new(patterns: &[String], unhealthy: bool) -> Self {
        Self { patterns: patterns.iter().map(|text| WildMatch::new(text)).collect(), unhealthy }
    }

    /// Those of the volumes that were asked for, in natural order: `vm2` comes before `vm10`.
    pub fn of(&self, mut volumes: Vec<VolumeStatus>) -> Vec<VolumeStatus> {
        volumes.retain(|volume| self.has(volume));
        volumes.sort_by(|a, b| alphanumeric_sort::compare_str(&a.name, &b.name));
        volumes
    }

    fn has(&self, volume: &VolumeStatus) -> bool {
        let named = self.patterns.is_empty()
            || self.patterns.iter().any(|pattern| pattern.matches(&volume.name));
        named && (!self.unhealthy || !is_healthy(volume))
    }
}

/// Whether a name is a pattern rather than that of one volume.
pub fn is_pattern(name: &str) -> bool {
    name.contains(['*', '?'])
}

/// Whether nothing about the volume wants attention. One that is detached or stopped by an
/// operator is healthy if its replicas are.
pub fn is_healthy(volume: &VolumeStatus) -> bool {
    volume.health == VolumeHealth::InSync
        && !matches!(
            volume.state,
            VolumeState::Suspended | VolumeState::Unreachable | VolumeState::Unknown
        )
}

#[cfg(test)]
mod tests;
