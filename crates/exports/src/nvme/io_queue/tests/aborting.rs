//! Abort: what is answered at once, and what the volume decides.

use super::*;

#[test]
fn what_the_volume_has_is_aborted_if_it_cancels_it() {
    let mut bench = Bench::new(1 << 20);
    for identifier in [3, 4] {
        bench.command(&write(identifier, IN_CAPSULE, 1), &[1; 512]);
        bench.abort(identifier);
    }
    assert_eq!(bench.cancelled, [bench.submitted[0].0, bench.submitted[1].0]);
    assert_eq!((bench.said(), bench.answers()), (vec![], vec![]));
    bench.reply(Err(RequestError::Cancelled));
    bench.reply(Ok(Reply::Done));
    assert_eq!(bench.said(), [(3, true), (4, false)]);
    assert_eq!(bench.answers(), [(3, Status::AbortRequested), (4, Status::Success)]);
}

#[test]
fn what_waits_for_memory_or_data_is_aborted_at_once() {
    let mut bench = Bench::new(8192);
    let host = bench.host;
    bench.command(&write(3, ON_REQUEST, 16), &[]);
    let tag = bench.requested();
    bench.command(&write(4, ON_REQUEST, 16), &[]);
    bench.abort(4);
    assert_eq!(bench.answers(), [(4, Status::AbortRequested)]);
    // It sends data, and may not be answered before that has come.
    bench.abort(3);
    assert_eq!(bench.said(), [(4, true), (3, true)]);
    assert_eq!(bench.answers(), []);
    bench.receive(&host.data(3, tag, 0, &pattern(8192), true), 999);
    assert_eq!(bench.answers(), [(3, Status::AbortRequested)]);
    assert!(bench.submitted.is_empty());
    bench.command(&write(5, IN_CAPSULE, 16), &pattern(8192));
    assert_eq!(bench.submitted.len(), 1, "its memory has returned");
}

#[test]
fn data_that_is_received_into_an_aborted_command_is_dropped() {
    let mut bench = Bench::new(1 << 20);
    let host = bench.host;
    bench.command(&write(3, ON_REQUEST, 200), &[]);
    let tag = bench.requested();
    let data = host.data(3, tag, 0, &pattern(102_400), true);
    bench.receive(&data[..50_000], 9999);
    bench.abort(3);
    bench.receive(&data[50_000..], 9999);
    assert_eq!(bench.answers(), [(3, Status::AbortRequested)]);
    bench.command(&entry(0x00, 4, ON_REQUEST, 0), &[]);
    assert!(matches!(bench.submitted[0].1, Operation::Flush));
}

#[test]
fn a_capsule_that_stops_the_stream_is_passed_over() {
    let mut bench = Bench::new(512);
    let host = bench.host;
    // One has the queue's own memory, and the other one none.
    bench.command(&read(2, 1), &[]);
    bench.command(&write(3, IN_CAPSULE, 1), &[1; 512]);
    let behind = [host.capsule(&write(4, IN_CAPSULE, 1), &[2; 512]), host.flush(5)].concat();
    bench.receive(&behind, 9999);
    assert_eq!(bench.submitted.len(), 2);
    bench.abort(4);
    assert_eq!((bench.said(), bench.submitted.len()), (vec![(4, true)], 3));
    assert_eq!(bench.answers(), [(4, Status::AbortRequested)]);
    assert!(matches!(bench.submitted[2].1, Operation::Flush));
}

#[test]
fn with_one_half_of_a_pair_the_other_one_is_aborted() {
    for (aborted, first, second) in [
        (3, Status::AbortRequested, Status::FusedFailed),
        (4, Status::FusedFailed, Status::AbortRequested),
    ] {
        let mut bench = Bench::new(1 << 20);
        bench.command(&fused::compare(3, ON_REQUEST, 1), &[]);
        bench.command(&fused::write_behind(4, IN_CAPSULE, 1), &[2; 512]);
        let tag = bench.requested();
        bench.abort(aborted);
        let host = bench.host;
        bench.receive(&host.data(3, tag, 0, &[1; 512], true), 999);
        assert_eq!(bench.said(), [(aborted, true)]);
        assert_eq!(bench.answers(), [(3, first), (4, second)]);
        assert!(bench.submitted.is_empty());
    }
}

