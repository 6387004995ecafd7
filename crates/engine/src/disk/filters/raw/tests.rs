use evenkeel_core::Payload as _;

use super::*;
use crate::disk::filters::bench::Bench;
use crate::disk::simulation::queue::Queue;

type Raw = RawDisk<Queue, &'static str>;

fn made() -> (Bench, Raw) {
    let bench = Bench::new();
    let (file, layout, flushes) = bench.disk();
    (bench, Raw::new(file, layout, flushes))
}

/// Has the oldest operation end, and those that follow from it.
fn finish(bench: &mut Bench, raw: &mut Raw) -> (&'static str, Outcome) {
    loop {
        let (key, completion) = bench.end(None);
        if let Some(ended) = raw.completed(&mut bench.means(), key, completion) {
            return ended;
        }
    }
}

#[test]
fn a_transfer_goes_on_where_it_was_cut_short() {
    let (mut bench, mut raw) = made();
    bench.device.state().faults.short = 1000;
    let payload = bench.filled(64 << 10, 7);
    raw.begin(
        &mut bench.means(),
        Request::Write(DataWrite { offset: 4096, payload, durable: None, forgotten: None }),
        "write",
    );
    let (key, completion) = bench.end(Some(libc::EINTR));
    assert!(raw.completed(&mut bench.means(), key, completion).is_none(), "it is tried again");
    assert!(matches!(finish(&mut bench, &mut raw), ("write", Ok(DiskOutcome::Done))));
    assert!(bench.holds(4096, 64 << 10).iter().all(|byte| *byte == 7));
    raw.begin(&mut bench.means(), Request::Read { offset: 4096, length: 64 << 10 }, "read");
    let ("read", Ok(DiskOutcome::Data(data))) = finish(&mut bench, &mut raw) else {
        panic!("it reads")
    };
    assert!(data.length() == 64 << 10 && data.iter().all(|byte| *byte == 7) && raw.is_idle());
}

/// By the next means that the device may have; what it does not have it is not asked for again.
#[test]
fn zeroes_are_written_where_the_device_has_nothing_better() {
    let (mut bench, mut raw) = made();
    bench.device.state().faults.without_punch = true;
    bench.device.state().faults.without_zero_range = true;
    let payload = bench.filled(8192, 7);
    raw.begin(
        &mut bench.means(),
        Request::Write(DataWrite { offset: 0, payload, durable: None, forgotten: None }),
        "write",
    );
    finish(&mut bench, &mut raw).1.expect("it is written");
    for tries in [2, 0] {
        let request = Request::Zero { offset: 4096, length: 4096, unmap: true };
        raw.begin(&mut bench.means(), request, "zero");
        for _ in 0..tries {
            let (key, completion) = bench.end(None);
            assert!(raw.completed(&mut bench.means(), key, completion).is_none());
        }
        assert!(matches!(finish(&mut bench, &mut raw), ("zero", Ok(_))));
    }
    assert!(bench.holds(4096, 4096).iter().all(|byte| *byte == 0));
    assert!(bench.holds(0, 4096).iter().all(|byte| *byte == 7));
}

/// Whatever has flushed before may have lost what this one is to make durable.
#[test]
fn what_is_to_be_durable_fails_beside_a_flush_that_failed() {
    let (mut bench, mut raw) = made();
    let before = raw.failures();
    raw.begin(&mut bench.means(), Request::Barrier(before), "fails");
    raw.begin(&mut bench.means(), Request::Flush(before), "flush");
    let writes = || Writes::new(vec![(0, vec![1; 4096])]);
    raw.begin(&mut bench.means(), Request::WriteMetadata(Box::new(writes()), before), "durable");
    let later = Writes::before_flush(vec![(4096, vec![1; 4096])]);
    raw.begin(&mut bench.means(), Request::WriteMetadata(Box::new(later), before), "not yet");
    let (key, completion) = bench.end(Some(libc::EIO));
    assert!(raw.completed(&mut bench.means(), key, completion).is_some_and(|(_, o)| o.is_err()));
    assert!(raw.failures() != before);
    for (name, is_believed) in [("flush", false), ("durable", false), ("not yet", true)] {
        let (ended, outcome) = finish(&mut bench, &mut raw);
        assert_eq!((ended, outcome.is_ok()), (name, is_believed));
    }
}

/// A write for which there is no space is refused before anything is flushed.
#[test]
fn a_durable_write_that_finds_no_space_is_no_failed_flush() {
    let (mut bench, mut raw) = made();
    let before = raw.failures();
    for (error, is_flush) in [(libc::ENOSPC, false), (libc::EIO, true)] {
        let writes = Writes::new(vec![(0, vec![1; 4096])]);
        raw.begin(&mut bench.means(), Request::WriteMetadata(Box::new(writes), before), "durable");
        let (key, completion) = bench.end(Some(error));
        assert!(raw.completed(&mut bench.means(), key, completion).is_some());
        assert_eq!(raw.failures() != before, is_flush);
    }
}
