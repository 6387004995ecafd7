//! Identify (Base 5.1.13): what a controller says of itself and of its namespace.
//!
//! A subsystem for a volume has one namespace, whose identifier is 1. Its unique identifiers come
//! from the volume, so that they are the same on each node. It is the only one in group 1 of those
//! that share the state of a path.
//!
//! | CNS | |
//! |---|---|
//! | 00h | the namespace |
//! | 01h | the controller |
//! | 02h, 07h | active namespaces; with the NVM command set |
//! | 03h | identifiers of the namespace |
//! | 05h | the namespace, as the NVM command set sees it (NVM 4.1.5.3) |
//! | 06h | the controller, as the NVM command set sees it (NVM 4.1.5.4) |
//! | 08h | the namespace, whatever its command set |

use super::events::{MAX_EVENT_REQUESTS, Notice};
use crate::nvme::command::{COMPLETION_LENGTH, ENTRY_LENGTH, Entry, Status};
use crate::nvme::connection::{MAX_IN_CAPSULE, MAX_TRANSFER};
use crate::nvme::io::MAX_FUSED;

/// Bytes of each answer.
pub const IDENTIFY_LENGTH: usize = 4096;
/// NSID of a volume's namespace.
pub const NAMESPACE: u32 = 1;
/// Abort commands that may be under way at once.
pub const MAX_ABORTS: u8 = 4;
/// ANAGRPID of the namespace.
pub(super) const PATH_GROUP: u32 = 1;
/// The keep-alive time is a multiple of so many milliseconds (KAS has units of 100).
pub const KEEP_ALIVE_UNIT: u32 = 1000;

const MODEL: &str = "evenkeel";
/// VER: 2.1.
const VERSION: u32 = 0x0002_0100;
/// CMIC: several ports, several controllers; and asymmetric access to namespaces.
const SHARED: u8 = 0b11;
const ASYMMETRIC: u8 = 1 << 3;
/// ANATT: after so many seconds a path has changed its state.
const TRANSITION_TIME: u8 = 10;
/// ANACAP: each of the five states, and a namespace that stays in its group.
const PATH_STATES: u8 = 0b0101_1111;
/// CSI of the NVM command set.
const NVM: u32 = 0;
/// CTRATT: host identifiers of 128 bits.
const LONG_HOST_IDENTIFIERS: u32 = 1;
/// ONCS: Compare, Dataset Management, Write Zeroes and Verify.
const OPTIONAL_COMMANDS: u16 = 1 << 0 | 1 << 2 | 1 << 3 | 1 << 7;
/// ONCS: reservations.
const RESERVATIONS: u16 = 1 << 5;
/// RESCAP: all six types, which may outlast a power loss; and an existing key is ignored as since
/// revision 1.3.
const RESERVATION_TYPES: u8 = 0xff;
/// FUSES: Compare and Write.
const FUSED_OPERATIONS: u16 = 1;
/// VWC: there is a cache, and a flush may name all namespaces.
const WRITE_CACHE: u8 = 0b111;
/// SGLS: SGLs without alignment, in capsules by their offset, and those of the transport.
const DESCRIPTORS: u32 = 1 | 1 << 20 | 1 << 21;
/// NSFEAT: atomic units of its own, and sizes that are best (of which OPTPERF says the same).
const OF_ITS_OWN: u8 = 1 << 1 | 1 << 4;
/// Bytes of a checksum, for which smaller writes have to read: a write is best a multiple of it.
const CHECKSUM_UNIT: u32 = 4096;
/// DLFEAT: deallocated blocks read as zeroes, and Write Zeroes can deallocate.
const DEALLOCATED: u8 = 0b1001;

/// A volume, as a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Namespace {
    /// UUID, and NGUID: the volume's identifier.
    pub identifier: [u8; 16],
    /// Bytes; a multiple of the block size.
    pub size: u64,
    /// Bytes of a logical block; a power of 2, at least 512.
    pub block_size: u32,
    /// Bytes that are best written at once: a write of so many, from a multiple on, keeps all
    /// mirrors busy. A multiple of 4,096.
    pub best_write: u32,
    /// Whether writes are refused.
    pub is_read_only: bool,
    /// Whether hosts may use reservations.
    pub has_reservations: bool,
}

/// A controller, as a host sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity<'a> {
    /// SN: at most 20 printable ASCII characters; the same for all controllers of a subsystem.
    pub serial: &'a str,
    /// FR: at most 8 printable ASCII characters.
    pub firmware: &'a str,
    /// CNTLID.
    pub controller: u16,
    /// SUBNQN: at most 223 bytes.
    pub subsystem: &'a str,
    /// MAXCMD: how many commands a queue may have under way.
    pub max_commands: u16,
    /// `None` of a discovery controller.
    pub namespace: Option<Namespace>,
}

