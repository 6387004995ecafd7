//! Making room for a volume that is to grow: what the disk says after each step, and after a
//! restart between two of them.

use std::fs::OpenOptions;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use crate::common::client::{Answer, Client, Request};
use crate::common::{Cluster, Shape, ask, open_direct, open_regions, pattern, read_newest};
use evenkeel_core::Settings;
use evenkeel_engine::{EngineError, SpaceStep, SpaceTask};
use evenkeel_format::{DATA_OFFSET, disk_length, metadata_offset};

const OLD: u64 = 16 << 20;
const NEW: u64 = 64 << 20;
/// So long that its bitmaps have more pages.
const LONG: u64 = 300 << 20;

fn ask_for(
    cluster: &Cluster,
    length: u64,
    step: SpaceStep,
) -> Result<Option<SpaceTask>, EngineError> {
    let (volume, replica) = (cluster.volume, cluster.replica(0, 0));
    loop {
        let call =
            |answer| cluster.engines[0].make_space(volume, replica, length, step, None, answer);
        match ask(call) {
            Err(EngineError::Busy) if step != SpaceStep::Use => {}
            answer => return answer,
        }
    }
}

/// What has to read as zeroes before the next step.
fn step(cluster: &Cluster, step: SpaceStep) -> Result<Option<Range<u64>>, EngineError> {
    let task = ask_for(cluster, NEW, step)?;
    Ok(task.map(|task| match task {
        SpaceTask::Zero(range) => range,
        SpaceTask::Carry(_) => panic!("checksums were not asked for"),
    }))
}

/// A step with what has to be done before the next one.
fn carry_out(cluster: &Cluster, length: u64, step: SpaceStep) {
    let file = open_direct(&cluster.path(0, 0));
    // A table of open regions may be saved just then.
    let task = loop {
        match ask_for(cluster, length, step) {
            Err(EngineError::Busy) => {}
            answer => break answer.unwrap(),
        }
    };
    match task {
        Some(SpaceTask::Zero(range)) => {
            let zeroes = vec![0; (range.end - range.start) as usize];
            let path = cluster.path(0, 0);
            let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
            file.write_all_at(&zeroes, range.start).unwrap();
            file.sync_all().unwrap();
        }
        Some(SpaceTask::Carry(pages)) => pages.carry_out(&file).unwrap(),
        None => {}
    }
}

const ALL: SpaceStep = SpaceStep::CarryChecksums { anew: true };
const CHANGED: SpaceStep = SpaceStep::CarryChecksums { anew: false };

fn grow(cluster: &Cluster, length: u64, meanwhile: impl Fn(usize)) {
    let file = open_direct(&cluster.path(0, 0));
    file.set_len(file.metadata().unwrap().len().max(disk_length(length))).unwrap();
    let steps = [SpaceStep::Plan, ALL, CHANGED, SpaceStep::MoveMetadata, SpaceStep::Use];
    for (n, step) in steps.into_iter().enumerate() {
        carry_out(cluster, length, step);
        meanwhile(n);
    }
    assert_eq!(layout(cluster), (length, metadata_offset(length)));
}

/// Flips a bit of the replica's data; a client's read of its block fails, as there is no other
/// copy.
fn is_damage_found(cluster: &Cluster, client: &Client, offset: u64) -> bool {
    let file = OpenOptions::new().read(true).write(true).open(cluster.path(0, 0)).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, DATA_OFFSET + offset).unwrap();
    file.write_all_at(&[byte[0] ^ 4], DATA_OFFSET + offset).unwrap();
    file.sync_all().unwrap();
    !matches!(client.call(Request::Read(offset / 4096 * 4096, 4096)), Ok(Answer::Data(_)))
}

