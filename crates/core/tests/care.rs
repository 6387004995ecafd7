//! Stories of a volume that is looked after: verified, repaired, rebuilt at an operator's pace,
//! with and without intent logs.

use std::time::Duration;

use crate::cluster::{Cluster, SIZE, replica};
use evenkeel_core::message::RebuildWait;
use evenkeel_core::primary::{Command, VerifyState, Wrong, WrongRange};
use evenkeel_core::view::Change;
use evenkeel_core::*;

const A_WHILE: Duration = Duration::from_secs(30);

/// A volume of 8 MiB, all of it written.
fn full(mirrors: usize, replicas: usize) -> (Cluster, usize) {
    let mut cluster = Cluster::new(mirrors, replicas, Protocol::C);
    let primary = cluster.attach(9);
    for chunk in 0..64 {
        cluster.write(primary, chunk * 131_072, chunk as u8 + 1, 131_072);
    }
    cluster.pass(A_WHILE);
    (cluster, primary)
}

/// A block of the volume of which nothing is said yet.
fn sound(at: u64) -> WrongRange {
    WrongRange {
        range: at..at + 4096,
        different: Vec::new(),
        damaged: Vec::new(),
        unreadable: Vec::new(),
        is_lost: false,
        is_undecided: false,
        is_repaired: false,
    }
}

fn verify(cluster: &mut Cluster, primary: usize, repair: bool) {
    verify_from(cluster, primary, repair, None);
}

fn verify_from(cluster: &mut Cluster, primary: usize, repair: bool, source: Option<ReplicaId>) {
    let command = cluster.command(primary, Command::Verify { repair, source });
    assert_eq!(cluster.commands[&command], Ok(()));
    cluster.pass(A_WHILE);
    assert_eq!(cluster.verify(primary).state, VerifyState::Done);
}

#[test]
fn a_verify_of_equal_replicas_finds_nothing() {
    let (mut cluster, primary) = full(2, 2);
    cluster.command(primary, Command::Verify { repair: true, source: None });
    let state = cluster.verify(primary).state;
    assert_eq!(state, VerifyState::Done, "one range follows the other, no time need pass");
    let found = cluster.verify(primary);
    assert_eq!((found.checked, found.alone), (SIZE, 0));
    assert_eq!((found.different, found.damaged, found.unreadable, found.repaired), (0, 0, 0, 0));
}

#[test]
fn a_verify_tells_where_replicas_differ_and_changes_nothing_unless_asked() {
    let (mut cluster, primary) = full(1, 3);
    cluster.corrupt(replica(0, 0), 5 << 20);
    verify(&mut cluster, primary, false);
    let found = cluster.verify(primary);
    assert_eq!((found.different, found.repaired), (4096, 0));
    let differs = WrongRange { different: vec![replica(0, 0)], ..sound(5 << 20) };
    assert_eq!(found.ranges, [differs]);
    assert!(cluster.data(replica(0, 0)) != cluster.data(replica(0, 1)));

    verify(&mut cluster, primary, true);
    assert_eq!(cluster.verify(primary).repaired, 4096);
    assert!(cluster.data(replica(0, 0)) == cluster.data(replica(0, 1)), "two were right");
    assert_eq!(cluster.read(primary, 5 << 20, 4096), Some(vec![41; 4096]));
}

/// What is being compared when a verify is stopped is nothing of the next one, which begins at the
/// start of the volume.
#[test]
fn a_verify_that_is_stopped_leaves_nothing_out_of_the_next_one() {
    let (mut cluster, primary) = full(1, 2);
    let pace = Change::RebuildLimit(RebuildLimit::BytesPerSecond(1 << 20));
    cluster.command(primary, Command::Change(pace));
    cluster.command(primary, Command::Verify { repair: false, source: None });
    while cluster.verify(primary).checked < 2 << 20 {
        cluster.pass(Duration::from_millis(10));
    }
    cluster.frozen_data.insert(replica(0, 1));
    let (checked, digests) = (cluster.verify(primary).checked, cluster.digests);
    cluster.pass(Duration::from_millis(1100));
    assert!(cluster.digests > digests, "the next range is being compared");
    assert_eq!(cluster.verify(primary).checked, checked);

    cluster.corrupt(replica(0, 1), 4096);
    cluster.command(primary, Command::StopVerify);
    cluster.command(primary, Command::Verify { repair: false, source: None });
    cluster.frozen_data.clear();
    cluster.thaw(replica(0, 1));
    cluster.pass(A_WHILE);
    let found = cluster.verify(primary);
    assert_eq!((found.state, found.checked), (VerifyState::Done, SIZE));
    assert_eq!(found.different, 4096, "the first range was not compared");
    assert!(found.covered.values().all(|covered| covered.bytes == SIZE));
}

