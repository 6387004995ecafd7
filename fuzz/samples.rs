//! Sound values from which the fuzz targets start, and checksums made right again after a change:
//! without that nothing would ever get past them.

pub mod configuration;
pub mod http;
pub mod machines;

use evenkeel_core::block_set::PAGE_WORDS;
use evenkeel_core::replica::{MissingPage, OpenRegions};
use evenkeel_core::view::Cause;
use evenkeel_core::*;
use evenkeel_exports::nbd::{Export, Exports};
use evenkeel_format::bytes::{crc32c, crc32c_of_parts};
use evenkeel_format::{
    AllocationMap, CHECKSUMS_PER_PAGE, ChecksumPage, IntentTable, JournalBlock, Superblock,
    encode_page,
};
use evenkeel_wire::HEADER_LENGTH;

/// Where the lease stands in an encoded view.
pub const LEASE: std::ops::Range<usize> = 108..112;

/// A view of two mirrors of two replicas, with one primary.
pub fn view() -> View {
    let record = |id: u128| ReplicaRecord {
        id: ReplicaId(id),
        node: NodeId(id + 100),
        state: if id == 1 { ReplicaState::Rebuilding } else { ReplicaState::InSync },
        since: Generation(1),
        incarnation: Incarnation(5),
        cause: Cause::None,
        missing_since: None,
        role: Role::Own,
    };
    let mirror = |first: u128| MirrorView { replicas: vec![record(first), record(first + 1)] };
    View {
        volume: VolumeId(7),
        generation: Generation(3),
        parent: Generation(2),
        history: History(11),
        coordinator: CoordinatorId(12),
        epochs: vec![Epoch {
            coordinator: CoordinatorId(13),
            history: History(11),
            last: Generation(2),
            ended: 1_700_000_000,
        }],
        geometry: Geometry { size: 4 << 30, block_size: 512, chunk: 1 << 20 },
        protocol: Protocol::C,
        bitmap: Bitmap::Internal,
        intents: IntentLayout { region: 4 << 20, places: 64, slots: 2 },
        rebuild_limit: RebuildLimit::BytesPerSecond(1 << 20),
        lease: Default::default(),
        no_coordinator: Default::default(),
        no_data: None,
        reservations: Default::default(),
        mirrors: vec![mirror(1), mirror(3)],
        primaries: vec![PrimaryRecord {
            id: PrimaryId { node: NodeId(9), incarnation: Incarnation(8) },
            slot: 1,
        }],
    }
}

/// A superblock with that view.
pub fn superblock() -> Superblock {
    let view = view();
    Superblock {
        sequence: 9,
        volume: view.volume,
        name: "db".to_owned(),
        replica: ReplicaId(2),
        mirror: 0,
        data_offset: evenkeel_format::DATA_OFFSET,
        data_length: view.replica_size(),
        incarnations: Incarnations::of([Incarnation(3)]),
        saved: 0,
        metadata_offset: evenkeel_format::metadata_offset(view.replica_size()),
        has_checksums: true,
        view,
    }
}

/// One sound table or page of each kind, as the target `tables` knows it.
pub fn tables() -> Vec<(&'static str, Vec<u8>)> {
    let replica = ReplicaId(2);
    let regions = OpenRegions { slot: 3, region: 1 << 20, open: vec![1, 7, 900] };
    let bits = Box::new([5; PAGE_WORDS]);
    let page = MissingPage { place: 1, replica, since: Generation(4), page: 2, bits };
    let mut map = AllocationMap::new(64 << 30);
    map.allocated.insert(3..90);
    let checksums = Box::new([9; CHECKSUMS_PER_PAGE]);
    let journal = JournalBlock { sequence: 263, floor: 7, entries: vec![(1, 2), (1 << 40, 3)] };
    vec![
        ("intents", IntentTable { sequence: 6, cleared: 4, replica, regions }.encode()),
        ("bitmap", encode_page(&page)),
        ("allocation", map.encode(replica)),
        ("checksums", ChecksumPage { sequence: 8, checksums }.encode(replica, 5)),
        ("journal", journal.encode(replica)),
    ]
}

/// Changes bytes as `patches` says: two bytes of offset and one of value each.
pub fn patch(bytes: &mut [u8], patches: &[u8]) {
    for change in patches.chunks_exact(3) {
        let at = usize::from(u16::from_le_bytes([change[0], change[1]])) % bytes.len();
        bytes[at] = change[2];
    }
}

/// Makes `again`, an encoded view with `lease`, leave out the default lease if `reported` does, the
/// bytes that it was read from. Its checksum is to be sealed again.
pub fn leave_out_lease(again: &mut [u8], reported: &[u8], lease: Lease) {
    if lease == Lease::default() && reported[LEASE] == [0; 4] {
        again[LEASE].fill(0);
    }
}

/// Puts the CRC-32C of `bytes`, with its own four bytes taken as zero, at `at`.
pub fn seal(bytes: &mut [u8], at: usize) {
    if bytes.len() >= at + 4 {
        let crc = crc32c_of_parts(&[&bytes[..at], &[0; 4], &bytes[at + 4..]]);
        bytes[at..at + 4].copy_from_slice(&crc.to_le_bytes());
    }
}

/// Makes magic, version, body length and checksums of a frame right.
///
/// # Panics
/// If it is shorter than a header.
pub fn seal_frame(bytes: &mut [u8]) {
    bytes[..6].copy_from_slice(b"EKfr\x01\0");
    let (header, body) = bytes.split_at_mut(HEADER_LENGTH);
    if header[6..8] == [3, 0] {
        seal(body, 12);
    }
    header[16..20].copy_from_slice(&(body.len() as u32).to_le_bytes());
    let crc = if body.is_empty() { 0 } else { crc32c(body) };
    header[20..24].copy_from_slice(&crc.to_le_bytes());
    let crc = crc32c(&header[..60]).to_le_bytes();
    header[60..].copy_from_slice(&crc);
}

/// The one export of the NBD targets.
pub fn export() -> Export {
    Export {
        volume: VolumeId(7),
        name: "db".to_owned(),
        description: "three replicas".to_owned(),
        size: 1 << 24,
        block_size: 512,
        read_only: false,
        fast_zeroes: true,
    }
}

/// Finds it.
pub struct OneExport;

impl Exports for OneExport {
    fn find(&self, name: &str) -> Option<Export> {
        matches!(name, "" | "db").then(export)
    }

    fn list(&self) -> Vec<Export> {
        vec![export()]
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_core::{Generation, Message};
    use evenkeel_wire::{decode, decode_header, encode};

    use super::{HEADER_LENGTH, seal_frame};

    #[test]
    fn a_sealed_frame_is_a_frame() {
        let (mut sound, message) = (Vec::new(), Message::Fenced { generation: Generation(3) });
        encode(&message, None, &mut sound).unwrap();
        let mut bytes = sound.clone();
        bytes[..6].fill(0);
        bytes[60..].fill(0);
        seal_frame(&mut bytes);
        assert_eq!(bytes, sound);
        let header = decode_header(bytes.first_chunk::<HEADER_LENGTH>().unwrap()).unwrap();
        assert_eq!(decode(&header, &[]), Ok(message));
    }
}
