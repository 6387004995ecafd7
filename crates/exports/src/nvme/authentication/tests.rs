//! The conversation, with the messages of a host; keys and values are those of `vectors.txt`.

mod refusals;
mod secrets;
pub(in crate::nvme) mod vectors;

use super::*;
use vectors::{HOST, SUBSYSTEM, Vector};

/// AUTH_Negotiate of Linux, with these hashes and groups.
pub(in crate::nvme) fn negotiate(transaction: u16, hashes: &[u8], groups: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 8 + 64];
    bytes[4..6].copy_from_slice(&transaction.to_le_bytes());
    (bytes[7], bytes[8]) = (1, 1);
    (bytes[10], bytes[11]) = (hashes.len() as u8, groups.len() as u8);
    bytes[12..12 + hashes.len()].copy_from_slice(hashes);
    bytes[42..42 + groups.len()].copy_from_slice(groups);
    bytes
}

/// DH-HMAC-CHAP_Reply; with a challenge of its own, whose number is not 0, both ways.
pub(in crate::nvme) fn reply(
    transaction: u16,
    response: &[u8],
    challenge: Option<(&[u8], u32)>,
    value: &[u8],
) -> Vec<u8> {
    let mut bytes = vec![0; 16];
    (bytes[0], bytes[1]) = (1, 2);
    bytes[4..6].copy_from_slice(&transaction.to_le_bytes());
    bytes[6] = response.len() as u8;
    bytes[8] = challenge.is_some().into();
    bytes[10..12].copy_from_slice(&(value.len() as u16).to_le_bytes());
    let none = vec![0; response.len()];
    let (challenge, sequence) = challenge.unwrap_or((&none, 0));
    bytes[12..16].copy_from_slice(&sequence.to_le_bytes());
    [&bytes, response, challenge, value].concat()
}

/// DH-HMAC-CHAP_Success2.
pub(in crate::nvme) fn success2(transaction: u16) -> Vec<u8> {
    let mut bytes = vec![0; 16];
    (bytes[0], bytes[1]) = (1, 4);
    bytes[4..6].copy_from_slice(&transaction.to_le_bytes());
    bytes
}

/// AUTH_Failure2, with this explanation.
pub(in crate::nvme) fn failure2(transaction: u16, explanation: u8) -> Vec<u8> {
    let [low, high] = transaction.to_le_bytes();
    vec![0, 0xf0, 0, 0, low, high, 1, explanation]
}

/// The controller of a vector.
pub(in crate::nvme) fn controller(vector: &Vector) -> Authentication {
    let mut challenge = [0; Hash::MAX_LENGTH];
    challenge[..vector.c1.len()].copy_from_slice(&vector.c1);
    let exponent = Zeroizing::new(vector.exponent);
    let keys = Keys {
        host: Secret::read(&vector.host_secret).unwrap(),
        controller: Some(Secret::read(&vector.controller_secret).unwrap()),
    };
    let (host, subsystem) = (HOST.to_owned(), SUBSYSTEM.to_owned());
    let parties = Parties { host, subsystem, keys: Arc::new(keys) };
    Authentication::new(parties, Fresh { challenge, sequence: vector.s1, exponent })
}

/// Takes it, and computes what is to be computed.
fn take(machine: &mut Authentication, message: &[u8]) {
    match machine.send(message) {
        Sent::Taken => {}
        Sent::Compute(computation) => machine.computed(computation.run()),
        other => panic!("{other:?}"),
    }
}

/// Until the host's reply is awaited.
fn challenged(vector: &Vector) -> Authentication {
    let mut machine = controller(vector);
    let offer = negotiate(vector.transaction, &[vector.hash], &[vector.group]);
    take(&mut machine, &offer);
    let received = machine.receive(4096).unwrap();
    assert_eq!(received.then, Then::GoOn);
    let mut expected = vec![1, 1, 0, 0];
    expected.extend(vector.transaction.to_le_bytes());
    expected.extend([vector.c1.len() as u8, 0, vector.hash, vector.group]);
    expected.extend((vector.ours.len() as u16).to_le_bytes());
    expected.extend(vector.s1.to_le_bytes());
    expected.extend(&vector.c1);
    expected.extend(&vector.ours);
    assert_eq!(received.message, expected, "{vector:?}");
    machine
}

