//! Hosts that reserve the volume: the client of each node is one. What a change of reservations
//! that was answered forbids, nobody may succeed in any more.

use evenkeel_core::primary::{Command, CommandError};
use evenkeel_core::view::{Change, ReservationChange, ReservationKind};
use evenkeel_core::*;

use super::Cluster;
use super::clients::Kind;
use crate::marks::Mark;
use crate::sabotage::Sabotage;

const KINDS: [ReservationKind; 6] = [
    ReservationKind::WriteExclusive,
    ReservationKind::ExclusiveAccess,
    ReservationKind::WriteExclusiveRegistrants,
    ReservationKind::ExclusiveAccessRegistrants,
    ReservationKind::WriteExclusiveAll,
    ReservationKind::ExclusiveAccessAll,
];

impl Cluster {
    /// The host for which the client of a primary asks: its node.
    fn host_of(&self, primary: usize) -> HostId {
        host(self.primaries[primary].node)
    }

    /// The host that the primary is told.
    pub(super) fn host_reported(&self, primary: usize) -> HostId {
        let held = self.coordinator.newest().reservations.held;
        let mistaken = held.filter(|_| self.sabotage == Some(Sabotage::MistakeHosts));
        mistaken.map_or_else(|| self.host_of(primary), |held| held.holder)
    }

    /// Some host asks for a change of reservations, at whatever primary.
    pub(super) fn change_reservation(&mut self) {
        let known = self.coordinator.newest().reservations.clone();
        let (node, other) =
            (self.random.index(self.nodes.len()), self.random.index(self.nodes.len()));
        let (mut host, mut victim) = (host(node), other as u64 + 1);
        if !known.registrants.is_empty() && self.random.chance(600) {
            host = known.registrants[self.random.index(known.registrants.len())].host;
        }
        if let Some(held) = known.held.filter(|_| self.random.chance(700)) {
            victim = held.holder.0 as u64;
        }
        // Each host's key is its own number.
        let key = host.0 as u64;
        let kind = self.random.pick(&KINDS);
        let change = match self.random.below(15) {
            0..=3 => {
                let is_persistent = self.random.chance(300).then(|| self.random.chance(500));
                ReservationChange::Register { host, expected: None, key, is_persistent }
            }
            4 => {
                let (expected, key) = (Some(key), 0);
                ReservationChange::Register { host, expected, key, is_persistent: None }
            }
            5..=7 => ReservationChange::Reserve { host, key, kind },
            8 => ReservationChange::Release { host, key, kind },
            9..=12 => ReservationChange::Preempt { host, key, victim, kind },
            13 => ReservationChange::Clear { host, key },
            _ => ReservationChange::Drop,
        };
        self.command_anywhere(Command::Change(Change::Reservation(change)));
    }

    /// A change of reservations was answered.
    pub(super) fn reservation_changed(&mut self, result: Result<(), CommandError>) {
        let is_reserving = |(command, _): &(Command, _)| {
            matches!(command, Command::Change(Change::Reservation(_)))
        };
        let mut commands = self.primaries.iter().flat_map(|slot| slot.commands.values());
        if result.is_ok() && !commands.any(is_reserving) {
            self.reserved = Some(self.coordinator.newest().reservations.clone());
        }
    }

    /// A view was committed: what it says of reservations is not certain before that is answered.
    pub(super) fn note_reservations(&mut self, before: &View, after: &View) {
        if after.reservations == before.reservations {
            return;
        }
        self.reserved = None;
        let lost = before.reservations.held.map(|held| held.holder);
        let is_taken = after.reservations.held.is_some_and(|held| Some(held.holder) != lost);
        if is_taken && lost.is_some_and(|host| !after.reservations.is_registered(host)) {
            self.marks.reach(Mark::Preempted);
        }
    }

    /// A request has succeeded: it must be permitted.
    pub(super) fn judge_permission(&mut self, primary: usize, kind: &Kind) {
        let is_primary = self.coordinator.newest().has_primary(self.primaries[primary].id);
        let Some(reserved) = self.reserved.as_ref().filter(|_| is_primary) else { return };
        let host = self.host_of(primary);
        let Some(held) = reserved.held else { return };
        let is_free = match kind {
            Kind::Flush => true,
            Kind::Read { .. } | Kind::Map { .. } => !held.kind.excludes_reads(),
            Kind::Change { .. } | Kind::Compare { .. } => false,
        };
        let is_admitted = held.kind.admits_registrants() && reserved.is_registered(host);
        if !is_free && held.holder != host && !is_admitted {
            let text = format!(
                "primary {primary} carried out {kind:?} for {host}, though the volume is reserved: {held:?}"
            );
            self.fail("I13", text);
        }
    }

    /// A change was answered with an error. One that was refused because of a reservation, or
    /// cancelled, never happens.
    pub(super) fn refused(&mut self, primary: usize, write: u32, error: RequestError) {
        match error {
            RequestError::Reserved => self.marks.reach(Mark::Reserved),
            RequestError::Cancelled => {}
            _ => return self.lines.fail(write),
        }
        self.primaries[primary].unsure.retain(|(unsure, ..)| *unsure != write);
        let verdict = self.lines.never(write);
        self.judge(verdict);
    }
}

fn host(node: usize) -> HostId {
    HostId(node as u128 + 1)
}
