//! A view as bytes: in superblocks, in the coordinator's database, in the message `Adopt`.

mod reservations;

use core::time::Duration;

use evenkeel_core::settings::{
    MAX_EPOCHS, MAX_MIRRORS, MAX_PRIMARIES, MAX_REGISTRANTS, MAX_REPLICAS_IN_ALL,
};
use evenkeel_core::{
    CoordinatorId, Epoch, Generation, Geometry, History, Incarnation, IntentLayout, Lease,
    MirrorView, NoCoordinatorPolicy, NodeId, PrimaryId, PrimaryRecord, ReplicaId, ReplicaRecord,
    Reservations, Role, View, VolumeId,
};
use thiserror::Error;

use crate::SOFTWARE;
use crate::bytes::{Put, Reader, Short, crc32c_of_parts};
use crate::code::*;

/// The version of the encoding of views that this software writes, and the only one it reads.
pub const VIEW_VERSION: u16 = 1;

/// Bytes before the first primary.
const HEADER: usize = 112;
const CRC_OFFSET: usize = 12;
const PRIMARY: usize = 25;
const MIRROR: usize = 8;
const RECORD: usize = 56;
const EPOCH: usize = 48;
/// The unit of a lease's time, in milliseconds.
const LEASE_UNIT: u128 = 10;
/// Bytes of the limit of waits for the coordinator.
const NO_COORDINATOR: usize = 4;
/// Bytes of the limit of waits for data.
const NO_DATA: usize = 4;
/// Sections that a view may have after its epochs.
const HAS_RESERVATIONS: u8 = 1;
const HAS_NO_COORDINATOR: u8 = 2;
const HAS_NO_DATA: u8 = 4;
/// Bytes of a generation in a record.
const GENERATION: usize = 6;

/// Most bytes that an encoded view has.
pub const MAX_VIEW_LENGTH: usize = HEADER
    + MAX_PRIMARIES * PRIMARY
    + MAX_MIRRORS * MIRROR
    + MAX_REPLICAS_IN_ALL * RECORD
    + MAX_EPOCHS * EPOCH
    + NO_COORDINATOR
    + NO_DATA
    + MAX_RESERVATIONS_LENGTH;
const MAX_RESERVATIONS_LENGTH: usize =
    reservations::HEADER + MAX_REGISTRANTS * reservations::RECORD;

/// Why bytes are not a view that can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ViewFormatError {
    /// The bytes are fewer or more than the view's own length says, or that length is impossible.
    #[error("the view's length is wrong: the data is damaged or cut off")]
    Length,
    /// The checksum does not match.
    #[error(
        "the view's checksum is {stored:08x} and should be {computed:08x}: the data is damaged"
    )]
    Checksum {
        /// The checksum that the view carries.
        stored: u32,
        /// The CRC-32C of its bytes.
        computed: u32,
    },
    /// The encoding is of a version unknown here.
    #[error(
        "the view is written in version {0}, and this is {SOFTWARE}, which reads version {VIEW_VERSION}: upgrade this node"
    )]
    Version(u16),
    /// A field has a value that has no meaning.
    #[error("the view's field \"{field}\" has the unknown value {value}")]
    Unknown {
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
    },
    /// The numbers contradict each other or the limits.
    #[error(
        "the view is not valid: its numbers are out of bounds, or a mirror has no in-sync replica"
    )]
    NotValid,
}

impl From<Short> for ViewFormatError {
    fn from(_: Short) -> Self {
        Self::Length
    }
}

