//! Discovery (Base 3.1.3.3, 5.1.12.3.1): which subsystems a host may connect to, and where.
//!
//! A directory has one record for each subsystem and address. A host sees the records of the
//! subsystems that permit it, and only these; whoever keeps a connection is told when they change.
//! In place of an address that stands for all of a node's (0.0.0.0), a host is told the one by
//! which it asks.
//!
//! ```text
//! record: 0 transport   1 family   2 subsystem's type   3 requirements   4..6 port
//!   6..8 controller   8..10 entries of the admin queue   10..12 flags   32..64 service
//!   256..512 subsystem's name   512..768 address   768..1024 transport's own
//! ```

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::command::Status;
use super::controller::{Hosts, put_text};

/// Bytes of a record, and of what comes before the first.
pub const RECORD_LENGTH: usize = 1024;
/// Most records of a directory.
pub const MAX_RECORDS: usize = 4096;

/// TRTYPE.
const TCP: u8 = 3;
/// ADRFAM.
const IPV4: u8 = 1;
const IPV6: u8 = 2;
/// CNTLID: a new one for each Connect.
const DYNAMIC: u16 = 0xffff;
/// ASQSZ: what Linux uses, too.
const ADMIN_ENTRIES: u16 = 32;

/// What a record leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum RecordKind {
    /// A discovery subsystem on another node.
    Referral = 1,
    /// A subsystem for a volume.
    Volume = 2,
    /// The discovery subsystem that is asked.
    Current = 3,
}

/// Whether connections have to be encrypted (TREQ, and SECTYPE of TCP).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Security {
    /// They are not.
    None,
    /// They have to be, by TLS 1.3.
    Tls,
}

/// One way to one subsystem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// What it leads to.
    pub kind: RecordKind,
    /// SUBNQN.
    pub subsystem: String,
    /// PORTID: the same number for the same address, on all nodes.
    pub port: u16,
    /// Where it listens.
    pub address: SocketAddr,
    /// Whether TLS is needed there.
    pub security: Security,
    /// Who may see it.
    pub hosts: Hosts,
}

/// What hosts can discover on a node.
#[derive(Debug, Clone, Default)]
pub struct Directory {
    /// GENCTR: how many times it has changed.
    generation: u64,
    records: Vec<Record>,
    /// Who may see one of them.
    known: Hosts,
}

/// There are more records than a directory has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there are more than {MAX_RECORDS} ways to subsystems")]
pub struct TooMany;

impl Directory {
    /// Takes new records for the old ones. Returns who sees something else than before, as a
    /// predicate of the host's name.
    ///
    /// # Errors
    /// [`TooMany`], if there are more than [`MAX_RECORDS`].
    pub fn replace(
        &mut self,
        records: Vec<Record>,
    ) -> Result<impl Fn(&str) -> bool + use<>, TooMany> {
        if records.len() > MAX_RECORDS {
            return Err(TooMany);
        }
        let before = std::mem::replace(&mut self.records, records);
        let after = self.records.clone();
        self.known = Hosts::union(after.iter().map(|record| &record.hosts));
        let has_changed = before != after;
        self.generation += u64::from(has_changed);
        Ok(move |host: &str| {
            has_changed && !visible(&before, host).map(Shown).eq(visible(&after, host).map(Shown))
        })
    }

    /// Whether a host of this name discovers anything here.
    #[must_use]
    pub fn knows(&self, host: &str) -> bool {
        self.known.admit(host)
    }

    /// Fills `part` with the log page that this host sees which asks by this address, from an
    /// offset on, and zeroes behind.
    ///
    /// # Errors
    /// [`Status::InvalidField`] if the page ends before the offset.
    pub(super) fn read(
        &self,
        host: &str,
        reached: IpAddr,
        offset: u64,
        part: &mut [u8],
    ) -> Result<(), Status> {
        let count = visible(&self.records, host).count();
        let offset = usize::try_from(offset).map_err(|_| Status::InvalidField)?;
        if offset > (1 + count) * RECORD_LENGTH {
            return Err(Status::InvalidField);
        }
        let mut header = [0; RECORD_LENGTH];
        header[..8].copy_from_slice(&self.generation.to_le_bytes());
        header[8..16].copy_from_slice(&(count as u64).to_le_bytes());
        let records = visible(&self.records, host).map(|record| record.bytes(reached));
        let skipped = offset / RECORD_LENGTH;
        let rest = std::iter::once(header).chain(records).skip(skipped);
        let mut filled = 0;
        let mut start = offset % RECORD_LENGTH;
        for bytes in rest {
            let length = (RECORD_LENGTH - start).min(part.len() - filled);
            part[filled..filled + length].copy_from_slice(&bytes[start..start + length]);
            filled += length;
            start = 0;
            if filled == part.len() {
                break;
            }
        }
        part[filled..].fill(0);
        Ok(())
    }
}

fn visible<'a>(records: &'a [Record], host: &'a str) -> impl Iterator<Item = &'a Record> {
    records.iter().filter(move |record| record.hosts.admit(host))
}

/// A record as hosts see it: who else does is nothing to them.
struct Shown<'a>(&'a Record);

impl PartialEq for Shown<'_> {
    fn eq(&self, other: &Self) -> bool {
        let anywhere = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        self.0.bytes(anywhere) == other.0.bytes(anywhere)
    }
}

impl Record {
    /// As a host sees it that asks by this address.
    fn bytes(&self, reached: IpAddr) -> [u8; RECORD_LENGTH] {
        let mut bytes = [0; RECORD_LENGTH];
        let address = match self.address.ip() {
            any if any.is_unspecified() => reached.to_canonical(),
            one => one,
        };
        let is_ipv4 = address.is_ipv4();
        // TREQ: a secure channel is required, or not; flow control may be left out.
        let (required, kind) = match self.security {
            Security::None => (0b110, 0),
            Security::Tls => (0b101, 2),
        };
        bytes[..4].copy_from_slice(&[
            TCP,
            if is_ipv4 { IPV4 } else { IPV6 },
            self.kind as u8,
            required,
        ]);
        bytes[4..6].copy_from_slice(&self.port.to_le_bytes());
        bytes[6..8].copy_from_slice(&DYNAMIC.to_le_bytes());
        bytes[8..10].copy_from_slice(&ADMIN_ENTRIES.to_le_bytes());
        put_text(&mut bytes[32..64], &self.address.port().to_string());
        let name = self.subsystem.as_bytes();
        let length = name.len().min(255);
        bytes[256..256 + length].copy_from_slice(&name[..length]);
        put_text(&mut bytes[512..768], &address.to_string());
        bytes[768] = kind;
        bytes
    }
}

#[cfg(test)]
mod tests;
