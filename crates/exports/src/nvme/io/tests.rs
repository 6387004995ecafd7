use proptest::prelude::*;

use super::*;

const BLOCKS: u64 = 1 << 18;

const VOLUME: Namespace = Namespace {
    identifier: [0xa5; 16],
    size: BLOCKS * 4096,
    block_size: 4096,
    best_write: 4096,
    is_read_only: false,
    has_reservations: true,
};

const FLUSH: u8 = 0x00;
const WRITE: u8 = 0x01;
const READ: u8 = 0x02;
const COMPARE: u8 = 0x05;
const ZERO: u8 = 0x08;
const MANAGE: u8 = 0x09;
const VERIFY: u8 = 0x0c;

/// A command for namespace 1: dwords 10 to 12.
fn entry(opcode: u8, words: [u32; 3]) -> Entry {
    let mut bytes = [0; 64];
    (bytes[0], bytes[1], bytes[4]) = (opcode, 0x40, 1);
    for (index, word) in words.iter().enumerate() {
        bytes[40 + index * 4..][..4].copy_from_slice(&word.to_le_bytes());
    }
    Entry::read(&bytes)
}

/// One of so many blocks from block 8 on, with these bits of dword 12 besides.
fn on_blocks(opcode: u8, count: u32, bits: u32) -> Entry {
    entry(opcode, [8, 0, bits | (count - 1)])
}

fn read(entry: &Entry, transfer: Transfer) -> Result<Ask, Status> {
    Ask::read(entry, transfer, &VOLUME)
}

#[test]
fn each_command_asks_for_bytes() {
    let (offset, length) = (8 * 4096, 2 * 4096);
    let data = Transfer::InCapsule(length);
    for (command, transfer, ask) in [
        (on_blocks(READ, 2, 0), Transfer::ToHost(length), Ask::Read { offset, length }),
        (on_blocks(WRITE, 2, 0), data, Ask::Write { offset, length, durable: false }),
        (
            on_blocks(WRITE, 2, 1 << 30),
            Transfer::OnRequest(length),
            Ask::Write { offset, length, durable: true },
        ),
        (on_blocks(COMPARE, 2, 0), data, Ask::Compare { offset, length }),
        (on_blocks(VERIFY, 2, 0), Transfer::None, Ask::Verify { offset, length }),
        (
            on_blocks(ZERO, 65_536, 1 << 30 | 1 << 25),
            Transfer::None,
            Ask::Zero { offset, length: 65_536 * 4096, deallocate: true, durable: true },
        ),
        (
            on_blocks(ZERO, 2, 0),
            Transfer::None,
            Ask::Zero { offset, length: length.into(), deallocate: false, durable: false },
        ),
        (entry(FLUSH, [0; 3]), Transfer::None, Ask::Flush),
        (
            entry(MANAGE, [1, 1 << 2, 0]),
            Transfer::InCapsule(32),
            Ask::Manage { ranges: 2, deallocate: true },
        ),
        // As Linux does: one range, the length of 256.
        (
            entry(MANAGE, [0, 1 << 2, 0]),
            Transfer::InCapsule(4096),
            Ask::Manage { ranges: 1, deallocate: true },
        ),
        (
            entry(MANAGE, [255, 0b11, 0]),
            Transfer::OnRequest(4096),
            Ask::Manage { ranges: 256, deallocate: false },
        ),
    ] {
        assert_eq!(read(&command, transfer), Ok(ask));
    }
    // Limited retry changes nothing, and a range may end where the namespace ends.
    let last = entry(READ, [(BLOCKS - 1) as u32, 0, 1 << 31]);
    let ask = Ask::Read { offset: VOLUME.size - 4096, length: 4096 };
    assert_eq!(read(&last, Transfer::ToHost(4096)), Ok(ask));
}

#[test]
fn only_a_flush_may_name_all_namespaces() {
    let named = |opcode: u8, namespace: u32| {
        let mut command = on_blocks(opcode, 1, 0);
        command.namespace = namespace;
        read(&command, if opcode == READ { Transfer::ToHost(4096) } else { Transfer::None })
    };
    assert_eq!(named(FLUSH, u32::MAX), Ok(Ask::Flush));
    for (opcode, namespace) in [(READ, u32::MAX), (READ, 0), (READ, 2), (FLUSH, 0), (FLUSH, 2)] {
        assert_eq!(named(opcode, namespace), Err(Status::InvalidNamespace));
    }
}

