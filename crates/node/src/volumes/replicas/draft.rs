//! A volume that is about to be made.

use evenkeel_api::types::{Disk, NoData};
use evenkeel_core::{Incarnations, ReplicaId, ReplicaRecord, View};
use evenkeel_format::{DATA_OFFSET, Superblock, metadata_offset};

use crate::clock::unix_seconds;
use crate::conversions;
use crate::coordinator::{PlacedReplica, VolumeRecord, WantedOn};

/// What is about to be made.
pub(in crate::volumes) struct Draft {
    pub(in crate::volumes) name: String,
    pub(in crate::volumes) no_data: NoData,
    pub(in crate::volumes) thin: bool,
    pub(in crate::volumes) checksums: bool,
    pub(in crate::volumes) view: View,
    /// The disk of each replica, by mirror.
    pub(in crate::volumes) disks: Vec<Vec<Disk>>,
    pub(in crate::volumes) warnings: Vec<String>,
}

impl Draft {
    /// All replicas with their mirror and disk.
    pub(in crate::volumes) fn replicas(
        &self,
    ) -> impl Iterator<Item = (usize, &ReplicaRecord, &Disk)> {
        let disks = self.disks.iter().flatten();
        self.view.replicas().zip(disks).map(|((mirror, record), disk)| (mirror, record, disk))
    }

    pub(in crate::volumes) fn superblock(&self, mirror: usize, replica: ReplicaId) -> Superblock {
        let size = self.view.replica_size();
        Superblock {
            sequence: 1,
            volume: self.view.volume,
            name: self.name.clone(),
            replica,
            mirror: mirror as u32,
            data_offset: DATA_OFFSET,
            data_length: size,
            incarnations: Incarnations::default(),
            saved: unix_seconds(),
            metadata_offset: metadata_offset(size),
            has_checksums: self.checksums,
            view: self.view.clone(),
        }
    }

    pub(in crate::volumes) fn record(&self) -> VolumeRecord {
        let placed = |(mirror, record, disk): (usize, &ReplicaRecord, &Disk)| PlacedReplica {
            id: record.id.to_string(),
            mirror,
            node: record.node.to_string(),
            disk: disk.name.clone(),
            removed: false,
            maker: None,
        };
        VolumeRecord {
            id: self.view.volume.to_string(),
            name: self.name.clone(),
            no_data: conversions::stored_no_data(self.no_data),
            replicas: self.replicas().map(placed).collect(),
            stopped: false,
            checksums: self.checksums,
            used_on: None,
            wanted_on: WantedOn::default(),
            verified: None,
            revision: 0,
            lost: Vec::new(),
        }
    }
}
