//! What the core and the coordinator enumerate, as the API does, and back.
//!
//! Each is another type: the core knows no JSON, what is stored does not change with the API, and
//! what programs read does not change with either. A new case of one of them does not compile until
//! it is decided here what it is for the other.

use evenkeel_api::types;
use evenkeel_core::view::{Cause, ReservationKind};
use evenkeel_core::{Protocol, ReplicaState, Role};

use crate::coordinator::NoData;

pub const fn protocol(protocol: Protocol) -> types::VolumeProtocol {
    match protocol {
        Protocol::A => types::VolumeProtocol::A,
        Protocol::B => types::VolumeProtocol::B,
        Protocol::C => types::VolumeProtocol::C,
    }
}

/// The other way round.
pub const fn core_protocol(protocol: types::VolumeProtocol) -> Protocol {
    match protocol {
        types::VolumeProtocol::A => Protocol::A,
        types::VolumeProtocol::B => Protocol::B,
        types::VolumeProtocol::C => Protocol::C,
    }
}

pub const fn state(state: ReplicaState) -> types::ReplicaState {
    match state {
        ReplicaState::InSync => types::ReplicaState::InSync,
        ReplicaState::Rebuilding => types::ReplicaState::Rebuilding,
        ReplicaState::Stale => types::ReplicaState::Stale,
        ReplicaState::Faulty => types::ReplicaState::Faulty,
        ReplicaState::Spare => types::ReplicaState::Spare,
    }
}

pub const fn role(role: Role) -> types::ReplicaRole {
    match role {
        Role::Own => types::ReplicaRole::Copy,
        Role::Replaces(_) => types::ReplicaRole::Replacement,
        Role::Spare(_) => types::ReplicaRole::Spare,
    }
}

/// What requests do without data, as the coordinator keeps it.
pub const fn no_data(policy: NoData) -> types::NoData {
    match policy {
        NoData::Suspend { seconds } => types::NoData::Suspend { seconds },
        NoData::Error => types::NoData::Error,
    }
}

/// The other way round.
pub const fn stored_no_data(policy: types::NoData) -> NoData {
    match policy {
        types::NoData::Suspend { seconds } => NoData::Suspend { seconds },
        types::NoData::Error => NoData::Error,
    }
}

pub const fn cause(cause: Cause) -> Option<types::ReplicaCause> {
    Some(match cause {
        Cause::None => return None,
        Cause::Disconnected => types::ReplicaCause::Disconnected,
        Cause::Late => types::ReplicaCause::Late,
        Cause::Restarted => types::ReplicaCause::Restarted,
        Cause::Unreachable => types::ReplicaCause::Unreachable,
        Cause::UncleanEnd => types::ReplicaCause::UncleanEnd,
        Cause::Medium => types::ReplicaCause::Medium,
        Cause::NoSpace => types::ReplicaCause::NoSpace,
        Cause::Operator => types::ReplicaCause::Operator,
        Cause::OtherHistory => types::ReplicaCause::OtherHistory,
        Cause::Lagging => types::ReplicaCause::Lagging,
        Cause::Unconfirmed => types::ReplicaCause::Unconfirmed,
        Cause::StaleClone => types::ReplicaCause::StaleClone,
        Cause::TooLarge => types::ReplicaCause::TooLarge,
        Cause::SourceFailed => types::ReplicaCause::SourceFailed,
    })
}

pub const fn reservation(kind: ReservationKind) -> types::ReservationKind {
    match kind {
        ReservationKind::WriteExclusive => types::ReservationKind::WriteExclusive,
        ReservationKind::ExclusiveAccess => types::ReservationKind::ExclusiveAccess,
        ReservationKind::WriteExclusiveRegistrants => {
            types::ReservationKind::WriteExclusiveRegistrants
        }
        ReservationKind::ExclusiveAccessRegistrants => {
            types::ReservationKind::ExclusiveAccessRegistrants
        }
        ReservationKind::WriteExclusiveAll => types::ReservationKind::WriteExclusiveAll,
        ReservationKind::ExclusiveAccessAll => types::ReservationKind::ExclusiveAccessAll,
    }
}

/// The other way round.
pub const fn core_reservation(kind: types::ReservationKind) -> ReservationKind {
    match kind {
        types::ReservationKind::WriteExclusive => ReservationKind::WriteExclusive,
        types::ReservationKind::ExclusiveAccess => ReservationKind::ExclusiveAccess,
        types::ReservationKind::WriteExclusiveRegistrants => {
            ReservationKind::WriteExclusiveRegistrants
        }
        types::ReservationKind::ExclusiveAccessRegistrants => {
            ReservationKind::ExclusiveAccessRegistrants
        }
        types::ReservationKind::WriteExclusiveAll => ReservationKind::WriteExclusiveAll,
        types::ReservationKind::ExclusiveAccessAll => ReservationKind::ExclusiveAccessAll,
    }
}
