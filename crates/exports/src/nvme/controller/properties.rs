//! Properties of a controller (Base 3.1.4): what it can do, its configuration, and its state.
//!
//! | offset | bytes | property | |
//! |---|---|---|---|
//! | 00h | 8 | CAP | capabilities |
//! | 08h | 4 | VS | version |
//! | 14h | 4 | CC | configuration, which the host sets |
//! | 1Ch | 4 | CSTS | status |

use crate::nvme::command::Status;

const CAPABILITIES: u32 = 0x00;
const VERSION: u32 = 0x08;
const CONFIGURATION: u32 = 0x14;
const STATUS: u32 = 0x1c;

/// VS: 2.1.
const VERSION_2_1: u32 = 0x0002_0100;

/// CC.EN.
const ENABLE: u32 = 1 << 0;
/// CC.CSS, CC.MPS, CC.AMS: the command set, the size of pages and the arbitration. Of each there is
/// only the one with number 0.
const CHOICES: u32 = 0x3ff0;
/// CC.SHN.
const SHUTDOWN: u32 = 0xc000;
/// CC.IOSQES and CC.IOCQES: powers of 2 for the sizes of entries.
const ENTRY_SIZES: u32 = 0x00ff_0000;
/// 64 and 16 bytes.
const VALID_ENTRY_SIZES: u32 = 0x0046_0000;

/// CSTS.RDY, CSTS.CFS, and the two states of CSTS.SHST.
const READY: u32 = 1 << 0;
const FATAL: u32 = 1 << 1;
const SHUTTING_DOWN: u32 = 1 << 2;
const SHUT_DOWN: u32 = 2 << 2;

/// What a new configuration asks of the controller, besides what its status says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Nothing.
    None,
    /// Commands other than those of Fabrics are permitted from now on.
    Enabled,
    /// Queues for I/O and what is under way there have to end; then [`Properties::reset_done`] is
    /// to be called (Base 3.7.2). Until then the status says that the controller is ready.
    Reset,
    /// What is acknowledged has to be durable; then [`Properties::shut_down`] is to be called (Base
    /// 3.6.2).
    Shutdown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Disabled,
    Ready,
    /// The host has reset it, and what was under way has not ended yet.
    Resetting,
    /// The host set a configuration that isn't possible. A reset leads out.
    Failed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shutdown {
    None,
    UnderWay,
    Done,
}

/// The properties of one controller, from the Connect that made it.
#[derive(Debug, Clone)]
pub struct Properties {
    /// MQES: entries of the largest queue, less one.
    max_entries: u16,
    /// Whether it has queues for I/O, so that the size of their entries matters.
    has_io: bool,
    configuration: u32,
    state: State,
    shutdown: Shutdown,
}

impl Properties {
    /// How long the host waits at most for a controller that changes its state: CAP.TO, in units of
    /// 500 ms.
    const TIMEOUT: u64 = 30;

    /// Of a controller that has just been connected to. Queues have at most `max_entries` entries,
    /// and one more. A discovery controller has no queues for I/O.
    #[must_use]
    pub const fn new(max_entries: u16, has_io: bool) -> Self {
        Self {
            max_entries,
            has_io,
            configuration: 0,
            state: State::Disabled,
            shutdown: Shutdown::None,
        }
    }

    /// Whether commands other than those of Fabrics are permitted.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.state == State::Ready && self.shutdown == Shutdown::None
    }

    /// The value of a property.
    ///
    /// # Errors
    /// [`Status::InvalidField`] if there is none of this size there.
    pub fn get(&self, offset: u32, is_wide: bool) -> Result<u64, Status> {
        match (offset, is_wide) {
            (CAPABILITIES, true) => Ok(self.capabilities()),
            (VERSION, false) => Ok(VERSION_2_1.into()),
            (CONFIGURATION, false) => Ok(self.configuration.into()),
            (STATUS, false) => Ok(self.status().into()),
            _ => Err(Status::InvalidField),
        }
    }

    /// Sets a property: the configuration is the only one that a host may set.
    ///
    /// # Errors
    /// [`Status::InvalidField`] for any other one. A configuration that isn't possible is no error:
    /// the status says that the controller has failed.
    pub fn set(&mut self, offset: u32, is_wide: bool, value: u64) -> Result<Change, Status> {
        if (offset, is_wide) != (CONFIGURATION, false) {
            return Err(Status::InvalidField);
        }
        let before = self.configuration;
        self.configuration = value as u32;
        let is_enabled = self.configuration & ENABLE != 0;
        if is_enabled != (before & ENABLE != 0) {
            self.shutdown = Shutdown::None;
            return Ok(if is_enabled { self.enable() } else { self.reset() });
        }
        let asks = self.configuration & SHUTDOWN != 0;
        if asks && before & SHUTDOWN == 0 && self.shutdown == Shutdown::None {
            self.shutdown = Shutdown::UnderWay;
            return Ok(Change::Shutdown);
        }
        Ok(Change::None)
    }

    /// What a [`Change::Reset`] asked for is done.
    pub fn reset_done(&mut self) {
        if self.state == State::Resetting {
            self.state = State::Disabled;
        }
    }

    /// Whether what a [`Change::Shutdown`] asked for is not done yet.
    #[must_use]
    pub fn is_shutting_down(&self) -> bool {
        self.shutdown == Shutdown::UnderWay
    }

    /// What a [`Change::Shutdown`] asked for is done.
    pub fn shut_down(&mut self) {
        if self.shutdown == Shutdown::UnderWay {
            self.shutdown = Shutdown::Done;
        }
    }

    fn enable(&mut self) -> Change {
        let sizes = self.configuration & ENTRY_SIZES;
        // A host has to wait for the end of a reset.
        let is_possible = self.state != State::Resetting
            && self.configuration & CHOICES == 0
            && self.configuration & SHUTDOWN == 0
            && (!self.has_io || sizes == VALID_ENTRY_SIZES);
        if !is_possible {
            self.state = State::Failed;
            return Change::None;
        }
        self.state = State::Ready;
        Change::Enabled
    }

    fn reset(&mut self) -> Change {
        self.state = State::Resetting;
        Change::Reset
    }

    /// MQES, queues in contiguous memory (CQR, which has no meaning over fabrics but must be 1),
    /// the timeout, the NVM command set; pages of 4 KiB.
    const fn capabilities(&self) -> u64 {
        self.max_entries as u64 | 1 << 16 | Self::TIMEOUT << 24 | 1 << 37
    }

    const fn status(&self) -> u32 {
        let state = match self.state {
            State::Disabled => 0,
            State::Ready | State::Resetting => READY,
            State::Failed => FATAL,
        };
        let shutdown = match self.shutdown {
            Shutdown::None => 0,
            Shutdown::UnderWay => SHUTTING_DOWN,
            Shutdown::Done => SHUT_DOWN,
        };
        state | shutdown
    }
}

#[cfg(test)]
mod tests;
