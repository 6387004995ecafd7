//! Reservations as bytes: the last part of a view, if there are any.

use evenkeel_core::HostId;
use evenkeel_core::view::{Registrant, Reservation, Reservations};

use super::{ViewFormatError, unknown};
use crate::bytes::{Put, Reader};
use crate::code::{reservation_kind_code, reservation_kind_from_code};

/// Bytes before the first registered host.
pub(super) const HEADER: usize = 8;
/// Bytes of a registered host.
pub(super) const RECORD: usize = 24;

pub(super) fn put(reservations: &Reservations, out: &mut Vec<u8>) {
    if *reservations == Reservations::default() {
        return;
    }
    let place_of = |held: Reservation| {
        reservations.registrants.iter().position(|registrant| registrant.host == held.holder)
    };
    out.put_u32(reservations.generation);
    out.put_u8(reservations.held.map_or(0, |held| reservation_kind_code(held.kind)));
    // Counted from 1.
    out.put_u8(reservations.held.and_then(place_of).map_or(0, |place| place as u8 + 1));
    out.put_u8(u8::from(reservations.is_persistent));
    out.put_u8(reservations.registrants.len() as u8);
    for registrant in &reservations.registrants {
        out.put_u128(registrant.host.0);
        out.put_u64(registrant.key);
    }
}

pub(super) fn read(reader: &mut Reader<'_>) -> Result<Reservations, ViewFormatError> {
    let generation = reader.u32()?;
    let (kind, place, persistent, count) = (reader.u8()?, reader.u8()?, reader.u8()?, reader.u8()?);
    let mut registrants = Vec::new();
    for _ in 0..count {
        registrants.push(Registrant { host: HostId(reader.u128()?), key: reader.u64()? });
    }
    let holder = place.checked_sub(1).map(|place| registrants.get(usize::from(place)));
    let held = match (kind, holder) {
        (0, None) => None,
        (kind, Some(Some(holder))) => {
            let kind =
                reservation_kind_from_code(kind).ok_or_else(|| unknown("reservation", kind))?;
            Some(Reservation { kind, holder: holder.host })
        }
        _ => return Err(unknown("reservation's holder", place)),
    };
    let is_persistent = match persistent {
        0 => false,
        1 => true,
        other => return Err(unknown("reservations' persistence", other)),
    };
    let reservations = Reservations { generation, is_persistent, registrants, held };
    // Each view has one encoding.
    if reservations == Reservations::default() {
        return Err(unknown("reservations", 1));
    }
    Ok(reservations)
}
