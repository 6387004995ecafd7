use evenkeel_core::*;
use proptest::prelude::*;

use super::*;
use crate::strategy::views;

/// A superblock of a volume with one mirror of three replicas.
pub(crate) fn sample() -> Superblock {
    let record = |r: u128| ReplicaRecord {
        incarnation: Incarnation(5),
        ..ReplicaRecord::first(ReplicaId(r), NodeId(r + 100))
    };
    let view = View {
        generation: Generation(3),
        parent: Generation(2),
        intents: IntentLayout::for_size(1 << 30),
        ..View::first(
            VolumeId(7),
            History(11),
            CoordinatorId(12),
            Geometry { size: 4 << 30, block_size: 512, chunk: 1 << 20 },
            vec![MirrorView { replicas: (1..=3).map(record).collect() }],
        )
    };
    Superblock {
        sequence: 9,
        volume: view.volume,
        name: "db".to_owned(),
        replica: ReplicaId(2),
        mirror: 0,
        data_offset: DATA_OFFSET,
        data_length: 4 << 30,
        incarnations: Incarnations::of([77, 5].map(Incarnation)),
        saved: 1_800_000_000,
        metadata_offset: crate::metadata_offset(4 << 30),
        has_checksums: true,
        view,
    }
}

/// Makes the checksum right again after a change.
pub(crate) fn seal(copy: &mut [u8]) {
    let crc = checksum(copy).to_le_bytes();
    copy[CRC_OFFSET..CRC_OFFSET + 4].copy_from_slice(&crc);
}

fn u32_at(copy: &[u8], offset: usize) -> u32 {
    Reader::new(&copy[offset..]).u32().unwrap()
}

fn u64_at(copy: &[u8], offset: usize) -> u64 {
    Reader::new(&copy[offset..]).u64().unwrap()
}

fn superblocks() -> impl Strategy<Value = Superblock> {
    (views(), any::<(u64, u128, u32)>(), 0..1u64 << 40, "[a-zA-Z0-9][a-zA-Z0-9_.-]{0,63}").prop_map(
        |(view, (sequence, replica, mirror), beyond, name)| Superblock {
            sequence,
            volume: view.volume,
            name,
            replica: ReplicaId(replica),
            mirror: mirror % view.mirrors.len() as u32,
            data_offset: DATA_OFFSET + beyond / 4096 * 4096,
            data_length: view.replica_size() + beyond,
            incarnations: Incarnations::of([sequence, 1, 2, 3].map(Incarnation)),
            saved: sequence,
            metadata_offset: (DATA_OFFSET + view.replica_size() + 2 * beyond)
                .next_multiple_of(4096),
            has_checksums: mirror.is_multiple_of(2),
            view,
        },
    )
}

#[test]
fn the_bytes_are_where_the_manual_says() {
    let copy = sample().encode().unwrap();
    assert_eq!(&copy.0[..16], b"evenkeel replica");
    assert_eq!(u32_at(&copy.0, 16), 1);
    assert_eq!(u32_at(&copy.0, 20), 16384);
    assert_eq!(u64_at(&copy.0, 32), 9);
    let head = envelope(&copy.0).unwrap();
    assert_eq!(head.writer.as_deref(), Some(SOFTWARE));
    assert_eq!((head.sequence, head.checksum), (9, u32_at(&copy.0, 24)));
    assert_eq!((head.compatible, head.read_only_compatible, head.incompatible), (0, 1, 0));
    assert_eq!(copy.0[96], 7);
    assert_eq!(copy.0[112], 2);
    assert_eq!(u64_at(&copy.0, 128), 1 << 20);
    assert_eq!(u64_at(&copy.0, 136), 4 << 30);
    assert_eq!(&copy.0[152..155], b"db\0");
    assert_eq!(u32_at(&copy.0, 216) as usize, 112 + 8 + 3 * 56);
    assert_eq!(u64_at(&copy.0, 224), 77);
    assert_eq!(u64_at(&copy.0, 232), (4 << 30) + (1 << 20));
    assert_eq!(u64_at(&copy.0, 240), 1_800_000_000);
    assert_eq!(copy.0.as_ptr().align_offset(4096), 0);
}

/// A cut copy says nothing, however much of it is there: no field of it is taken for zero.
#[test]
fn what_is_cut_short_is_unreadable() {
    let copy = sample().encode().unwrap();
    for length in [0, 15, 16, 23, 63, 95, 96, 511, SUPERBLOCK_LENGTH - 1] {
        assert_eq!(Superblock::decode(&copy.0[..length]), Err(FormatError::Unreadable), "{length}");
        assert_eq!(envelope(&copy.0[..length]), None, "{length}");
        assert!(length >= 96 || Head::read(&copy.0[..length]).is_err(), "{length}");
    }
}

#[test]
fn the_largest_view_fits() {
    let view = crate::view::tests::largest();
    let data_length = view.replica_size();
    let superblock = Superblock {
        volume: view.volume,
        data_length,
        metadata_offset: crate::metadata_offset(data_length),
        has_checksums: false,
        view,
        ..sample()
    };
    let copy = superblock.encode().unwrap();
    assert_eq!(Superblock::decode(&copy.0), Ok(superblock));
}

