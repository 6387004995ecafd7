use std::fs::OpenOptions;
use std::os::unix::fs::FileExt as _;

use evenkeel_core::replica::MissingPage;
use evenkeel_core::replica::OpenRegions;
use evenkeel_core::{Generation, ReplicaId, ReplicaState};
use evenkeel_format::{IntentTable, TableCopy, disk_length, encode_page};
use rustix::fs::{FlockOperation, flock};

use super::*;
use crate::disks::tests::superblock;

const SIZE: u64 = 8 << 20;
const ABSENT: ReplicaId = ReplicaId(77);

struct Disk {
    directory: tempfile::TempDir,
    path: PathBuf,
    superblock: Superblock,
}

impl Disk {
    /// A file with a replica; another one of its mirror is stale since generation 3.
    fn new() -> Self {
        let mut superblock = superblock(SIZE);
        let mut absent = superblock.view.mirrors[0].replicas[0];
        (absent.id, absent.state) = (ABSENT, ReplicaState::Stale);
        absent.missing_since = Some(Generation(3));
        superblock.view.mirrors[0].replicas.push(absent);
        superblock.view.generation = Generation(4);
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("one.replica");
        File::create(&path).unwrap().set_len(disk_length(SIZE)).unwrap();
        let disk = Self { directory, path, superblock };
        let bytes = disk.superblock.encode().unwrap();
        disk.write(COPY_A_OFFSET, &bytes.0);
        disk.write(COPY_B_OFFSET, &bytes.0);
        disk
    }

    fn write(&self, offset: u64, bytes: &[u8]) {
        let file = OpenOptions::new().write(true).open(&self.path).unwrap();
        file.write_all_at(bytes, offset).unwrap();
    }

    /// Every bit of the bytes there becomes another one, whatever random identity they belong to.
    fn damage(&self, offset: u64, length: usize) {
        let mut bytes = vec![0; length];
        File::open(&self.path).unwrap().read_exact_at(&mut bytes, offset).unwrap();
        bytes.iter_mut().for_each(|byte| *byte = !*byte);
        self.write(offset, &bytes);
    }

    fn examine(&self) -> Examined {
        let found = examine(&self.path);
        assert_eq!(found.len(), 1);
        found.into_iter().next().unwrap().examined
    }
}

#[test]
fn a_whole_replica_is_told_as_it_is() {
    let disk = Disk::new();
    let examined = disk.examine();
    assert_eq!(examined.verdict, ReplicaVerdict::Whole, "{examined:#?}");
    assert!(examined.problems.is_empty());
    assert_eq!(examined.superblocks.iter().filter(|copy| copy.counts).count(), 1);
    let replica = examined.replica.unwrap();
    assert_eq!(replica.id, disk.superblock.replica.to_string());
    assert_eq!((replica.view.generation, replica.view.mirrors[0].len()), (4, 2));
    assert!(replica.view.mirrors[0][0].this);
    assert!(replica.intents.slots[0].open.is_empty());
    // The same by its directory, where other files do not count.
    std::fs::write(disk.directory.path().join("other"), "x").unwrap();
    assert_eq!(examine(disk.directory.path()).len(), 1);
}

#[test]
fn a_damaged_copy_is_named_and_the_other_one_counts() {
    for (offset, bad, good) in [(COPY_A_OFFSET, "A", "B"), (COPY_B_OFFSET, "B", "A")] {
        let disk = Disk::new();
        disk.damage(offset + 600, 3);
        let examined = disk.examine();
        assert_eq!(examined.verdict, ReplicaVerdict::Impaired);
        let why = &examined.problems[0].why;
        assert!(why.contains(&format!("copy {bad} is bad, and copy {good} is good")), "{why}");
        assert!(why.contains("checksum"), "{why}");
        let counting = examined.superblocks.iter().find(|copy| copy.counts).unwrap();
        assert_eq!(counting.copy, good);
        assert!(examined.replica.is_some());
    }
}

#[test]
fn what_is_no_replica_is_told_by_what_it_is() {
    let disk = Disk::new();
    disk.write(COPY_A_OFFSET, &[0; SUPERBLOCK_LENGTH]);
    disk.write(COPY_B_OFFSET, &[0; SUPERBLOCK_LENGTH]);
    disk.write(1024 + 56, &[0x53, 0xef]);
    let examined = disk.examine();
    assert_eq!(examined.verdict, ReplicaVerdict::NoReplica);
    assert!(examined.problems[0].why.contains("ext"), "{:?}", examined.problems);
    for missing in ["/nowhere/at/all", "/dev/null"] {
        let found = examine(Path::new(missing));
        assert_eq!(found[0].examined.verdict, ReplicaVerdict::NoReplica);
        assert!(!found[0].examined.problems[0].action.is_empty());
    }
}

