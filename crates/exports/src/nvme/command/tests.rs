use proptest::prelude::*;

use super::*;

#[test]
fn an_entry_of_linux_is_understood() {
    let mut bytes = [0; ENTRY_LENGTH];
    bytes[..8].copy_from_slice(&[0x01, 0x40, 0x05, 0x70, 1, 0, 0, 0]);
    bytes[32..36].copy_from_slice(&4096u32.to_le_bytes());
    bytes[39] = 0x01;
    bytes[40..48].copy_from_slice(&0x1_0000_0008u64.to_le_bytes());
    bytes[48] = 7;
    let entry = Entry::read(&bytes);
    assert_eq!((entry.opcode, entry.identifier, entry.namespace), (1, 0x7005, 1));
    assert_eq!(entry.words, [8, 1, 7, 0, 0, 0]);
    assert_eq!(entry.pointer(4096), Ok(DataPointer::InCapsule { length: 4096 }));
    assert_eq!(entry.pointer(512), Err(Status::DataLength));
    assert_eq!(Nvm::from_number(entry.opcode), Some(Nvm::Write));
    assert_eq!(Direction::of(entry.opcode), Direction::ToController);
}

#[test]
fn halves_of_fused_operations_are_told_apart() {
    let fuses = [0x40, 0x41, 0x42, 0x43].map(|flags| {
        let mut bytes = [0; ENTRY_LENGTH];
        bytes[1] = flags;
        Entry::read(&bytes).fuse()
    });
    let expected = [Ok(Fuse::None), Ok(Fuse::First), Ok(Fuse::Second), Err(Status::InvalidField)];
    assert_eq!(fuses, expected);
}

#[test]
fn opcodes_lead_back() {
    for number in 0..=255 {
        assert!(Admin::from_number(number).is_none_or(|admin| admin as u8 == number));
        assert!(Nvm::from_number(number).is_none_or(|command| command as u8 == number));
    }
    // What is not supported: writing what can't be read, copies, and feedback of zones.
    assert!([0x04, 0x19, 0x79].iter().all(|code| Nvm::from_number(*code).is_none()));
}

#[test]
fn a_completion_has_the_bytes_of_the_specification() {
    let completion = Completion {
        result: 0x1_0002,
        head: 3,
        identifier: 0x7005,
        status: Status::OutOfRange,
        is_final: true,
    };
    let expected = [2, 0, 1, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0x05, 0x70, 0, 0x81];
    assert_eq!(completion.bytes(), expected);
}

proptest! {
    #[test]
    fn completions_are_read_as_they_were_put(
        result: u64,
        head: u16,
        identifier: u16,
        index in 0..Status::ALL.len(),
        is_final: bool,
    ) {
        let status = Status::ALL[index];
        let completion = Completion { result, head, identifier, status, is_final };
        prop_assert_eq!(Completion::read(&completion.bytes()), Some(completion));
    }
}
