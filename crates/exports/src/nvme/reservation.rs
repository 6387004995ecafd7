//! Commands about reservations (Base 7.5 to 7.8, 8.1.22), as changes of those that the volume has
//! in its view (`docs/decisions/0096-the-reservations-of-nvme-are-the-volumes-own.md`).
//!
//! 1. [`Reserve::read`] takes a command's entry apart, and [`Reserve::with`] its data.
//! 2. [`Wanted::change`] says which change of the volume's reservations that is, if they permit it.
//! 3. [`notices`] says which hosts are told of a change, and [`report`] is the answer to
//!    Reservation Report.

mod notices;

use evenkeel_core::HostId;
use evenkeel_core::view::{ReservationChange, ReservationKind, Reservations, ViewError};
use evenkeel_format::bytes::{Reader, Short};

use super::command::{Entry, Nvm, Status};
use super::connection::Transfer;

pub use notices::{ReservationNotice, notices};

/// IEKEY: whether the key that the host has does not matter.
const IGNORES_KEY: u32 = 1 << 3;
/// Bits of dword 10 that choose what a command does.
const ACTION: u32 = 7;
/// CNTLID of a registrant whose controllers are dynamic.
const DYNAMIC: u16 = 0xffff;
/// Bytes of a report before the first registrant, and of each one (the extended format).
const REPORT_HEADER: usize = 64;
const REPORT_RECORD: usize = 64;

/// A command that changes reservations, without its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reserve {
    /// Reservation Register.
    Register {
        /// RREGA.
        action: Register,
        /// IEKEY.
        ignores_key: bool,
        /// CPTPL: whether all reservations are to outlast a power loss; `None`: as before.
        is_persistent: Option<bool>,
    },
    /// Reservation Acquire; of Preempt, and of Preempt and Abort, with `preempts`.
    Acquire {
        /// Whether other registrations are taken away.
        preempts: bool,
        /// RTYPE.
        kind: ReservationKind,
    },
    /// Reservation Release: end the reservation of this type.
    Release(ReservationKind),
    /// Reservation Release: end the reservation and all registrations.
    Clear,
}

/// What Reservation Register does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Register {
    /// Register the host.
    Register,
    /// Take its registration back.
    Unregister,
    /// Give it another key.
    Replace,
}

/// What a host wants done with the reservations of a volume. Keys are those that it states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// Register it with this key.
    Register {
        /// NRKEY; not zero.
        key: u64,
        /// See [`Reserve::Register`].
        is_persistent: Option<bool>,
    },
    /// Take its registration back.
    Unregister {
        /// CRKEY; `None`: whichever it is.
        current: Option<u64>,
        /// See [`Reserve::Register`].
        is_persistent: Option<bool>,
    },
    /// Give it another key; without a `current` one also if it is not registered.
    Replace {
        /// CRKEY; `None`: whichever it is.
        current: Option<u64>,
        /// NRKEY; not zero.
        key: u64,
        /// See [`Reserve::Register`].
        is_persistent: Option<bool>,
    },
    /// Reserve the volume.
    Acquire {
        /// CRKEY.
        current: u64,
        /// The type.
        kind: ReservationKind,
    },
    /// Take the registrations with a key away, and with them the reservation.
    Preempt {
        /// CRKEY.
        current: u64,
        /// PRKEY.
        victim: u64,
        /// The type of the reservation that it makes.
        kind: ReservationKind,
    },
    /// End the reservation.
    Release {
        /// CRKEY.
        current: u64,
        /// Its type.
        kind: ReservationKind,
    },
    /// End the reservation and all registrations.
    Clear {
        /// CRKEY.
        current: u64,
    },
    /// Feature 83h: say whether all of it is to outlast a power loss.
    Persist(bool),
    /// Report what there is.
    Report,
}

