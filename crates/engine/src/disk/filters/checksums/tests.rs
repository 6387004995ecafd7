use evenkeel_core::replica::Unverified;
use evenkeel_core::settings::BLOCK;

use super::*;
use crate::disk::checksums::Area;
use crate::disk::checksums::recover::Recovered;
use crate::disk::filters::bench::Bench;
use crate::disk::simulation::queue::Queue;

type Checked = Checksums<Queue, &'static str>;

const B: u64 = BLOCK as u64;

fn over(bench: &Bench) -> Checked {
    let store = ChecksumStore::new(Area::of(&Bench::superblock()), Recovered::default());
    let (file, layout, flushes) = bench.disk();
    Checksums::new(file, layout, flushes, None, ReplicaId(7), Some(store))
}

/// All that is under way ends. Returns what has ended.
fn finish(bench: &mut Bench, checked: &mut Checked) -> Vec<(&'static str, Result<Vec<u8>, bool>)> {
    let mut all = Vec::new();
    while !bench.queue.is_idle() {
        let (key, completion) = bench.end(None);
        match checked.completed(&mut bench.means(), key, completion) {
            Some(End::Asked(
                then,
                Ok(DiskOutcome::Data(data) | DiskOutcome::Unverified(data, _)),
            )) => all.push((then, Ok(data.to_vec()))),
            Some(End::Asked(then, Ok(_))) => all.push((then, Ok(Vec::new()))),
            Some(End::Asked(then, Err(failure))) => all.push((then, Err(failure.is_lost()))),
            Some(End::Unasked { error, .. }) => panic!("{error}"),
            None => {}
        }
    }
    assert!(checked.is_idle());
    all
}

fn ask(bench: &mut Bench, checked: &mut Checked, request: Request) -> Result<Vec<u8>, bool> {
    checked.begin(&mut bench.means(), request, "it");
    let mut ended = finish(bench, checked);
    assert_eq!(ended.len(), 1);
    ended.remove(0).1
}

fn write(bench: &mut Bench, checked: &mut Checked, offset: u64, length: usize, byte: u8) {
    let payload = bench.filled(length, byte);
    ask(
        bench,
        checked,
        Request::Write(DataWrite { offset, payload, durable: None, forgotten: None }),
    )
    .expect("it is written");
}

fn rot(bench: &Bench, offset: u64) {
    let mut state = bench.device.state();
    let now = state.now();
    state.make_durable(now, None);
    assert!(state.rot((Bench::superblock().data_offset + offset) / 512));
}

#[test]
fn a_block_that_rots_is_not_returned_whatever_part_is_read() {
    let mut bench = Bench::new();
    let mut checked = over(&bench);
    write(&mut bench, &mut checked, 0, 3 * 4096, 7);
    rot(&bench, B + 512);
    let part = |offset, length| Request::Read { offset, length };
    assert_eq!(ask(&mut bench, &mut checked, part(B + 2048, 512)), Err(false));
    assert_eq!(ask(&mut bench, &mut checked, part(0, 4096)), Ok(vec![7; 4096]));
    assert_eq!(ask(&mut bench, &mut checked, part(2 * B + 512, 512)), Ok(vec![7; 512]));
    assert_eq!(checked.counts().mismatches, 1);
}

/// The rest of it stays known to be damaged, until all of it is written.
#[test]
fn a_part_of_a_damaged_block_is_changed_and_the_rest_is_not_believed() {
    let mut bench = Bench::new();
    let mut checked = over(&bench);
    write(&mut bench, &mut checked, 0, 4096, 7);
    rot(&bench, 512);
    write(&mut bench, &mut checked, 2048, 512, 8);
    let read = || Request::Read { offset: 2048, length: 512 };
    assert_eq!(ask(&mut bench, &mut checked, read()), Err(false));
    let zero = Request::Zero { offset: 3072, length: 512, unmap: false };
    ask(&mut bench, &mut checked, zero).expect("it is zeroed");
    assert_eq!(ask(&mut bench, &mut checked, read()), Err(false));
    write(&mut bench, &mut checked, 0, 4096, 9);
    assert_eq!(ask(&mut bench, &mut checked, read()), Ok(vec![9; 512]));
}

