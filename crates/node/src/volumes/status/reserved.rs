//! Reservations as the API tells them.

use evenkeel_api::types::{Registrant, ReservationStatus};
use evenkeel_core::NodeId;
use evenkeel_core::view::{Registrant as CoreRegistrant, Reservations};

use crate::conversions;
use crate::volumes::Node;

/// Reservations as the API tells them; `None` if there are none.
pub(in crate::volumes) fn reported(
    node: &Node,
    reservations: &Reservations,
) -> Option<ReservationStatus> {
    if reservations.registrants.is_empty() {
        return None;
    }
    let registrant = |registrant: &CoreRegistrant| Registrant {
        host: registrant.host.to_string(),
        node: node.coordinator.node(NodeId(registrant.host.0)).map(|member| member.node.name),
        key: format!("{:#x}", registrant.key),
        holder: reservations.is_held_by(registrant.host),
    };
    Some(ReservationStatus {
        kind: reservations.held.map(|held| conversions::reservation(held.kind)),
        persistent: reservations.is_persistent,
        generation: reservations.generation,
        registrants: reservations.registrants.iter().map(registrant).collect(),
    })
}
