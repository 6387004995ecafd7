//! The workloads of published reports.

use crate::fio::FioJob;
use crate::profile::Choice;
use crate::result::Measure;
use crate::runner::Plan;
use crate::target::{Protocol, Recipe};
use crate::workload::{BonnieJob, DdDirection, DdJob, Filesystem, Place, Task};

const K: u64 = 1 << 10;
const M: u64 = 1 << 20;
const G: u64 = 1 << 30;
/// XFS refuses less than 300 MiB, and below 512 MiB ext4 takes blocks of 1 KiB: its files then
/// begin anywhere, and what writes 4 KiB to one writes parts of two blocks. The devices of the
/// reports were larger.
const SMALLEST_FILESYSTEM: u64 = 512 * M;

/// Scales a size down to a multiple of `unit`, at least one.
fn scaled(bytes: u64, scale: f64, unit: u64) -> u64 {
    (((bytes as f64 * scale) as u64) / unit).max(1) * unit
}

fn count(original: u64, scale: f64) -> u64 {
    ((original as f64 * scale) as u64).max(1)
}

/// How often something is measured that the original measured once: that says nothing of noise.
fn rounds(scale: f64) -> u32 {
    if scale < 1.0 { 3 } else { 1 }
}

/// A time in milliseconds, at least one second.
fn time(seconds: f64, scale: f64) -> u64 {
    (((seconds * scale) as u64).max(1)) * 1000
}

fn base(scale: f64, recipes: Vec<Recipe>, tasks: Vec<Task>, size: u64) -> Plan {
    Plan {
        profile: String::new(),
        recipes,
        named: Vec::new(),
        tasks,
        size,
        scale,
        method: method(scale),
        devices: true,
    }
}

fn method(scale: f64) -> Vec<String> {
    let mut method = vec![
        "The tools, options and order of the original report; its block device is here the attached device of a configuration, and of the raw disk a loop device over a file (direct I/O), so that both have the same kind of way in.".to_owned(),
        "Configurations are interleaved in rounds; the raw disk is part of every round, and ratios compare within the same round.".to_owned(),
        "Devices, and the files of fio on a filesystem, are written full before anything is measured; then each configuration is warmed up by half a second of mixed reads and writes. Page caches are dropped before buffered work.".to_owned(),
        "The limit of N copies is fio with the same options on N raw files at once, its total divided by N, in the same round; there is none for reads, for buffered work, and for other tools.".to_owned(),
        "Processor time of the servers is read from /proc before and after each measurement (resolution 10 ms). Work of kernel threads, as of md, DRBD and loop devices, is only in the processor time of the whole machine, where other programs' work is too.".to_owned(),
        "After the last round, 8 MiB of blocks with checksums are written to every configuration and read back.".to_owned(),
    ];
    if scale < 1.0 {
        method.push(format!(
            "Sizes and times are {scale} of the original's: buffered work that fits into memory here measures the page cache."
        ));
    }
    method
}

/// dd, fio and IOzone on a local mirror.
pub fn cluster_md(choice: &Choice) -> Plan {
    let scale = choice.scale.unwrap_or(0.004);
    let total = scaled(40 * G, scale, M);
    let each = scaled(10 * G, scale, M);
    let processors = std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
    let dd = |id: &str, name: &str, direction| {
        let job = DdJob { direction, block: M, count: total / M, flags: "direct,nonblock" };
        Task::dd(id, name, Measure::BytesPerSecond, Place::Device, job).rounds(rounds(scale))
    };
    let mut tasks = vec![
        dd("dd-read", "dd 1M direct read", DdDirection::Read),
        dd("dd-write", "dd 1M direct write", DdDirection::Write),
        dd("dd-copy", "dd 1M direct read to a file", DdDirection::ReadToFile),
    ];
    for pattern in ["read", "write", "randread", "randwrite", "randrw"] {
        let job = FioJob {
            jobs: 2 * processors,
            engine: Some("libaio"),
            milliseconds: None,
            time_based: false,
            reads: (pattern == "randrw").then_some(70),
            ..FioJob::timed(pattern, 64 * K, 64, each, 0)
        };
        let name = format!("fio 64K {pattern}, depth 64, {} jobs", 2 * processors);
        let id = format!("fio-64k-{pattern}");
        tasks.push(
            Task::fio(&id, &name, Measure::BytesPerSecond, Place::Device, job)
                .rounds(rounds(scale)),
        );
    }
    tasks.push(Task::iozone(scaled(8 * G, scale, 2 * M)));
    let recipes = vec![
        Recipe::RawLoop,
        Recipe::Limit(2),
        Recipe::Local(2),
        Recipe::Shared(2),
        Recipe::MdRaid1,
    ];
    base(scale, recipes, tasks, total.max(each).max(64 * M))
}