impl Identity<'_> {
    /// Answers an Identify command.
    ///
    /// # Errors
    /// [`Status::InvalidField`] if what is asked for is unknown here,
    /// [`Status::InvalidNamespace`] if there is no such namespace.
    pub fn answer(&self, entry: &Entry) -> Result<[u8; IDENTIFY_LENGTH], Status> {
        let mut page = Page([0; IDENTIFY_LENGTH]);
        let what = entry.words[0] as u8;
        // These name a command set, and there is one.
        if matches!(what, 0x05..=0x07) && entry.words[1] >> 24 != NVM {
            return Err(Status::InvalidField);
        }
        match (what, self.namespace) {
            (0x01, namespace) => self.put_controller(&mut page, namespace.as_ref()),
            (0x00, Some(namespace)) => {
                check(entry.namespace)?;
                namespace.put(&mut page);
            }
            (0x02 | 0x07, Some(_)) => match entry.namespace {
                // Those that come behind the one that is named.
                0 => page.put(0, &NAMESPACE.to_le_bytes()),
                0xffff_fffe.. => return Err(Status::InvalidNamespace),
                _ => {}
            },
            (0x03, Some(namespace)) => {
                check(entry.namespace)?;
                namespace.put_descriptors(&mut page);
            }
            // No block has more than its data.
            (0x05, Some(_)) => check(entry.namespace)?,
            // VSL: as much is verified at once as is read.
            (0x06, Some(_)) => page.put(0, &[max_transfer()]),
            (0x08, Some(namespace)) => {
                check(entry.namespace)?;
                namespace.put_independent(&mut page);
            }
            _ => return Err(Status::InvalidField),
        }
        Ok(page.0)
    }

    fn put_controller(&self, page: &mut Page, namespace: Option<&Namespace>) {
        let has_io = namespace.is_some();
        page.put_text(4, 20, self.serial);
        page.put_text(24, 40, MODEL);
        page.put_text(64, 8, self.firmware);
        page.put(76, &[if has_io { SHARED | ASYMMETRIC } else { SHARED }, max_transfer()]);
        page.put(78, &self.controller.to_le_bytes());
        page.put(80, &VERSION.to_le_bytes());
        let notices = match has_io {
            true => Notice::Namespace.bit() | Notice::Path.bit(),
            false => Notice::Discovery.bit(),
        };
        page.put(92, &notices.to_le_bytes());
        page.put(96, &LONG_HOST_IDENTIFIERS.to_le_bytes());
        // CNTRLTYPE.
        page.put(111, &[if has_io { 1 } else { 2 }]);
        // ACL and AERL, each less one; FRMW: one slot, which is read-only.
        page.put(258, &[MAX_ABORTS - 1, MAX_EVENT_REQUESTS - 1, 0b11]);
        // LPA: offsets; effects of commands.
        page.put(261, &[if has_io { 1 << 2 | 1 << 1 } else { 1 << 2 }]);
        page.put(320, &((KEEP_ALIVE_UNIT / 100) as u16).to_le_bytes());
        page.put(514, &self.max_commands.to_le_bytes());
        page.put(536, &DESCRIPTORS.to_le_bytes());
        let name = self.subsystem.as_bytes();
        page.put(768, &name[..name.len().min(255)]);
        if let Some(namespace) = namespace {
            Self::put_io(page, namespace);
        }
    }

    /// What matters to a controller with queues for I/O.
    fn put_io(page: &mut Page, namespace: &Namespace) {
        page.put(342, &[TRANSITION_TIME, PATH_STATES]);
        // ANAGRPMAX and NANAGRPID.
        page.put(344, &PATH_GROUP.to_le_bytes());
        page.put(348, &PATH_GROUP.to_le_bytes());
        // SQES and CQES: 64 and 16 bytes, as powers of 2, neither less nor more.
        page.put(512, &[0x66, 0x44]);
        // NN and MNAN.
        page.put(516, &NAMESPACE.to_le_bytes());
        page.put(540, &NAMESPACE.to_le_bytes());
        let reservations = if namespace.has_reservations { RESERVATIONS } else { 0 };
        page.put(520, &(OPTIONAL_COMMANDS | reservations).to_le_bytes());
        page.put(522, &FUSED_OPERATIONS.to_le_bytes());
        page.put(525, &[WRITE_CACHE]);
        let [normal, at_power_failure, fused] = namespace.atomic_units();
        page.put(526, &normal.to_le_bytes());
        page.put(528, &at_power_failure.to_le_bytes());
        page.put(532, &fused.to_le_bytes());
        // IOCCSZ and IORCSZ, in units of 16 bytes; ICDOFF is 0.
        let capsule = (ENTRY_LENGTH as u32 + MAX_IN_CAPSULE) / 16;
        page.put(1792, &capsule.to_le_bytes());
        page.put(1796, &(COMPLETION_LENGTH as u32 / 16).to_le_bytes());
        // MSDBD: one descriptor. OFCS: Disconnect.
        page.put(1803, &[1, 1]);
    }
}