/// The view as bytes, at most [`MAX_VIEW_LENGTH`] of a valid one.
///
/// # Errors
/// [`ViewFormatError::NotValid`] if the view is not valid.
pub fn encode_view(view: &View) -> Result<Vec<u8>, ViewFormatError> {
    if !view.is_valid() {
        return Err(ViewFormatError::NotValid);
    }
    let mut out = Vec::with_capacity(MAX_VIEW_LENGTH);
    put_header(view, &mut out);
    for primary in &view.primaries {
        out.put_u128(primary.id.node.0);
        out.put_u64(primary.id.incarnation.0);
        out.put_u8(primary.slot);
    }
    for mirror in &view.mirrors {
        out.put_padded(&[mirror.replicas.len() as u8], MIRROR);
        put_records(mirror, &mut out);
    }
    view.epochs.iter().for_each(|epoch| put_epoch(epoch, &mut out));
    if sections(view) & HAS_NO_COORDINATOR != 0 {
        out.put_u32(view.no_coordinator.milliseconds());
    }
    if let Some(milliseconds) = view.no_data {
        out.put_u32(milliseconds);
    }
    reservations::put(&view.reservations, &mut out);
    let length = (out.len() as u32).to_le_bytes();
    out[8..CRC_OFFSET].copy_from_slice(&length);
    let crc = checksum(&out).to_le_bytes();
    out[CRC_OFFSET..CRC_OFFSET + 4].copy_from_slice(&crc);
    Ok(out)
}

/// The length and the checksum are left as zeroes.
fn put_header(view: &View, out: &mut Vec<u8>) {
    out.put_u16(VIEW_VERSION);
    out.put_u8(protocol_code(view.protocol));
    out.put_u8(view.mirrors.len() as u8);
    out.put_u8(view.primaries.len() as u8);
    out.put_u8(bitmap_code(view.bitmap));
    out.put_u8(view.epochs.len() as u8);
    out.put_u8(sections(view));
    out.put_padded(&[], 4 + 4);
    out.put_u128(view.volume.0);
    out.put_u128(view.history.0);
    out.put_u128(view.coordinator.0);
    out.put_u64(view.generation.0);
    out.put_u64(view.parent.0);
    out.put_u64(view.geometry.size);
    out.put_u32(view.geometry.block_size);
    out.put_u32(view.geometry.chunk);
    out.put_u64(rebuild_limit_code(view.rebuild_limit));
    out.put_u16(view.intents.places);
    // A power of two.
    let exponent = view.intents.region.trailing_zeros() as u8;
    out.put(&[exponent, view.intents.slots]);
    put_lease(view.lease, out);
}

/// The bits of the optional sections that a view needs.
fn sections(view: &View) -> u8 {
    let section = |is_there: bool, bit: u8| if is_there { bit } else { 0 };
    section(view.reservations != Reservations::default(), HAS_RESERVATIONS)
        | section(view.no_coordinator != NoCoordinatorPolicy::Suspend, HAS_NO_COORDINATOR)
        | section(view.no_data.is_some(), HAS_NO_DATA)
}

fn put_lease(lease: Lease, out: &mut Vec<u8>) {
    out.put_u16((lease.time().as_millis() / LEASE_UNIT) as u16);
    out.put_u16(lease.margin().as_millis() as u16);
}

fn put_epoch(epoch: &Epoch, out: &mut Vec<u8>) {
    out.put_u128(epoch.coordinator.0);
    out.put_u128(epoch.history.0);
    out.put_u64(epoch.last.0);
    out.put_u64(epoch.ended);
}

fn put_records(mirror: &MirrorView, out: &mut Vec<u8>) {
    let position = |id| mirror.replicas.iter().position(|record| record.id == id);
    for record in &mirror.replicas {
        let place = record.role.instead_of().and_then(position).map_or(0, |place| place as u8 + 1);
        put_record(record, place, out);
    }
}

/// `place`: where in the mirror the replica lies in whose place this one is, counted from 1; or 0.
fn put_record(record: &ReplicaRecord, place: u8, out: &mut Vec<u8>) {
    out.put_u128(record.id.0);
    out.put_u128(record.node.0);
    out.put_u64(record.incarnation.0);
    // Generations have 48 bits at most.
    out.put(&record.since.0.to_le_bytes()[..GENERATION]);
    out.put_u8(place);
    out.put_u8(role_code(record.role));
    out.put_u8(replica_state_code(record.state));
    out.put_u8(cause_code(record.cause));
    // Zero is no generation of a view in which somebody is missing.
    let missing_since = record.missing_since.map_or(0, |generation| generation.0);
    out.put(&missing_since.to_le_bytes()[..GENERATION]);
}

/// The checksum of an encoded view: over all of it, with the checksum's own bytes taken as zero.
fn checksum(bytes: &[u8]) -> u32 {
    crc32c_of_parts(&[&bytes[..CRC_OFFSET], &[0; 4], &bytes[CRC_OFFSET + 4..]])
}

