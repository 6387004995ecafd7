//! Making room for a volume that is to grow: what the disk says after each step, and after a restart
//! between two of them.

mod common;

use common::{Cluster, Shape, ask, open_direct, pattern, read_newest};
use evenkeel_engine::{EngineError, RoomStep};
use evenkeel_format::{DATA_OFFSET, disk_length, metadata_offset};

const OLD: u64 = 16 << 20;
const NEW: u64 = 64 << 20;

fn step(cluster: &Cluster, step: RoomStep) -> Result<Option<std::ops::Range<u64>>, EngineError> {
    let (volume, replica) = (cluster.volume, cluster.replica(0, 0));
    ask(|answer| cluster.engines[0].make_room(volume, replica, NEW, step, None, answer))
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

    let planned = step(&cluster, RoomStep::Plan).unwrap();
    assert_eq!(planned, Some(disk_length(OLD)..disk_length(NEW)));
    // The room is not used before the metadata have moved.
    assert!(matches!(step(&cluster, RoomStep::Use), Err(EngineError::Busy)));
    assert_eq!(layout(&cluster), (OLD, metadata_offset(OLD)));

    assert_eq!(step(&cluster, RoomStep::MoveMetadata).unwrap(), Some(old_data..new_data));
    assert_eq!(layout(&cluster), (OLD, metadata_offset(NEW)));
    cluster.close_replica(0, 0, 0);
    cluster.open_replica(0, 0, 0, 2).unwrap();
    // Nothing is to be zeroed where the metadata lie now.
    assert!(step(&cluster, RoomStep::Plan).unwrap().is_some_and(|range| range.is_empty()));
    assert_eq!(step(&cluster, RoomStep::MoveMetadata).unwrap(), Some(old_data..new_data));

    assert_eq!(step(&cluster, RoomStep::Use).unwrap(), None);
    assert_eq!(layout(&cluster), (NEW, metadata_offset(NEW)));
    cluster.close_replica(0, 0, 0);
    cluster.open_replica(0, 0, 0, 3).unwrap();
    assert_eq!(step(&cluster, RoomStep::Plan).unwrap(), None);
    cluster.attach();
    let client = cluster.client();
    assert_eq!(client.read(OLD - 4096, 4096), pattern(3, 4096));
}
