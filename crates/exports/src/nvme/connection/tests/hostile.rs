//! What no host may send: each ends the connection, with the reason.

use super::super::{
    Connection, End, Event, FatalStatus, MAX_IN_CAPSULE, Malformed, NotExpected, Status, Tag,
};
use super::host::{Host, IN_CAPSULE, ON_REQUEST, SIZE, entry, open};
use super::{command, feed, only_event};
use crate::nvme::pdu::{Kind, Terminate};

/// Asserts that these bytes end the connection, and that the host is told why.
fn ends(connection: &mut Connection, bytes: &[u8], malformed: Malformed, quoted: usize) {
    let mut out = Vec::new();
    let event = only_event(connection, bytes, &mut out);
    assert_eq!(event, format!("{:?}", Event::End(End::Malformed(malformed))));
    let mut expected = Vec::new();
    Terminate::from(malformed).put(Kind::ControllerTerminate, &bytes[..quoted], &mut expected);
    assert_eq!(out, expected);
    // Nothing follows, whatever comes.
    out.clear();
    assert_eq!(connection.receive(&Host::default().flush(3), &mut out), (72, None));
    assert_eq!(connection.request(Tag::of(0), 4, &mut out), Err(NotExpected));
    assert_eq!(connection.answer(Tag::of(0), Status::Success, 0, &mut out), Err(NotExpected));
    assert_eq!(connection.connected(2, false), Err(NotExpected));
    assert_eq!(out.len(), 0);
}

const SEQUENCE: Malformed = Malformed::status(FatalStatus::Sequence);
const OUT_OF_RANGE: Malformed = Malformed::status(FatalStatus::OutOfRange);

#[test]
fn the_first_pdu_opens_the_connection_and_no_other_one_does() {
    let mut host = Host::default();
    for bytes in [host.connect(), host.data(1, 0, 0, &[0; 4], true)] {
        ends(&mut Connection::default(), &bytes, SEQUENCE, 8);
    }
    let again = host.initialize();
    ends(&mut open(&host, false), &again, SEQUENCE, 8);
    let mut wrong = host.initialize();
    wrong[8] = 1;
    let malformed = Malformed { status: FatalStatus::UnsupportedParameter, information: 8 };
    ends(&mut Connection::default(), &wrong, malformed, 128);
    (wrong[8], wrong[10]) = (0, 32);
    ends(&mut Connection::default(), &wrong, Malformed::field(10), 128);
}

#[test]
fn one_command_is_under_way_until_the_queue_is_connected() {
    let mut host = Host::default();
    let mut connection = Connection::default();
    let mut out = Vec::new();
    feed(&mut connection, &host.initialize(), &mut out, |_, _, _| {});
    feed(&mut connection, &host.connect(), &mut out, |_, _, _| {});
    ends(&mut connection, &host.flush(2), SEQUENCE, 72);
}

#[test]
fn more_commands_than_the_queue_has_entries_are_too_many() {
    let host = Host::default();
    let mut connection = open(&host, true);
    let mut out = Vec::new();
    for identifier in 0..SIZE as u16 {
        let (tag, _) = command(&mut connection, &host.flush(identifier), &mut out);
        assert_eq!(tag.index(), usize::from(identifier));
    }
    ends(&mut connection, &host.flush(100), SEQUENCE, 72);
}

#[test]
fn a_capsule_has_a_limit() {
    let host = Host::default();
    let long = vec![0; MAX_IN_CAPSULE as usize + 1];
    let capsule = host.capsule(&entry(1, 2, IN_CAPSULE, long.len() as u32), &long);
    ends(&mut open(&host, false), &capsule, Malformed::field(4), 8);
}

#[test]
fn a_damaged_header_ends_the_connection_and_its_digest_is_told() {
    let host = Host { header_digest: true, ..Host::default() }.agreed();
    let mut capsule = host.flush(2);
    let digest = u32::from_le_bytes(*capsule.last_chunk().unwrap());
    capsule[20] ^= 1;
    let malformed = Malformed { status: FatalStatus::HeaderDigest, information: digest };
    ends(&mut open(&host, false), &capsule, malformed, 72);
}