/// Reads a view from bytes that hold it and nothing else. What it returns is valid
/// ([`View::is_valid`]).
///
/// # Errors
/// See [`ViewFormatError`].
pub fn decode_view(bytes: &[u8]) -> Result<View, ViewFormatError> {
    if bytes.len() < HEADER || bytes.len() > MAX_VIEW_LENGTH {
        return Err(ViewFormatError::Length);
    }
    let mut reader = Reader::new(bytes);
    let version = reader.u16()?;
    let counts = Counts::read(&mut reader)?;
    let (length, stored) = (reader.u32()?, reader.u32()?);
    if length as usize != bytes.len() {
        return Err(ViewFormatError::Length);
    }
    let computed = checksum(bytes);
    if stored != computed {
        return Err(ViewFormatError::Checksum { stored, computed });
    }
    if version != VIEW_VERSION {
        return Err(ViewFormatError::Version(version));
    }
    let view = read_view(&counts, &mut reader)?;
    match (reader.left(), view.is_valid()) {
        (0, true) => Ok(view),
        (0, false) => Err(ViewFormatError::NotValid),
        _ => Err(ViewFormatError::Length),
    }
}

/// The first fields, read before the checksum is known to match and used only after.
struct Counts {
    protocol: u8,
    mirrors: u8,
    primaries: u8,
    bitmap: u8,
    epochs: u8,
    sections: u8,
}

impl Counts {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Short> {
        Ok(Self {
            protocol: reader.u8()?,
            mirrors: reader.u8()?,
            primaries: reader.u8()?,
            bitmap: reader.u8()?,
            epochs: reader.u8()?,
            sections: reader.u8()?,
        })
    }
}

fn read_view(counts: &Counts, reader: &mut Reader<'_>) -> Result<View, ViewFormatError> {
    if counts.sections & !(HAS_RESERVATIONS | HAS_NO_COORDINATOR | HAS_NO_DATA) != 0 {
        return Err(unknown("sections", counts.sections));
    }
    Ok(View {
        protocol: protocol_from_code(counts.protocol)
            .ok_or_else(|| unknown("protocol", counts.protocol))?,
        bitmap: bitmap_from_code(counts.bitmap).ok_or_else(|| unknown("bitmap", counts.bitmap))?,
        volume: VolumeId(reader.u128()?),
        history: History(reader.u128()?),
        coordinator: CoordinatorId(reader.u128()?),
        generation: Generation(reader.u64()?),
        parent: Generation(reader.u64()?),
        geometry: Geometry { size: reader.u64()?, block_size: reader.u32()?, chunk: reader.u32()? },
        rebuild_limit: rebuild_limit_from_code(reader.u64()?),
        intents: read_layout(reader)?,
        lease: read_lease(reader)?,
        primaries: (0..counts.primaries)
            .map(|_| read_primary(reader))
            .collect::<Result<_, Short>>()?,
        mirrors: (0..counts.mirrors)
            .map(|_| read_mirror(reader))
            .collect::<Result<_, ViewFormatError>>()?,
        epochs: (0..counts.epochs).map(|_| read_epoch(reader)).collect::<Result<_, Short>>()?,
        no_coordinator: match counts.sections & HAS_NO_COORDINATOR {
            0 => NoCoordinatorPolicy::Suspend,
            _ => read_no_coordinator(reader)?,
        },
        no_data: match counts.sections & HAS_NO_DATA {
            0 => None,
            _ => Some(reader.u32()?),
        },
        reservations: match counts.sections & HAS_RESERVATIONS {
            0 => Reservations::default(),
            _ => reservations::read(reader)?,
        },
    })
}

fn read_layout(reader: &mut Reader<'_>) -> Result<IntentLayout, ViewFormatError> {
    let (places, [exponent, slots]) = (reader.u16()?, reader.array::<2>()?);
    let region = 1u64.checked_shl(exponent.into()).ok_or_else(|| unknown("region", exponent))?;
    Ok(IntentLayout { region, places, slots })
}

