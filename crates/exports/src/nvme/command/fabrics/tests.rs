use proptest::prelude::*;

use super::*;

/// An entry with these bytes from offset 40 on.
fn entry(kind: u8, specific: &[u8]) -> Entry {
    let mut bytes = [0; 64];
    (bytes[0], bytes[1], bytes[4]) = (0x7f, 0x40, kind);
    bytes[40..40 + specific.len()].copy_from_slice(specific);
    Entry::read(&bytes)
}

fn data(subsystem: &[u8], host_name: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; CONNECT_DATA_LENGTH];
    bytes[..16].copy_from_slice(&[7; 16]);
    bytes[16..18].copy_from_slice(&[0xff, 0xfe]);
    bytes[256..256 + subsystem.len()].copy_from_slice(subsystem);
    bytes[512..512 + host_name.len()].copy_from_slice(host_name);
    bytes
}

#[test]
fn connect_is_understood() {
    let connect = entry(1, &[0, 0, 2, 1, 127, 0, 4, 0, 0x88, 0x13, 0, 0]);
    let expected = Connect {
        queue: 258,
        size: 128,
        without_flow_control: true,
        keep_alive: Duration::from_secs(5),
    };
    assert_eq!(Fabrics::read(&connect), Ok(Fabrics::Connect(expected)));
    let largest = entry(1, &[0, 0, 1, 0, 0xff, 0xff, 3]);
    let expected =
        Connect { queue: 1, size: 65_536, without_flow_control: false, keep_alive: Duration::ZERO };
    assert_eq!(Fabrics::read(&largest), Ok(Fabrics::Connect(expected)));
}

#[test]
fn properties_are_of_four_or_eight_bytes() {
    let value = [1, 0, 0, 0, 0x14, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
    let set = Fabrics::PropertySet { offset: 0x14, is_wide: true, value: 0x0807_0605_0403_0201 };
    assert_eq!(Fabrics::read(&entry(0, &value)), Ok(set));
    let narrow = [&[0][..], &value[1..]].concat();
    let set = Fabrics::PropertySet { offset: 0x14, is_wide: false, value: 0x0403_0201 };
    assert_eq!(Fabrics::read(&entry(0, &narrow)), Ok(set));
    let get = Fabrics::PropertyGet { offset: 0x1c, is_wide: false };
    assert_eq!(Fabrics::read(&entry(4, &[0, 0, 0, 0, 0x1c])), Ok(get));
    assert_eq!(Fabrics::read(&entry(4, &[2])), Err(Status::InvalidField.into()));
}

#[test]
fn what_is_not_supported_is_refused() {
    for (kind, specific, refusal) in [
        (1, vec![1, 0, 0, 0, 31], Status::IncompatibleFormat.into()),
        (1, vec![0, 0, 0, 0, 0, 0], Refusal { status: Status::ConnectParameters, result: 44 }),
        (8, vec![1], Status::IncompatibleFormat.into()),
        // Authentication Send and Receive, and unknown ones.
        (5, vec![], Status::InvalidOpcode.into()),
        (6, vec![], Status::InvalidOpcode.into()),
        (0xc0, vec![], Status::InvalidOpcode.into()),
    ] {
        assert_eq!(Fabrics::read(&entry(kind, &specific)), Err(refusal));
    }
    assert_eq!(Fabrics::read(&entry(8, &[])), Ok(Fabrics::Disconnect));
}

#[test]
fn connect_data_names_subsystem_and_host() {
    let bytes = data(b"nqn.2014-08.org.nvmexpress.discovery", b"nqn.host");
    let read = ConnectData::read(&bytes).unwrap();
    assert_eq!((read.host, read.controller), ([7; 16], 0xfeff));
    assert_eq!(read.subsystem, "nqn.2014-08.org.nvmexpress.discovery");
    assert_eq!(read.host_name, "nqn.host");
    assert!(ConnectData::read(&data(&[b'n'; 223], b"h")).is_ok());
}

#[test]
fn a_wrong_name_is_pointed_at() {
    for (subsystem, host_name, result) in [
        (&b""[..], &b"nqn.host"[..], 256 | 1 << 16),
        (&[b'n'; 224], b"nqn.host", 256 | 1 << 16),
        (&[b'n'; 256], b"nqn.host", 256 | 1 << 16),
        (b"nqn.disk", b"", 512 | 1 << 16),
        (b"nqn.disk", &[0xff, 0xfe], 512 | 1 << 16),
    ] {
        let refusal = Refusal { status: Status::ConnectParameters, result };
        assert_eq!(ConnectData::read(&data(subsystem, host_name)), Err(refusal));
    }
    let short = vec![b'n'; CONNECT_DATA_LENGTH - 1];
    assert_eq!(ConnectData::read(&short), Err(Status::DataLength.into()));
}

proptest! {
    #[test]
    fn any_entry_and_any_data_are_read_or_refused(
        kind: u8,
        specific: [u8; 24],
        bytes in proptest::collection::vec(any::<u8>(), CONNECT_DATA_LENGTH),
    ) {
        if let Ok(Fabrics::Connect(connect)) = Fabrics::read(&entry(kind, &specific)) {
            prop_assert!((2..=65_536).contains(&connect.size));
        }
        if let Ok(data) = ConnectData::read(&bytes) {
            prop_assert!(data.subsystem.len() <= 223 && data.host_name.len() <= 223);
        }
    }
}
