//! Reservations: which hosts may read and write the volume, as SCSI (SPC-4, 5.12 "Reservations")
//! and NVMe (Base Specification 2.0, 8.19) define them. They belong to the volume and not to a
//! primary: what one of them was told holds at all.
//!
//! A host registers a key; a registered one may reserve, and may take another one's registration,
//! and with it the reservation, away (*preempt*), which is how clusters fence a node. A change that
//! has been made already is made once: whoever was not answered may ask again.

use super::{View, ViewError};
use crate::ids::HostId;
use crate::operation::Operation;
use crate::payload::Payload;
use crate::settings::MAX_REGISTRANTS;

/// What a reservation keeps other hosts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReservationKind {
    /// Only the holder writes.
    WriteExclusive,
    /// Only the holder reads and writes.
    ExclusiveAccess,
    /// Only registered hosts write.
    WriteExclusiveRegistrants,
    /// Only registered hosts read and write.
    ExclusiveAccessRegistrants,
    /// Only registered hosts write, and each of them holds it.
    WriteExclusiveAll,
    /// Only registered hosts read and write, and each of them holds it.
    ExclusiveAccessAll,
}

impl ReservationKind {
    /// Whether it keeps others from reading, too.
    #[must_use]
    pub const fn excludes_reads(self) -> bool {
        matches!(
            self,
            Self::ExclusiveAccess | Self::ExclusiveAccessRegistrants | Self::ExclusiveAccessAll
        )
    }

    /// Whether all registered hosts may do what it keeps others from.
    #[must_use]
    pub const fn admits_registrants(self) -> bool {
        !matches!(self, Self::WriteExclusive | Self::ExclusiveAccess)
    }

    /// Whether each registered host holds it.
    #[must_use]
    pub const fn is_held_by_all(self) -> bool {
        matches!(self, Self::WriteExclusiveAll | Self::ExclusiveAccessAll)
    }
}

/// A registered host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registrant {
    /// The name under which it asks.
    pub host: HostId,
    /// Its key, which it has to repeat to act as this registrant; not zero.
    pub key: u64,
}

/// The reservation of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reservation {
    /// What it keeps others from.
    pub kind: ReservationKind,
    /// Who made it.
    pub holder: HostId,
}

/// All hosts that are registered with a volume, and its reservation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reservations {
    /// Counts the changes of who is registered (SPC-4: PRGENERATION). It wraps around.
    pub generation: u32,
    /// Whether they outlast the last primary (SPC-4: APTPL). If not, they end when the volume is
    /// attached while nobody else runs it.
    pub is_persistent: bool,
    /// In the order in which they registered; at most [`MAX_REGISTRANTS`].
    pub registrants: Vec<Registrant>,
    /// Its holder is registered.
    pub held: Option<Reservation>,
}

/// A change of reservations, with the host that asks for it and its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReservationChange {
    /// Register a host, give it another key, or with the key 0 take its registration back.
    Register {
        /// Who asks.
        host: HostId,
        /// The key that it has, 0 if it is not registered; `None` if that does not matter.
        expected: Option<u64>,
        /// Its new key.
        key: u64,
        /// Whether all registrations are to outlast the last primary; `None`: as before.
        is_persistent: Option<bool>,
    },
    /// Reserve the volume.
    Reserve {
        /// Who asks.
        host: HostId,
        /// Its key.
        key: u64,
        /// What others are to be kept from.
        kind: ReservationKind,
    },
    /// End the reservation of this host. That of another one stays.
    Release {
        /// Who asks.
        host: HostId,
        /// Its key.
        key: u64,
        /// The kind that it holds.
        kind: ReservationKind,
    },
    /// End the reservation and all registrations.
    Clear {
        /// Who asks.
        host: HostId,
        /// Its key.
        key: u64,
    },
    /// Take the registrations with a key away. If one of them held the reservation, this host does
    /// then.
    Preempt {
        /// Who asks.
        host: HostId,
        /// Its key.
        key: u64,
        /// The key of those that lose their registration; 0 for all others, if all hold the
        /// reservation.
        victim: u64,
        /// The reservation that it makes.
        kind: ReservationKind,
    },
    /// Say whether all of it is to outlast the last primary.
    Persist {
        /// Whether it is.
        is_persistent: bool,
    },
    /// End the reservation and all registrations, by an administrator.
    Drop,
}

impl Reservations {
    /// Whether a host may do this.
    #[must_use]
    pub fn permit<P: Payload>(&self, host: HostId, operation: &Operation<P>) -> bool {
        let Some(held) = self.held else {
            return true; // Nobody is kept out.
        };
        let is_free = match operation {
            Operation::Flush => true,
            Operation::Read { .. } | Operation::Map { .. } => !held.kind.excludes_reads(),
            Operation::Write { .. }
            | Operation::CompareAndWrite { .. }
            | Operation::Zero { .. } => false,
        };
        is_free || held.holder == host || self.is_registered(host) && held.kind.admits_registrants()
    }

    /// Whether a host is registered.
    #[must_use]
    pub fn is_registered(&self, host: HostId) -> bool {
        self.registrants.iter().any(|registrant| registrant.host == host)
    }

    /// Whether a host holds the reservation.
    #[must_use]
    pub fn is_held_by(&self, host: HostId) -> bool {
        self.held.is_some_and(|held| {
            held.holder == host || held.kind.is_held_by_all() && self.is_registered(host)
        })
    }

