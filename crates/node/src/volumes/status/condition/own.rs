//! What a primary elsewhere says of this node, where this node knows better.

use evenkeel_api::types::{NodeRef, VolumeStatus};

use crate::volumes::messages;

/// That this node is dead or silent is what the primary on `reporter` takes it for: it runs, and
/// the two do not reach each other.
pub(in crate::volumes::status) fn correct(
    status: &mut VolumeStatus,
    own: &NodeRef,
    reporter: &str,
) {
    let absences = [
        messages::counts_as_dead(&own.name),
        messages::seen_by_coordinator_only(&own.name, reporter),
    ];
    let here = messages::unreached_here(reporter);
    let say = |text: &mut String| {
        for absence in &absences {
            *text = text.replace(absence, &here);
        }
    };
    let replicas = status.mirrors.iter_mut().flat_map(|mirror| &mut mirror.replicas);
    for replica in replicas.filter(|replica| replica.node.id == own.id) {
        if replica.node_alive == Some(false) {
            replica.node_alive = None;
        }
        replica.reason.iter_mut().for_each(say);
    }
    // It names the replicas that keep the volume from being whole, with their reasons.
    status.reason.iter_mut().for_each(say);
}

#[cfg(test)]
mod tests;
