//! What a host is refused for, and that nothing leads past a refusal.

use proptest::prelude::*;

use super::*;

/// The host receives the refusal, with this fault's explanation; then it is over.
#[track_caller]
fn refused(machine: &mut Authentication, transaction: u16, fault: Fault, explanation: u8) {
    assert_eq!(machine.fault(), Some(fault));
    let [low, high] = transaction.to_le_bytes();
    let message = vec![0, 0xf1, 0, 0, low, high, 1, explanation];
    let received = machine.receive(4096).unwrap();
    assert_eq!(received, Received { message, then: Then::Failed(fault) });
    let received = machine.receive(4096).unwrap();
    assert!(matches!(received.then, Then::Failed(_)));
}

#[test]
fn what_a_host_offers_may_be_of_no_use() {
    let vector = Vector::of(1, 0);
    let offer = negotiate(9, &[1], &[0]);
    let with = |at: usize, byte: u8| {
        let mut offer = offer.clone();
        offer[at] = byte;
        offer
    };
    for (message, fault, explanation) in [
        (with(8, 2), Fault::Protocol, 2),
        (with(7, 0), Fault::Protocol, 2),
        (with(6, 1), Fault::SecureChannel, 3),
        (with(12, 4), Fault::Hash, 4),
        (with(10, 0), Fault::Hash, 4),
        (with(42, 6), Fault::Group, 5),
        (with(11, 0), Fault::Group, 5),
        (with(7, 2), Fault::Payload, 6),
        (with(7, 255), Fault::Payload, 6),
        (with(10, 31), Fault::Payload, 6),
        (with(11, 31), Fault::Payload, 6),
        (offer[..71].to_vec(), Fault::Payload, 6),
        (offer[..8].to_vec(), Fault::Payload, 6),
        (with(0, 2), Fault::Message, 7),
        (with(1, 1), Fault::Message, 7),
        (with(1, 0xf1), Fault::Message, 7),
        (success2(9), Fault::Message, 7),
        (failure2(9, 1), Fault::Message, 7),
        (reply(9, &[0; 32], None, &[]), Fault::Message, 7),
    ] {
        let mut machine = controller(&vector);
        take(&mut machine, &message);
        refused(&mut machine, 9, fault, explanation);
    }
    let mut machine = controller(&vector);
    take(&mut machine, &offer[..7]);
    refused(&mut machine, 9, Fault::Payload, 6);
}

#[test]
fn who_has_another_key_is_refused() {
    for (hash, group) in [(1, 0), (2, 1), (3, 0)] {
        let vector = Vector::of(hash, group);
        for at in [0, vector.host_response.len() - 1] {
            let mut wrong = vector.clone();
            wrong.host_response[at] ^= 1;
            let mut machine = challenged(&vector);
            take(&mut machine, &reply_of(&wrong, true));
            refused(&mut machine, vector.transaction, Fault::Key, 1);
        }
    }
}

#[test]
fn a_response_is_for_one_conversation() {
    let vector = Vector::of(1, 0);
    let received = reply_of(&vector, false);
    let mut later = vector.clone();
    later.s1 += 1;
    let mut other = vector.clone();
    other.c1[31] ^= 1;
    for vector in [&later, &other] {
        let mut machine = challenged(vector);
        take(&mut machine, &received);
        refused(&mut machine, vector.transaction, Fault::Key, 1);
    }
    // Another transaction with the same challenge; and the response that belongs to it.
    let mut another = vector.clone();
    another.transaction ^= 1;
    let mut machine = challenged(&another);
    take(&mut machine, &reply_of(&another, false));
    refused(&mut machine, another.transaction, Fault::Key, 1);
    let mut machine = challenged(&vector);
    take(&mut machine, &reply_of(&another, false));
    refused(&mut machine, vector.transaction, Fault::Payload, 6);
    // What this side responds is no response of a host.
    let mut reflected = vector.clone();
    reflected.host_response.clone_from(&vector.controller_response);
    let mut machine = challenged(&vector);
    take(&mut machine, &reply_of(&reflected, false));
    refused(&mut machine, vector.transaction, Fault::Key, 1);
}

#[test]
fn a_reply_has_the_lengths_of_its_challenge() {
    for (hash, group) in [(1, 0), (2, 1)] {
        let vector = Vector::of(hash, group);
        let sound = reply_of(&vector, true);
        let mut wrong = vec![sound[..sound.len() - 1].to_vec(), sound[..16].to_vec()];
        wrong.push(sound[..15].to_vec());
        for (at, byte) in [(6, 0), (6, 255), (10, 1), (11, 0xff)] {
            let mut message = sound.clone();
            message[at] = byte;
            wrong.push(message);
        }
        for message in wrong {
            let mut machine = challenged(&vector);
            take(&mut machine, &message);
            refused(&mut machine, vector.transaction, Fault::Payload, 6);
        }
    }
}

#[test]
fn values_of_small_subgroups_are_refused() {
    let vector = Vector::of(2, 1);
    let length = vector.theirs.len();
    let small = |last: u8| [vec![0; length - 1], vec![last]].concat();
    let prime = u8_of(primes::FFDHE2048);
    let mut below = prime.clone();
    below[length - 1] -= 1;
    let above = vec![0xff; length];
    for value in [small(0), small(1), below.clone(), prime, above] {
        let mut wrong = vector.clone();
        wrong.theirs = value;
        let mut machine = challenged(&vector);
        take(&mut machine, &reply_of(&wrong, false));
        refused(&mut machine, vector.transaction, Fault::Payload, 6);
    }
    below[length - 1] -= 1;
    for value in [small(2), below] {
        let exponent = Zeroizing::new(vector.exponent);
        assert!(Computation::of_value(Group::Ffdhe2048, &exponent, &value).is_some());
    }
}

