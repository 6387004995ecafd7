//! Clients that close the connection, with requests in the socket.

use super::*;

fn zero(cookie: u64) -> Vec<u8> {
    request(6, cookie, 0, 512)
}

fn disconnect() -> Vec<u8> {
    request(2, 99, 0, 0)
}

#[test]
fn what_changes_and_had_not_begun_is_dropped() {
    let mut bench = connected(1 << 20, negotiated(false));
    bench.receive(&write(1, 0, &[1; 512]), 9999);
    assert_eq!(bench.submitted.len(), 1, "it is there");
    bench.leave();
    let rest = [write(2, 0, &[2; 512]), request(0, 3, 0, 512), zero(4), request(3, 5, 0, 0)];
    bench.receive(&rest.concat(), 9999);
    let begun: Vec<_> = bench.submitted.iter().map(|(_, operation)| operation).collect();
    let [Operation::Write { .. }, Operation::Read { .. }, Operation::Flush] = begun[..] else {
        panic!("{begun:?}")
    };
    bench.end_of_stream();
    assert_eq!(bench.ended.as_deref(), Some("the client has closed the connection"));
    assert_eq!(bench.submitted.len(), 3);
}

#[test]
fn with_a_disconnect_request_behind_it_all_is_done() {
    for most in [9, 600, 9999] {
        let mut bench = connected(1 << 20, negotiated(false));
        bench.leave();
        let all = [write(1, 0, &[1; 512]), zero(2), write(3, 4096, &pattern(65_536)), disconnect()];
        bench.receive(&all.concat(), most);
        let [
            (first, Operation::Write { offset: 0, .. }),
            (second, Operation::Zero { .. }),
            (third, Operation::Write { offset: 4096, .. }),
        ] = bench.submitted[..]
        else {
            panic!("{:?}", bench.submitted)
        };
        assert!(bench.ended.is_none());
        for token in [first, second, third] {
            bench.reply(token, Ok(Reply::Done));
        }
        assert_eq!(bench.sent, [1, 2, 3].map(|cookie| simple(cookie, None)).concat());
        bench.drain();
        assert_eq!(bench.ended.as_deref(), Some("the client has disconnected"));
    }
}

#[test]
fn what_waited_for_room_had_not_begun() {
    let mut bench = connected(512, negotiated(false));
    bench.receive(&[write(1, 0, &[1; 512]), write(2, 0, &[2; 512])].concat(), 9999);
    let (token, operation) = bench.submitted.remove(0);
    bench.leave();
    drop(operation);
    bench.reply(token, Ok(Reply::Done));
    assert!(bench.submitted.is_empty(), "it comes too late");
    bench.end_of_stream();
    assert!(bench.ended.is_some() && bench.submitted.is_empty());
}

#[test]
fn more_than_there_is_room_for_is_dropped() {
    let mut bench = connected(512, negotiated(false));
    bench.leave();
    bench.receive(&[write(1, 0, &[1; 512]), write(2, 0, &[2; 512])].concat(), 9999);
    assert!(bench.ended.is_some() && bench.submitted.is_empty());

    let mut bench = connected(1 << 20, negotiated(false));
    bench.leave();
    let many: Vec<u8> = (0..300).flat_map(zero).collect();
    bench.receive(&many, 9999);
    assert!(bench.ended.is_some() && bench.submitted.is_empty());
}

#[test]
fn a_disconnect_request_takes_no_room() {
    let mut bench = connected(1 << 20, negotiated(false));
    bench.leave();
    let many: Vec<u8> = (0..256).flat_map(zero).chain(disconnect()).collect();
    bench.receive(&many, 9999);
    assert!(bench.ended.is_none() && bench.submitted.len() == 256, "{:?}", bench.ended);
}

#[test]
fn what_is_held_waits_for_room_that_those_under_way_will_make() {
    let mut bench = connected(1 << 20, negotiated(false));
    let begun: Vec<u8> = (0..255).flat_map(zero).collect();
    bench.receive(&begun, 9999);
    bench.leave();
    bench.receive(&[zero(255), zero(256)].concat(), 9999);
    assert!(bench.ended.is_none() && bench.submitted.len() == 255, "{:?}", bench.ended);
    // The last one takes the first place that becomes free; for the next one more is received.
    for _ in 0..2 {
        let (token, _) = bench.submitted.remove(0);
        bench.reply(token, Ok(Reply::Done));
    }
    assert_eq!(bench.submitted.len(), 253);
    bench.receive(&disconnect(), 9999);
    assert!(bench.ended.is_none() && bench.submitted.len() == 255, "{:?}", bench.ended);
}

