//! Block checksums, through the whole engine: what a disk has damaged is never returned.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt as _;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use crate::common::client::{Answer, Request};
use crate::common::hanging::HangingFile;
use crate::common::{Cluster, Shape, pattern, read_newest};
use evenkeel_core::Settings;
use evenkeel_core::primary::{Command, VerifyState, VerifyStatus, WrongRange};
use evenkeel_core::settings::BLOCK;
use evenkeel_format::{
    CHECKSUMS_PER_PAGE, DATA_OFFSET, PAGE_LENGTH, bitmaps_length, checksum_page_offset,
};

const SIZE: usize = 8 << 20;

fn mirror(replicas: usize) -> Shape {
    let stabilize_after = Duration::from_millis(100);
    Shape {
        mirrors: vec![vec![0; replicas]],
        size: SIZE as u64,
        settings: Settings { stabilize_after, ..Settings::default() },
        ..Shape::default()
    }
}

/// Flips a bit of a replica's data behind its back.
fn damage(cluster: &Cluster, replica: usize, offset: usize) {
    let path = cluster.path(0, replica);
    let file = OpenOptions::new().read(true).write(true).open(path).expect("opens");
    let place = DATA_OFFSET + offset as u64;
    let mut byte = [0];
    file.read_exact_at(&mut byte, place).expect("read");
    file.write_all_at(&[byte[0] ^ 4], place).expect("written");
    file.sync_all().expect("synced");
}

/// Waits until no region of the first replica is open, on the disk too.
fn wait_until_closed(cluster: &Cluster) {
    while cluster.status(0).replicas[0].core.open_regions > 0 {
        std::thread::sleep(Duration::from_millis(20));
    }
    // The table that names none is being saved.
    std::thread::sleep(Duration::from_millis(200));
}

fn mismatches(cluster: &Cluster) -> u64 {
    let replicas = cluster.status(0).replicas;
    replicas.iter().map(|replica| replica.disk.checksum_mismatches).sum()
}

#[test]
fn damaged_blocks_are_read_elsewhere_and_repaired() {
    let mut cluster = Cluster::start(mirror(3));
    cluster.attach();
    let client = cluster.client();
    let data = pattern(1, SIZE);
    for (n, part) in data.chunks(1 << 20).enumerate() {
        client.write((n << 20) as u64, part.to_vec());
    }
    client.call(Request::Flush).expect("flushed");
    // Few enough for no replica to be given up.
    for n in 0..60 {
        damage(&cluster, n % 3, n * 31 * 4096 + 777);
    }
    // Reads are spread, so what one round has not found another one does.
    let until = Instant::now() + Duration::from_secs(60);
    while (0..3).any(|replica| cluster.data(0, replica) != data) {
        for offset in (0..SIZE).step_by(64 << 10) {
            let read = client.read(offset as u64, 64 << 10);
            assert!(read == data[offset..offset + (64 << 10)], "at byte {offset}");
        }
        assert!(Instant::now() < until, "some block is not repaired");
    }
    assert!(mismatches(&cluster) >= 1);
    cluster.detach();
}