fn u8_of(digits: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    (0..digits.len()).step_by(2).map(byte).collect()
}

#[test]
fn without_a_key_of_its_own_this_side_proves_nothing() {
    let vector = Vector::of(1, 0);
    let without = |machine: &mut Authentication| {
        let host = machine.parties.keys.host.clone();
        machine.parties.keys = Arc::new(Keys { host, controller: None });
    };
    let mut machine = challenged(&vector);
    without(&mut machine);
    take(&mut machine, &reply_of(&vector, true));
    refused(&mut machine, vector.transaction, Fault::NoControllerKey, 1);
    // A host that does not ask is let in.
    let mut machine = challenged(&vector);
    without(&mut machine);
    take(&mut machine, &reply_of(&vector, false));
    assert_eq!(machine.receive(4096).unwrap().then, Then::Proved);
}

#[test]
fn a_host_may_not_believe_this_side() {
    let vector = Vector::of(1, 0);
    let mut machine = challenged(&vector);
    let sent = machine.send(&failure2(vector.transaction, 5));
    assert!(matches!(sent, Sent::Failed(Fault::Disbelieved(5))), "{sent:?}");
    let mut machine = challenged(&vector);
    take(&mut machine, &reply_of(&vector, true));
    machine.receive(4096).unwrap();
    let sent = machine.send(&failure2(vector.transaction, 1));
    assert!(matches!(sent, Sent::Failed(Fault::Disbelieved(1))), "{sent:?}");
    // Afterwards nothing lets it in.
    assert!(!matches!(machine.send(&success2(vector.transaction)), Sent::Proved));
}

#[test]
fn nothing_is_received_or_sent_out_of_turn() {
    let vector = Vector::of(1, 0);
    let early = [(controller(&vector), 0), (challenged(&vector), vector.transaction)];
    for (mut machine, transaction) in early {
        let received = machine.receive(4096).unwrap();
        assert_eq!(received.then, Then::Failed(Fault::Message));
        assert_eq!(received.message[4..6], transaction.to_le_bytes());
    }
    // A Reply before the challenge was received, twice, or instead of the last word; a second
    // offer.
    let mut machine = controller(&vector);
    take(&mut machine, &negotiate(vector.transaction, &[1], &[0]));
    take(&mut machine, &reply_of(&vector, false));
    refused(&mut machine, vector.transaction, Fault::Message, 7);
    let mut machine = challenged(&vector);
    take(&mut machine, &reply_of(&vector, false));
    take(&mut machine, &reply_of(&vector, false));
    refused(&mut machine, vector.transaction, Fault::Message, 7);
    let mut machine = challenged(&vector);
    take(&mut machine, &reply_of(&vector, true));
    machine.receive(4096).unwrap();
    take(&mut machine, &reply_of(&vector, false));
    refused(&mut machine, vector.transaction, Fault::Message, 7);
    let mut machine = challenged(&vector);
    take(&mut machine, &negotiate(vector.transaction, &[1], &[0]));
    refused(&mut machine, vector.transaction, Fault::Message, 7);
}

#[test]
fn a_refusal_stays() {
    let vector = Vector::of(1, 0);
    let mut machine = challenged(&vector);
    let mut wrong = vector.clone();
    wrong.host_response[0] ^= 1;
    take(&mut machine, &reply_of(&wrong, false));
    for message in [reply_of(&vector, false), negotiate(1, &[1], &[0]), success2(1)] {
        take(&mut machine, &message);
    }
    refused(&mut machine, vector.transaction, Fault::Key, 1);
    // A computation that nobody asked for changes nothing.
    machine.computed(Zeroizing::new(vec![1]));
    assert!(matches!(machine.receive(4096).unwrap().then, Then::Failed(_)));
}

proptest! {
    /// Whatever a host without the key sends and receives, it is not let in.
    #[test]
    fn nobody_gets_in_without_a_key(
        steps in prop::collection::vec((0_u8..7, any::<prop::sample::Index>(), any::<u8>()), 1..12)
    ) {
        let vector = Vector::of(1, 0);
        let mut machine = controller(&vector);
        let mut wrong = vector.clone();
        wrong.host_response[3] ^= 0x10;
        for (kind, at, byte) in steps {
            let mut message = match kind {
                0 => negotiate(vector.transaction, &[1], &[0]),
                1 => reply_of(&wrong, byte & 1 == 1),
                2 => success2(vector.transaction),
                3 => failure2(vector.transaction, byte),
                4 => vec![byte; at.index(100)],
                _ => {
                    let received = machine.receive(4096).unwrap();
                    prop_assert!(received.then != Then::Proved);
                    continue;
                }
            };
            if byte > 200 && !message.is_empty() {
                let at = at.index(message.len());
                message[at] ^= 1 << (byte % 8);
            }
            // Whoever guesses the one bit that is wrong has the key.
            if kind == 1 && message[16..48] == vector.host_response {
                continue;
            }
            prop_assert!(!matches!(machine.send(&message), Sent::Proved));
        }
    }
}
