//! Looking after what replicas hold: ranges are compared and repaired one at a time ([`check`]),
//! because a read found them wanting ([`bad_ranges`]) or because all are gone through ([`verify`]).

pub(super) mod bad_ranges;
pub(super) mod check;
pub(super) mod verify;
