use proptest::prelude::*;

use super::*;

const VOLUME: Namespace = Namespace {
    identifier: [0xa5; 16],
    size: 1 << 30,
    block_size: 4096,
    best_write: 128 << 10,
    is_read_only: false,
    has_reservations: true,
};

const IO: Identity<'_> = Identity {
    serial: "0123456789abcdef0123",
    firmware: "1.2",
    controller: 0x0102,
    subsystem: "nqn.2014-08.org.nvmexpress:uuid:a5",
    max_commands: 128,
    namespace: Some(VOLUME),
};

fn ask(identity: &Identity<'_>, what: u8, namespace: u32) -> Result<[u8; 4096], Status> {
    ask_for(identity, what, 0, namespace)
}

/// Of a command set.
fn ask_for(
    identity: &Identity<'_>,
    what: u8,
    command_set: u8,
    namespace: u32,
) -> Result<[u8; 4096], Status> {
    let mut bytes = [0; 64];
    (bytes[0], bytes[1], bytes[40], bytes[47]) = (0x06, 0x40, what, command_set);
    bytes[4..8].copy_from_slice(&namespace.to_le_bytes());
    identity.answer(&Entry::read(&bytes))
}

/// The number in so many bytes.
fn number(page: &[u8], offset: usize, length: usize) -> u64 {
    page[offset..offset + length]
        .iter()
        .rev()
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Asserts that nothing but these ranges is set.
fn only(page: &[u8], ranges: &[std::ops::Range<usize>]) {
    for (offset, byte) in page.iter().enumerate() {
        let is_known = ranges.iter().any(|range| range.contains(&offset));
        assert!(is_known || *byte == 0, "byte {offset}");
    }
}

#[test]
fn linux_finds_what_it_requires_of_a_controller() {
    let page = ask(&IO, 1, 0).unwrap();
    assert_eq!(&page[4..24], b"0123456789abcdef0123");
    assert_eq!(&page[24..64], format!("{:40}", "evenkeel").as_bytes());
    assert_eq!(&page[64..72], b"1.2     ");
    for (offset, length, expected) in [
        (76, 1, 0x0b),
        // MDTS: 1 MiB.
        (77, 1, 8),
        (78, 2, 0x0102),
        (80, 4, 0x2_0100),
        (92, 4, 0x900),
        (96, 4, 1),
        (111, 1, 1),
        (258, 1, 3),
        (259, 1, 3),
        (260, 1, 3),
        (261, 1, 6),
        (320, 2, 10),
        // Five states of paths, each within 10 s; one group, which is the largest number.
        (342, 1, 10),
        (343, 1, 0x5f),
        (344, 4, 1),
        (348, 4, 1),
        (512, 1, 0x66),
        (513, 1, 0x44),
        (514, 2, 128),
        (516, 4, 1),
        (520, 2, 0xad),
        (522, 2, 1),
        (525, 1, 7),
        // 1 MiB for others, one block at a power failure, 64 KiB if they are compared.
        (526, 2, 255),
        (528, 2, 0),
        (532, 2, 15),
        (536, 4, 0x30_0001),
        (540, 4, 1),
        (1792, 4, 516),
        (1796, 4, 1),
        (1800, 2, 0),
        (1803, 1, 1),
        (1804, 2, 1),
    ] {
        assert_eq!(number(&page, offset, length), expected, "at {offset}");
    }
    assert_eq!(&page[768..802], IO.subsystem.as_bytes());
    only(&page, &[4..72, 76..112, 258..262, 320..322, 342..352, 512..544, 768..802, 1792..1806]);
}

#[test]
fn a_discovery_controller_has_no_namespace() {
    let discovery = Identity { namespace: None, ..IO };
    let page = ask(&discovery, 1, 0).unwrap();
    assert_eq!((page[111], number(&page, 92, 4), number(&page, 516, 4)), (2, 1 << 31, 0));
    assert_eq!((page[76], page[261], number(&page, 342, 8)), (3, 4, 0));
    assert_eq!((number(&page, 1792, 4), number(&page, 1804, 2)), (0, 0));
    for what in [0, 2, 3, 5, 6, 7, 8] {
        assert_eq!(ask(&discovery, what, 1), Err(Status::InvalidField));
    }
}

#[test]
fn a_namespace_has_the_size_of_the_volume() {
    let page = ask(&IO, 0, 1).unwrap();
    for (offset, length, expected) in [
        (0, 8, 1 << 18),
        (8, 8, 1 << 18),
        (16, 8, 1 << 18),
        (24, 1, 0x12),
        (30, 1, 1),
        (31, 1, 0xff),
        (33, 1, 9),
        // Written at once: 1 MiB for others, a block at a power failure, 64 KiB after a comparison.
        (34, 2, 255),
        (36, 2, 0),
        (38, 2, 15),
        // Best: multiples of a checksum's 4 KiB, and 128 KiB.
        (64, 2, 0),
        (66, 2, 0),
        (68, 2, 0),
        (70, 2, 0),
        (72, 2, 31),
        (99, 1, 0),
        // One format: no metadata, 4 KiB.
        (25, 2, 0),
        (128, 4, 12 << 16),
    ] {
        assert_eq!(number(&page, offset, length), expected, "at {offset}");
    }
    assert_eq!(page[104..120], [0xa5; 16]);
    assert_eq!(number(&page, 92, 4), 1);
    // Local, and of no group.
    assert_eq!(page[120..128], [&[0xa6], &[0xa5; 7][..]].concat());
    only(&page, &[0..25, 30..40, 64..74, 92..96, 104..132]);
    let namespace = Namespace { is_read_only: true, block_size: 512, ..VOLUME };
    let page = ask(&Identity { namespace: Some(namespace), ..IO }, 0, 1).unwrap();
    assert_eq!((page[99], page[130], number(&page, 0, 8)), (1, 9, 1 << 21));
    assert_eq!((number(&page, 34, 2), number(&page, 38, 2)), (2047, 127));
    assert_eq!((number(&page, 64, 2), number(&page, 72, 2)), (7, 255));
}

#[test]
fn the_lists_name_it_and_its_identifiers() {
    let page = ask(&IO, 2, 0).unwrap();
    assert_eq!(number(&page, 0, 4), 1);
    assert!(page[4..].iter().all(|byte| *byte == 0));
    only(&ask(&IO, 2, 1).unwrap(), &[]);
    let page = ask(&IO, 3, 1).unwrap();
    let identifier = [0xa5; 16];
    let mut expected = [&[2, 16, 0, 0][..], &identifier, &[3, 16, 0, 0], &identifier].concat();
    expected.extend([1, 8, 0, 0, 0xa6, 0xa5, 0xa5, 0xa5, 0xa5, 0xa5, 0xa5, 0xa5, 4, 1, 0, 0, 0]);
    assert_eq!(page[..57], expected);
    assert!(page[57..].iter().all(|byte| *byte == 0));
}

#[test]
fn what_does_not_exist_is_refused() {
    for (what, namespace) in [
        (0, 0),
        (0, 2),
        (0, u32::MAX),
        (3, 0),
        (3, 2),
        (3, u32::MAX),
        (5, 2),
        (8, 0),
        (8, u32::MAX),
        (2, u32::MAX - 1),
        (2, u32::MAX),
    ] {
        assert_eq!(ask(&IO, what, namespace), Err(Status::InvalidNamespace), "{what} {namespace}");
    }
    for what in [4, 9, 0x0a, 0x10, 0x13, 0x1c, 0xff] {
        assert_eq!(ask(&IO, what, 1), Err(Status::InvalidField));
    }
    for what in [5, 6, 7] {
        // Zoned namespaces.
        assert_eq!(ask_for(&IO, what, 2, 1), Err(Status::InvalidField));
    }
}

#[test]
fn the_command_set_sees_it_too() {
    only(&ask(&IO, 5, 1).unwrap(), &[]);
    let page = ask(&IO, 6, 0).unwrap();
    // VSL: 1 MiB.
    assert_eq!(page[0], 8);
    assert!(page[1..].iter().all(|byte| *byte == 0));
    assert_eq!(ask(&IO, 7, 0), ask(&IO, 2, 0));
    let page = ask(&IO, 8, 1).unwrap();
    assert_eq!(page[..16], [0, 1, 0xff, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0]);
    assert!(page[16..].iter().all(|byte| *byte == 0));
    let namespace = Namespace { is_read_only: true, has_reservations: false, ..VOLUME };
    let without = Identity { namespace: Some(namespace), ..IO };
    let page = ask(&without, 8, 1).unwrap();
    assert_eq!((page[2], page[8]), (0, 1));
    assert_eq!((ask(&without, 0, 1).unwrap()[31], ask(&without, 1, 0).unwrap()[520]), (0, 0x8d));
}

proptest! {
    #[test]
    fn any_text_fits_its_field(
        serial in ".{0,60}",
        firmware in ".{0,60}",
        subsystem in ".{0,300}",
    ) {
        let identity =
            Identity { serial: &serial, firmware: &firmware, subsystem: &subsystem, ..IO };
        let page = ask(&identity, 1, 0).unwrap();
        prop_assert!(page[4..72].iter().all(|byte| (b' '..=b'~').contains(byte)));
        prop_assert_eq!(page[1023], 0);
        prop_assert_eq!(number(&page, 78, 2), 0x0102);
    }
}
