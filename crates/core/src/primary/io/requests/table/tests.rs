use super::*;
use crate::cluster::Bytes;

/// The number of the request that is looked at.
const NUMBER: RequestNumber = RequestNumber(1);
const ID: RequestId = RequestId(5);
const ORIGIN: Origin = Origin { host: HostId(1), path: PathNumber(1) };

fn client() -> Client {
    Client { request: ID, since: Instant(7) }
}

/// A request of a client that has its range and is sent in so many parts.
fn sent(parts: usize) -> RequestTable<Bytes> {
    let mut requests = RequestTable::default();
    requests.begin(NUMBER, Some(client()), ORIGIN, Operation::Flush, RequestLock::Local);
    assert!(matches!(requests.go_on(NUMBER), RequestStep::Send(Operation::Flush)));
    requests.expect_parts(NUMBER, parts);
    requests
}

fn reply(requests: &mut RequestTable<Bytes>) -> Result<Reply<Bytes>, RequestError> {
    let answer = requests.answer(NUMBER).expect("all that it waits for is done");
    let (id, result) = answer.reply.expect("a client waits");
    assert_eq!(id, ID);
    result
}

#[test]
fn it_is_answered_once_by_its_last_part_and_over_when_all_members_have_it() {
    let mut requests = sent(2);
    assert!(!requests.part_answered(NUMBER, None) && requests.awaits_last_part(NUMBER));
    assert!(requests.part_answered(NUMBER, None));
    let answer = requests.answer(NUMBER).expect("all parts are answered");
    assert!(answer.reply.is_some() && answer.lets_readers_pass);
    assert!(requests.answer(NUMBER).is_some_and(|again| again.reply.is_none()));
    for left in (0..2).rev() {
        assert!(requests.forget_if_over(NUMBER).is_none() && requests.is_under_way(NUMBER));
        requests.part_finished(NUMBER);
        assert_eq!(requests.has_parts(NUMBER), left > 0);
    }
    assert_eq!(requests.forget_if_over(NUMBER), Some(RequestLock::Local));
    assert!(requests.are_over());
}

#[test]
fn one_part_that_fails_is_the_answer_and_lets_nobody_read() {
    let mut requests = sent(2);
    requests.part_answered(NUMBER, Some(RequestError::NoData));
    assert!(requests.part_answered(NUMBER, None) && requests.has_failed(NUMBER));
    let answer = requests.answer(NUMBER).expect("all parts are answered");
    assert!(!answer.lets_readers_pass);
    assert!(matches!(answer.reply, Some((ID, Err(RequestError::NoData)))));
}

#[test]
fn what_is_compared_goes_on_when_it_was_read() {
    let bytes = |value| Bytes::of(value, 4096);
    let mut requests = sent(1);
    let comparison =
        Comparison { offset: 0, expected: bytes(1), payload: bytes(2), durable: false };
    requests.will_compare(NUMBER, comparison);
    requests.keep_data(NUMBER, 0, bytes(3));
    assert!(requests.part_answered(NUMBER, None) && requests.answer(NUMBER).is_none());
    assert!(requests.part_finished(NUMBER) && requests.forget_if_over(NUMBER).is_none());
    let RequestStep::Compare(comparison) = requests.go_on(NUMBER) else { panic!("it was read") };
    assert!(!requests.compare(NUMBER, &comparison.expected));
    assert!(matches!(reply(&mut requests), Ok(Reply::Miscompare { at: 0 })));
}

#[test]
fn who_fails_tells_whether_anything_was_sent() {
    let mut requests = sent(1);
    let mut fail = |number| requests.fail(number, RequestError::Fenced).map(|(_, failed)| failed);
    assert_eq!((fail(NUMBER), fail(NUMBER)), (Some(Failed::Sent), None));
    let second = RequestNumber(2);
    requests.begin(second, Some(client()), ORIGIN, Operation::Flush, RequestLock::None);
    assert_eq!(requests.unsent().collect::<Vec<_>>(), [second]);
    assert_eq!(requests.of_clients(|_| true), [second]);
    let failed = requests.fail(second, RequestError::Fenced).map(|(_, failed)| failed);
    assert_eq!(failed, Some(Failed::Unsent));
    assert_eq!(requests.forget_if_over(second), Some(RequestLock::None));
    assert!(requests.is_under_way(NUMBER), "its part is under way");
}

#[test]
fn what_is_kept_ends_when_its_owner_says_so() {
    let mut requests: RequestTable<Bytes> = RequestTable::default();
    requests.keep(NUMBER, RequestLock::ClusterLock);
    assert!(requests.forget_if_over(NUMBER).is_none() && requests.is_kept(NUMBER));
    requests.end_kept(NUMBER);
    assert_eq!(requests.forget_if_over(NUMBER), Some(RequestLock::ClusterLock));
    assert!(matches!(requests.go_on(NUMBER), RequestStep::Nothing), "it was given up");
}

#[test]
fn what_is_read_anew_is_told_once() {
    let mut requests = sent(1);
    requests.keep_data(NUMBER, 0, Bytes::of(1, 4096));
    requests.keep_data(NUMBER, 4096, Bytes::of(3, 4096));
    requests.forget_read(NUMBER, 0);
    requests.keep_data(NUMBER, 0, Bytes::of(2, 4096));
    requests.part_answered(NUMBER, None);
    let Ok(Reply::Data(data)) = reply(&mut requests) else { panic!("it was read") };
    assert_eq!(data, [(0, Bytes::of(2, 4096)), (4096, Bytes::of(3, 4096))]);
}

#[test]
fn who_came_early_is_failed_by_itself() {
    let mut requests: RequestTable<Bytes> = RequestTable::default();
    for since in [3, 9] {
        let client = Client { since: Instant(since), ..client() };
        requests.wait(Asked { client, origin: ORIGIN, operation: Operation::Flush });
    }
    let failed = requests.take_early_of(|client| client.since < Instant(5));
    assert!(failed.len() == 1 && !requests.are_answered());
    assert_eq!(requests.take_early().len(), 1);
    assert!(requests.are_answered());
}
