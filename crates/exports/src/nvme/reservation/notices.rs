//! Whom a change of reservations is told (Base 8.1.22).

use evenkeel_core::HostId;
use evenkeel_core::view::{Reservation, ReservationChange, Reservations};

/// What a registrant learns of what another host has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ReservationNotice {
    /// Its registration was taken away by Preempt.
    RegistrationPreempted = 1,
    /// The reservation has ended, or has been replaced.
    ReservationReleased = 2,
    /// All registrations were cleared.
    ReservationPreempted = 3,
}

impl ReservationNotice {
    /// Its bit in the Reservation Notification Mask (feature 82h).
    #[must_use]
    pub const fn mask(self) -> u32 {
        1 << self as u8
    }
}

/// Which hosts are told of a change, with what was before it and after it. Whoever has made it is
/// not.
#[must_use]
pub fn notices(
    change: &ReservationChange,
    before: &Reservations,
    after: &Reservations,
) -> Vec<(HostId, ReservationNotice)> {
    use ReservationChange::*;
    let by = match *change {
        Register { host, .. } | Reserve { host, .. } | Release { host, .. } => Some(host),
        Clear { host, .. } | Preempt { host, .. } => Some(host),
        Persist { .. } | Drop => None,
    };
    let others = |of: &Reservations| -> Vec<HostId> {
        let hosts = of.registrants.iter().map(|registrant| registrant.host);
        hosts.filter(|host| Some(*host) != by).collect()
    };
    let gone = || others(before).into_iter().filter(|host| !after.is_registered(*host));
    let all = |hosts: Vec<HostId>, notice| hosts.into_iter().map(move |host| (host, notice));
    match change {
        Preempt { .. } => {
            let preempted = all(gone().collect(), ReservationNotice::RegistrationPreempted);
            let is_replaced = is_replaced(before.held, after.held);
            let stay = if is_replaced { others(after) } else { Vec::new() };
            preempted.chain(all(stay, ReservationNotice::ReservationReleased)).collect()
        }
        Clear { .. } | Drop => {
            all(gone().collect(), ReservationNotice::ReservationPreempted).collect()
        }
        // Others than the holder lose something only if they had rights by it.
        Register { .. } | Release { .. }
            if after.held.is_none()
                && before.held.is_some_and(|held| held.kind.admits_registrants()) =>
        {
            all(others(after), ReservationNotice::ReservationReleased).collect()
        }
        Register { .. } | Release { .. } | Reserve { .. } | Persist { .. } => Vec::new(),
    }
}

/// Whether the reservation is another one. Of one that all hold it does not matter who made it.
fn is_replaced(before: Option<Reservation>, after: Option<Reservation>) -> bool {
    match (before, after) {
        (Some(before), Some(after)) => {
            let is_all = before.kind.is_held_by_all();
            before.kind != after.kind || !is_all && before.holder != after.holder
        }
        (before, _) => before.is_some(),
    }
}
