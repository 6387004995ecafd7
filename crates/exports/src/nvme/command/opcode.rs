//! Opcodes of the commands that a controller here may answer, and which way their data goes.

/// The way of a command's data: the lowest two bits of each opcode (Base 4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// There is none.
    None,
    /// From the host to the controller.
    ToController,
    /// From the controller to the host.
    ToHost,
    /// Both ways.
    Both,
}

impl Direction {
    /// Of any command but a Fabrics one, whose type has these bits instead.
    #[must_use]
    pub const fn of(opcode: u8) -> Self {
        match opcode & 3 {
            0 => Self::None,
            1 => Self::ToController,
            2 => Self::ToHost,
            _ => Self::Both,
        }
    }
}

/// Commands of the admin queue (Base 5.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Admin {
    /// Get Log Page (Base 5.1.12).
    GetLogPage = 0x02,
    /// Identify (Base 5.1.13).
    Identify = 0x06,
    /// Abort (Base 5.1.1).
    Abort = 0x08,
    /// Set Features (Base 5.1.25).
    SetFeatures = 0x09,
    /// Get Features (Base 5.1.11).
    GetFeatures = 0x0a,
    /// Asynchronous Event Request (Base 5.1.2).
    AsynchronousEvent = 0x0c,
    /// Keep Alive (Base 5.1.14).
    KeepAlive = 0x18,
}

impl Admin {
    /// The command of this opcode.
    #[must_use]
    pub const fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            0x02 => Self::GetLogPage,
            0x06 => Self::Identify,
            0x08 => Self::Abort,
            0x09 => Self::SetFeatures,
            0x0a => Self::GetFeatures,
            0x0c => Self::AsynchronousEvent,
            0x18 => Self::KeepAlive,
            _ => return None,
        })
    }
}

/// Commands of an I/O queue with the NVM Command Set (Base 7, NVM 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Nvm {
    /// Flush.
    Flush = 0x00,
    /// Write.
    Write = 0x01,
    /// Read.
    Read = 0x02,
    /// Compare.
    Compare = 0x05,
    /// Write Zeroes.
    WriteZeroes = 0x08,
    /// Dataset Management.
    DatasetManagement = 0x09,
    /// Verify.
    Verify = 0x0c,
    /// Reservation Register (Base 7.6).
    ReservationRegister = 0x0d,
    /// Reservation Report (Base 7.8).
    ReservationReport = 0x0e,
    /// Reservation Acquire (Base 7.5).
    ReservationAcquire = 0x11,
    /// Reservation Release (Base 7.7).
    ReservationRelease = 0x15,
}

impl Nvm {
    /// Whether it is about reservations.
    #[must_use]
    pub const fn is_about_reservations(self) -> bool {
        matches!(
            self,
            Self::ReservationRegister
                | Self::ReservationReport
                | Self::ReservationAcquire
                | Self::ReservationRelease
        )
    }

    /// The command of this opcode.
    #[must_use]
    pub const fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            0x00 => Self::Flush,
            0x01 => Self::Write,
            0x02 => Self::Read,
            0x05 => Self::Compare,
            0x08 => Self::WriteZeroes,
            0x09 => Self::DatasetManagement,
            0x0c => Self::Verify,
            0x0d => Self::ReservationRegister,
            0x0e => Self::ReservationReport,
            0x11 => Self::ReservationAcquire,
            0x15 => Self::ReservationRelease,
            _ => return None,
        })
    }
}
