//! Log pages (Base 5.1.12) of an I/O controller and of a discovery controller.
//!
//! A page is as long as the table says. What a host reads behind its end are zeroes.
//!
//! | page | bytes | |
//! |---|---|---|
//! | 00h | 1,024 | supported log pages |
//! | 01h | 64 | errors: the one entry is always free, since no completion refers to it |
//! | 02h | 512 | health |
//! | 03h | 512 | firmware: one slot |
//! | 04h | 4,096 | changed namespaces |
//! | 05h | 4,096 | commands supported and effects |
//! | 0Ch | 52 | asymmetric namespace access: one group, number 1, with the namespace |
//! | 80h | 64 | reservation notices: the oldest one that the host has not read |
//! | 70h | 1,024 for each record, and as many before | discovery |

use super::admin::AdminCommand;
use super::facts::{Facts, Health, Path, Subject, Volume};
use super::{Controller, NAMESPACE, Notice};
use crate::nvme::command::{Admin, Nvm, Status};
use crate::nvme::connection::Transfer;

const SUPPORTED: u8 = 0x00;
const ERRORS: u8 = 0x01;
const HEALTH: u8 = 0x02;
const FIRMWARE: u8 = 0x03;
const CHANGED: u8 = 0x04;
const EFFECTS: u8 = 0x05;
const PATHS: u8 = 0x0c;
const DISCOVERY: u8 = 0x70;
const RESERVATIONS: u8 = 0x80;

const OF_VOLUMES: [u8; 8] =
    [SUPPORTED, ERRORS, HEALTH, FIRMWARE, CHANGED, EFFECTS, PATHS, RESERVATIONS];
const OF_DISCOVERY: [u8; 2] = [SUPPORTED, DISCOVERY];

/// Bytes of a unit in which data is counted: thousands of 512 bytes.
const DATA_UNIT: u64 = 512_000;

impl Controller {
    /// Reads a part of a log page. Unless the host asks otherwise, that clears its event.
    pub(super) fn log_page(
        &mut self,
        command: &AdminCommand<'_>,
        facts: &Facts<'_>,
    ) -> Result<Vec<u8>, Status> {
        let ask = Ask::read(command)?;
        let mut part = vec![0; ask.length];
        match facts.subject {
            Subject::Volume(volume) => {
                let page = self.volume_page(&ask, command.entry.namespace, facts, volume)?;
                copy(&page, ask.offset, &mut part)?;
            }
            Subject::Discovery(directory, reached) if ask.log == DISCOVERY => {
                directory.read(&self.host.name, reached, ask.offset, &mut part)?;
            }
            Subject::Discovery(..) if ask.log == SUPPORTED => {
                copy(&supported(&OF_DISCOVERY), ask.offset, &mut part)?;
            }
            Subject::Discovery(..) => return Err(Status::InvalidLogPage),
        }
        if !ask.retains_event {
            self.events.read(ask.log);
            self.has_changed &= ask.log != CHANGED;
            // Who reads it in parts has read it with the last one.
            let is_last = ask.offset + ask.length as u64 >= 64;
            if ask.log == RESERVATIONS && is_last && self.reservations.read() {
                self.events.raise(Notice::Reservation);
            }
        }
        Ok(part)
    }

    fn volume_page(
        &self,
        ask: &Ask,
        namespace: u32,
        facts: &Facts<'_>,
        volume: &Volume,
    ) -> Result<Vec<u8>, Status> {
        Ok(match ask.log {
            SUPPORTED => supported(&OF_VOLUMES),
            ERRORS => vec![0; 64],
            // It is about the controller, not about a namespace.
            HEALTH if namespace == 0 || namespace == u32::MAX => health(&volume.health),
            HEALTH => return Err(Status::InvalidField),
            FIRMWARE => firmware(facts.firmware),
            CHANGED => changed(self.has_changed),
            EFFECTS => effects(volume.namespace.has_reservations),
            PATHS => paths(&volume.path, ask.only_groups),
            RESERVATIONS => self.reservations.page(),
            _ => return Err(Status::InvalidLogPage),
        })
    }
}

/// Which part of which page a host asks for (LID, LPO, NUMD, RAE, RGO).
struct Ask {
    log: u8,
    /// Of paths: without the namespaces of the groups.
    only_groups: bool,
    offset: u64,
    length: usize,
    retains_event: bool,
}