impl Reserve {
    /// Reads a command that changes reservations.
    ///
    /// # Errors
    /// The status to answer with: a field is reserved, or its data has another length.
    pub fn read(command: Nvm, entry: &Entry, transfer: Transfer) -> Result<Self, Status> {
        let word = entry.words[0];
        let ignores_key = word & IGNORES_KEY != 0;
        let reserve = match (command, word & ACTION) {
            (Nvm::ReservationRegister, action) => Self::Register {
                action: match action {
                    0 => Register::Register,
                    1 => Register::Unregister,
                    2 => Register::Replace,
                    _ => return Err(Status::InvalidField),
                },
                ignores_key,
                is_persistent: match word >> 30 {
                    0 => None,
                    2 => Some(false),
                    3 => Some(true),
                    _ => return Err(Status::InvalidField),
                },
            },
            // There the key of the host is never ignored.
            _ if ignores_key => return Err(Status::InvalidField),
            (Nvm::ReservationAcquire, action @ 0..=2) => {
                Self::Acquire { preempts: action > 0, kind: kind(word)? }
            }
            (Nvm::ReservationRelease, 0) => Self::Release(kind(word)?),
            (Nvm::ReservationRelease, 1) => Self::Clear,
            _ => return Err(Status::InvalidField),
        };
        match transfer {
            Transfer::InCapsule(length) | Transfer::OnRequest(length) if reserve.takes(length) => {
                Ok(reserve)
            }
            _ => Err(Status::DataLength),
        }
    }

    /// Whether its data, keys, may have so many bytes. Linux sends two keys with each of these
    /// commands, also where one is asked for.
    const fn takes(&self, length: u32) -> bool {
        match self {
            Self::Register { .. } | Self::Acquire { .. } => length == 16,
            Self::Release(_) | Self::Clear => length == 8 || length == 16,
        }
    }

    /// What it wants, with its data.
    ///
    /// # Errors
    /// The status to answer with: the data is too short, or registers no key.
    pub fn with(self, data: &[u8]) -> Result<Wanted, Status> {
        let short = |Short| Status::DataLength;
        let mut reader = Reader::new(data);
        let current = reader.u64().map_err(short)?;
        Ok(match self {
            Self::Register { action, ignores_key, is_persistent } => {
                let stated = (!ignores_key).then_some(current);
                let key = reader.u64().map_err(short)?;
                match action {
                    Register::Unregister => Wanted::Unregister { current: stated, is_persistent },
                    // Zero stands for none.
                    _ if key == 0 => return Err(Status::InvalidField),
                    Register::Register => Wanted::Register { key, is_persistent },
                    Register::Replace => Wanted::Replace { current: stated, key, is_persistent },
                }
            }
            Self::Acquire { preempts: false, kind } => Wanted::Acquire { current, kind },
            Self::Acquire { preempts: true, kind } => {
                Wanted::Preempt { current, victim: reader.u64().map_err(short)?, kind }
            }
            Self::Release(kind) => Wanted::Release { current, kind },
            Self::Clear => Wanted::Clear { current },
        })
    }
}

/// RTYPE.
fn kind(word: u32) -> Result<ReservationKind, Status> {
    Ok(match (word >> 8) as u8 {
        1 => ReservationKind::WriteExclusive,
        2 => ReservationKind::ExclusiveAccess,
        3 => ReservationKind::WriteExclusiveRegistrants,
        4 => ReservationKind::ExclusiveAccessRegistrants,
        5 => ReservationKind::WriteExclusiveAll,
        6 => ReservationKind::ExclusiveAccessAll,
        _ => return Err(Status::InvalidField),
    })
}

const fn number(kind: ReservationKind) -> u8 {
    match kind {
        ReservationKind::WriteExclusive => 1,
        ReservationKind::ExclusiveAccess => 2,
        ReservationKind::WriteExclusiveRegistrants => 3,
        ReservationKind::ExclusiveAccessRegistrants => 4,
        ReservationKind::WriteExclusiveAll => 5,
        ReservationKind::ExclusiveAccessAll => 6,
    }
}