#[test]
fn what_is_not_inside_the_namespace_is_out_of_range() {
    for (first, count) in [
        (BLOCKS, 1),
        (BLOCKS - 1, 2),
        (BLOCKS + 1, 1),
        (u64::MAX, 1),
        (u64::MAX, 65_536),
        (u64::MAX / 4096 + 1, 1),
    ] {
        for opcode in [READ, WRITE, COMPARE, ZERO, VERIFY] {
            let words = [first as u32, (first >> 32) as u32, count - 1];
            let result = read(&entry(opcode, words), Transfer::None);
            assert_eq!(result, Err(Status::OutOfRange), "{opcode} {first} {count}");
        }
    }
}

#[test]
fn data_is_as_long_as_the_blocks() {
    for length in [0, 512, 4095, 4100, 8192] {
        let wrong = Err(Status::DataLength);
        assert_eq!(read(&on_blocks(READ, 1, 0), Transfer::ToHost(length)), wrong);
        assert_eq!(read(&on_blocks(WRITE, 1, 0), Transfer::InCapsule(length)), wrong);
        assert_eq!(read(&on_blocks(COMPARE, 1, 0), Transfer::OnRequest(length)), wrong);
    }
    for (ranges, length) in [(0, 0), (0, 15), (1, 31), (255, 4095), (0, 4100)] {
        let command = entry(MANAGE, [ranges, 1 << 2, 0]);
        assert_eq!(read(&command, Transfer::InCapsule(length)), Err(Status::DataLength));
    }
    // As many blocks as MDTS permits, and one more.
    assert!(read(&on_blocks(WRITE, 256, 0), Transfer::OnRequest(1 << 20)).is_ok());
    let too_long = read(&on_blocks(WRITE, 257, 0), Transfer::OnRequest(1 << 20));
    assert_eq!(too_long, Err(Status::InvalidField));
    assert_eq!(read(&on_blocks(VERIFY, 257, 0), Transfer::None), Err(Status::InvalidField));
}

#[test]
fn compare_and_write_is_the_only_fused_operation() {
    let (offset, length) = (0, 4096);
    let half = |opcode: u8, fuse: u8, blocks: u8| {
        let mut bytes = [0; 64];
        (bytes[0], bytes[1], bytes[4], bytes[48]) = (opcode, 0x40 | fuse, 1, blocks - 1);
        read(&Entry::read(&bytes), Transfer::InCapsule(u32::from(blocks) * 4096))
    };
    assert_eq!(half(COMPARE, 1, 1), Ok(Ask::FusedCompare { offset, length }));
    assert_eq!(half(WRITE, 2, 1), Ok(Ask::FusedWrite { offset, length, durable: false }));
    for (opcode, fuse) in [(WRITE, 1), (COMPARE, 2), (READ, 1), (READ, 2), (ZERO, 2), (FLUSH, 1)] {
        assert_eq!(half(opcode, fuse, 1), Err(Status::InvalidField), "{opcode} {fuse}");
    }
    for opcode in [WRITE, COMPARE, READ] {
        assert_eq!(half(opcode, 3, 1), Err(Status::InvalidField));
    }
    for (blocks, fits) in [(16, true), (17, false)] {
        let (first, second) = (half(COMPARE, 1, blocks), half(WRITE, 2, blocks));
        assert_eq!((first.is_ok(), second.is_ok()), (fits, fits));
        assert!(fits || first == Err(Status::AtomicUnitExceeded) && first == second);
    }
}

#[test]
fn unsupported_fields_are_refused() {
    let one = Transfer::InCapsule(4096);
    // PRACT, each of PRCHK, STC, a directive; DEAC of a write.
    for bit in [29, 28, 27, 26, 24, 23, 22, 21, 20, 25] {
        let command = on_blocks(WRITE, 1, 1 << bit);
        assert_eq!(read(&command, one), Err(Status::InvalidField), "bit {bit}");
    }
    // Write Uncorrectable, reservations, Copy, and what has no meaning.
    for opcode in [0x04, 0x19, 0x7d, 0xff] {
        assert_eq!(read(&on_blocks(opcode, 1, 0), one), Err(Status::InvalidOpcode));
    }
}