fn verify(cluster: &Cluster, repair: bool) -> VerifyStatus {
    let (sender, receiver) = channel();
    let command = Command::Verify { repair, source: None };
    cluster.engines[0].command(cluster.volume, command, move |result| {
        let _ = sender.send(result);
    });
    receiver.recv().expect("an answer").expect("begun");
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let primary = cluster.status(0).primary.expect("attached");
        match primary.verify {
            Some(verify) if verify.state == VerifyState::Done => return verify,
            _ => assert!(Instant::now() < until, "the verify does not end"),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The damaged blocks of a range that is compared at once are told one by one, with their replicas,
/// and written again; nothing else is.
#[test]
fn a_verify_names_the_damaged_blocks_and_repairs_them() {
    let mut cluster = Cluster::start(mirror(2));
    cluster.attach();
    let client = cluster.client();
    for (n, part) in pattern(1, SIZE).chunks(1 << 20).enumerate() {
        client.write((n << 20) as u64, part.to_vec());
    }
    client.call(Request::Flush).expect("flushed");
    // Blocks 3 and 40 of one replica, 41 of the other; of block 700 both.
    let block = 4096;
    let [a, b] = [0, 1].map(|index| cluster.replica(0, index));
    for (replica, number) in [(0, 3), (0, 40), (1, 41), (0, 700), (1, 700)] {
        damage(&cluster, replica, number * block + 99);
    }
    let range = |range: &WrongRange| {
        assert_eq!((range.different.len(), range.unreadable.len()), (0, 0));
        let blocks = range.range.start / block as u64..range.range.end / block as u64;
        (blocks, range.damaged.clone(), range.is_lost)
    };
    let expected = [
        (3..4, vec![a], false),
        (40..41, vec![a], false),
        (41..42, vec![b], false),
        (700..701, vec![a, b], true),
    ];
    let found = verify(&cluster, false);
    assert_eq!(found.ranges.iter().map(range).collect::<Vec<_>>(), expected);
    assert_eq!((found.different, found.damaged, found.unreadable), (0, 4 * 4096, 0));
    assert_eq!((found.lost, found.repaired), (4096, 0));
    let found = verify(&cluster, true);
    assert_eq!((found.lost, found.repaired), (4096, 3 * 4096));
    let found = verify(&cluster, false);
    assert_eq!(found.ranges.iter().map(range).collect::<Vec<_>>(), expected[3..]);
    client.write(700 * block as u64, pattern(2, block));
    assert_eq!(verify(&cluster, false).ranges, []);
    cluster.detach();
    assert!(cluster.data(0, 0) == cluster.data(0, 1));
}

#[test]
fn the_last_copy_is_refused_if_it_is_damaged() {
    let mut cluster = Cluster::start(mirror(1));
    cluster.attach();
    let client = cluster.client();
    client.write(0, pattern(1, 64 << 10));
    damage(&cluster, 0, 4096 + 100);
    assert_eq!(client.read(0, 4096), pattern(1, 64 << 10)[..4096]);
    assert!(!matches!(client.call(Request::Read(4096, 4096)), Ok(Answer::Data(_))));
    assert!(!matches!(client.call(Request::Read(4096, 512)), Ok(Answer::Data(_))), "nor a part");
    assert!(mismatches(&cluster) >= 2);
    // A part that is written does not hide that the rest is wrong; the whole block does away with
    // it.
    client.write(4096 + 1024, pattern(2, 512));
    assert!(!matches!(client.call(Request::Read(4096, 4096)), Ok(Answer::Data(_))));
    client.write(4096, pattern(3, 4096));
    assert_eq!(client.read(4096, 4096), pattern(3, 4096));
    cluster.detach();
}

/// Pages of checksums are read ahead, several at once. One that the disk can't read takes no other
/// with it: what the disk damaged in the others' blocks is not returned.
#[test]
fn a_page_that_cannot_be_read_makes_no_other_checksum_unknown() {
    let blocks_of_page = |page: usize| page * CHECKSUMS_PER_PAGE * BLOCK as usize;
    let mut cluster = Cluster::start(Shape { size: 32 << 20, ..mirror(1) });
    cluster.attach();
    let client = cluster.client();
    (0..8).for_each(|page| client.write(blocks_of_page(page) as u64, pattern(1, 4096)));
    cluster.detach();
    wait_until_closed(&cluster);
    cluster.close_replica(0, 0, 0);
    let path = cluster.path(0, 0);
    let superblock = read_newest(&path).superblock;
    let area = superblock.metadata_offset + bitmaps_length(superblock.data_length);
    damage(&cluster, 0, blocks_of_page(5) + 100);
    let Some(file) = HangingFile::over(&path) else {
        return eprintln!("skipped: no FUSE can be mounted here");
    };
    let lost = area + checksum_page_offset(2);
    cluster.open_replica(0, 0, 0, 2).expect("opens");
    file.lose(lost..lost + PAGE_LENGTH as u64);
    cluster.attach();
    let client = cluster.client();
    let read = |page| client.call(Request::Read(blocks_of_page(page) as u64, 4096));
    assert!(!matches!(read(5), Ok(Answer::Data(_))), "what the disk has damaged was returned");
    for page in [0, 1, 2, 3, 4, 6, 7] {
        assert_eq!(read(page), Ok(Answer::Data(pattern(1, 4096))), "page {page}");
    }
    cluster.detach();
    cluster.close_replica(0, 0, 0);
    cluster.stop();
}

/// A block of which a part was zeroed is as known as before: what rots in the rest of it is not
/// returned, and the copy that fits is the one that a repair keeps.
#[test]
fn zeroing_a_part_of_a_block_does_not_hide_what_is_damaged_in_the_rest() {
    for (replicas, from, to) in [(3, 0, 512), (2, 1024, 4096), (2, 1024, 1536), (3, 3584, 13_312)] {
        let mut cluster = Cluster::start(mirror(replicas));
        cluster.attach();
        let client = cluster.client();
        let mut data = pattern(1, 16 << 10);
        client.write(0, data.clone());
        data[from..to].fill(0);
        for unmap in [true, false] {
            client.call(Request::Zero(from as u64, (to - from) as u64, unmap)).expect("zeroed");
            client.call(Request::Flush).expect("flushed");
            // In the block in which the range begins, and in the one in which it ends, before and
            // behind.
            damage(&cluster, 0, (from + 2048) % 4096);
            for _ in 0..50 {
                assert!(client.read(0, 16 << 10) == data, "{replicas} replicas, {from} to {to}");
            }
            verify(&cluster, true);
            damage(&cluster, replicas - 1, 3 * 4096 + 2000);
            let found = verify(&cluster, true);
            assert_eq!((found.different, found.damaged, found.repaired), (0, 4096, 4096));
            assert!(client.read(0, 16 << 10) == data, "the repair kept the wrong copy");
        }
        cluster.detach();
    }
}

/// What a disk has damaged before a part of the block is zeroed stays known to be damaged.
#[test]
fn zeroing_a_part_of_a_damaged_block_leaves_it_known_to_be_damaged() {
    let mut cluster = Cluster::start(mirror(1));
    cluster.attach();
    let client = cluster.client();
    let data = pattern(1, 8192);
    client.write(0, data.clone());
    damage(&cluster, 0, 100);
    damage(&cluster, 0, 8000);
    client.call(Request::Zero(2048, 4096, true)).expect("zeroed");
    for at in [0, 4096] {
        assert!(!matches!(client.call(Request::Read(at, 4096)), Ok(Answer::Data(_))), "{at}");
    }
    client.write(0, data.clone());
    assert!(client.read(0, 8192) == data);
    cluster.detach();
}

#[test]
fn parts_of_blocks_are_written_and_read_as_they_are() {
    let mut cluster = Cluster::start(mirror(2));
    cluster.attach();
    let client = cluster.client();
    let mut model = vec![0; 1 << 20];
    for n in 0..400usize {
        let length = 512 * (1 + n * 7 % 37);
        let offset = n * 7919 * 512 % (model.len() - length) / 512 * 512;
        let data = pattern(n as u64, length);
        model[offset..offset + length].copy_from_slice(&data);
        client.write(offset as u64, data);
        if n % 5 == 0 {
            assert!(client.read(offset as u64, length as u32) == model[offset..offset + length]);
        }
        if n % 50 == 0 {
            let (start, length) = (n * 512, 9 * 1024);
            client.call(Request::Zero(start as u64, length as u64, n % 100 == 0)).expect("zeroed");
            model[start..start + length].fill(0);
        }
    }
    assert!(client.read(0, 1 << 20) == model);
    assert_eq!(mismatches(&cluster), 0);
    cluster.detach();
    assert!(cluster.data(0, 0) == cluster.data(0, 1));
}

/// A client's flush writes no checksums. They are durable before the table closes the regions.
#[test]
fn checksums_are_written_when_regions_are_closed_and_not_by_flushes() {
    // A disk that stalls has the region closed between two flushes: then it is tried again.
    assert!((0..10).any(|_| are_checksums_written_by_the_close()), "no flush takes less than 1 s");
}

/// `false`: a flush took so long that the region may have been closed before the last one.
fn are_checksums_written_by_the_close() -> bool {
    let mut cluster = Cluster::start(Shape {
        settings: Settings { stabilize_after: Duration::from_secs(2), ..Settings::default() },
        ..mirror(1)
    });
    cluster.attach();
    let client = cluster.client();
    let writes = |cluster: &Cluster| cluster.status(0).replicas[0].disk.checksum_writes;
    let mut longest = Duration::ZERO;
    for n in 0..20 {
        let began = Instant::now();
        client.write(n * 4096, pattern(n, 4096));
        client.call(Request::Flush).expect("flushed");
        longest = longest.max(began.elapsed());
    }
    let began = Instant::now();
    let written = writes(&cluster);
    if longest.max(began.elapsed()) > Duration::from_secs(1) {
        return false;
    }
    assert_eq!(written, 0);
    let until = Instant::now() + Duration::from_secs(60);
    while cluster.status(0).replicas[0].core.open_regions > 0 || writes(&cluster) == 0 {
        assert!(Instant::now() < until, "the region is not closed");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(writes(&cluster), 1, "one block of the journal names all of them");
    cluster.detach();
    true
}

#[test]
fn they_outlive_a_restart() {
    let mut cluster = Cluster::start(mirror(1));
    cluster.attach();
    let client = cluster.client();
    client.write(0, pattern(1, 1 << 20));
    cluster.detach();
    wait_until_closed(&cluster);
    cluster.close_replica(0, 0, 0);
    damage(&cluster, 0, 8192);
    cluster.open_replica(0, 0, 0, 2).expect("opens");
    cluster.attach();
    let client = cluster.client();
    assert_eq!(client.read(0, 4096), pattern(1, 1 << 20)[..4096]);
    assert!(!matches!(client.call(Request::Read(8192, 4096)), Ok(Answer::Data(_))));
    cluster.detach();
}

/// More checksums are in use than are kept in memory: a read has pages written for others to have
/// room, and does not wait for that. A close that comes meanwhile ends when they are written.
#[test]
fn a_replica_closes_while_pages_of_checksums_are_written() {
    /// Bytes whose checksums are in one page.
    const PAGE: u64 = CHECKSUMS_PER_PAGE as u64 * BLOCK as u64;
    /// So many are in memory before some have to go.
    const FULL: u64 = 1792;
    let size = (FULL + 64) * PAGE;
    let mut cluster = Cluster::start(Shape { size, chunk: 1 << 20, ..mirror(1) });
    cluster.attach();
    let client = cluster.client();
    let write = |page: u64| client.begin(Request::Write(page * PAGE, pattern(1, 4096), false));
    for answer in (0..FULL).map(write).collect::<Vec<_>>() {
        answer.recv_timeout(Duration::from_secs(60)).expect("in time").expect("written");
    }
    let read = |page: u64| client.begin(Request::Read(page * PAGE, 4096));
    let _under_way: Vec<_> = (FULL..FULL + 64).step_by(8).map(read).collect();
    cluster.close_replica(0, 0, 0);
    cluster.open_replica(0, 0, 0, 2).expect("opens again");
}

/// Forgets all checksums of a replica that is closed, as a crash does with those of open regions.
fn forget_checksums(cluster: &Cluster, replica: usize) {
    let path = cluster.path(0, replica);
    let superblock = read_newest(&path).superblock;
    let area = superblock.metadata_offset + bitmaps_length(superblock.data_length);
    let file = OpenOptions::new().write(true).open(path).expect("opens");
    let length = checksum_page_offset(2) as usize + PAGE_LENGTH;
    file.write_all_at(&vec![0; length], area).expect("written");
    file.sync_all().expect("synced");
}

/// The copy that fits its checksum is returned whichever replica is asked, and repairs the other
/// one: also if a part of the block was written since, and after any number of reads.
#[test]
fn what_a_replica_has_forgotten_never_wins_over_what_another_one_knows() {
    for forgetful in 0..2 {
        let mut cluster = Cluster::start(mirror(2));
        cluster.attach();
        let client = cluster.client();
        let mut data = pattern(1, 64 << 10);
        client.write(0, data.clone());
        cluster.detach();
        wait_until_closed(&cluster);
        (0..2).for_each(|replica| cluster.close_replica(0, 0, replica));
        forget_checksums(&cluster, forgetful);
        damage(&cluster, forgetful, 4096 + 99);
        damage(&cluster, forgetful, 3 * 4096 + 99);
        (0..2).for_each(|replica| cluster.open_replica(0, 0, replica, 2).expect("opens"));
        cluster.attach();
        let client = cluster.client();
        client.write(4096 + 512, vec![9; 512]);
        data[4096 + 512..4096 + 1024].fill(9);
        let found = verify(&cluster, false);
        assert_eq!((found.different, found.undecided, found.damaged), (2 * 4096, 0, 0));
        for _ in 0..20 {
            assert!(client.read(4096, 4096) == data[4096..8192], "replica {forgetful}");
        }
        let found = verify(&cluster, true);
        assert_eq!((found.undecided, found.damaged), (0, 0));
        assert!(found.different >= 4096 && found.different == found.repaired);
        assert!((0..2).all(|replica| cluster.data(0, replica)[..64 << 10] == data));
        // All is known again.
        damage(&cluster, forgetful, 5 * 4096);
        let found = verify(&cluster, false);
        assert_eq!((found.different, found.damaged), (0, 4096));
        cluster.detach();
    }
}