#[test]
fn a_pair_that_the_volume_has_is_cancelled_by_either_half() {
    for aborted in [3, 4] {
        for (result, is_aborted) in [(Err(RequestError::Cancelled), true), (Ok(Reply::Done), false)]
        {
            let mut bench = fused::begun();
            bench.abort(aborted);
            assert_eq!(bench.cancelled, [bench.submitted[0].0]);
            bench.reply(result);
            assert_eq!(bench.said(), [(aborted, is_aborted)]);
            let expected = match is_aborted {
                true => [(3, Status::AbortRequested), (4, Status::FusedFailed)],
                false => [(3, Status::Success), (4, Status::Success)],
            };
            assert_eq!(bench.answers(), expected);
        }
    }
}

#[test]
fn a_first_half_that_is_aborted_takes_the_one_behind_it_along() {
    let mut bench = Bench::new(1 << 20);
    bench.command(&fused::compare(3, IN_CAPSULE, 1), &[1; 512]);
    bench.abort(3);
    assert_eq!(bench.answers(), [(3, Status::AbortRequested)]);
    bench.command(&fused::write_behind(4, IN_CAPSULE, 1), &[2; 512]);
    assert_eq!(bench.answers(), [(4, Status::FusedFailed)]);
}

#[test]
fn what_is_unknown_or_has_begun_in_part_is_not_aborted() {
    let mut bench = Bench::new(1 << 20);
    bench.abort(9);
    let mut manage = entry(0x09, 3, IN_CAPSULE, 16);
    manage[44] = 4;
    let mut list = [0; 16];
    list[4] = 1;
    bench.command(&manage, &list);
    bench.abort(3);
    assert_eq!((bench.said(), bench.cancelled.len()), (vec![(9, false)], 0));
    bench.reply(Ok(Reply::Done));
    assert_eq!((bench.said(), bench.answers()), (vec![(3, false)], vec![(3, Status::Success)]));
}

#[test]
fn an_abort_in_a_queue_that_ends_is_answered_when_the_command_is_over() {
    let results = [(Ok(Reply::Done), false), (Err(RequestError::Cancelled), true)];
    for (result, is_aborted) in results {
        for aborts_first in [true, false] {
            let mut bench = Bench::new(1 << 20);
            bench.command(&write(4, IN_CAPSULE, 1), &[1; 512]);
            if aborts_first {
                bench.abort(4);
            }
            bench.command(&disconnect(5), &[]);
            if !aborts_first {
                bench.abort(4);
            }
            bench.abort(6);
            assert_eq!(bench.said(), [(6, false)], "the other one is under way");
            bench.reply(result.clone());
            assert_eq!(bench.said(), [(4, is_aborted)]);
        }
    }
}

#[test]
fn ranges_of_which_some_are_deallocated_are_not_aborted_by_the_end_of_the_queue() {
    let mut bench = Bench::new(1 << 20);
    let mut manage = entry(0x09, 3, IN_CAPSULE, 32);
    (manage[40], manage[44]) = (1, 4);
    let mut list = [0; 32];
    (list[4], list[20], list[24]) = (1, 1, 8);
    bench.command(&manage, &list);
    bench.reply(Ok(Reply::Done));
    bench.abort(3);
    bench.command(&disconnect(5), &[]);
    bench.reply(Err(RequestError::Cancelled));
    assert_eq!(bench.said(), [(3, false)]);
}

#[test]
fn a_pair_that_was_sent_and_has_failed_is_not_aborted() {
    for aborted in [3, 4] {
        let mut bench = fused::begun();
        bench.abort(aborted);
        bench.reply(Err(RequestError::NoData));
        assert_eq!(bench.said(), [(aborted, false)], "some replica may have written it");
        assert_eq!(bench.answers().len(), 2);
    }
}

#[test]
fn a_compare_that_is_to_be_aborted_ends_when_its_data_is_read() {
    for transfer in [IN_CAPSULE, ON_REQUEST] {
        let mut bench = Bench::new(1 << 20);
        let host = bench.host;
        let data: &[u8] = if transfer == IN_CAPSULE { &[1; 512] } else { &[] };
        bench.command(&on_blocks(0x05, 3, transfer, 512, 1), data);
        bench.abort(3);
        let stored = bench.data(&pattern(512));
        bench.reply(stored);
        assert_eq!(bench.said(), [(3, true)]);
        assert_eq!(bench.answers(), [(3, Status::AbortRequested)]);
        // What comes behind it is served.
        bench.receive(&host.flush(4), 9999);
        assert!(matches!(bench.submitted[0].1, Operation::Flush));
    }
}