impl Namespace {
    /// AWUN, AWUPF and ACWU: how many blocks, each less one, are written at once as others see it;
    /// as a power failure leaves it; and if they are compared before.
    ///
    /// A read and a write that overlap exclude each other, whatever their sizes. A power failure
    /// may come between any two blocks, on each replica between others.
    fn atomic_units(&self) -> [u16; 3] {
        [MAX_TRANSFER, 0, MAX_FUSED].map(|bytes| self.blocks_less_one(bytes))
    }

    fn put(&self, page: &mut Page) {
        let blocks = (self.size / u64::from(self.block_size)).to_le_bytes();
        // NSZE, NCAP and NUSE.
        page.put(0, &[blocks, blocks, blocks].concat());
        page.put(24, &[OF_ITS_OWN]);
        // NMIC: several controllers may use it. RESCAP.
        page.put(30, &[1, self.reservation_types()]);
        page.put(33, &[DEALLOCATED]);
        // NAWUN, NAWUPF and NACWU.
        for (offset, blocks) in (34..).step_by(2).zip(self.atomic_units()) {
            page.put(offset, &blocks.to_le_bytes());
        }
        // NPWG, NPWA, NPDG, NPDA and NOWS, each less one.
        let unit = self.blocks_less_one(CHECKSUM_UNIT);
        let best = self.blocks_less_one(self.best_write);
        for (offset, blocks) in (64..).step_by(2).zip([unit, unit, unit, unit, best]) {
            page.put(offset, &blocks.to_le_bytes());
        }
        page.put(92, &PATH_GROUP.to_le_bytes());
        // NSATTR.
        page.put(99, &[u8::from(self.is_read_only)]);
        page.put(104, &self.identifier);
        page.put(120, &self.short_identifier());
        // The only format: LBADS is a power of 2.
        page.put(130, &[self.block_size.trailing_zeros() as u8]);
    }

    /// NMIC, RESCAP, ANAGRPID, NSATTR, NSTAT: ready.
    fn put_independent(&self, page: &mut Page) {
        page.put(1, &[1, self.reservation_types()]);
        page.put(4, &PATH_GROUP.to_le_bytes());
        page.put(8, &[u8::from(self.is_read_only)]);
        page.put(14, &[1]);
    }

    /// Type, length, two reserved bytes, identifier: NGUID, UUID, EUI64, and the NVM command set.
    fn put_descriptors(&self, page: &mut Page) {
        page.put(0, &[2, 16, 0, 0]);
        page.put(4, &self.identifier);
        page.put(20, &[3, 16, 0, 0]);
        page.put(24, &self.identifier);
        page.put(40, &[1, 8, 0, 0]);
        page.put(44, &self.short_identifier());
        page.put(52, &[4, 1, 0, 0, 0]);
    }

    /// EUI64: half of the volume's identifier, which is random, as an address that no vendor gives.
    fn short_identifier(&self) -> [u8; 8] {
        const GROUP: u8 = 1 << 0;
        const LOCAL: u8 = 1 << 1;
        let mut short = [0; 8];
        short.copy_from_slice(&self.identifier[8..]);
        short[0] = short[0] & !GROUP | LOCAL;
        short
    }

    /// RESCAP.
    const fn reservation_types(&self) -> u8 {
        if self.has_reservations { RESERVATION_TYPES } else { 0 }
    }

    fn blocks_less_one(&self, bytes: u32) -> u16 {
        ((bytes / self.block_size).clamp(1, 1 << 16) - 1) as u16
    }
}

fn check(namespace: u32) -> Result<(), Status> {
    if namespace == NAMESPACE { Ok(()) } else { Err(Status::InvalidNamespace) }
}

/// MDTS: a power of 2 in units of 4 KiB.
const fn max_transfer() -> u8 {
    (MAX_TRANSFER / 4096).trailing_zeros() as u8
}

struct Page([u8; IDENTIFY_LENGTH]);

impl Page {
    fn put(&mut self, offset: usize, bytes: &[u8]) {
        self.0[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    fn put_text(&mut self, offset: usize, length: usize, text: &str) {
        put_text(&mut self.0[offset..offset + length], text);
    }
}

/// ASCII with spaces behind (Base 1.4.2). What isn't printable becomes a question mark.
pub(in crate::nvme) fn put_text(field: &mut [u8], text: &str) {
    let printable = text.chars().map(|character| match character {
        ' '..='~' => character as u8,
        _ => b'?',
    });
    let padded = printable.chain(std::iter::repeat(b' '));
    for (byte, value) in field.iter_mut().zip(padded) {
        *byte = value;
    }
}

#[cfg(test)]
mod tests;
