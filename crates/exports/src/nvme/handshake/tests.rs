use super::*;
use crate::nvme::command::{COMPLETION_LENGTH, Completion};
use crate::nvme::connection::tests::host::{Host, IN_CAPSULE, ON_REQUEST, entry};
use crate::nvme::pdu::{FatalStatus, Malformed};

const NAME: QueueName = QueueName { controller: 0x102, queue: 0 };

/// Connect's data: the host's name is 223 bytes long.
fn data() -> Vec<u8> {
    let mut bytes = vec![7; 16];
    bytes.extend([0xff, 0xff]);
    bytes.resize(256, 0);
    bytes.extend(b"nqn.disk");
    bytes.resize(512, 0);
    bytes.extend([b'h'; 223]);
    bytes.resize(1024, 0);
    bytes
}

/// Connect as Linux has it: the queue has 32 entries.
fn connect(kind: u8) -> [u8; 64] {
    let mut bytes = entry(0x7f, 5, kind, 1024);
    (bytes[44], bytes[46]) = (31, 1 << 2);
    bytes
}

/// Gives all bytes, and then as many as are left each time.
fn feed(handshake: &mut Handshake, bytes: &[u8], out: &mut Vec<u8>) -> Progress {
    let (used, progress) = handshake.receive(bytes, out);
    assert!(progress != Progress::Wait || used == bytes.len());
    progress
}

/// The answer that was appended last.
fn completion(out: &[u8], host: &Host) -> Completion {
    let trailer = if host.header_digest { 4 } else { 0 };
    let end = out.len() - trailer;
    let bytes: [u8; COMPLETION_LENGTH] = out[end - COMPLETION_LENGTH..end].try_into().unwrap();
    Completion::read(&bytes).unwrap()
}

#[test]
fn a_host_connects_however_its_bytes_are_cut() {
    for host in Host::all() {
        let mut host = host;
        let bytes = [host.initialize(), host.capsule(&connect(IN_CAPSULE), &data())].concat();
        for cut in (0..bytes.len()).step_by(3) {
            let mut handshake = Handshake::default();
            let mut out = Vec::new();
            assert_eq!(feed(&mut handshake, &bytes[..cut], &mut out), Progress::Wait);
            let progress = feed(&mut handshake, &bytes[cut..], &mut out);
            let Progress::Connect(connect) = progress else { panic!("{progress:?}") };
            assert_eq!((connect.queue, connect.size, connect.without_flow_control), (0, 32, true));
            let named = handshake.data().unwrap();
            assert_eq!((named.host, named.controller), ([7; 16], 0xffff));
            assert_eq!((named.subsystem, named.host_name), ("nqn.disk", &*"h".repeat(223)));
            let connection = handshake.accept(NAME, &mut out).unwrap();
            assert_eq!(connection.depth(), 32);
            let expected = Completion {
                result: 0x102,
                head: 0xffff,
                identifier: 5,
                status: Status::Success,
                is_final: false,
            };
            assert_eq!(completion(&out, &host), expected);
        }
    }
}

#[test]
fn data_outside_of_the_capsule_is_requested() {
    let mut host = Host::default();
    let bytes = [host.initialize(), host.capsule(&connect(ON_REQUEST), &[])].concat();
    let mut handshake = Handshake::default();
    let mut out = Vec::new();
    assert_eq!(feed(&mut handshake, &bytes, &mut out), Progress::Wait);
    // The request for it is the last PDU.
    assert_eq!(out[out.len() - 24], 9);
    let progress = feed(&mut handshake, &host.data(5, 0, 0, &data(), true), &mut out);
    assert!(matches!(progress, Progress::Connect(_)));
    assert_eq!(handshake.data().unwrap().subsystem, "nqn.disk");
}

