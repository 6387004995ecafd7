//! Commands of the admin queue (Base 5, 6).

use std::fmt;

use evenkeel_core::Instant;

use super::facts::{Facts, Subject};
use super::identify::{IDENTIFY_LENGTH, Identity};
use super::{Change, Controller, Kind};
use crate::nvme::command::{Admin, Entry, Fabrics, Fuse, Refusal, Status};
use crate::nvme::connection::{Tag, Transfer};

/// A command of the admin queue, except its Connect.
#[derive(Clone, Copy)]
pub struct AdminCommand<'a> {
    /// What to answer to.
    pub tag: Tag,
    /// The command.
    pub entry: &'a Entry,
    /// Its data. No command that is supported has data of the host.
    pub transfer: Transfer,
    /// Which command of the queue the host calls so; see
    /// [`crate::nvme::connection::Connection::find`].
    pub find: &'a dyn Fn(u16) -> Option<Tag>,
}

impl fmt::Debug for AdminCommand<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdminCommand").field("tag", &self.tag).field("entry", self.entry).finish()
    }
}

/// How a command succeeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Done {
    /// Without data, and with this result.
    Result(u64),
    /// With this data, which is as long as the command's.
    Data(Vec<u8>),
    /// It is kept, and one of [`Controller::take_answers`] answers it.
    Kept,
}

impl Controller {
    /// Carries out a command of the admin queue.
    ///
    /// Before the host has enabled the controller, after a shutdown and after a failure only the
    /// Fabrics commands are permitted: others are answered by [`Status::Sequence`].
    ///
    /// # Errors
    /// What to answer if the command is refused.
    pub fn admin(
        &mut self,
        command: &AdminCommand<'_>,
        facts: &Facts<'_>,
        now: Instant,
    ) -> Result<Done, Refusal> {
        if self.has_ended() {
            return Err(Status::Sequence.into());
        }
        if self.kind == Kind::Discovery && self.keep_alive.is_zero() {
            self.since = now;
        }
        if command.entry.opcode == Fabrics::OPCODE {
            return self.fabrics(command.entry, now);
        }
        if !self.is_ready() {
            return Err(Status::Sequence.into());
        }
        let admin = Admin::from_number(command.entry.opcode).ok_or(Status::InvalidOpcode)?;
        if command.entry.fuse()? != Fuse::None {
            return Err(Status::InvalidField.into());
        }
        Ok(match admin {
            Admin::Identify => Done::Data(self.identify(command, facts)?),
            Admin::GetLogPage => Done::Data(self.log_page(command, facts)?),
            Admin::GetFeatures => self.get_feature(command, facts)?,
            Admin::SetFeatures => self.set_feature(command, facts, now)?,
            Admin::Abort => self.abort(command)?,
            Admin::AsynchronousEvent => {
                self.events.request(command.tag)?;
                Done::Kept
            }
            Admin::KeepAlive => {
                self.since = now;
                Done::Result(0)
            }
        })
    }

    fn fabrics(&mut self, entry: &Entry, now: Instant) -> Result<Done, Refusal> {
        match Fabrics::read(entry)? {
            Fabrics::Connect(_) => Err(Status::Sequence.into()),
            Fabrics::Disconnect => Err(Status::QueueType.into()),
            Fabrics::PropertyGet { offset, is_wide } => {
                Ok(Done::Result(self.properties.get(offset, is_wide)?))
            }
            Fabrics::PropertySet { offset, is_wide, value } => {
                match self.properties.set(offset, is_wide, value)? {
                    Change::None => {}
                    Change::Enabled => self.since = now,
                    Change::Reset | Change::Shutdown => {
                        self.since = now;
                        self.queues.reset();
                        self.events.reset();
                        self.aborts.reset();
                        self.reservations.reset();
                        self.has_changed = false;
                    }
                }
                self.finish_waiting();
                Ok(Done::Result(0))
            }
        }
    }

    fn identify(&self, command: &AdminCommand<'_>, facts: &Facts<'_>) -> Result<Vec<u8>, Status> {
        let namespace = match facts.subject {
            Subject::Volume(volume) => Some(volume.namespace),
            Subject::Discovery(..) => None,
        };
        let identity = Identity {
            serial: facts.serial,
            firmware: facts.firmware,
            controller: self.identifier,
            subsystem: facts.subsystem,
            max_commands: self.limits.entries as u16,
            namespace,
        };
        let page = identity.answer(command.entry)?;
        command.takes(IDENTIFY_LENGTH)?;
        Ok(page.to_vec())
    }

    /// Aborts a command that is kept here, or has its queue do so (Base 5.1.1). The result says
    /// whether it was aborted, and so has no effect.
    fn abort(&mut self, command: &AdminCommand<'_>) -> Result<Done, Status> {
        const NOT_ABORTED: u64 = 1;
        const ADMIN: u16 = 0;
        let word = command.entry.words[0];
        let (queue, identifier) = (word as u16, (word >> 16) as u16);
        if queue != ADMIN && self.queues.has(queue) {
            self.aborts.request(command.tag, queue, identifier)?;
            return Ok(Done::Kept);
        }
        let tag = if queue == ADMIN { (command.find)(identifier) } else { None };
        let is_aborted = tag.is_some_and(|tag| self.events.abort(tag));
        Ok(Done::Result(if is_aborted { 0 } else { NOT_ABORTED }))
    }
}

impl AdminCommand<'_> {
    /// Whether the host takes just so many bytes (SGLs that are longer than the data are not
    /// announced by Identify).
    pub(super) fn takes(&self, length: usize) -> Result<(), Status> {
        match self.transfer {
            Transfer::ToHost(taken) if taken as usize == length => Ok(()),
            _ => Err(Status::DataLength),
        }
    }
}