/// Buffered fio and small direct dd on the filesystem of a client.
pub fn gluster(choice: &Choice) -> Plan {
    let scale = choice.scale.unwrap_or(0.006);
    let size = scaled(10 * G, scale, M);
    let place = Place::Filesystem(Filesystem::Xfs);
    let fio = |pattern: &str| {
        let job = FioJob {
            jobs: 4,
            engine: Some("libaio"),
            direct: false,
            time_based: false,
            ..FioJob::timed(pattern, 4 * K, 1, size, time(240.0, scale))
        };
        let name = format!("fio 4K {pattern}, buffered, 4 jobs");
        let id = format!("fio-4k-{pattern}");
        Task::fio(&id, &name, Measure::OperationsPerSecond, place, job).rounds(rounds(scale))
    };
    let dd = |id: &str, name: &str, measure, block, count| {
        let job = DdJob { direction: DdDirection::Write, block, count, flags: "direct" };
        Task::dd(id, name, measure, place, job).rounds(rounds(scale))
    };
    let large = scaled(128 * M, scale.max(0.25), M);
    let small = count(10_000, scale.max(0.05));
    let each = Measure::SecondsPerOperation;
    let tasks = vec![
        fio("write"),
        dd("dd-128m", "dd one large block, direct", Measure::BytesPerSecond, large, 1),
        dd("dd-4k", "dd 4k blocks, direct", each, 4 * K, small),
        dd("dd-512", "dd 512-byte blocks, direct", each, 512, small),
        fio("read"),
        fio("randwrite"),
        fio("randread"),
    ];
    let recipes = vec![
        Recipe::RawLoop,
        Recipe::Replicas(3, Protocol::C),
        Recipe::GlusterMount,
        Recipe::GlusterApi,
    ];
    base(scale, recipes, tasks, (size * 2).max(SMALLEST_FILESYSTEM))
}

/// hdparm, dd and bonnie++ on a mirror of two.
pub fn md_raid1(choice: &Choice) -> Plan {
    let scale = choice.scale.unwrap_or(0.0005);
    let repeat =
        |original: f64| ((original * scale * 1000.0).ceil() as u32).clamp(2, original as u32);
    let dd = |id: &str, name: &str, measure, block, count| {
        let job = DdJob { direction: DdDirection::Write, block, count, flags: "direct" };
        Task::dd(id, name, measure, Place::Device, job).rounds(repeat(10.0))
    };
    let large = scaled(512 * M, (scale * 250.0).min(1.0).max(scale), M);
    let small = count(10_000, (scale * 250.0).min(1.0).max(scale));
    let mut tasks = vec![
        Task::hdparm().rounds(repeat(5.0)),
        dd("dd-throughput", "dd one large block, direct", Measure::BytesPerSecond, large, 1),
        dd("dd-latency", "dd 512-byte blocks, direct", Measure::SecondsPerOperation, 512, small),
    ];
    // bonnie++ tells no figure of what takes less than half a second.
    let first = scaled(320 * G, scale, M).max(512 * M);
    let second = scaled(70 * G, scale, M).max(512 * M);
    for (tag, filesystem) in [("xfs", Filesystem::Xfs), ("striped", Filesystem::XfsStriped)] {
        let name = filesystem.name();
        let fast = BonnieJob { size: first, files: 0, fast: true };
        let whole = BonnieJob { size: second, files: 10, fast: false };
        let id = format!("bonnie-fast-{tag}");
        tasks.push(Task::bonnie(
            &id,
            &format!("bonnie++ -n 0 -f -b, {name}, write by block"),
            filesystem,
            fast,
        ));
        let id = format!("bonnie-files-{tag}");
        tasks.push(Task::bonnie(
            &id,
            &format!("bonnie++ -n 10 -b, {name}, write by block"),
            filesystem,
            whole,
        ));
    }
    let recipes = vec![Recipe::RawLoop, Recipe::Local(2), Recipe::MdRaid1];
    base(
        scale,
        recipes,
        tasks,
        ((first.max(second) * 5 / 4 + 128 * M) / M * M).max(SMALLEST_FILESYSTEM).max(large),
    )
}