/// What was compared is told of each replica, and does not hold of one that has left since.
#[test]
fn a_verify_tells_which_replicas_it_covers() {
    let (mut cluster, primary) = full(2, 2);
    verify(&mut cluster, primary, false);
    let before = cluster.verify(primary).covered;
    let bytes: Vec<_> = before.iter().map(|(id, covered)| (*id, covered.bytes)).collect();
    let half = |m, r| (replica(m, r), SIZE / 2);
    assert_eq!(bytes, [half(0, 0), half(0, 1), half(1, 0), half(1, 1)]);
    let (back, stays) = (replica(0, 1), replica(1, 1));
    assert!([back, stays].iter().all(|id| cluster.covers(primary, *id)));

    cluster.kill(back);
    cluster.pass(A_WHILE);
    assert!(!cluster.covers(primary, back), "it may lack writes");
    cluster.restart(back, false);
    cluster.pass(A_WHILE);
    assert_eq!(cluster.state(back), ReplicaState::InSync);
    assert!(!cluster.covers(primary, back), "it was copied anew since");
    assert!(cluster.covers(primary, stays), "it never left");
    verify(&mut cluster, primary, false);
    assert!([back, stays].iter().all(|id| cluster.covers(primary, *id)));
}

/// A replica without a peer that it could be compared with is not covered.
#[test]
fn a_verify_covers_nobody_that_is_alone() {
    let (mut cluster, primary) = full(1, 2);
    cluster.kill(replica(0, 1));
    cluster.pass(A_WHILE);
    verify(&mut cluster, primary, false);
    let found = cluster.verify(primary);
    assert_eq!((found.alone, found.covered.len()), (SIZE, 0));
    let read: Vec<_> = found.read.iter().map(|(id, read)| (*id, read.bytes)).collect();
    assert_eq!(read, [(replica(0, 0), SIZE)], "and it is said who was read");
}

#[test]
fn a_verify_of_a_stripe_tells_the_volumes_offsets() {
    let (mut cluster, primary) = full(2, 2);
    // Chunk 1 of mirror 1 is chunk 3 of the volume.
    cluster.corrupt(replica(1, 1), 65536 + 4096);
    verify_from(&mut cluster, primary, true, Some(replica(1, 0)));
    let (different, is_repaired) = (vec![replica(1, 1)], true);
    let range = WrongRange { different, is_repaired, ..sound(3 * 65536 + 4096) };
    assert_eq!(cluster.verify(primary).ranges, [range]);
    assert!(cluster.data(replica(1, 0)) == cluster.data(replica(1, 1)));
}

/// Of two that differ nobody knows which is right: a repair changes neither, until somebody says
/// whose counts.
#[test]
fn a_repair_guesses_nothing() {
    for bad in 0..2 {
        let (mut cluster, primary) = full(1, 2);
        let [a, b] = [0, 1].map(|r| replica(0, r));
        let (bad, good) = if bad == 0 { (a, b) } else { (b, a) };
        cluster.corrupt(bad, 5 << 20);
        let (before, kept) = (cluster.data(bad).to_vec(), cluster.data(good).to_vec());
        verify(&mut cluster, primary, true);
        let found = cluster.verify(primary);
        assert_eq!(
            (found.different, found.undecided, found.repaired, found.lost),
            (4096, 4096, 0, 0)
        );
        let undecided = WrongRange { different: vec![a, b], is_undecided: true, ..sound(5 << 20) };
        assert_eq!(found.ranges, [undecided]);
        assert!(cluster.data(bad) == before && cluster.data(good) == kept, "one was overwritten");

        verify_from(&mut cluster, primary, true, Some(good));
        let found = cluster.verify(primary);
        assert_eq!((found.different, found.undecided, found.repaired), (4096, 0, 4096));
        assert!(cluster.data(bad) == kept && cluster.data(good) == kept);
    }
}

