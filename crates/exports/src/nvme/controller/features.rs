//! Features (Base 5.1.11, 5.1.25): what a host may ask of a controller, and set.

use std::time::Duration;

use evenkeel_core::Instant;

use super::admin::{AdminCommand, Done};
use super::{Controller, Kind};
use crate::nvme::command::Status;
use crate::nvme::connection::Transfer;

const WRITE_CACHE: u8 = 0x06;
const QUEUES: u8 = 0x07;
const EVENTS: u8 = 0x0b;
const KEEP_ALIVE: u8 = 0x0f;
const HOST_IDENTIFIER: u8 = 0x81;

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
    /// Which features there are: discovery controllers have two.
    const fn has_feature(&self, feature: u8) -> bool {
        match feature {
            EVENTS | KEEP_ALIVE => true,
            WRITE_CACHE | QUEUES | HOST_IDENTIFIER => matches!(self.kind, Kind::Volume),
            _ => false,
        }
    }

    pub(super) fn get_feature(&self, command: &AdminCommand<'_>) -> Result<Done, Status> {
        let [what, how, ..] = command.entry.words;
        // Only current values can be selected.
        if !self.has_feature(what as u8) || what & SELECT != 0 {
            return Err(Status::InvalidField);
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
            _ => self.keep_alive.as_millis() as u64,
        }))
    }

    /// Returns the result.
    pub(super) fn set_feature(
        &mut self,
        command: &AdminCommand<'_>,
        now: Instant,
    ) -> Result<u64, Status> {
        let [what, value, ..] = command.entry.words;
        if !self.has_feature(what as u8) {
            return Err(Status::InvalidField);
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
            QUEUES => return self.set_queues(value),
            EVENTS => self.events.configure(value)?,
            _ => {
                self.keep_alive = rounded(Duration::from_millis(value.into()));
                self.since = now;
            }
        }
        Ok(0)
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

/// NSQA and NCQA, each one less.
const fn queues(granted: u16) -> u64 {
    let less = granted.saturating_sub(1) as u64;
    less << 16 | less
}