/// 64 jobs of 4K direct writes on filesystems over each protocol.
pub fn drbd(choice: &Choice) -> Plan {
    let scale = choice.scale.unwrap_or(0.2);
    let size = scaled(512 * M, scale, M);
    let mut tasks = Vec::new();
    for (tag, filesystem) in [("xfs", Filesystem::Xfs), ("ext4", Filesystem::Ext4)] {
        for pattern in ["write", "randwrite"] {
            let job = FioJob {
                jobs: 64,
                engine: Some("psync"),
                time_based: false,
                ..FioJob::timed(pattern, 4 * K, 1, size, time(10.0, scale))
            };
            let name = format!("fio 4K {pattern}, 64 jobs, {}", filesystem.name());
            let id = format!("fio-{pattern}-{tag}");
            let place = Place::Filesystem(filesystem);
            tasks.push(Task::fio(&id, &name, Measure::OperationsPerSecond, place, job).rounds(2));
        }
    }
    let recipes = vec![
        Recipe::RawLoop,
        Recipe::Limit(2),
        Recipe::Replicas(2, Protocol::C),
        Recipe::Replicas(2, Protocol::B),
        Recipe::Replicas(2, Protocol::A),
        Recipe::Drbd(Protocol::C),
        Recipe::Drbd(Protocol::B),
        Recipe::Drbd(Protocol::A),
    ];
    base(scale, recipes, tasks, (size + 64 * M).max(SMALLEST_FILESYSTEM))
}

/// hdparm and fio on a local disk, a single export, a stripe of mirrors, and replication.
pub fn network_storage(choice: &Choice) -> Plan {
    let scale = choice.scale.unwrap_or(0.05);
    let size = scaled(4 * G, scale, M);
    let job = FioJob {
        engine: Some("posixaio"),
        direct: false,
        flush_at_end: true,
        ..FioJob::timed("randwrite", 4 * K, 1, size, time(60.0, scale))
    };
    let name = "fio 4K randwrite, posixaio, a flush at the end";
    let place = Place::Filesystem(Filesystem::Xfs);
    let fio = Task::fio("fio-random-write", name, Measure::OperationsPerSecond, place, job);
    let tasks = vec![Task::hdparm().rounds(rounds(scale)), fio.rounds(2)];
    let recipes = vec![
        Recipe::RawLoop,
        // A single export, by every protocol that there is.
        Recipe::Remote(1),
        Recipe::QemuNbd,
        Recipe::Nbdkit,
        Recipe::Tgt,
        // Mirrors over exports, and a stripe of them.
        Recipe::RemoteStripe,
        Recipe::QuorumNbd,
        // Replication behind the export.
        Recipe::Replicas(2, Protocol::C),
        Recipe::Drbd(Protocol::C),
    ];
    base(scale, recipes, tasks, (size + 128 * M).max(SMALLEST_FILESYSTEM))
}
