use super::*;

/// By which hosts ask.
const REACHED: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));

fn record(subsystem: &str, address: &str, hosts: Hosts) -> Record {
    Record {
        kind: RecordKind::Volume,
        subsystem: subsystem.to_owned(),
        port: 3,
        address: address.parse().unwrap(),
        security: Security::None,
        hosts,
    }
}

fn only(host: &str) -> Hosts {
    Hosts::named([host.to_owned()])
}

fn directory() -> Directory {
    let mut directory = Directory::default();
    let records = vec![
        record("nqn.x", "192.0.2.1:4420", only("nqn.a")),
        record("nqn.y", "[2001:db8::1]:4420", only("nqn.b")),
        record("nqn.z", "192.0.2.1:4420", Hosts::everyone()),
    ];
    drop(directory.replace(records).unwrap());
    directory
}

fn read(directory: &Directory, host: &str, offset: u64, length: usize) -> Vec<u8> {
    let mut part = vec![0xff; length];
    directory.read(host, REACHED, offset, &mut part).unwrap();
    part
}

/// The subsystems that a host sees.
fn names(directory: &Directory, host: &str) -> Vec<String> {
    let page = read(directory, host, 0, 8 * RECORD_LENGTH);
    let count = u64::from_le_bytes(page[8..16].try_into().unwrap()) as usize;
    assert!(page[(1 + count) * RECORD_LENGTH..].iter().all(|byte| *byte == 0));
    let records = page.chunks(RECORD_LENGTH).skip(1).take(count);
    records
        .map(|record| {
            let name = record[256..512].split(|byte| *byte == 0).next().unwrap();
            String::from_utf8(name.to_vec()).unwrap()
        })
        .collect()
}

#[test]
fn a_host_sees_what_it_may_connect_to() {
    let directory = directory();
    assert_eq!(names(&directory, "nqn.a"), ["nqn.x", "nqn.z"]);
    assert_eq!(names(&directory, "nqn.b"), ["nqn.y", "nqn.z"]);
    assert_eq!(names(&directory, "nqn.c"), ["nqn.z"]);
    assert_eq!(names(&Directory::default(), "nqn.a"), [""; 0]);
}

#[test]
fn a_record_has_the_bytes_of_the_specification() {
    let page = read(&directory(), "nqn.a", 0, 2048);
    assert_eq!((page[0], page[8], page[16]), (1, 2, 0));
    let first = &page[1024..];
    assert_eq!(first[..12], [3, 1, 2, 0b110, 3, 0, 0xff, 0xff, 32, 0, 0, 0]);
    assert_eq!(&first[32..64], format!("{:32}", "4420").as_bytes());
    assert_eq!(&first[256..262], b"nqn.x\0");
    assert_eq!(&first[512..768], format!("{:256}", "192.0.2.1").as_bytes());
    assert!(first[12..32].iter().chain(&first[64..256]).all(|byte| *byte == 0));
    assert!(first[261..512].iter().chain(&first[768..]).all(|byte| *byte == 0));
    let mut other = record("nqn.y", "[2001:db8::1]:8009", only("nqn.b"));
    (other.kind, other.security) = (RecordKind::Referral, Security::Tls);
    let bytes = other.bytes(REACHED);
    assert_eq!((&bytes[..4], bytes[768]), (&[3, 2, 1, 0b101][..], 2));
    assert_eq!(&bytes[512..768], format!("{:256}", "2001:db8::1").as_bytes());
    assert_eq!(&bytes[32..37], b"8009 ");
}

#[test]
fn the_page_is_the_same_in_parts() {
    let directory = directory();
    let whole = read(&directory, "nqn.a", 0, 3 * RECORD_LENGTH);
    for step in [4, 60, 1020, 1024, 1028, 2048] {
        let parts = (0..whole.len()).step_by(step);
        let pieces =
            parts.flat_map(|at| read(&directory, "nqn.a", at as u64, step.min(whole.len() - at)));
        assert!(pieces.eq(whole.iter().copied()), "{step}");
    }
    assert_eq!(read(&directory, "nqn.a", 3 * 1024, 8), [0; 8]);
    for offset in [3 * 1024 + 4, u64::MAX - 3] {
        let mut part = [0; 4];
        let result = directory.read("nqn.a", REACHED, offset, &mut part);
        assert_eq!(result, Err(Status::InvalidField));
    }
}

#[test]
fn those_are_told_who_see_something_else() {
    let mut directory = directory();
    let generation = |directory: &Directory| directory.generation;
    let records = directory.records.clone();
    let reported = directory.replace(records.clone()).unwrap();
    assert!(!reported("nqn.a"));
    assert_eq!(generation(&directory), 1);
    // Another address for a: nothing to the others.
    let mut moved = records.clone();
    moved[0].address = "192.0.2.9:4420".parse().unwrap();
    let reported = directory.replace(moved).unwrap();
    assert_eq!(["nqn.a", "nqn.b", "nqn.c"].map(reported), [true, false, false]);
    // c is permitted as well: nothing to a.
    let mut wider = directory.records.clone();
    wider[0].hosts = Hosts::named(["nqn.a".to_owned(), "nqn.c".to_owned()]);
    let reported = directory.replace(wider).unwrap();
    assert_eq!(["nqn.a", "nqn.b", "nqn.c"].map(reported), [false, false, true]);
    assert_eq!(generation(&directory), 3);
    let reported = directory.replace(Vec::new()).unwrap();
    assert_eq!(["nqn.a", "nqn.b", "nqn.d"].map(reported), [true; 3]);
    let many = vec![record("nqn.x", "192.0.2.1:4420", Hosts::default()); MAX_RECORDS + 1];
    assert_eq!(directory.replace(many).err(), Some(TooMany));
}

#[test]
fn an_address_that_stands_for_all_is_told_as_the_one_that_is_used() {
    let mut directory = Directory::default();
    let records = ["0.0.0.0:4420", "[::]:4421", "192.0.2.1:4420"];
    let records = records.map(|address| record("nqn.x", address, Hosts::everyone()));
    drop(directory.replace(records.to_vec()).unwrap());
    let reported = |reached: &str| {
        let mut part = vec![0; 4 * RECORD_LENGTH];
        directory.read("nqn.a", reached.parse().unwrap(), 0, &mut part).unwrap();
        let of = |record: &[u8]| {
            let text = String::from_utf8(record[512..768].to_vec()).unwrap();
            (record[1], text.trim_end_matches(['\0', ' ']).to_owned())
        };
        let records = part.chunks(RECORD_LENGTH).skip(1);
        records.map(of).collect::<Vec<_>>()
    };
    let of = |family, address: &str| (family, address.to_owned());
    let fixed = of(IPV4, "192.0.2.1");
    let by_ipv4 = of(IPV4, "192.0.2.7");
    assert_eq!(reported("192.0.2.7"), [by_ipv4.clone(), by_ipv4.clone(), fixed.clone()]);
    assert_eq!(reported("::ffff:192.0.2.7"), [by_ipv4.clone(), by_ipv4, fixed.clone()]);
    let by_ipv6 = of(IPV6, "2001:db8::7");
    assert_eq!(reported("2001:db8::7"), [by_ipv6.clone(), by_ipv6, fixed]);
}
