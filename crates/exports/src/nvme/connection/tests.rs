mod fragments;
pub(in crate::nvme) mod host;
mod hostile;

use super::*;
use crate::nvme::command::{COMPLETION_LENGTH, Completion, Status};
use crate::nvme::pdu::{Flags, Ready};
use host::{Host, IN_CAPSULE, ON_REQUEST, SIZE, entry, open};

/// What the controller sends for an answer.
fn response(host: &Host, head: u16, identifier: u16, status: Status, result: u64) -> Vec<u8> {
    let is_final = status.is_final();
    let completion = Completion { result, head, identifier, status, is_final };
    let mut bytes = Vec::new();
    crate::nvme::pdu::put_response(&completion.bytes(), &host.framing, &mut bytes);
    bytes
}

/// Has `act` see, and perhaps answer, each event of these bytes.
fn feed(
    connection: &mut Connection,
    mut bytes: &[u8],
    out: &mut Vec<u8>,
    mut act: impl FnMut(&mut Connection, &Event<'_>, &mut Vec<u8>),
) {
    loop {
        let (used, event) = connection.receive(bytes, out);
        bytes = &bytes[used..];
        match event {
            Some(event) => act(connection, &event, out),
            None => break assert!(bytes.is_empty(), "without an event, all is used"),
        }
    }
}

/// The one event of these bytes.
fn only_event(connection: &mut Connection, bytes: &[u8], out: &mut Vec<u8>) -> String {
    let mut events = Vec::new();
    feed(connection, bytes, out, |_, event, _| events.push(format!("{event:?}")));
    assert_eq!(events.len(), 1, "{events:?}");
    events.remove(0)
}

/// The tag of the command in these bytes, which is their only event.
fn command(connection: &mut Connection, bytes: &[u8], out: &mut Vec<u8>) -> (Tag, Transfer) {
    let mut found = None;
    feed(connection, bytes, out, |_, event, _| match event {
        Event::Command { tag, transfer, .. } => found = Some((*tag, *transfer)),
        event => panic!("{event:?}"),
    });
    found.unwrap()
}

#[test]
fn a_connection_is_opened_as_linux_does_it() {
    // ICReq as nvme_tcp_init_connection of Linux 6.1 fills it in, with both digests.
    let mut request = vec![0; 128];
    (request[2], request[4], request[11]) = (128, 128, 3);
    let mut connection = Connection::default();
    let mut out = Vec::new();
    let (used, event) = connection.receive(&request, &mut out);
    assert_eq!((used, event), (128, None));
    let mut expected = vec![0; 128];
    (expected[0], expected[2], expected[4], expected[11], expected[14]) = (1, 128, 128, 3, 16);
    assert_eq!(out, expected);
}

#[test]
fn connect_of_linux_makes_the_queue() {
    let mut connection = Connection::default();
    let mut host = Host::default();
    let mut out = Vec::new();
    feed(&mut connection, &host.initialize(), &mut out, |_, event, _| panic!("{event:?}"));
    out.clear();
    // CapsuleCmd as nvmf_connect_admin_queue of Linux 6.1 has it sent: CID 0, 32 entries less one,
    // a keep-alive time of 5 s, SGL in capsule.
    let mut bytes = vec![4, 0, 72, 72, 72, 4, 0, 0, 0x7f, 0x40, 0, 0, 1];
    bytes.resize(72 + 1024, 0);
    (bytes[8 + 33], bytes[8 + 39]) = (4, 0x01);
    (bytes[8 + 44], bytes[8 + 48], bytes[8 + 49]) = (31, 0x88, 0x13);
    let mut log = Vec::new();
    feed(&mut connection, &bytes, &mut out, |connection, event, out| match event {
        Event::Command { entry, transfer, .. } => {
            assert_eq!((entry.opcode, *transfer), (0x7f, Transfer::InCapsule(1024)));
            log.push("command");
        }
        Event::Data { offset, bytes, .. } => {
            assert_eq!((*offset, bytes.len()), (0, 1024));
            log.push("data");
        }
        Event::Received(tag) => {
            connection.connected(32, false).unwrap();
            assert_eq!(connection.connected(32, false), Err(NotExpected));
            connection.answer(*tag, Status::Success, 1, out).unwrap();
            log.push("received");
        }
        event => panic!("{event:?}"),
    });
    assert_eq!(log, ["command", "data", "received"]);
    let mut expected = vec![5, 0, 24, 0, 24, 0, 0, 0, 1];
    expected.resize(24, 0);
    expected[16] = 1;
    assert_eq!((out, connection.depth()), (expected, 32));
}

#[test]
fn each_answer_says_how_far_the_queue_is_consumed() {
    let host = Host::default();
    let mut connection = open(&host, false);
    for round in 2..20 {
        let mut out = Vec::new();
        let (tag, transfer) = command(&mut connection, &host.flush(round), &mut out);
        assert_eq!(transfer, Transfer::None);
        connection.answer(tag, Status::Success, 0, &mut out).unwrap();
        let head = round % u16::try_from(SIZE).unwrap();
        assert_eq!(out, response(&host, head, round, Status::Success, 0));
        assert_eq!(connection.answer(tag, Status::Success, 0, &mut out), Err(NotExpected));
    }
    let mut connection = open(&host, true);
    let mut out = Vec::new();
    let (tag, _) = command(&mut connection, &host.flush(9), &mut out);
    connection.answer(tag, Status::OutOfRange, 0, &mut out).unwrap();
    assert_eq!(out, response(&host, 0xffff, 9, Status::OutOfRange, 0));
}

#[test]
fn data_comes_only_after_it_was_requested() {
    for host in Host::all() {
        let mut connection = open(&host, false);
        let mut out = Vec::new();
        let write = host.capsule(&entry(0x01, 7, ON_REQUEST, 8192), &[]);
        let (tag, transfer) = command(&mut connection, &write, &mut out);
        assert_eq!((transfer, &out[..]), (Transfer::OnRequest(8192), &[][..]));
        for length in [0, 2, 8196] {
            assert_eq!(connection.request(tag, length, &mut out), Err(NotExpected));
        }
        assert_eq!(connection.request(tag, 4096, &mut out), Ok(()));
        // Another part, before this one has come.
        assert_eq!(connection.request(tag, 4096, &mut out), Err(NotExpected));
        let mut ready = Vec::new();
        let number = tag.tag();
        Ready { command: 7, tag: number, offset: 0, length: 4096 }.put(&host.framing, &mut ready);
        assert_eq!(out, ready);
        let parts = [
            host.data(7, number, 0, &[1; 1024], false),
            host.data(7, number, 1024, &[2; 3072], true),
        ];
        let mut received = Vec::new();
        let mut is_whole = false;
        feed(&mut connection, &parts.concat(), &mut out, |_, event, _| match event {
            Event::Data { offset, bytes, .. } => {
                assert_eq!(*offset as usize, received.len());
                received.extend_from_slice(bytes);
            }
            Event::Received(_) => is_whole = true,
            event => panic!("{event:?}"),
        });
        assert!(is_whole && received == [vec![1; 1024], vec![2; 3072]].concat());
        connection.request(tag, 4096, &mut out).unwrap();
        assert_eq!(connection.next_data(), None);
        let rest = host.data(7, number, 4096, &[3; 4096], true);
        let (lead, data) = rest.split_at(rest.len() - 4096 - host.trailer());
        feed(&mut connection, lead, &mut out, |_, event, _| panic!("{event:?}"));
        assert_eq!(connection.next_data(), Some((tag, 4096, 4096)));
        feed(&mut connection, data, &mut out, |_, _, _| {});
        assert_eq!(connection.request(tag, 4, &mut out), Err(NotExpected));
        connection.answer(tag, Status::Success, 0, &mut out).unwrap();
    }
}

#[test]
fn damaged_data_fails_its_command_alone() {
    let host = Host { data_digest: true, ..Host::default() }.agreed();
    let mut connection = open(&host, false);
    let mut out = Vec::new();
    let mut write = host.capsule(&entry(0x01, 3, IN_CAPSULE, 512), &[5; 512]);
    *write.last_mut().unwrap() ^= 1;
    let mut last = String::new();
    feed(&mut connection, &write, &mut out, |_, event, _| last = format!("{event:?}"));
    assert_eq!(last, "Damaged(Tag(0))");
    assert_eq!(out, response(&host, 2, 3, Status::TransientTransport, 0));
    assert_eq!(Status::TransientTransport.number(), 0x22);
    // Of data on request, the rest that was requested is awaited.
    out.clear();
    let write = host.capsule(&entry(0x01, 4, ON_REQUEST, 1024), &[]);
    let (tag, _) = command(&mut connection, &write, &mut out);
    connection.request(tag, 1024, &mut out).unwrap();
    out.clear();
    let mut first = host.data(4, tag.tag(), 0, &[1; 512], false);
    first[100] ^= 1;
    feed(&mut connection, &first, &mut out, |_, event, _| {
        assert!(matches!(event, Event::Data { .. }));
    });
    assert_eq!((out.len(), connection.next_data()), (0, None));
    let event =
        only_event(&mut connection, &host.data(4, tag.tag(), 512, &[1; 512], true), &mut out);
    assert_eq!(event, "Damaged(Tag(0))");
    assert_eq!(out, response(&host, 3, 4, Status::TransientTransport, 0));
    assert_eq!(connection.answer(tag, Status::Success, 0, &mut out), Err(NotExpected));
    let _ = command(&mut connection, &host.flush(5), &mut out);
}

#[test]
fn an_answer_waits_until_the_host_has_sent_what_it_may() {
    let host = Host::default();
    let mut connection = open(&host, false);
    let mut out = Vec::new();
    let write = host.capsule(&entry(0x01, 3, IN_CAPSULE, 512), &[5; 512]);
    let (tag, _) = command(&mut connection, &write[..72], &mut out);
    connection.answer(tag, Status::OutOfRange, 0, &mut out).unwrap();
    assert_eq!(
        (connection.answer(tag, Status::Success, 0, &mut out), out.len()),
        (Err(NotExpected), 0)
    );
    feed(&mut connection, &write[72..583], &mut out, |_, event, _| panic!("{event:?}"));
    assert_eq!(out.len(), 0);
    feed(&mut connection, &write[583..], &mut out, |_, event, _| panic!("{event:?}"));
    assert_eq!(out, response(&host, 2, 3, Status::OutOfRange, 0));

    let write = host.capsule(&entry(0x01, 4, ON_REQUEST, 512), &[]);
    let (tag, _) = command(&mut connection, &write, &mut out);
    connection.request(tag, 512, &mut out).unwrap();
    out.clear();
    connection.answer(tag, Status::AbortRequested, 0, &mut out).unwrap();
    assert_eq!(out.len(), 0);
    let data = host.data(4, tag.tag(), 0, &[1; 512], true);
    feed(&mut connection, &data, &mut out, |_, event, _| panic!("{event:?}"));
    assert_eq!(out, response(&host, 3, 4, Status::AbortRequested, 0));
}

#[test]
fn success_is_said_with_the_data_only_where_nothing_is_lost_by_it() {
    for (host, without_flow_control, result) in Host::all().flat_map(|host| {
        [(false, 0), (true, 0), (true, 5)].map(|(without, result)| (host, without, result))
    }) {
        let mut connection = open(&host, without_flow_control);
        let mut out = Vec::new();
        let read = host.capsule(&entry(0x02, 3, ON_REQUEST, 1024), &[]);
        let (tag, transfer) = command(&mut connection, &read, &mut out);
        assert_eq!(transfer, Transfer::ToHost(1024));
        let (one, two) = ([1; 512], [2; 512]);
        let (mut before, mut after) = (Vec::new(), Vec::new());
        let mut give = |pieces: &[&[u8]], before: &mut Vec<u8>| {
            connection.answer_with(tag, result, pieces, before, &mut after)
        };
        assert_eq!(give(&[&one], &mut before), Err(NotExpected));
        assert_eq!(give(&[&one, &two], &mut before), Ok(()));
        assert_eq!(give(&[&one, &two], &mut before), Err(NotExpected));
        let success = without_flow_control && result == 0;
        let mut expected = Vec::new();
        let data = Data { command: 3, tag: 0, offset: 0, length: 1024 };
        data.put(Kind::ControllerData, Flags { last: true, success }, &host.framing, &mut expected);
        assert_eq!(before, expected);
        expected =
            if host.data_digest { DataDigest::of(&[one, two].concat()).to_vec() } else { vec![] };
        if !success {
            let head = if without_flow_control { 0xffff } else { 2 };
            expected.extend(response(&host, head, 3, Status::Success, result));
        }
        assert_eq!(after, expected);
        assert_eq!(connection.find(3), None);
    }
}

#[test]
fn data_for_the_host_is_aligned_as_it_asks() {
    let mut host = Host { header_digest: true, ..Host::default() };
    host.framing.alignment = 15;
    let mut connection = open(&host.agreed(), false);
    let mut out = Vec::new();
    let read = host.agreed().capsule(&entry(0x02, 3, ON_REQUEST, 512), &[]);
    let (tag, _) = command(&mut connection, &read, &mut out);
    let (mut before, mut after) = (Vec::new(), Vec::new());
    connection.answer_with(tag, 0, &[&[1; 512]], &mut before, &mut after).unwrap();
    assert_eq!((before.len(), before[3], after.len()), (64, 64, 24 + 4));
}

#[test]
fn a_wrong_data_pointer_is_answered_and_its_data_passed_over() {
    let host = Host::default();
    let mut connection = open(&host, false);
    for (opcode, kind, length, data, status) in [
        (0x01, 0x00, 512, 0, Status::DescriptorType),
        (0x01, IN_CAPSULE, 512, 256, Status::DataLength),
        (0x01, IN_CAPSULE, 512, 0, Status::DataLength),
        (0x01, ON_REQUEST, MAX_TRANSFER + 4, 0, Status::InvalidField),
        (0x01, ON_REQUEST, 510, 0, Status::DataLength),
        (0x01, ON_REQUEST, 512, 512, Status::InvalidField),
        (0x02, IN_CAPSULE, 512, 512, Status::InvalidField),
        (0x02, ON_REQUEST, 510, 0, Status::DataLength),
        (0x00, ON_REQUEST, 0, 512, Status::InvalidField),
        (0x83, ON_REQUEST, 512, 0, Status::InvalidOpcode),
    ] {
        let mut out = Vec::new();
        let capsule = host.capsule(&entry(opcode, 8, kind, length), &vec![1; data]);
        let event = only_event(&mut connection, &capsule, &mut out);
        assert_eq!(event, "Refused(None)");
        let mut completion = [0; COMPLETION_LENGTH];
        completion.copy_from_slice(&out[8..]);
        let completion = Completion::read(&completion).unwrap();
        assert_eq!((completion.identifier, completion.status), (8, status), "{opcode} {kind}");
    }
    // A pointer without data, and one that no command looks at.
    for (opcode, kind) in [(0x01, ON_REQUEST), (0x02, IN_CAPSULE), (0x00, 0x77)] {
        let mut out = Vec::new();
        let (tag, transfer) =
            command(&mut connection, &host.capsule(&entry(opcode, 8, kind, 0), &[]), &mut out);
        assert_eq!(transfer, Transfer::None);
        connection.answer(tag, Status::Success, 0, &mut out).unwrap();
    }
}

/// The commands that are answered in these bytes, in turn.
fn answered(out: &[u8]) -> Vec<u16> {
    let of = |pdu: &[u8]| u16::from_le_bytes([pdu[8 + 12], pdu[8 + 13]]);
    out.chunks(24).map(of).collect()
}

#[test]
fn a_second_half_is_answered_after_the_first() {
    let host = Host::default();
    let half = |part: u8, identifier, kind| {
        let mut entry = entry(0x01, identifier, kind, 512);
        entry[1] |= part;
        entry
    };
    let mut connection = open(&host, false);
    // A tag is used again.
    for round in 0..20 {
        let mut out = Vec::new();
        let first = host.capsule(&half(1, 3, ON_REQUEST), &[]);
        let (first, _) = command(&mut connection, &first, &mut out);
        // One that is refused by its pointer, one that is answered, one that does not follow.
        let refused = host.capsule(&half(2, 4, 0x20), &[]);
        let sound = host.capsule(&half(2, 4, ON_REQUEST), &[]);
        if round % 2 == 0 {
            let event = only_event(&mut connection, &refused, &mut out);
            assert_eq!(event, "Refused(Second)");
        } else {
            let (second, _) = command(&mut connection, &sound, &mut out);
            connection.answer(second, Status::Success, 0, &mut out).unwrap();
            let again = connection.answer(second, Status::Success, 0, &mut out);
            assert_eq!(again, Err(NotExpected));
        }
        let (other, _) = command(&mut connection, &sound, &mut out);
        assert_eq!(answered(&out), []);
        connection.answer(other, Status::Success, 0, &mut out).unwrap();
        connection.answer(first, Status::Success, 0, &mut out).unwrap();
        assert_eq!(answered(&out), [4, 3, 4]);
    }
    // Nothing waits for a first half that has been answered.
    let mut out = Vec::new();
    let first = host.capsule(&half(1, 3, 0x20), &[]);
    assert_eq!(only_event(&mut connection, &first, &mut out), "Refused(First)");
    let second = host.capsule(&half(2, 4, ON_REQUEST), &[]);
    let (second, _) = command(&mut connection, &second, &mut out);
    connection.answer(second, Status::FusedFailed, 0, &mut out).unwrap();
    assert_eq!(answered(&out), [3, 4]);
}

#[test]
fn memory_does_not_grow() {
    let host = Host::default();
    let mut connection = open(&host, false);
    let before = format!("{:?}", connection.tags.capacities());
    for round in 0..1000 {
        let mut out = Vec::new();
        let commands: Vec<u8> = (0..SIZE as u16).flat_map(|id| host.flush(id)).collect();
        let mut tags = Vec::new();
        feed(&mut connection, &commands, &mut out, |_, event, _| match event {
            Event::Command { tag, .. } => tags.push(*tag),
            event => panic!("{event:?}"),
        });
        assert_eq!(tags.len(), SIZE as usize);
        tags.rotate_left(round % SIZE as usize);
        for tag in tags {
            connection.answer(tag, Status::Success, 0, &mut out).unwrap();
        }
    }
    assert_eq!(format!("{:?}", connection.tags.capacities()), before);
}
