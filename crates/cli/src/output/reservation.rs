//! Who may read and write a volume, as people see it.

use evenkeel_api::types::{ReservationKind, ReservationStatus};

use super::table::{Align, Table};

/// The reservation in one line.
pub fn line(reservation: &ReservationStatus) -> String {
    let holders: Vec<_> = reservation
        .registrants
        .iter()
        .filter(|registrant| registrant.holder)
        .map(|registrant| registrant.node.as_deref().unwrap_or(&registrant.host))
        .collect();
    let count = reservation.registrants.len();
    let registered = format!("{count} {} registered", if count == 1 { "host" } else { "hosts" });
    match reservation.kind {
        Some(kind) => format!("{} by {}; {registered}", name(kind), holders.join(", ")),
        None => format!("none; {registered}"),
    }
}

/// The reservation with all registered hosts.
pub fn reported(reservation: Option<&ReservationStatus>) -> String {
    let Some(reservation) = reservation else {
        return "No host is registered, and nobody has reserved the volume.\n".into();
    };
    let lasts = match reservation.persistent {
        true => "it stays when no node has the volume attached",
        false => "it ends when no node has the volume attached",
    };
    let mut text = format!("reservation  {}; {lasts}\n\n", line(reservation));
    let mut table =
        Table::new(&[("HOST", Align::Left), ("KEY", Align::Right), ("HOLDS", Align::Left)]);
    for registrant in &reservation.registrants {
        table.row(vec![
            registrant.node.clone().unwrap_or_else(|| registrant.host.clone()),
            registrant.key.clone(),
            if registrant.holder { "yes" } else { "" }.to_owned(),
        ]);
    }
    text.push_str(&table.render(2));
    text
}

const fn name(kind: ReservationKind) -> &'static str {
    match kind {
        ReservationKind::WriteExclusive => "write-exclusive",
        ReservationKind::ExclusiveAccess => "exclusive-access",
        ReservationKind::WriteExclusiveRegistrants => "write-exclusive-registrants",
        ReservationKind::ExclusiveAccessRegistrants => "exclusive-access-registrants",
        ReservationKind::WriteExclusiveAll => "write-exclusive-all",
        ReservationKind::ExclusiveAccessAll => "exclusive-access-all",
    }
}