#[test]
fn data_is_what_was_requested() {
    let host = Host::default();
    let data = |command, tag, offset, length, last| {
        host.data(command, tag, offset, &vec![0; length], last)
    };
    for (bytes, malformed) in [
        // Tags that are none: of an idle slot, outside of the queue.
        (data(4, 1, 0, 512, true), Malformed::field(10)),
        (data(4, SIZE as u16, 0, 512, true), Malformed::field(10)),
        (data(4, 0xffff, 0, 512, true), Malformed::field(10)),
        (data(5, 0, 1024, 512, true), Malformed::field(8)),
        (data(4, 0, 1026, 512, false), Malformed::field(12)),
        (data(4, 0, 1024, 510, false), Malformed::field(16)),
        // Before and behind what was requested, around the end of numbers, with a gap.
        (data(4, 0, 0, 512, false), OUT_OF_RANGE),
        (data(4, 0, 1024, 1028, true), OUT_OF_RANGE),
        (data(4, 0, u32::MAX - 3, 512, true), OUT_OF_RANGE),
        (data(4, 0, 1028, 512, false), SEQUENCE),
        // The last piece that isn't said to be, and another one that is.
        (data(4, 0, 1024, 1024, false), SEQUENCE),
        (data(4, 0, 1024, 512, true), SEQUENCE),
    ] {
        let mut connection = open(&host, false);
        let mut out = Vec::new();
        let write = host.capsule(&entry(1, 4, ON_REQUEST, 4096), &[]);
        let (tag, _) = command(&mut connection, &write, &mut out);
        connection.request(tag, 1024, &mut out).unwrap();
        feed(&mut connection, &data(4, 0, 0, 1024, true), &mut out, |_, _, _| {});
        connection.request(tag, 1024, &mut out).unwrap();
        ends(&mut connection, &bytes, malformed, 24);
    }
}

#[test]
fn the_same_data_twice_is_refused() {
    let host = Host::default();
    let mut connection = open(&host, false);
    let mut out = Vec::new();
    let write = host.capsule(&entry(1, 4, ON_REQUEST, 4096), &[]);
    let (tag, _) = command(&mut connection, &write, &mut out);
    connection.request(tag, 4096, &mut out).unwrap();
    let data = host.data(4, tag.tag(), 0, &[0; 512], false);
    feed(&mut connection, &data, &mut out, |_, _, _| {});
    ends(&mut connection, &data, SEQUENCE, 24);
}

#[test]
fn data_that_nobody_requested_is_refused() {
    let host = Host::default();
    let mut connection = open(&host, false);
    let mut out = Vec::new();
    let write = host.capsule(&entry(1, 4, ON_REQUEST, 4096), &[]);
    let (tag, _) = command(&mut connection, &write, &mut out);
    ends(&mut connection, &host.data(4, tag.tag(), 0, &[0; 512], false), Malformed::field(10), 24);
}

#[test]
fn a_host_that_ends_is_not_answered() {
    let host = Host::default();
    let terminate = Terminate { status: 3, information: 77 };
    let mut bytes = Vec::new();
    terminate.put(Kind::HostTerminate, &[1; 24], &mut bytes);
    for mut connection in [open(&host, false), Connection::default()] {
        let mut out = Vec::new();
        let event = only_event(&mut connection, &bytes, &mut out);
        assert_eq!(event, format!("{:?}", Event::End(End::Terminated(terminate))));
        assert_eq!(out.len(), 0);
    }
    for length in [23u8, 153] {
        bytes[4] = length;
        let mut out = Vec::new();
        let event = only_event(&mut open(&host, false), &bytes, &mut out);
        assert_eq!((event.as_str(), out.len()), ("End(Unexplained)", 0));
    }
}