/// Views from before leases stood in them have zeroes there: theirs was what is the default now.
fn read_lease(reader: &mut Reader<'_>) -> Result<Lease, ViewFormatError> {
    let (time, margin) = (reader.u16()?, reader.u16()?);
    if (time, margin) == (0, 0) {
        return Ok(Lease::default());
    }
    let time = Duration::from_millis(u64::from(time) * LEASE_UNIT as u64);
    let lease = Lease::new(time, Duration::from_millis(margin.into()));
    lease.ok_or(ViewFormatError::Unknown { field: "lease", value: 0 })
}

fn read_no_coordinator(reader: &mut Reader<'_>) -> Result<NoCoordinatorPolicy, ViewFormatError> {
    match NoCoordinatorPolicy::from_milliseconds(reader.u32()?) {
        NoCoordinatorPolicy::Suspend => Err(unknown("no coordinator", 0)),
        limited => Ok(limited),
    }
}

fn read_epoch(reader: &mut Reader<'_>) -> Result<Epoch, Short> {
    Ok(Epoch {
        coordinator: CoordinatorId(reader.u128()?),
        history: History(reader.u128()?),
        last: Generation(reader.u64()?),
        ended: reader.u64()?,
    })
}

fn read_primary(reader: &mut Reader<'_>) -> Result<PrimaryRecord, Short> {
    let node = NodeId(reader.u128()?);
    let id = PrimaryId { node, incarnation: Incarnation(reader.u64()?) };
    Ok(PrimaryRecord { id, slot: reader.u8()? })
}

fn read_mirror(reader: &mut Reader<'_>) -> Result<MirrorView, ViewFormatError> {
    let [count, reserved @ ..] = reader.array::<MIRROR>()?;
    expect_zeroes(&reserved)?;
    let mut replicas = Vec::new();
    let mut roles = Vec::new();
    for _ in 0..count {
        let (record, place, role) = read_record(reader)?;
        replicas.push(record);
        roles.push((place, role));
    }
    // Who is in whose place can be told only when all are known.
    let ids: Vec<ReplicaId> = replicas.iter().map(|record| record.id).collect();
    for (record, (place, role)) in replicas.iter_mut().zip(roles) {
        let other = match place.checked_sub(1) {
            Some(place) => {
                Some(*ids.get(usize::from(place)).ok_or_else(|| unknown("place", place + 1))?)
            }
            None => None,
        };
        record.role = role_from_code(role, other).ok_or_else(|| unknown("role", role))?;
    }
    Ok(MirrorView { replicas })
}

fn read_generation(reader: &mut Reader<'_>) -> Result<Generation, Short> {
    let mut bytes = [0; 8];
    bytes[..GENERATION].copy_from_slice(reader.take(GENERATION)?);
    Ok(Generation(u64::from_le_bytes(bytes)))
}

/// A record without its role, and where in the mirror the replica lies in whose place it is.
fn read_record(reader: &mut Reader<'_>) -> Result<(ReplicaRecord, u8, u8), ViewFormatError> {
    let (id, node) = (ReplicaId(reader.u128()?), NodeId(reader.u128()?));
    let incarnation = Incarnation(reader.u64()?);
    let since = read_generation(reader)?;
    let (place, role) = (reader.u8()?, reader.u8()?);
    let (state, cause) = (reader.u8()?, reader.u8()?);
    let missing_since = Some(read_generation(reader)?);
    let record = ReplicaRecord {
        id,
        node,
        state: replica_state_from_code(state).ok_or_else(|| unknown("replica state", state))?,
        since,
        incarnation,
        cause: cause_from_code(cause).ok_or_else(|| unknown("cause", cause))?,
        missing_since: missing_since.filter(|generation| generation.0 != 0),
        role: Role::Own,
    };
    Ok((record, place, role))
}

fn unknown(field: &'static str, value: u8) -> ViewFormatError {
    ViewFormatError::Unknown { field, value: u64::from(value) }
}

fn expect_zeroes(reserved: &[u8]) -> Result<(), ViewFormatError> {
    match reserved.iter().find(|byte| **byte != 0) {
        Some(byte) => Err(unknown("reserved", *byte)),
        None => Ok(()),
    }
}

#[cfg(test)]
pub(crate) mod tests;