#[test]
fn what_contradicts_itself_is_not_written() {
    let broken: [fn(&mut Superblock); 9] = [
        |s| s.volume = VolumeId(8),
        |s| s.mirror = 1,
        |s| s.data_offset = 4096,
        |s| s.data_offset += 512,
        |s| s.data_offset = u64::MAX - 4095,
        |s| s.data_length -= 1,
        |s| s.view.mirrors.clear(),
        |s| s.metadata_offset -= 4096,
        |s| s.metadata_offset += 512,
    ];
    for (number, spoil) in broken.iter().enumerate() {
        let mut superblock = sample();
        spoil(&mut superblock);
        assert!(superblock.encode().is_err(), "{number}");
    }
    for name in [String::new(), "x".repeat(65), "a\0b".to_owned(), "../../x".to_owned()] {
        let superblock = Superblock { name, ..sample() };
        assert!(matches!(superblock.encode(), Err(EncodeError::Name(_))));
    }
}

/// A disk that somebody has prepared: its checksum is right, and its name would lead out of the
/// directory of sockets, or speak to a terminal.
#[test]
fn a_name_that_is_none_is_refused() {
    let sound = sample().encode().unwrap().0;
    let at = sound.windows(3).position(|bytes| bytes == b"db\0").unwrap();
    for name in [&b"../../x"[..], b".", b"a/b", b"\x1b[2J", b"a b"] {
        let mut copy = sound;
        copy[at..at + name.len()].copy_from_slice(name);
        seal(&mut copy);
        let refused = Superblock::decode(&copy).unwrap_err();
        assert!(refused.to_string().contains("name is not a permitted one"), "{refused}");
    }
}

#[test]
fn another_version_is_refused_by_name() {
    let mut copy = sample().encode().unwrap();
    copy.0[16] = 3;
    copy.0[64..96].fill(0);
    copy.0[64..76].copy_from_slice(b"evenkeel 4.2");
    assert!(matches!(Superblock::decode(&copy.0), Err(FormatError::Checksum { .. })));
    seal(&mut copy.0);
    let message = Superblock::decode(&copy.0).unwrap_err().to_string();
    assert!(message.starts_with("written by evenkeel 4.2 in format 3, and this is evenkeel "));
    assert!(message.ends_with("reads format 1: upgrade this node"), "{message}");
}

#[test]
fn a_version_with_longer_superblocks_is_refused_by_name() {
    let mut copy = sample().encode().unwrap();
    copy.0[16] = 2;
    copy.0[20..24].copy_from_slice(&65536u32.to_le_bytes());
    let error = Superblock::decode(&copy.0).unwrap_err();
    assert!(matches!(error, FormatError::UnknownVersion { version: 2, .. }));
}

#[test]
fn unknown_features_are_refused_unless_compatible() {
    for (offset, refused) in [(40, false), (48, true), (56, true)] {
        let mut copy = sample().encode().unwrap();
        copy.0[offset] = 4;
        seal(&mut copy.0);
        let result = Superblock::decode(&copy.0);
        let is_refusal = matches!(result, Err(FormatError::UnknownFeatures { .. }));
        assert_eq!((is_refusal, result.is_ok()), (refused, !refused));
    }
}

#[test]
fn what_is_no_superblock_is_told_apart() {
    assert_eq!(Superblock::decode(&[]), Err(FormatError::Unreadable));
    assert_eq!(Superblock::decode(&[0; 512]), Err(FormatError::Unreadable));
    assert_eq!(Superblock::decode(&[0; SUPERBLOCK_LENGTH]), Err(FormatError::NoMagic));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_written_is_read(superblock in superblocks()) {
        let copy = superblock.encode().unwrap();
        prop_assert_eq!(Superblock::decode(&copy.0), Ok(superblock));
    }

    #[test]
    fn any_flipped_byte_is_detected(
        superblock in superblocks(),
        at in 0..SUPERBLOCK_LENGTH,
        flip in 1..=255u8,
    ) {
        let mut copy = superblock.encode().unwrap();
        copy.0[at] ^= flip;
        prop_assert!(Superblock::decode(&copy.0).is_err());
    }

    #[test]
    fn a_torn_copy_is_detected(
        old in superblocks(),
        new in superblocks(),
        sectors in 1..SUPERBLOCK_LENGTH / 512,
    ) {
        let (old, new) = (old.encode().unwrap(), new.encode().unwrap());
        let mut torn = new.clone();
        torn.0[sectors * 512..].copy_from_slice(&old.0[sectors * 512..]);
        prop_assume!(torn != new && torn != old);
        prop_assert!(Superblock::decode(&torn.0).is_err());
    }

    #[test]
    fn changed_and_sealed_again_it_is_sound_or_refused(
        superblock in superblocks(),
        changes in prop::collection::vec((0..SUPERBLOCK_LENGTH, any::<u8>()), 1..8),
    ) {
        let mut copy = superblock.encode().unwrap();
        for (at, value) in changes {
            copy.0[at] = value;
        }
        seal(&mut copy.0);
        if let Ok(superblock) = Superblock::decode(&copy.0) {
            prop_assert!(superblock.encode().is_ok());
        }
    }
}