/// Waits until no region is open, on the disk too, after which a restart forgets no checksum.
fn stabilize(cluster: &Cluster) {
    let is_open = || cluster.status(0).replicas[0].core.open_regions > 0;
    while is_open() || !open_regions(&cluster.path(0, 0)).is_empty() {
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Data length and metadata offset on the disk, both slots of which are whole.
fn layout(cluster: &Cluster) -> (u64, u64) {
    let newest = read_newest(&cluster.path(0, 0));
    assert!(newest.damaged.is_none());
    (newest.superblock.data_length, newest.superblock.metadata_offset)
}

#[test]
fn room_is_made_in_three_steps_that_a_restart_may_part() {
    let mut cluster = Cluster::start(Shape::default());
    cluster.attach();
    let client = cluster.client();
    client.write(OLD - 4096, pattern(3, 4096));
    drop(client);
    cluster.detach();
    open_direct(&cluster.path(0, 0)).set_len(disk_length(NEW)).unwrap();
    let (old_data, new_data) = (DATA_OFFSET + OLD, DATA_OFFSET + NEW);

    let planned = step(&cluster, SpaceStep::Plan).unwrap();
    assert_eq!(planned, Some(disk_length(OLD)..disk_length(NEW)));
    // The room is not used before the metadata have moved.
    assert!(matches!(step(&cluster, SpaceStep::Use), Err(EngineError::Busy)));
    assert_eq!(layout(&cluster), (OLD, metadata_offset(OLD)));

    assert_eq!(step(&cluster, SpaceStep::MoveMetadata).unwrap(), Some(old_data..new_data));
    assert_eq!(layout(&cluster), (OLD, metadata_offset(NEW)));
    cluster.close_replica(0, 0, 0);
    cluster.open_replica(0, 0, 0, 2).unwrap();
    // Nothing is to be zeroed where the metadata lie now.
    assert!(step(&cluster, SpaceStep::Plan).unwrap().is_some_and(|range| range.is_empty()));
    assert_eq!(step(&cluster, SpaceStep::MoveMetadata).unwrap(), Some(old_data..new_data));

    assert_eq!(step(&cluster, SpaceStep::Use).unwrap(), None);
    assert_eq!(layout(&cluster), (NEW, metadata_offset(NEW)));
    cluster.close_replica(0, 0, 0);
    cluster.open_replica(0, 0, 0, 3).unwrap();
    assert_eq!(step(&cluster, SpaceStep::Plan).unwrap(), None);
    cluster.attach();
    let client = cluster.client();
    assert_eq!(client.read(OLD - 4096, 4096), pattern(3, 4096));
}

/// Blocks that were written before, between and after the steps; with and without a restart between
/// two.
#[test]
fn checksums_are_carried_along() {
    let stabilize_after = Duration::from_millis(100);
    let settings = Settings { stabilize_after, ..Settings::default() };
    let mut cluster = Cluster::start(Shape { settings, ..Shape::default() });
    cluster.attach();
    let client = cluster.client();
    for at in (0..OLD).step_by(1 << 20) {
        client.write(at, pattern(at, 1 << 20));
    }
    client.call(Request::Flush).unwrap();
    grow(&cluster, LONG, |n| {
        let written = pattern(n as u64 + 1000, 8192);
        client.write((n as u64 * 3) << 20, written);
        if n % 2 == 0 {
            client.call(Request::Flush).unwrap();
        }
    });
    assert!(is_damage_found(&cluster, &client, (1 << 20) + 77), "written before");
    for n in 0..5u64 {
        let at = (n * 3) << 20;
        assert_eq!(client.read(at, 8192), pattern(n + 1000, 8192));
        assert!(is_damage_found(&cluster, &client, at + 4096), "written after step {n}");
    }
    client.call(Request::Flush).unwrap();
    cluster.detach();
    stabilize(&cluster);
    cluster.close_replica(0, 0, 0);
    cluster.open_replica(0, 0, 0, 2).unwrap();
    cluster.attach();
    let client = cluster.client();
    assert_eq!(client.read((1 << 20) + 4096, 4096), pattern(1 << 20, 1 << 20)[4096..8192]);
    assert!(is_damage_found(&cluster, &client, (5 << 20) + 77), "after a restart");
    for n in 0..5u64 {
        let at = (n * 3) << 20;
        assert_eq!(client.read(at, 4096), pattern(n + 1000, 8192)[..4096]);
        assert!(is_damage_found(&cluster, &client, at), "written after step {n}, and restarted");
    }
    cluster.detach();
}

/// Whatever was copied when the node ended, nothing that is right is refused, and no damage
/// forgotten.
#[test]
fn a_restart_between_any_two_steps_keeps_checksums() {
    let steps = [SpaceStep::Plan, ALL, CHANGED, SpaceStep::MoveMetadata, SpaceStep::Use];
    for count in 0..=steps.len() {
        let stabilize_after = Duration::from_millis(100);
        let settings = Settings { stabilize_after, ..Settings::default() };
        let mut cluster = Cluster::start(Shape { settings, ..Shape::default() });
        cluster.attach();
        let client = cluster.client();
        client.write(0, pattern(1, 1 << 20));
        client.call(Request::Flush).unwrap();
        open_direct(&cluster.path(0, 0)).set_len(disk_length(LONG)).unwrap();
        for (n, step) in steps[..count].iter().enumerate() {
            carry_out(&cluster, LONG, *step);
            client.write(n as u64 * 8192, pattern(n as u64 + 7, 4096));
        }
        cluster.detach();
        stabilize(&cluster);
        cluster.close_replica(0, 0, 0);
        cluster.open_replica(0, 0, 0, 2).unwrap();
        grow(&cluster, LONG, |_| {});
        cluster.attach();
        let client = cluster.client();
        for n in 0..count as u64 {
            assert_eq!(client.read(n * 8192, 4096), pattern(n + 7, 4096), "{count} steps");
            assert!(is_damage_found(&cluster, &client, n * 8192), "{count} steps, write {n}");
        }
        assert!(is_damage_found(&cluster, &client, (1 << 20) - 1), "{count} steps");
        cluster.detach();
    }
}

/// Of a last block that had only a part, what it yields changes as it becomes longer.
#[test]
fn a_part_of_a_block_at_the_end_becomes_a_whole_one() {
    let odd = OLD - 1024;
    let mut cluster = Cluster::start(Shape { size: odd, ..Shape::default() });
    cluster.attach();
    let client = cluster.client();
    client.write(odd - 8192, pattern(3, 8192));
    client.call(Request::Flush).unwrap();
    grow(&cluster, NEW, |_| {});
    assert_eq!(client.read(odd - 8192, 8192), pattern(3, 8192));
    assert!(is_damage_found(&cluster, &client, odd - 8192), "the one before is known still");
    cluster.detach();
}

/// Checksums that are not carried, as there is no place for them apart from where they are, begin
/// anew. So does their journal, and it goes on after a restart as if nothing had been.
#[test]
fn where_there_is_no_place_checksums_begin_anew() {
    let stabilize_after = Duration::from_millis(100);
    let settings = Settings { stabilize_after, ..Settings::default() };
    let mut cluster = Cluster::start(Shape { settings, ..Shape::default() });
    cluster.attach();
    let client = cluster.client();
    for n in 0..8 {
        client.write(n << 20, pattern(n, 4096));
        client.call(Request::Flush).unwrap();
    }
    grow(&cluster, OLD + (512 << 10), |_| {});
    // So much that the pages are written, and no block of the journal.
    for at in (0..12).map(|at| at << 20) {
        client.write(at, pattern(at, 1 << 20));
    }
    client.call(Request::Flush).unwrap();
    cluster.detach();
    stabilize(&cluster);
    for incarnation in 2..5 {
        cluster.close_replica(0, 0, 0);
        cluster.open_replica(0, 0, 0, incarnation).unwrap();
        cluster.attach();
        let client = cluster.client();
        if incarnation > 2 {
            assert_eq!(client.read(4096, 4096), pattern(incarnation - 1, 4096));
        }
        client.write(4096, pattern(incarnation, 4096));
        client.call(Request::Flush).unwrap();
        cluster.detach();
        stabilize(&cluster);
    }
    cluster.attach();
    let client = cluster.client();
    assert!(is_damage_found(&cluster, &client, (3 << 20) + 4), "written since");
    cluster.detach();
}