#[test]
fn both_copies_damaged_or_a_file_cut_off_is_unusable() {
    let disk = Disk::new();
    disk.damage(COPY_A_OFFSET + 100, 1);
    disk.damage(COPY_B_OFFSET + 100, 1);
    let examined = disk.examine();
    assert_eq!((examined.verdict, examined.replica), (ReplicaVerdict::Unusable, None));
    let disk = Disk::new();
    OpenOptions::new().write(true).open(&disk.path).unwrap().set_len(4 << 20).unwrap();
    let examined = disk.examine();
    assert_eq!(examined.verdict, ReplicaVerdict::Unusable);
    assert!(examined.problems[0].why.contains("cut off"), "{:?}", examined.problems);
    assert!(examined.replica.is_some(), "what it says is shown all the same");
}

#[test]
fn a_superblock_that_promises_too_much_costs_nothing() {
    let mut disk = Disk::new();
    let size = 1 << 59;
    (disk.superblock.view.geometry.size, disk.superblock.data_length) = (size, size);
    disk.superblock.view.intents.region = 1 << 30;
    disk.superblock.metadata_offset = evenkeel_format::metadata_offset(size);
    let bytes = disk.superblock.encode().unwrap();
    disk.write(COPY_A_OFFSET, &bytes.0);
    disk.write(COPY_B_OFFSET, &bytes.0);
    disk.write(TableCopy::A.offset(0), &[1; 100]);
    let begun = std::time::Instant::now();
    let examined = disk.examine();
    assert_eq!(examined.verdict, ReplicaVerdict::Unusable);
    assert_eq!(examined.replica.unwrap().intents.slots[0].bytes, size);
    assert!(begun.elapsed() < Duration::from_secs(60));
}

#[test]
fn open_regions_and_missing_blocks_are_counted() {
    let disk = Disk::new();
    let replica = disk.superblock.replica;
    let region = disk.superblock.view.intents.region;
    let table = |sequence, open| {
        let regions = OpenRegions { slot: 0, region, open };
        IntentTable { sequence, cleared: 0, replica, regions }.encode()
    };
    disk.write(TableCopy::A.offset(0), &table(1, vec![1]));
    disk.write(TableCopy::B.offset(0), &table(2, vec![0, 7]));
    let mut page = MissingPage {
        place: 0,
        replica: ABSENT,
        since: Generation(3),
        page: 0,
        bits: Box::new([0; evenkeel_core::block_set::PAGE_WORDS]),
    };
    page.bits[2] = 0b1011;
    disk.write(disk.superblock.metadata_offset, &encode_page(&page));
    let replica = disk.examine().replica.unwrap();
    let slot = &replica.intents.slots[0];
    assert_eq!((&slot.open, slot.bytes, slot.all_open), (&vec![0, 7], 2 << 20, false));
    assert_eq!(slot.sequences, [Some(1), Some(2)]);
    assert_eq!((slot.events, slot.cleared), (2, 0));
    let bitmap = &replica.bitmaps[0];
    assert_eq!((bitmap.blocks, bitmap.bytes, bitmap.counts), (3, 3 * 4096, true));
    assert_eq!(bitmap.replica, ABSENT.to_string());

    disk.write(TableCopy::B.offset(0) + 70, &[0xff]);
    let examined = disk.examine();
    assert_eq!(examined.verdict, ReplicaVerdict::Impaired);
    assert_eq!(examined.replica.unwrap().intents.slots[0].open, [1]);
    disk.write(TableCopy::A.offset(0) + 70, &[0xff]);
    let replica = disk.examine().replica.unwrap();
    assert!(replica.intents.slots[0].all_open);
    assert_eq!(replica.intents.slots[0].bytes, SIZE);
}

#[test]
fn a_locked_replica_is_read_and_neither_changed_nor_locked() {
    let disk = Disk::new();
    let before = std::fs::read(&disk.path).unwrap();
    let holder = File::open(&disk.path).unwrap();
    flock(&holder, FlockOperation::NonBlockingLockExclusive).unwrap();
    let examined = disk.examine();
    assert_eq!(examined.verdict, ReplicaVerdict::Whole);
    drop(holder);
    // Whoever serves it next gets the lock at once.
    let next = File::open(&disk.path).unwrap();
    flock(&next, FlockOperation::NonBlockingLockExclusive).unwrap();
    assert_eq!(std::fs::read(&disk.path).unwrap(), before);
}