/// What is kept of a block of which nothing is known may be damaged: it stays unknown when a part
/// is changed, until all of it is written.
#[test]
fn a_part_of_a_forgotten_block_is_changed_and_nothing_vouches_for_the_rest() {
    let mut bench = Bench::new();
    let mut checked = over(&bench);
    write(&mut bench, &mut checked, 0, 2 * 4096, 7);
    checked.store_mut().expect("it has checksums").forget(&(B..2 * B));
    rot(&bench, B + 512);
    let is_known = |bench: &mut Bench, checked: &mut Checked| {
        checked.begin(&mut bench.means(), Request::Read { offset: B + 2048, length: 512 }, "read");
        let (key, completion) = bench.end(None);
        match checked.completed(&mut bench.means(), key, completion) {
            Some(End::Asked(_, Ok(DiskOutcome::Data(_)))) => true,
            Some(End::Asked(_, Ok(DiskOutcome::Unverified(_, what)))) => !what.is_forgotten(),
            other => panic!("{other:?}"),
        }
    };
    assert!(!is_known(&mut bench, &mut checked));
    write(&mut bench, &mut checked, B + 2048, 512, 8);
    assert!(!is_known(&mut bench, &mut checked), "a part was written");
    let zero = Request::Zero { offset: B + 3072, length: 512, unmap: false };
    ask(&mut bench, &mut checked, zero).expect("it is zeroed");
    assert!(!is_known(&mut bench, &mut checked), "a part was zeroed");
    write(&mut bench, &mut checked, B, 4096, 9);
    assert!(is_known(&mut bench, &mut checked));
    // Where nothing was written before there is nothing that could be damaged.
    write(&mut bench, &mut checked, 5 * B + 512, 512, 9);
    assert_eq!(
        checked.store().expect("it has").check(5 * B, &{
            let mut block = vec![0; BLOCK as usize];
            block[512..1024].fill(9);
            block
        }),
        Ok(Default::default())
    );
}

/// A client's flush is the device's, and nothing else.
#[test]
fn a_flush_writes_no_checksums_and_a_commit_does() {
    let mut bench = Bench::new();
    let mut checked = over(&bench);
    write(&mut bench, &mut checked, 0, 4096, 7);
    let failures = checked.raw().failures();
    ask(&mut bench, &mut checked, Request::Flush(failures)).expect("it flushes");
    assert_eq!(checked.counts().writes, 0);
    checked.commit_checksums(&mut bench.means(), failures, "commit");
    checked.commit_checksums(&mut bench.means(), failures, "next");
    let ended = finish(&mut bench, &mut checked);
    assert_eq!(ended, [("commit", Ok(Vec::new())), ("next", Ok(Vec::new()))]);
    assert_eq!(checked.counts().writes, 1, "one block of the journal");
    let first = Area::of(&Bench::superblock()).start();
    assert!(bench.device.state().is_durable(first..first + (1 << 20)));
}

/// Whoever asked for it must learn that a flush has failed, and not only that a commit did.
#[test]
fn a_commit_whose_flush_fails_may_have_lost_what_was_written() {
    for (is_flush, error) in [(false, libc::ENOSPC), (true, libc::EIO)] {
        let mut bench = Bench::new();
        let mut checked = over(&bench);
        write(&mut bench, &mut checked, 0, 4096, 7);
        let failures = checked.raw().failures();
        checked.commit_checksums(&mut bench.means(), failures, "commit");
        if is_flush {
            let (key, completion) = bench.end(None);
            assert!(checked.completed(&mut bench.means(), key, completion).is_none());
        }
        let (key, completion) = bench.end(Some(error));
        let ended = checked.completed(&mut bench.means(), key, completion);
        let Some(End::Asked("commit", Err(failure))) = ended else { panic!("it fails") };
        assert_eq!(failure.is_lost(), is_flush);
    }
}

/// What a rebuild copies of a source that has lost its checksum is known as little here, and what
/// was known of the block before is not known of it.
#[test]
fn a_write_of_which_nothing_vouches_for_a_block_leaves_it_without_a_checksum() {
    let mut bench = Bench::new();
    let mut checked = over(&bench);
    write(&mut bench, &mut checked, 0, 3 * 4096, 7);
    let (payload, forgotten) = (bench.filled(3 * 4096, 8), Some(Box::new([0b010, 0, 0, 0])));
    let copy = Request::Write(DataWrite { offset: 0, payload, durable: None, forgotten });
    ask(&mut bench, &mut checked, copy).expect("it is written");
    checked.begin(&mut bench.means(), Request::Read { offset: 0, length: 3 * BLOCK }, "read");
    let (key, completion) = bench.end(None);
    let ended = checked.completed(&mut bench.means(), key, completion);
    let Some(End::Asked("read", Ok(DiskOutcome::Unverified(data, what)))) = ended else {
        panic!("{ended:?}")
    };
    assert!(data[..] == [8; 3 * 4096]);
    assert_eq!(what, Unverified::Blocks { empty: Vec::new(), forgotten: vec![1] });
    // What is written later is known again.
    write(&mut bench, &mut checked, B, 4096, 9);
    rot(&bench, B + 512);
    let read = Request::Read { offset: B, length: BLOCK };
    assert_eq!(ask(&mut bench, &mut checked, read), Err(false));
}
