//! Features (Base 5.1.11, 5.1.25): what a host may ask of a controller, and set.

use std::time::Duration;

use evenkeel_core::Instant;

use super::admin::{AdminCommand, Done};
use super::facts::{Facts, Subject, Volume};
use super::{Controller, NAMESPACE};
use crate::nvme::command::Status;
use crate::nvme::connection::Transfer;

const WRITE_CACHE: u8 = 0x06;
const QUEUES: u8 = 0x07;
const EVENTS: u8 = 0x0b;
const KEEP_ALIVE: u8 = 0x0f;
const HOST_IDENTIFIER: u8 = 0x81;
const RESERVATION_MASK: u8 = 0x82;
const RESERVATION_PERSISTENCE: u8 = 0x83;

/// SV, of Set Features.
const SAVE: u32 = 1 << 31;
/// SEL, of Get Features.
const SELECT: u32 = 7 << 8;
/// Bytes of a host identifier.
const IDENTIFIER_LENGTH: usize = 16;

/// A keep-alive time is a multiple of the unit that Identify announces.
pub(super) const fn rounded(time: Duration) -> Duration {
    Duration::from_secs((time.as_millis() as u64).div_ceil(super::KEEP_ALIVE_UNIT as u64))
}

impl Controller {
    pub(super) fn get_feature(
        &self,
        command: &AdminCommand<'_>,
        facts: &Facts<'_>,
    ) -> Result<Done, Status> {
        let [what, how, ..] = command.entry.words;
        // Only current values can be selected.
        if !has_feature(what as u8, facts) || what & SELECT != 0 {
            return Err(Status::InvalidField);
        }
        if is_of_namespace(what as u8) && command.entry.namespace != NAMESPACE {
            return Err(Status::InvalidNamespace);
        }
        if what as u8 == HOST_IDENTIFIER {
            // Over fabrics it has 128 bits.
            if how & 1 == 0 {
                return Err(Status::InvalidField);
            }
            command.takes(IDENTIFIER_LENGTH)?;
            return Ok(Done::Data(self.host.identifier.to_vec()));
        }
        if command.transfer != Transfer::None {
            return Err(Status::DataLength);
        }
        Ok(Done::Result(match what as u8 {
            WRITE_CACHE => 1,
            QUEUES => queues(self.queues.granted()),
            EVENTS => self.events.configuration().into(),
            RESERVATION_MASK => self.reservations.mask().into(),
            RESERVATION_PERSISTENCE => {
                reserved(facts).is_some_and(|volume| volume.reservations_persist).into()
            }
            _ => self.keep_alive.as_millis() as u64,
        }))
    }

    pub(super) fn set_feature(
        &mut self,
        command: &AdminCommand<'_>,
        facts: &Facts<'_>,
        now: Instant,
    ) -> Result<Done, Status> {
        let [what, value, ..] = command.entry.words;
        if !has_feature(what as u8, facts) {
            return Err(Status::InvalidField);
        }
        let is_all = command.entry.namespace == u32::MAX;
        if is_of_namespace(what as u8) && command.entry.namespace != NAMESPACE && !is_all {
            return Err(Status::InvalidNamespace);
        }
        if what & SAVE != 0 {
            return Err(Status::NotSaveable);
        }
        if what as u8 == HOST_IDENTIFIER {
            // Connect has set it.
            return Err(Status::Sequence);
        }
        if command.transfer != Transfer::None {
            return Err(Status::DataLength);
        }
        match what as u8 {
            // The cache is that of the replicas' disks: it can't be off.
            WRITE_CACHE if value & 1 == 0 => return Err(Status::NotChangeable),
            WRITE_CACHE => {}
            QUEUES => return Ok(Done::Result(self.set_queues(value)?)),
            EVENTS => self.events.configure(value)?,
            RESERVATION_MASK => self.reservations.set_mask(value)?,
            RESERVATION_PERSISTENCE => {
                self.reservations.persist(command.tag, value & 1 != 0)?;
                return Ok(Done::Kept);
            }
            _ => {
                self.keep_alive = rounded(Duration::from_millis(value.into()));
                self.since = now;
            }
        }
        Ok(Done::Result(0))
    }

    /// NSQR and NCQR, each one less than what is asked for. A queue has both sides here.
    fn set_queues(&mut self, value: u32) -> Result<u64, Status> {
        let (submission, completion) = (value as u16, (value >> 16) as u16);
        if submission == u16::MAX || completion == u16::MAX {
            return Err(Status::InvalidField);
        }
        let granted = self.queues.grant(submission.min(completion) + 1)?;
        Ok(queues(granted))
    }
}

/// Which features there are: discovery controllers have two.
const fn has_feature(feature: u8, facts: &Facts<'_>) -> bool {
    match feature {
        EVENTS | KEEP_ALIVE => true,
        WRITE_CACHE | QUEUES | HOST_IDENTIFIER => matches!(facts.subject, Subject::Volume(_)),
        RESERVATION_MASK | RESERVATION_PERSISTENCE => reserved(facts).is_some(),
        _ => false,
    }
}

/// The volume, if hosts may use reservations of it.
const fn reserved<'a>(facts: &Facts<'a>) -> Option<&'a Volume> {
    match facts.subject {
        Subject::Volume(volume) if volume.namespace.has_reservations => Some(volume),
        _ => None,
    }
}

const fn is_of_namespace(feature: u8) -> bool {
    matches!(feature, RESERVATION_MASK | RESERVATION_PERSISTENCE)
}

/// NSQA and NCQA, each one less.
const fn queues(granted: u16) -> u64 {
    let less = granted.saturating_sub(1) as u64;
    less << 16 | less
}
