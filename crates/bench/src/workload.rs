//! Workloads: what is done to each configuration.

use crate::fio::FioJob;
use crate::result::{Measure, Workload};
use crate::tools::{self, Tool};

/// One workload, ready to be run.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// How it appears in the results.
    pub workload: Workload,
    /// Where it works.
    pub place: Place,
    /// What is run.
    pub work: Work,
    /// In how many rounds.
    pub rounds: u32,
}

/// Where a workload works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The configuration by its shortest way: a file, or fio's own client.
    Shortest,
    /// A block device (of the raw disk: a loop device over a file).
    Device,
    /// A file on a filesystem: the configuration's own, else a new one of this kind.
    Filesystem(Filesystem),
}

/// A filesystem made for a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filesystem {
    /// XFS with its defaults.
    Xfs,
    /// XFS told that the device is striped: 256 KiB, one data disk.
    XfsStriped,
    /// ext4 with its defaults.
    Ext4,
}

impl Filesystem {
    /// The command that makes it on a device.
    pub fn make(self) -> &'static [&'static str] {
        match self {
            Self::Xfs => &["mkfs.xfs", "-f", "-q"],
            Self::XfsStriped => {
                &["mkfs.xfs", "-f", "-q", "-d", "su=256k,sw=1", "-l", "version=2,su=256k"]
            }
            Self::Ext4 => &["mkfs.ext4", "-F", "-q"],
        }
    }

    /// For people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Xfs => "XFS",
            Self::XfsStriped => "XFS with stripe hints",
            Self::Ext4 => "ext4",
        }
    }
}

/// What is run.
#[derive(Debug, Clone, PartialEq)]
pub enum Work {
    /// fio.
    Fio(FioJob),
    /// dd.
    Dd(DdJob),
    /// `hdparm -tT`.
    Hdparm,
    /// bonnie++.
    Bonnie(BonnieJob),
    /// iozone with all its tests, up to this file size in bytes.
    Iozone(u64),
}

/// One run of dd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DdJob {
    /// What it copies.
    pub direction: DdDirection,
    /// Bytes of a block.
    pub block: u64,
    /// Blocks.
    pub count: u64,
    /// Flags, as in `direct` or `direct,nonblock`.
    pub flags: &'static str,
}

/// What dd copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DdDirection {
    /// From the configuration to nowhere.
    Read,
    /// Zeroes to the configuration.
    Write,
    /// From the configuration to a file of the raw disk.
    ReadToFile,
}

/// One run of bonnie++.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BonnieJob {
    /// Bytes of its file.
    pub size: u64,
    /// Its `-n`: thousands of small files.
    pub files: u32,
    /// Its `-f`: no tests by character.
    pub fast: bool,
}

impl Task {
    /// A task of fio.
    pub fn fio(id: &str, name: &str, measure: Measure, place: Place, job: FioJob) -> Self {
        let writes = !matches!(job.pattern.as_str(), "read" | "randread");
        Self {
            workload: workload(id, name, "fio", measure, writes),
            place,
            work: Work::Fio(job),
            rounds: 3,
        }
    }

    /// The same in so many rounds.
    #[must_use]
    pub fn rounds(mut self, rounds: u32) -> Self {
        self.rounds = rounds;
        self
    }

    /// The tool that it needs.
    pub const fn tool(&self) -> Tool {
        match self.work {
            Work::Fio(_) => tools::FIO,
            Work::Dd(_) => tools::DD,
            Work::Hdparm => tools::HDPARM,
            Work::Bonnie(_) => tools::BONNIE,
            Work::Iozone(_) => tools::IOZONE,
        }
    }

    /// A task of dd.
    pub fn dd(id: &str, name: &str, measure: Measure, place: Place, job: DdJob) -> Self {
        let writes = job.direction == DdDirection::Write;
        Self {
            workload: workload(id, name, "dd", measure, writes),
            place,
            work: Work::Dd(job),
            rounds: 3,
        }
    }

    /// A task of hdparm.
    pub fn hdparm() -> Self {
        let workload = workload(
            "hdparm",
            "hdparm -tT, buffered disk reads",
            "hdparm",
            Measure::BytesPerSecond,
            false,
        );
        Self { workload, place: Place::Device, work: Work::Hdparm, rounds: 3 }
    }

    /// A task of bonnie++.
    pub fn bonnie(id: &str, name: &str, filesystem: Filesystem, job: BonnieJob) -> Self {
        Self {
            workload: workload(id, name, "bonnie++", Measure::BytesPerSecond, true),
            place: Place::Filesystem(filesystem),
            work: Work::Bonnie(job),
            rounds: 1,
        }
    }

    /// A task of IOzone.
    pub fn iozone(size: u64) -> Self {
        Self {
            workload: workload(
                "iozone",
                "IOzone, all its tests; shown: the first write",
                "iozone",
                Measure::BytesPerSecond,
                true,
            ),
            place: Place::Filesystem(Filesystem::Ext4),
            work: Work::Iozone(size),
            rounds: 1,
        }
    }
}

fn workload(id: &str, name: &str, tool: &str, measure: Measure, writes: bool) -> Workload {
    Workload { id: id.to_owned(), name: name.to_owned(), tool: tool.to_owned(), measure, writes }
}