    /// Whether the numbers are within their limits and hosts are named once.
    pub(super) fn are_valid(&self) -> bool {
        let mut hosts: Vec<_> = self.registrants.iter().map(|r| r.host).collect();
        hosts.sort_unstable();
        self.registrants.len() <= MAX_REGISTRANTS
            && self.registrants.iter().all(|registrant| registrant.key != 0)
            && hosts.windows(2).all(|pair| pair[0] != pair[1])
            && self.held.is_none_or(|held| self.is_registered(held.holder))
    }

    /// The last primary has ended, and another one begins.
    pub(crate) fn begin_anew(&mut self) {
        if !self.is_persistent {
            *self = Self::default();
        }
    }

    fn key_of(&self, host: HostId) -> Option<u64> {
        self.registrants.iter().find(|r| r.host == host).map(|registrant| registrant.key)
    }

    /// Who asks has to be registered with the key that it states.
    fn demand(&self, host: HostId, key: u64) -> Result<(), ViewError> {
        if self.key_of(host) == Some(key) { Ok(()) } else { Err(ViewError::ReservationConflict) }
    }

    fn register(&mut self, host: HostId, expected: Option<u64>, key: u64) -> Result<(), ViewError> {
        let present = self.key_of(host).unwrap_or(0);
        if present == key {
            return Ok(()); // Perhaps by just this.
        }
        if expected.is_some_and(|expected| expected != present) {
            return Err(ViewError::ReservationConflict);
        }
        if key == 0 {
            self.take_out(|registrant| registrant.host == host);
        } else if let Some(known) = self.registrants.iter_mut().find(|r| r.host == host) {
            known.key = key;
        } else if self.registrants.len() >= MAX_REGISTRANTS {
            return Err(ViewError::TooManyRegistrants);
        } else {
            self.registrants.push(Registrant { host, key });
        }
        self.generation = self.generation.wrapping_add(1);
        Ok(())
    }

    /// Takes registrations away. A reservation that all held passes to those that stay; any other
    /// one ends with its holder's.
    fn take_out(&mut self, is_gone: impl Fn(&Registrant) -> bool) {
        self.registrants.retain(|registrant| !is_gone(registrant));
        let Some(held) = self.held.filter(|held| !self.is_registered(held.holder)) else {
            return; // Nobody holds it, or who does stays.
        };
        let heir = self.registrants.first().filter(|_| held.kind.is_held_by_all());
        self.held = heir.map(|heir| Reservation { holder: heir.host, ..held });
    }

    fn reserve(&mut self, host: HostId, kind: ReservationKind) -> Result<(), ViewError> {
        match self.held {
            Some(held) if held.kind != kind || !self.is_held_by(host) => {
                Err(ViewError::ReservationConflict)
            }
            Some(_) => Ok(()),
            None => {
                self.held = Some(Reservation { kind, holder: host });
                Ok(())
            }
        }
    }

    fn release(&mut self, host: HostId, kind: ReservationKind) -> Result<(), ViewError> {
        match self.held.filter(|_| self.is_held_by(host)) {
            Some(held) if held.kind != kind => Err(ViewError::WrongReservation),
            Some(_) => {
                self.held = None;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn preempt(
        &mut self,
        host: HostId,
        victim: u64,
        kind: ReservationKind,
    ) -> Result<(), ViewError> {
        let is_victim = |registrant: &Registrant| {
            registrant.host != host && (registrant.key == victim || victim == 0)
        };
        let takes_over = match self.held {
            Some(held) if held.kind.is_held_by_all() => victim == 0,
            Some(held) => self.key_of(held.holder) == Some(victim),
            None => false,
        };
        if victim == 0 && !takes_over {
            return Err(ViewError::WrongReservation);
        }
        let mine = Some(Reservation { kind, holder: host });
        if !takes_over && !self.registrants.iter().any(is_victim) {
            // Nobody has that key any more: by just this, or by somebody else.
            return if self.held == mine { Ok(()) } else { Err(ViewError::ReservationConflict) };
        }
        self.take_out(is_victim);
        if takes_over {
            self.held = mine;
        }
        self.generation = self.generation.wrapping_add(1);
        Ok(())
    }

    fn clear(&mut self) {
        if !self.registrants.is_empty() {
            self.registrants.clear();
            self.held = None;
            self.generation = self.generation.wrapping_add(1);
        }
    }
}

impl View {
    /// Changes who may read and write.
    ///
    /// # Errors
    /// [`ViewError::ReservationConflict`] if who asks is not registered with that key, or another
    /// one holds the reservation; [`ViewError::WrongReservation`];
    /// [`ViewError::TooManyRegistrants`].
    pub(super) fn change_reservations(
        &mut self,
        change: ReservationChange,
    ) -> Result<(), ViewError> {
        let reservations = &mut self.reservations;
        match change {
            ReservationChange::Register { host, expected, key, is_persistent } => {
                reservations.register(host, expected, key)?;
                reservations.is_persistent = is_persistent.unwrap_or(reservations.is_persistent);
            }
            ReservationChange::Reserve { host, key, kind } => {
                reservations.demand(host, key)?;
                reservations.reserve(host, kind)?;
            }
            ReservationChange::Release { host, key, kind } => {
                reservations.demand(host, key)?;
                reservations.release(host, kind)?;
            }
            ReservationChange::Clear { host, key } => {
                if !reservations.registrants.is_empty() {
                    reservations.demand(host, key)?;
                }
                reservations.clear();
            }
            ReservationChange::Preempt { host, key, victim, kind } => {
                reservations.demand(host, key)?;
                reservations.preempt(host, victim, kind)?;
            }
            ReservationChange::Persist { is_persistent } => {
                reservations.is_persistent = is_persistent;
            }
            ReservationChange::Drop => reservations.clear(),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