#[test]
fn who_is_refused_may_try_again() {
    let mut host = Host::default();
    let mut handshake = Handshake::default();
    let mut out = Vec::new();
    assert_eq!(feed(&mut handshake, &host.initialize(), &mut out), Progress::Wait);
    let mut refusal = Status::ConnectHost.into();
    for _ in 0..2 {
        let capsule = host.capsule(&connect(IN_CAPSULE), &data());
        assert!(matches!(feed(&mut handshake, &capsule, &mut out), Progress::Connect(_)));
        handshake.refuse(refusal, &mut out);
        let completion = completion(&out, &host);
        assert_eq!((completion.status, completion.result), (refusal.status, refusal.result));
        refusal = Refusal::in_data(256);
    }
    let length = out.len();
    handshake.refuse(refusal, &mut out);
    assert_eq!(out.len(), length, "nothing is under way");
    assert_eq!(handshake.accept(NAME, &mut out).err(), Some(NotExpected));
}

#[test]
fn nothing_comes_before_connect() {
    let mut host = Host::default();
    let mut handshake = Handshake::default();
    let mut out = Vec::new();
    feed(&mut handshake, &host.initialize(), &mut out);
    let fabrics = |kind: u8, bytes: &[(usize, u8)], length| {
        let mut entry = entry(0x7f, 5, IN_CAPSULE, length);
        entry[4] = kind;
        bytes.iter().for_each(|(at, byte)| entry[*at] = *byte);
        entry
    };
    for (entry, length, expected) in [
        (entry(0x06, 5, ON_REQUEST, 4096), 0, Status::Sequence.into()),
        (entry(0x01, 5, IN_CAPSULE, 512), 512, Status::Sequence.into()),
        (entry(0xff, 5, ON_REQUEST, 0), 0, Status::InvalidOpcode.into()),
        // Property Get, Disconnect; Connect of another format, without entries, with less data.
        (fabrics(4, &[], 0), 0, Status::Sequence.into()),
        (fabrics(8, &[], 0), 0, Status::Sequence.into()),
        (fabrics(1, &[(40, 1), (44, 31)], 1024), 1024, Status::IncompatibleFormat.into()),
        (fabrics(1, &[], 1024), 1024, Refusal::in_entry(44)),
        (fabrics(1, &[(44, 31)], 512), 512, Status::DataLength.into()),
        (fabrics(1, &[(44, 31)], 0), 0, Status::DataLength.into()),
    ] {
        let capsule = host.capsule(&entry, &vec![1; length]);
        assert_eq!(feed(&mut handshake, &capsule, &mut out), Progress::Wait);
        let completion = completion(&out, &host);
        assert_eq!(completion.status, expected.status, "{entry:x?}");
        assert_eq!(completion.result, expected.result, "{entry:x?}");
    }
    let capsule = host.capsule(&connect(IN_CAPSULE), &data());
    assert!(matches!(feed(&mut handshake, &capsule, &mut out), Progress::Connect(_)));
}

#[test]
fn damaged_data_is_refused_and_a_damaged_header_ends_it() {
    let mut host = Host { header_digest: true, data_digest: true, ..Host::default() };
    let mut handshake = Handshake::default();
    let mut out = Vec::new();
    feed(&mut handshake, &host.initialize(), &mut out);
    let sound = host.capsule(&connect(IN_CAPSULE), &data());
    let mut damaged = sound.clone();
    *damaged.last_mut().unwrap() ^= 1;
    assert_eq!(feed(&mut handshake, &damaged, &mut out), Progress::Wait);
    assert_eq!(completion(&out, &host).status, Status::TransientTransport);
    assert!(matches!(feed(&mut handshake, &sound, &mut out), Progress::Connect(_)));
    handshake.refuse(Status::ControllerBusy.into(), &mut out);
    let mut damaged = sound;
    damaged[9] ^= 1;
    let progress = feed(&mut handshake, &damaged, &mut out);
    let Progress::End(End::Malformed(Malformed { status, .. })) = progress else { panic!() };
    assert_eq!(status, FatalStatus::HeaderDigest);
}
