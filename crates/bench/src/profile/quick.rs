//! `quick`: where this machine and this version stand, in about three minutes.

use crate::fio::FioJob;
use crate::profile::Choice;
use crate::result::Measure;
use crate::runner::Plan;
use crate::target::{Protocol, Recipe};
use crate::workload::{Place, Task};

const SIZE: u64 = 256 << 20;
const SECONDS: f64 = 1.0;
const K4: u64 = 4 << 10;
const M1: u64 = 1 << 20;

pub fn plan(choice: &Choice) -> Plan {
    let size = choice.size.unwrap_or(SIZE);
    let milliseconds = (choice.seconds.unwrap_or(SECONDS) * 1000.0) as u64;
    let timed =
        |pattern: &str, block, depth| FioJob::timed(pattern, block, depth, size, milliseconds);
    let rate = |id: &str, name: &str, job| {
        Task::fio(id, name, Measure::OperationsPerSecond, Place::Shortest, job)
    };
    let stream = |id: &str, name: &str, job| {
        Task::fio(id, name, Measure::BytesPerSecond, Place::Shortest, job)
    };
    let flushed = FioJob { flush_every: 1, ..timed("randwrite", K4, 1) };
    Plan {
        profile: String::new(),
        recipes: vec![
            Recipe::Raw,
            Recipe::Limit(2),
            Recipe::Limit(3),
            Recipe::Local(2),
            Recipe::Replicas(3, Protocol::C),
            Recipe::Replicas(3, Protocol::B),
            Recipe::Replicas(3, Protocol::A),
        ],
        named: Vec::new(),
        tasks: vec![
            rate("4k-randwrite-d1", "4K random write, depth 1", timed("randwrite", K4, 1)),
            rate("4k-randwrite-d32", "4K random write, depth 32", timed("randwrite", K4, 32)),
            rate("4k-randwrite-flush", "4K random write, a flush after each", flushed),
            rate("4k-randread-d1", "4K random read, depth 1", timed("randread", K4, 1)),
            rate("4k-randread-d32", "4K random read, depth 32", timed("randread", K4, 32)),
            stream("1m-write-d8", "1M sequential write, depth 8", timed("write", M1, 8)),
            stream("1m-read-d8", "1M sequential read, depth 8", timed("read", M1, 8)),
        ],
        size,
        scale: 1.0,
        method: method(),
        devices: choice.devices,
    }
}

fn method() -> Vec<String> {
    [
        "fio generates the load: io_uring and O_DIRECT on files, its own NBD client on exports.",
        "All configurations are set up first, in files that are written full before anything is measured. Then each is warmed up by half a second of mixed reads and writes.",
        "Each round measures every workload on every configuration, beginning with another configuration each time; a figure is the median of the rounds, its spread the distance of the smallest and the largest.",
        "The raw file is part of every round: a ratio to raw compares within the same round, and the median of these ratios is shown.",
        "All copies lie on the same disk unless several scratch directories were given. The limit of N copies is fio on N raw files at once, its total divided by N, in the same round.",
        "Processor time of the servers is read from /proc before and after each measurement (resolution 10 ms), that of the tool is its own account. Work of kernel threads is in neither, but in the processor time of the whole machine, where other programs' work is too.",
        "After the last round, 8 MiB of blocks with checksums are written to every configuration and read back.",
    ]
    .map(str::to_owned)
    .to_vec()
}