/// What the host of a vector replies.
fn reply_of(vector: &Vector, both_ways: bool) -> Vec<u8> {
    let challenge = both_ways.then_some((&vector.c2[..], vector.s2));
    reply(vector.transaction, &vector.host_response, challenge, &vector.theirs)
}

fn success1(vector: &Vector, response: &[u8]) -> Vec<u8> {
    let mut expected = vec![1, 3, 0, 0];
    expected.extend(vector.transaction.to_le_bytes());
    expected.extend([vector.c1.len() as u8, 0, (!response.is_empty()).into()]);
    expected.extend([0; 7]);
    expected.extend(response);
    expected
}

#[test]
fn each_hash_and_group_gives_what_was_computed_elsewhere() {
    let vectors = Vector::all();
    assert_eq!(vectors.len(), 18);
    for vector in &vectors {
        let mut machine = challenged(vector);
        take(&mut machine, &reply_of(vector, false));
        let received = machine.receive(4096).unwrap();
        assert_eq!(received.then, Then::Proved);
        assert_eq!(received.message, success1(vector, &[]), "{vector:?}");

        let mut machine = challenged(vector);
        take(&mut machine, &reply_of(vector, true));
        let received = machine.receive(4096).unwrap();
        assert_eq!(received.then, Then::GoOn);
        assert_eq!(received.message, success1(vector, &vector.controller_response), "{vector:?}");
        assert!(matches!(machine.send(&success2(vector.transaction)), Sent::Proved));
    }
}

#[test]
fn both_sides_compute_the_same() {
    for vector in Vector::all().iter().filter(|vector| vector.group != 0) {
        let group = Group::from_number(vector.group).unwrap();
        let exponent = Zeroizing::new(vector.exponent);
        let session = Computation::of_value(group, &exponent, &vector.theirs).unwrap().run();
        assert_eq!(*session, vector.session);
        assert_eq!(session.len(), group.length());
    }
}

#[test]
fn of_what_a_host_offers_the_best_is_taken() {
    let vector = Vector::of(1, 0);
    for (hashes, groups, expected) in [
        (&[1, 2, 3][..], &[0, 1, 2, 3, 4, 5][..], (3, 2)),
        (&[2, 1], &[5, 4], (2, 4)),
        (&[9, 1, 0], &[1, 0], (1, 1)),
        (&[1], &[77, 0], (1, 0)),
        (&[3; 30], &[5; 30], (3, 5)),
    ] {
        let mut machine = controller(&vector);
        take(&mut machine, &negotiate(1, hashes, groups));
        let message = machine.receive(4096).unwrap().message;
        assert_eq!((message[0], message[1]), (1, 1));
        assert_eq!((message[8], message[9]), expected, "{hashes:?} {groups:?}");
    }
    // Other protocols before it do not matter.
    let own = &negotiate(1, &[1], &[0])[8..];
    let mut message = [&negotiate(1, &[], &[])[..], own].concat();
    (message[7], message[8]) = (2, 9);
    let mut machine = controller(&vector);
    take(&mut machine, &message);
    assert_eq!(machine.receive(4096).unwrap().then, Then::GoOn);
}

#[test]
fn a_challenge_with_number_0_is_not_answered() {
    let vector = Vector::of(1, 0);
    let mut machine = challenged(&vector);
    let message = reply(vector.transaction, &vector.host_response, Some((&vector.c2, 0)), &[]);
    take(&mut machine, &message);
    let received = machine.receive(4096).unwrap();
    assert_eq!((received.then, received.message[8]), (Then::Proved, 0));
}

#[test]
fn a_message_waits_for_enough_room() {
    let vector = Vector::of(2, 1);
    let mut machine = challenged(&vector);
    take(&mut machine, &reply_of(&vector, true));
    for room in [1, 15, 16 + 47] {
        assert_eq!(machine.receive(room), Err(Status::InvalidField));
    }
    assert_eq!(machine.receive(16 + 48).unwrap().then, Then::GoOn);
}

#[test]
fn nothing_secret_is_shown() {
    let vector = Vector::of(1, 1);
    let machine = controller(&vector);
    let exponent = Zeroizing::new(vector.exponent);
    let shown = format!(
        "{machine:?} {:?} {:?} {:?}",
        machine.parties(),
        machine.fresh,
        Computation::of_generator(Group::Ffdhe2048, &exponent)
    );
    let key = vector.host_secret.split(':').nth(2).unwrap();
    assert!(!shown.contains(key), "{shown}");
    assert!(!shown.contains('['), "no bytes: {shown}");
}