impl Ask {
    fn read(command: &AdminCommand<'_>) -> Result<Self, Status> {
        const RETAIN_EVENT: u32 = 1 << 15;
        const ONLY_GROUPS: u32 = 1 << 8;
        const INDEXED: u32 = 1 << 23;
        let [what, high_count, low_offset, high_offset, how, _] = command.entry.words;
        // Offsets are bytes, and of whole dwords.
        if how & INDEXED != 0 || !low_offset.is_multiple_of(4) {
            return Err(Status::InvalidField);
        }
        let dwords = (u64::from(high_count as u16) << 16 | u64::from(what >> 16)) + 1;
        let Transfer::ToHost(length) = command.transfer else { return Err(Status::DataLength) };
        if u64::from(length) != dwords * 4 {
            return Err(Status::DataLength);
        }
        Ok(Self {
            log: what as u8,
            only_groups: what & ONLY_GROUPS != 0,
            offset: u64::from(high_offset) << 32 | u64::from(low_offset),
            length: length as usize,
            retains_event: what & RETAIN_EVENT != 0,
        })
    }
}

/// Copies what the page has from this offset on. A page of which nothing is left is refused.
fn copy(page: &[u8], offset: u64, part: &mut [u8]) -> Result<(), Status> {
    let offset = usize::try_from(offset).map_err(|_| Status::InvalidField)?;
    let rest = page.get(offset..).ok_or(Status::InvalidField)?;
    let length = rest.len().min(part.len());
    part[..length].copy_from_slice(&rest[..length]);
    Ok(())
}

/// LSUPP of these.
fn supported(logs: &[u8]) -> Vec<u8> {
    let mut page = vec![0; 1024];
    logs.iter().for_each(|log| page[usize::from(*log) * 4] = 1);
    page
}

fn health(health: &Health) -> Vec<u8> {
    const DEGRADED: u8 = 1 << 2;
    const READ_ONLY: u8 = 1 << 3;
    let mut page = vec![0; 512];
    let warnings = [(health.is_degraded, DEGRADED), (health.is_read_only, READ_ONLY)];
    page[0] = warnings.iter().filter(|(is_so, _)| *is_so).map(|(_, bit)| bit).sum();
    // Spare space, in percent: there is no threshold below which it would matter.
    page[3] = 100;
    for (offset, number) in [
        (32, health.read.div_ceil(DATA_UNIT)),
        (48, health.written.div_ceil(DATA_UNIT)),
        (64, health.reads),
        (80, health.writes),
        (160, health.media_errors),
    ] {
        page[offset..offset + 8].copy_from_slice(&number.to_le_bytes());
    }
    page
}

/// AFI: slot 1 is active; and its revision, with spaces behind.
fn firmware(revision: &str) -> Vec<u8> {
    let mut page = vec![0; 512];
    page[0] = 1;
    super::identify::put_text(&mut page[8..16], revision);
    page
}

fn changed(has_changed: bool) -> Vec<u8> {
    let mut page = vec![0; 4096];
    if has_changed {
        page[..4].copy_from_slice(&NAMESPACE.to_le_bytes());
    }
    page
}

/// CSUPP of each command, and LBCC of those that change data.
fn effects(has_reservations: bool) -> Vec<u8> {
    const SUPPORTED: u8 = 1 << 0;
    const CHANGES_DATA: u8 = 1 << 1;
    const IO: usize = 1024;
    let mut page = vec![0; 4096];
    for opcode in 0..=255 {
        let at = usize::from(opcode) * 4;
        if Admin::from_number(opcode).is_some() {
            page[at] = SUPPORTED;
        }
        page[IO + at] = match Nvm::from_number(opcode) {
            Some(Nvm::Write | Nvm::WriteZeroes | Nvm::DatasetManagement) => {
                SUPPORTED | CHANGES_DATA
            }
            Some(command) if command.is_about_reservations() && !has_reservations => 0,
            Some(_) => SUPPORTED,
            None => 0,
        };
    }
    page
}

/// ```text
/// 0 changes   8 groups   16 group   20 namespaces   24 changes   32 state   48 namespace
/// ```
fn paths(path: &Path, only_groups: bool) -> Vec<u8> {
    let mut page = vec![0; 48];
    page[..8].copy_from_slice(&path.changes.to_le_bytes());
    page[8] = 1;
    page[16..20].copy_from_slice(&super::identify::PATH_GROUP.to_le_bytes());
    page[24..32].copy_from_slice(&path.changes.to_le_bytes());
    page[32] = path.state as u8;
    if !only_groups {
        page[20] = 1;
        page.extend_from_slice(&NAMESPACE.to_le_bytes());
    }
    page
}

#[cfg(test)]
mod tests;