#[test]
fn what_a_replica_cannot_read_comes_from_another_one_and_is_rewritten() {
    let (mut cluster, primary) = full(1, 2);
    for r in 0..2 {
        cluster.unreadable.insert((replica(0, r), (r as u64 + 1) << 20));
    }
    for block in 0..SIZE / 4096 {
        let value = (block / 32) as u8 + 1;
        assert_eq!(cluster.read(primary, block * 4096, 4096), Some(vec![value; 4096]));
        assert_eq!(cluster.read(primary, block * 4096, 4096), Some(vec![value; 4096]));
    }
    cluster.pass(A_WHILE);
    assert!(cluster.unreadable.is_empty(), "both were rewritten: {:?}", cluster.unreadable);
    let states = [0, 1].map(|r| cluster.state(replica(0, r)));
    assert_eq!(states, [ReplicaState::InSync; 2], "nobody left for that");
}

#[test]
fn a_verify_finds_what_nobody_has_read() {
    let (mut cluster, primary) = full(1, 2);
    cluster.unreadable.insert((replica(0, 1), 3 << 20));
    verify(&mut cluster, primary, true);
    let found = cluster.verify(primary);
    assert_eq!((found.different, found.damaged, found.unreadable), (0, 0, 4096));
    assert_eq!((found.repaired, found.alone), (4096, 0));
    assert!(cluster.unreadable.is_empty());
}

/// What is wrong is told block by block, with who has it wrong and how, and repaired where anybody
/// has it.
#[test]
fn a_verify_names_the_blocks_that_are_damaged_and_on_which_replica() {
    let (mut cluster, primary) = full(1, 3);
    let [a, b, c] = [0, 1, 2].map(|r| replica(0, r));
    let block = |n: u64| (3 << 20) + n * 4096;
    cluster.damaged.insert((b, block(5)));
    cluster.unreadable.insert((c, block(6)));
    cluster.corrupt(a, block(7) as usize);
    cluster.damaged.extend([a, b, c].map(|replica| (replica, block(9) + 512)));
    let wrong = [
        WrongRange { damaged: vec![b], ..sound(block(5)) },
        WrongRange { unreadable: vec![c], ..sound(block(6)) },
        WrongRange { different: vec![a], ..sound(block(7)) },
        WrongRange { damaged: vec![a, b, c], is_lost: true, ..sound(block(9)) },
    ];
    verify(&mut cluster, primary, false);
    let found = cluster.verify(primary);
    assert_eq!(found.ranges, wrong);
    assert_eq!((found.different, found.damaged, found.unreadable), (4096, 2 * 4096, 4096));
    assert_eq!((found.lost, found.repaired, found.alone), (4096, 0, 0));
    let of_b = Wrong { damaged: 2 * 4096, ..Wrong::default() };
    assert_eq!((found.replicas.len(), found.replicas[&b]), (3, of_b));

    let before = cluster.bytes_written(a);
    verify(&mut cluster, primary, true);
    let found = cluster.verify(primary);
    assert_eq!((found.lost, found.repaired), (4096, 3 * 4096));
    assert_eq!(cluster.bytes_written(a) - before, 3 * 4096, "nothing else is written");
    let repaired: Vec<_> = found.ranges.iter().map(|range| range.is_repaired).collect();
    assert_eq!(repaired, [true, true, true, false]);
    verify(&mut cluster, primary, false);
    assert_eq!(cluster.verify(primary).ranges, wrong[3..]);
    cluster.write(primary, block(9), 77, 4096);
    verify(&mut cluster, primary, false);
    assert_eq!(cluster.verify(primary).ranges, []);
    assert!(cluster.data(a) == cluster.data(b) && cluster.data(b) == cluster.data(c));
}