impl Wanted {
    /// The change of the reservations that a host wants; `None` if it wants none.
    ///
    /// The volume makes a change once, however often it is asked for, and does not mind if it is
    /// made already. What NVMe refuses then is refused here.
    ///
    /// # Errors
    /// [`Status::ReservationConflict`] if the reservations as they are don't permit it.
    pub fn change(
        self,
        host: HostId,
        present: &Reservations,
    ) -> Result<Option<ReservationChange>, Status> {
        let conflict = |is_one: bool| {
            if is_one { Err(Status::ReservationConflict) } else { Ok(()) }
        };
        let has = key_of(present, host);
        Ok(Some(match self {
            Self::Register { key, is_persistent } => {
                conflict(has.is_some_and(|has| has != key))?;
                let expected = Some(has.unwrap_or(0));
                ReservationChange::Register { host, expected, key, is_persistent }
            }
            Self::Unregister { current, is_persistent } => {
                conflict(has.is_none() || current.is_some_and(|key| has != Some(key)))?;
                ReservationChange::Register { host, expected: has, key: 0, is_persistent }
            }
            Self::Replace { current, key, is_persistent } => {
                conflict(current.is_some_and(|key| has != Some(key)))?;
                let expected = Some(has.unwrap_or(0));
                ReservationChange::Register { host, expected, key, is_persistent }
            }
            Self::Acquire { current, kind } => {
                ReservationChange::Reserve { host, key: current, kind }
            }
            Self::Preempt { current, victim, kind } => {
                ReservationChange::Preempt { host, key: current, victim, kind }
            }
            Self::Release { current, kind } => {
                // Whoever holds none may still not release one of another type.
                conflict(has != Some(current))?;
                if present.held.is_some_and(|held| held.kind != kind) {
                    return Err(Status::InvalidField);
                }
                ReservationChange::Release { host, key: current, kind }
            }
            Self::Clear { current } => {
                conflict(has != Some(current))?;
                ReservationChange::Clear { host, key: current }
            }
            Self::Persist(is_persistent) => ReservationChange::Persist { is_persistent },
            Self::Report => return Ok(None),
        }))
    }
}

fn key_of(present: &Reservations, host: HostId) -> Option<u64> {
    let mut registrants = present.registrants.iter();
    registrants.find(|registrant| registrant.host == host).map(|registrant| registrant.key)
}

/// How a command ends whose change the volume's view refuses.
#[must_use]
pub const fn refused(error: ViewError) -> Status {
    match error {
        ViewError::ReservationConflict => Status::ReservationConflict,
        ViewError::WrongReservation => Status::InvalidField,
        ViewError::TooManyRegistrants => Status::CapacityExceeded,
        _ => Status::Internal,
    }
}

/// NUMD and EDS of Reservation Report: bytes that the host takes.
///
/// # Errors
/// The status to answer with: host identifiers have 128 bits here, which only the extended format
/// holds; or the data pointer has another length.
pub fn report_length(entry: &Entry, transfer: Transfer) -> Result<u32, Status> {
    const EXTENDED: u32 = 1;
    let [dwords_less_one, how, ..] = entry.words;
    if how & EXTENDED == 0 {
        return Err(Status::HostIdentifier);
    }
    match transfer {
        Transfer::ToHost(length) if u64::from(length) == (u64::from(dwords_less_one) + 1) * 4 => {
            Ok(length)
        }
        _ => Err(Status::DataLength),
    }
}

/// The answer to Reservation Report in the extended format, as long as it is.
///
/// ```text
/// 0 generation   4 type   5 registrants   9 persistent   64 registrants:
///     0 controller   2 holder   8 key   16 host   64 the next one
/// ```
#[must_use]
pub fn report(present: &Reservations) -> Vec<u8> {
    let count = present.registrants.len();
    let mut page = vec![0; REPORT_HEADER + count * REPORT_RECORD];
    page[..4].copy_from_slice(&present.generation.to_le_bytes());
    page[4] = present.held.map_or(0, |held| number(held.kind));
    page[5..7].copy_from_slice(&(count as u16).to_le_bytes());
    page[9] = u8::from(present.is_persistent);
    let records = page[REPORT_HEADER..].chunks_exact_mut(REPORT_RECORD);
    for (record, registrant) in records.zip(&present.registrants) {
        record[..2].copy_from_slice(&DYNAMIC.to_le_bytes());
        record[2] = u8::from(present.is_held_by(registrant.host));
        record[8..16].copy_from_slice(&registrant.key.to_le_bytes());
        record[16..32].copy_from_slice(&registrant.host.0.to_be_bytes());
    }
    page
}

#[cfg(test)]
mod tests;