#[test]
fn a_volume_that_may_not_be_written_is_not() {
    let volume = Namespace { is_read_only: true, ..VOLUME };
    let read = |command: &Entry, transfer| Ask::read(command, transfer, &volume);
    let data = Transfer::InCapsule(4096);
    let refused = Err(Status::WriteProtected);
    assert_eq!(read(&on_blocks(WRITE, 1, 0), data), refused);
    assert_eq!(read(&on_blocks(ZERO, 1, 0), Transfer::None), refused);
    assert_eq!(read(&entry(MANAGE, [0, 1 << 2, 0]), Transfer::InCapsule(16)), refused);
    for (command, transfer) in [
        (on_blocks(READ, 1, 0), Transfer::ToHost(4096)),
        (on_blocks(COMPARE, 1, 0), data),
        (on_blocks(VERIFY, 1, 0), Transfer::None),
        (entry(MANAGE, [0, 0, 0]), Transfer::InCapsule(16)),
        (entry(FLUSH, [0; 3]), Transfer::None),
    ] {
        assert!(read(&command, transfer).is_ok());
    }
}

fn list(ranges: &[(u32, u64)]) -> Vec<u8> {
    let range = |(count, first): &(u32, u64)| {
        [&0xffff_ffff_u32.to_le_bytes()[..], &count.to_le_bytes(), &first.to_le_bytes()].concat()
    };
    ranges.iter().flat_map(range).collect()
}

#[test]
fn a_list_of_ranges_is_taken_as_a_whole() {
    let last = (1, BLOCKS - 1);
    let data = list(&[(2, 4), (0, 7), last, (9, u64::MAX)]);
    let expected = vec![(4 * 4096, 2 * 4096), (VOLUME.size - 4096, 4096)];
    assert_eq!(ranges(&data, 3, &VOLUME), Ok(expected));
    assert_eq!(ranges(&data, 4, &VOLUME), Err(Status::OutOfRange));
    assert_eq!(ranges(&data, 5, &VOLUME), Err(Status::OutOfRange));
    assert_eq!(ranges(&data[..47], 3, &VOLUME), Err(Status::DataLength));
    for wrong in [(2, BLOCKS - 1), (1, BLOCKS), (0, BLOCKS + 1), (u32::MAX, 0)] {
        assert_eq!(ranges(&list(&[wrong]), 1, &VOLUME), Err(Status::OutOfRange), "{wrong:?}");
    }
}

#[test]
fn a_refusal_of_the_volume_has_its_status() {
    for (error, for_reads, for_writes) in [
        (RequestError::Invalid, Status::InvalidField, Status::InvalidField),
        (RequestError::Medium, Status::Unrecovered, Status::WriteFault),
        (RequestError::NoSpace, Status::CapacityExceeded, Status::CapacityExceeded),
        (RequestError::NoData, Status::InternalPath, Status::InternalPath),
        (RequestError::NoCoordinator, Status::InternalPath, Status::InternalPath),
        (RequestError::Fenced, Status::InternalPath, Status::InternalPath),
        (RequestError::LostWrites, Status::Unrecovered, Status::WriteFault),
        (RequestError::Detached, Status::InternalPath, Status::InternalPath),
        (RequestError::Reserved, Status::ReservationConflict, Status::ReservationConflict),
    ] {
        assert_eq!((status(error, true), status(error, false)), (for_reads, for_writes));
    }
    assert!(status(RequestError::LostWrites, false).is_final());
}

proptest! {
    #[test]
    fn whatever_is_accepted_lies_inside(
        bytes: [u8; 24],
        opcode in proptest::sample::select(vec![FLUSH, WRITE, READ, COMPARE, ZERO, MANAGE, VERIFY]),
        first in prop_oneof![0..BLOCKS + 9, any::<u64>()],
        count in prop_oneof![0..9u32, any::<u16>().prop_map(u32::from)],
        length in prop_oneof![(0..9u32).prop_map(|blocks| blocks * 4096), any::<u32>()],
        size in 0..VOLUME.size,
    ) {
        let volume = Namespace { size: size / 4096 * 4096, ..VOLUME };
        let mut entry = entry(opcode, [first as u32, (first >> 32) as u32, count]);
        entry.words[3] = u32::from(bytes[0]);
        let transfer = if opcode == READ { Transfer::ToHost(length) } else { Transfer::InCapsule(length) };
        let range = match Ask::read(&entry, transfer, &volume) {
            Ok(Ask::Read { offset, length: asked } | Ask::Write { offset, length: asked, .. }
                | Ask::Compare { offset, length: asked }) => {
                prop_assert_eq!(asked, length);
                (offset, asked.into())
            }
            Ok(Ask::Verify { offset, length }) => (offset, length.into()),
            Ok(Ask::Zero { offset, length, .. }) => (offset, length),
            _ => (0, 0),
        };
        prop_assert!(range.0 % 4096 == 0 && range.0 + range.1 <= volume.size);
        for (offset, length) in ranges(&bytes, 1, &volume).unwrap_or_default() {
            prop_assert!(length > 0 && offset + length <= volume.size);
        }
    }
}
