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
    let replicas = status.mirrors.iter_mut().flat_map(|mirror| &mut mirror.replicas);
    for replica in replicas.filter(|replica| replica.node.id == own.id) {
        if replica.node_alive == Some(false) {
            replica.node_alive = None;
        }
        let absences = [
            messages::counts_as_dead(&own.name),
            messages::seen_by_coordinator_only(&own.name, reporter),
        ];
        let reason = replica.reason.as_deref();
        let rest = reason.and_then(|text| absences.iter().find_map(|it| text.strip_prefix(it)));
        if let Some(rest) = rest {
            replica.reason = Some(format!("{}{rest}", messages::unreached_here(reporter)));
        }
    }
}

#[cfg(test)]
mod tests;
