//! Fabrics commands (Base 6): Connect, Disconnect, and access to a controller's properties. Each is
//! an entry with opcode 7Fh whose type stands where others have a namespace.

use std::time::Duration;

use evenkeel_format::bytes::{Reader, Short};

use super::{Entry, Status};

/// Bytes of data that Connect carries.
pub const CONNECT_DATA_LENGTH: usize = 1024;
/// Longest qualified name, in bytes.
const MAX_NAME_LENGTH: usize = 223;
/// Bytes of the field for a qualified name.
const NAME_FIELD: usize = 256;

/// Why a Fabrics command is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// The status.
    pub status: Status,
    /// The completion's result: which parameter of Connect is invalid; otherwise 0.
    pub result: u64,
}

impl From<Status> for Refusal {
    fn from(status: Status) -> Self {
        Self { status, result: 0 }
    }
}

impl Refusal {
    /// The parameter at this offset of Connect's entry is invalid (Base 6.3).
    #[must_use]
    pub const fn in_entry(offset: u16) -> Self {
        Self { status: Status::ConnectParameters, result: offset as u64 }
    }

    /// The parameter at this offset of Connect's data is invalid.
    #[must_use]
    pub const fn in_data(offset: u16) -> Self {
        Self { status: Status::ConnectParameters, result: offset as u64 | 1 << 16 }
    }
}

/// A Fabrics command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fabrics {
    /// Makes the connection a queue of a controller (Base 6.3).
    Connect(Connect),
    /// Reads a property (Base 6.5).
    PropertyGet {
        /// Where the property is.
        offset: u32,
        /// Whether it has 8 bytes, not 4.
        is_wide: bool,
    },
    /// Changes a property (Base 6.6).
    PropertySet {
        /// Where the property is.
        offset: u32,
        /// Whether it has 8 bytes, not 4.
        is_wide: bool,
        /// Its value; of 4 bytes if it is not wide.
        value: u64,
    },
    /// Ends an I/O queue (Base 6.4).
    Disconnect,
}

impl Fabrics {
    /// The opcode of all of them.
    pub const OPCODE: u8 = 0x7f;

    /// Reads an entry that has this opcode. Those of authentication are read by [`super::Security`]
    /// where it has its place; elsewhere they are unknown.
    ///
    /// # Errors
    /// What to answer if it is not supported or invalid.
    pub fn read(entry: &Entry) -> Result<Self, Refusal> {
        match entry.namespace as u8 {
            0x00 => {
                let (offset, is_wide) = property(entry)?;
                let low = u64::from(entry.words[2]);
                let high = if is_wide { u64::from(entry.words[3]) << 32 } else { 0 };
                Ok(Self::PropertySet { offset, is_wide, value: low | high })
            }
            0x01 => Connect::read(entry).map(Self::Connect),
            0x04 => {
                let (offset, is_wide) = property(entry)?;
                Ok(Self::PropertyGet { offset, is_wide })
            }
            0x08 if entry.words[0] as u16 == 0 => Ok(Self::Disconnect),
            0x08 => Err(Status::IncompatibleFormat.into()),
            _ => Err(Status::InvalidOpcode.into()),
        }
    }
}

/// A property's offset, and whether it is wide.
fn property(entry: &Entry) -> Result<(u32, bool), Refusal> {
    let is_wide = match entry.words[0] & 7 {
        0 => false,
        1 => true,
        _ => return Err(Status::InvalidField.into()),
    };
    Ok((entry.words[1], is_wide))
}

/// Connect's entry. Its data is a [`ConnectData`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connect {
    /// QID: 0 is the admin queue.
    pub queue: u16,
    /// Entries of the queue: 2 to 65,536 (the field SQSIZE has one less).
    pub size: u32,
    /// Whether completions need not say how far the queue has been consumed.
    pub without_flow_control: bool,
    /// KATO: after how long without a sign of the host the controller gives it up; zero for never.
    pub keep_alive: Duration,
}

impl Connect {
    /// Where the queue's number is in the entry.
    pub const QUEUE_FIELD: u16 = 42;
    /// Where the queue's size is in the entry.
    pub const SIZE_FIELD: u16 = 44;

    fn read(entry: &Entry) -> Result<Self, Refusal> {
        let [format_queue, size, keep_alive, ..] = entry.words;
        if format_queue as u16 != 0 {
            return Err(Status::IncompatibleFormat.into());
        }
        if size as u16 == 0 {
            return Err(Refusal::in_entry(Self::SIZE_FIELD));
        }
        Ok(Self {
            queue: (format_queue >> 16) as u16,
            size: u32::from(size as u16) + 1,
            without_flow_control: size & 1 << 18 != 0,
            keep_alive: Duration::from_millis(keep_alive.into()),
        })
    }
}

/// What Connect carries (Base 6.3).
///
/// ```text
/// 0 host identifier   16 controller   256 subsystem's name   512 host's name   768 reserved
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectData<'a> {
    /// HOSTID.
    pub host: [u8; 16],
    /// CNTLID: which controller, or FFFFh for a new one.
    pub controller: u16,
    /// SUBNQN.
    pub subsystem: &'a str,
    /// HOSTNQN.
    pub host_name: &'a str,
}

impl<'a> ConnectData<'a> {
    /// Where the host's identifier is.
    pub const HOST_FIELD: u16 = 0;
    /// Where the controller's identifier is.
    pub const CONTROLLER_FIELD: u16 = 16;
    /// Where the subsystem's name is.
    pub const SUBSYSTEM_FIELD: u16 = 256;
    /// Where the host's name is.
    pub const HOST_NAME_FIELD: u16 = 512;

    /// Reads it.
    ///
    /// # Errors
    /// What to answer if its length is not [`CONNECT_DATA_LENGTH`], or a name is not 1 to 223 bytes
    /// of UTF-8 with a zero behind.
    pub fn read(bytes: &'a [u8]) -> Result<Self, Refusal> {
        if bytes.len() != CONNECT_DATA_LENGTH {
            return Err(Status::DataLength.into());
        }
        let short = |Short| Refusal::from(Status::DataLength);
        let mut reader = Reader::new(bytes);
        let host = reader.array().map_err(short)?;
        let controller = reader.u16().map_err(short)?;
        reader.take(238).map_err(short)?;
        let subsystem = name(reader.take(NAME_FIELD).map_err(short)?);
        let host_name = name(reader.take(NAME_FIELD).map_err(short)?);
        Ok(Self {
            host,
            controller,
            subsystem: subsystem.ok_or(Refusal::in_data(Self::SUBSYSTEM_FIELD))?,
            host_name: host_name.ok_or(Refusal::in_data(Self::HOST_NAME_FIELD))?,
        })
    }
}

/// A qualified name that ends with a zero.
fn name(field: &[u8]) -> Option<&str> {
    let end = field.iter().position(|byte| *byte == 0)?;
    let name = core::str::from_utf8(&field[..end]).ok()?;
    (1..=MAX_NAME_LENGTH).contains(&name.len()).then_some(name)
}

#[cfg(test)]
mod tests;