/// A read may hit what several replicas have damaged, each in another block.
#[test]
fn a_failed_read_has_just_the_damaged_blocks_repaired() {
    let (mut cluster, primary) = full(1, 2);
    let [a, b] = [0, 1].map(|r| replica(0, r));
    let before = cluster.bytes_written(a);
    // What just differs is no reason to write: nobody has asked for that.
    cluster.corrupt(a, (3 << 20) - 1);
    cluster.damaged.insert((a, (3 << 20) + 3 * 4096));
    cluster.damaged.insert((b, (3 << 20) + 3 * 4096 + 65536));
    // Whichever replica is asked, and although neither has all of it.
    let read = cluster.read(primary, (3 << 20) + 512, 65536 * 2 - 512);
    assert_eq!(read, Some(vec![25; 65536 * 2 - 512]));
    cluster.pass(A_WHILE);
    assert!(cluster.damaged.is_empty(), "{:?}", cluster.damaged);
    assert_eq!(cluster.bytes_written(a) - before, 2 * 4096);
    assert_eq!(cluster.rewritten(primary), 2);
}

/// A rebuild asks for regions. If each of its sources has a block of one damaged, it could go on
/// from none.
#[test]
fn what_the_sources_of_a_rebuild_have_damaged_is_repaired() {
    for mirrors in [1, 2] {
        let (mut cluster, primary) = full(mirrors, 3);
        let [a, b, c] = [0, 1, 2].map(|r| replica(0, r));
        cluster.kill(c);
        for chunk in 0..32 {
            cluster.write(primary, chunk * 131_072, 99, 131_072);
        }
        cluster.damaged.insert((a, (1 << 20) + 3 * 4096));
        cluster.damaged.insert((b, (1 << 20) + 40 * 4096));
        cluster.restart(c, true);
        cluster.pass(A_WHILE);
        assert_eq!(cluster.state(c), ReplicaState::InSync);
        assert!(cluster.damaged.is_empty(), "{:?}", cluster.damaged);
        assert_eq!(cluster.rewritten(primary), 2);
        assert!(cluster.data(c) == cluster.data(a) && cluster.data(c) == cluster.data(b));
    }
}

/// The only source can't read a block. All else is copied, the rebuild says what it waits for, and
/// the disk is not asked without end; a client that writes the block has it go on.
#[test]
fn a_rebuild_whose_only_source_has_a_bad_block_copies_the_rest_and_says_where_it_is() {
    let (mut cluster, primary) = full(1, 2);
    let [a, b] = [0, 1].map(|r| replica(0, r));
    cluster.kill(b);
    for chunk in 0..32 {
        cluster.write(primary, chunk * 131_072, 99, 131_072);
    }
    let bad = (1 << 20) + 3 * 4096;
    cluster.unreadable.insert((a, bad));
    cluster.restart(b, true);
    cluster.pass(A_WHILE);
    assert_eq!(cluster.state(b), ReplicaState::Rebuilding);
    let waits_for = cluster.progress(b).and_then(|progress| progress.waits_for);
    assert_eq!(waits_for, Some(RebuildWait::SourceMedium(bad)));
    let (from, to) = (bad as usize, bad as usize + 4096);
    assert!(cluster.data(a)[..from] == cluster.data(b)[..from], "what comes before is copied");
    assert!(cluster.data(a)[to..] == cluster.data(b)[to..], "so is the rest");
    let errors = |cluster: &mut Cluster| cluster.replica(a).status().disk_errors;
    let before = errors(&mut cluster);
    cluster.pass(10 * A_WHILE);
    let tries = errors(&mut cluster) - before;
    assert!((2..=20).contains(&tries), "it was tried {tries} times in 5 minutes");
    cluster.write(primary, bad, 7, 4096);
    cluster.pass(2 * A_WHILE);
    assert_eq!(cluster.state(b), ReplicaState::InSync);
    assert!(cluster.data(a) == cluster.data(b));
}

