use proptest::prelude::*;

use super::*;

fn descriptor(kind: u8, address: u64, length: u32) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&address.to_le_bytes());
    bytes[8..12].copy_from_slice(&length.to_le_bytes());
    bytes[15] = kind;
    bytes
}

#[test]
fn what_the_transport_permits_is_understood() {
    let pointer = DataPointer::read(1, &descriptor(0x01, 0, 4096), 4096);
    assert_eq!(pointer, Ok(DataPointer::InCapsule { length: 4096 }));
    let pointer = DataPointer::read(1, &descriptor(0x5a, 0, 1 << 20), 0);
    assert_eq!(pointer, Ok(DataPointer::Transport { length: 1 << 20 }));
}

#[test]
fn anything_else_is_refused_with_its_status() {
    for (kind, bytes, in_capsule, status) in [
        // PRPs, and an SGL for metadata.
        (0, descriptor(0x5a, 0, 512), 0, Status::InvalidField),
        (2, descriptor(0x5a, 0, 512), 0, Status::InvalidField),
        (1, descriptor(0x5a, 0, 512), 512, Status::InvalidField),
        // An address in the host's memory, a keyed block, a segment, an unknown sub type.
        (1, descriptor(0x00, 0, 512), 0, Status::DescriptorType),
        (1, descriptor(0x40, 0, 512), 0, Status::DescriptorType),
        (1, descriptor(0x20, 0, 512), 0, Status::DescriptorType),
        (1, descriptor(0x5b, 0, 512), 0, Status::DescriptorType),
        (1, descriptor(0x01, 0, 513), 512, Status::DataLength),
        (1, descriptor(0x01, 0, 511), 512, Status::DataLength),
        (1, descriptor(0x01, 512, 512), 1024, Status::DescriptorOffset),
        (1, descriptor(0x01, 1 << 32, 1), 512, Status::DescriptorOffset),
    ] {
        assert_eq!(DataPointer::read(kind, &bytes, in_capsule), Err(status), "{kind} {bytes:?}");
    }
}

proptest! {
    #[test]
    fn data_in_a_capsule_is_all_of_it(
        kind in 0..4u8,
        address in prop_oneof![0..2u64, any::<u64>()],
        length in prop_oneof![0..8u32, any::<u32>()],
        in_capsule in 0..8u32,
    ) {
        let pointer = DataPointer::read(kind, &descriptor(0x01, address, length), in_capsule);
        if let Ok(DataPointer::InCapsule { length }) = pointer {
            prop_assert_eq!((address, length), (0, in_capsule));
        }
    }
}