#[test]
fn a_client_that_has_disconnected_needs_no_answers() {
    let mut bench = connected(1 << 20, negotiated(false));
    bench.receive(&[zero(1), zero(2), disconnect()].concat(), 9999);
    let tokens: Vec<_> = bench.submitted.iter().map(|(token, _)| *token).collect();
    bench.reply(tokens[0], Ok(Reply::Done));
    let reset = std::io::ErrorKind::ConnectionReset.into();
    let descriptor = bench.front_end.stream().descriptor();
    bench.event(FrontendEvent::Sent { descriptor, result: Err(reset) });
    assert!(bench.ended.is_none(), "the second one would be cancelled");
    bench.reply(tokens[1], Ok(Reply::Done));
    bench.drain();
    assert_eq!(bench.ended.as_deref(), Some("the client has disconnected"));
}

#[test]
fn the_end_of_the_volume_answers_what_is_held() {
    let mut bench = connected(1 << 20, negotiated(false));
    bench.leave();
    bench.receive(&zero(1), 9999);
    bench.event(FrontendEvent::Stopping);
    assert_eq!(bench.sent, simple(1, Some(ErrorNumber::Shutdown)));
    assert!(bench.submitted.is_empty());
}

/// Its socket is not read: without a look they would wait for as long as the volume does.
#[test]
fn all_that_is_under_way_is_given_up_when_its_client_has_left() {
    // What comes next is in the socket or in the buffer.
    for most in [28 * 8, 9999] {
        for rest in [Vec::new(), zero(256), zero(256)[..9].to_vec()] {
            let mut bench = connected(1 << 20, negotiated(false));
            let all: Vec<u8> = (0..256).flat_map(zero).chain(rest).collect();
            let mut left = bench.receive(&all, most).to_vec();
            assert_eq!((bench.submitted.len(), bench.ended.is_none()), (256, true));
            assert!(bench.wake() && bench.lent.is_none() && bench.ended.is_none(), "it is there");
            bench.leave();
            while bench.ended.is_none() {
                match (bench.lent.is_some(), left.is_empty()) {
                    (true, true) => bench.end_of_stream(),
                    (true, false) => left = bench.receive(&left, most).to_vec(),
                    (false, _) => assert!(bench.wake()),
                }
            }
            assert_eq!(bench.ended.as_deref(), Some("the client has closed the connection"));
        }
    }
}

#[test]
fn a_disconnect_request_in_the_socket_keeps_what_is_under_way() {
    let mut bench = connected(1 << 20, negotiated(false));
    bench.receive(&(0..256).flat_map(zero).collect::<Vec<u8>>(), 28 * 8);
    assert_eq!(bench.submitted.len(), 256);
    bench.leave();
    assert!(bench.wake());
    bench.receive(&disconnect(), 9999);
    assert!(bench.ended.is_none() && !bench.wake(), "{:?}", bench.ended);
    for (token, _) in std::mem::take(&mut bench.submitted) {
        bench.reply(token, Ok(Reply::Done));
    }
    bench.drain();
    assert_eq!(bench.ended.as_deref(), Some("the client has disconnected"));
}

#[test]
fn what_waits_for_memory_is_given_up_with_what_is_under_way() {
    for answers in [false, true] {
        let mut bench = connected(8192, negotiated(false));
        let all = [1, 2, 3].map(|cookie| write(cookie, 0, &pattern(4096)));
        bench.receive(&all.concat(), 9999);
        assert_eq!((bench.submitted.len(), bench.lent.is_some()), (2, false));
        bench.leave();
        if answers {
            // The volume goes on: it is asked again a second later.
            let at = bench.front_end.next_wakeup().unwrap();
            bench.context.set_now(at);
            let (token, _) = bench.submitted[0];
            bench.reply(token, Ok(Reply::Done));
            assert_eq!(bench.front_end.next_wakeup(), Some(at + super::super::held::LOOK));
        }
        assert!(bench.wake());
        assert_eq!(bench.ended.as_deref(), Some("the client has closed the connection"));
    }
}