#[test]
fn a_replica_that_fails_read_after_read_leaves() {
    let (mut cluster, primary) = full(1, 2);
    let bad = replica(0, 1);
    cluster.failing.insert(bad);
    cluster.unreadable.insert((bad, 1 << 20));
    for _ in 0..4 {
        assert!(cluster.read(primary, 1 << 20, 4096).is_some());
    }
    cluster.pass(A_WHILE);
    assert_eq!(cluster.state(bad), ReplicaState::Faulty, "it can't be rewritten there");
}

/// A disk that has damaged much has most likely damaged more than was read of it. Of what it holds
/// nothing is believed when it comes back: it gets all of it again.
#[test]
fn a_replica_that_failed_too_many_reads_is_copied_whole_when_it_is_brought_back() {
    let (mut cluster, primary) = full(1, 2);
    let bad = replica(0, 1);
    // Far apart, so that nothing of one is repaired with another one.
    cluster.damaged.extend((0..64).map(|n| (bad, n * 131_072 + 4096)));
    for n in 0..64 {
        for _ in 0..2 {
            assert!(cluster.read(primary, n * 131_072 + 4096, 4096).is_some());
        }
    }
    cluster.pass(A_WHILE);
    assert_eq!(cluster.state(bad), ReplicaState::Faulty);
    assert!(!cluster.damaged.is_empty(), "something is damaged that nobody has read");
    let command = cluster.command(primary, Command::ReAdd(bad));
    assert_eq!(cluster.commands[&command], Ok(()));
    cluster.pass(A_WHILE);
    assert_eq!(cluster.state(bad), ReplicaState::InSync);
    assert!(cluster.damaged.is_empty(), "{} blocks are damaged", cluster.damaged.len());
    assert!(cluster.data(bad) == cluster.data(replica(0, 0)));
}

/// One that an operator took out for a while has what it had.
/// Nobody heard that its disk had failed: the link was lost just then.
#[test]
fn a_rebuild_whose_failure_was_not_heard_tells_it_again() {
    let (mut cluster, primary) = full(1, 2);
    let id = replica(0, 1);
    cluster.kill(id);
    let missed = cluster.write(primary, 0, 7, 4096);
    cluster.pass(A_WHILE);
    assert!(cluster.is_acknowledged(missed));
    cluster.failing.insert(id);
    cluster.frozen_data.insert(id);
    cluster.restart(id, false);
    cluster.pass(Duration::from_millis(500));
    while cluster.progress(id).is_none() {
        cluster.pass(Duration::from_millis(100));
    }
    cluster.pass(Duration::from_millis(200));
    cluster.cut_off.insert(primary);
    cluster.failing.clear();
    cluster.frozen_data.clear();
    cluster.thaw(id);
    cluster.cut_off.clear();
    cluster.cut_links(primary, id);
    cluster.pass(A_WHILE);
    assert_eq!(cluster.state(id), ReplicaState::Faulty, "it does not go on, and says nothing");
    cluster.command(primary, Command::ReAdd(id));
    cluster.pass(A_WHILE);
    assert_eq!(cluster.state(id), ReplicaState::InSync, "what it copies anew has not failed");
}

#[test]
fn a_replica_that_an_operator_failed_gets_only_what_has_changed() {
    let (mut cluster, primary) = full(1, 2);
    let before = cluster.bytes_written(replica(0, 1));
    cluster.command(primary, Command::Fail(replica(0, 1)));
    cluster.write(primary, 3 << 20, 7, 4096);
    cluster.command(primary, Command::ReAdd(replica(0, 1)));
    cluster.pass(A_WHILE);
    assert_eq!(cluster.state(replica(0, 1)), ReplicaState::InSync);
    let copied = cluster.bytes_written(replica(0, 1)) - before;
    assert!((4096..=1 << 20).contains(&copied), "{copied} bytes copied");
}

