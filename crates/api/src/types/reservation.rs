//! Reservations: which hosts may read and write a volume.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a reservation forbids other hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReservationKind {
    /// Only the holder writes.
    WriteExclusive,
    /// Only the holder reads and writes.
    ExclusiveAccess,
    /// Only registered hosts write.
    #[default]
    WriteExclusiveRegistrants,
    /// Only registered hosts read and write.
    ExclusiveAccessRegistrants,
    /// Only registered hosts write, and each of them holds it.
    WriteExclusiveAll,
    /// Only registered hosts read and write, and each of them holds it.
    ExclusiveAccessAll,
}

/// The changes of reservations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReservationAction {
    /// Register the host with the key, or give it that one.
    Register,
    /// Take the host's registration back.
    Unregister,
    /// Reserve the volume for the host.
    Reserve,
    /// End the host's reservation.
    Release,
    /// Take away the registrations with the victim's key, and the reservation if one of them holds
    /// it.
    Preempt,
    /// End the reservation and all registrations.
    Clear,
    /// The same by an administrator, whose key nobody asks for.
    Drop,
}

/// Asks for a change of reservations. Done when no request is under way any more that it forbids.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReservationRequest {
    /// The change to make.
    pub action: ReservationAction,
    /// The host: the name or identity of a node, for what is attached there, or another 128-bit
    /// identity. Without it: the node that is asked.
    #[serde(default)]
    pub host: Option<String>,
    /// Its key: a number from 1 to 2^64 - 1, decimal, or hexadecimal with 0x.
    #[serde(default)]
    pub key: Option<String>,
    /// The key that it is registered with. Without it that does not matter.
    #[serde(default)]
    pub old_key: Option<String>,
    /// The key of those that are preempted; 0: all others.
    #[serde(default)]
    pub victim: Option<String>,
    /// What other hosts may not do.
    #[serde(default)]
    pub kind: ReservationKind,
    /// Whether all of it is to outlast the last node that has the volume attached. Without it: as
    /// before.
    #[serde(default)]
    pub persistent: Option<bool>,
    /// For `drop`: the identities of the hosts that may lose their registration, as the plan tells
    /// them. If another one would, nothing is done. Without it: whichever they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removes: Option<Vec<String>>,
}

/// A registered host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Registrant {
    /// Its identity.
    pub host: String,
    /// The node that it is, if it is one.
    pub node: Option<String>,
    /// Its key, in hexadecimal.
    pub key: String,
    /// Whether it holds the reservation.
    pub holder: bool,
}

/// The registered hosts of a volume, and its reservation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReservationStatus {
    /// What others are kept from; `null` if the volume is not reserved.
    pub kind: Option<ReservationKind>,
    /// Whether it outlasts the last node that has the volume attached.
    pub persistent: bool,
    /// Counts the changes of who is registered.
    pub generation: u32,
    /// The registered hosts, in their order.
    pub registrants: Vec<Registrant>,
}