#[test]
fn a_rebuild_waits_while_it_is_paused_and_keeps_to_its_limit() {
    let (mut cluster, primary) = full(1, 2);
    let limit = |limit| Command::Change(Change::RebuildLimit(limit));
    let generation = cluster.newest.generation;
    cluster.command(primary, limit(RebuildLimit::Paused));
    assert_eq!(cluster.newest.generation, generation.next(), "by exactly one");
    cluster.kill(replica(0, 1));
    for chunk in 0..32 {
        cluster.write(primary, chunk * 131_072, 99, 131_072);
    }
    cluster.restart(replica(0, 1), true);
    cluster.pass(A_WHILE);
    assert_eq!(cluster.state(replica(0, 1)), ReplicaState::Rebuilding);
    assert_eq!(cluster.bytes_written(replica(0, 1)), 0);

    // 4 MiB at 256 KiB per second.
    cluster.command(primary, limit(RebuildLimit::BytesPerSecond(256 << 10)));
    cluster.pass(Duration::from_secs(8));
    let copied = cluster.bytes_written(replica(0, 1));
    assert!((1 << 20..=3 << 20).contains(&copied), "{copied} bytes after 8 seconds");
    cluster.pass(A_WHILE);
    assert_eq!(cluster.state(replica(0, 1)), ReplicaState::InSync);
    assert!(cluster.data(replica(0, 1)) == cluster.data(replica(0, 0)));
}

/// With a bitmap a crash leaves one region to copy, without one everything. It is switched online.
#[test]
fn without_a_bitmap_a_crash_leaves_everything_open() {
    let (mut cluster, primary) = full(1, 2);
    for (bitmap, copied) in [
        (Bitmap::None, SIZE..=SIZE),
        (Bitmap::Internal, 4096..=1 << 20),
        (Bitmap::None, SIZE..=SIZE),
    ] {
        let generation = cluster.newest.generation;
        cluster.command(primary, Command::Change(Change::Bitmap { bitmap, slots: 1 }));
        let changed = u64::from(cluster.newest.generation != generation);
        assert_eq!(cluster.newest.generation.0, generation.0 + changed, "by exactly one");
        cluster.pass(A_WHILE);
        let before = cluster.bytes_written(replica(0, 1));
        cluster.write(primary, 3 << 20, 7, 4096);
        let written = cluster.bytes_written(replica(0, 1)) - before;
        assert_eq!(written, 4096);
        cluster.kill(replica(0, 1));
        cluster.restart(replica(0, 1), true);
        cluster.pass(A_WHILE);
        let rebuilt = cluster.bytes_written(replica(0, 1));
        assert!(copied.contains(&rebuilt), "{bitmap}: {rebuilt} bytes copied");
        assert_eq!(cluster.state(replica(0, 1)), ReplicaState::InSync);
    }
}

/// Of 8 MiB, 3 hold data. The rest is zeroed, costs nothing, and is in no amount that is shown.
#[test]
fn what_holds_no_data_is_in_no_amount_of_a_rebuild() {
    let mut cluster = Cluster::new(1, 2, Protocol::C);
    let primary = cluster.attach(9);
    for chunk in (8..16).chain(48..64) {
        cluster.write(primary, chunk * 131_072, chunk as u8 + 1, 131_072);
    }
    let none = Change::Bitmap { bitmap: Bitmap::None, slots: 1 };
    cluster.command(primary, Command::Change(none));
    cluster.write(primary, 48 * 131_072, 49, 4096);
    let limit = Change::RebuildLimit(RebuildLimit::BytesPerSecond(256 << 10));
    cluster.command(primary, Command::Change(limit));
    cluster.kill(replica(0, 1));
    cluster.restart(replica(0, 1), true);

    let mut seen = Vec::new();
    for _ in 0..400 {
        cluster.pass(Duration::from_millis(100));
        seen.extend(cluster.progress(replica(0, 1)).map(|p| (p.done, p.total)));
    }
    assert_eq!(cluster.state(replica(0, 1)), ReplicaState::InSync);
    assert!(cluster.data(replica(0, 1)) == cluster.data(replica(0, 0)));
    let counted: Vec<_> = seen.iter().filter(|(_, total)| *total > 0).collect();
    assert!(counted.len() > 50, "it is seen on its way: {seen:?}");
    assert!(counted.iter().all(|(_, total)| *total == 3 << 20), "{counted:?}");
    assert!(counted.is_sorted() && counted.iter().all(|(done, total)| done <= total));
    assert!(counted.iter().any(|(done, _)| (1..3 << 20).contains(done)), "{counted:?}");
}
