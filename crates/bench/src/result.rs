//! The result format: what a run measured, or what was read from an old report.
//!
//! Described field by field in `docs/bench-results.md`. A reader must refuse a `version` above
//! its own; new optional fields do not raise the version, changed meanings do.

use serde::{Deserialize, Serialize};

/// Value of [`Results::format`].
pub const FORMAT: &str = "evenkeel-bench";
/// Value of [`Results::version`] that this software writes.
pub const VERSION: u32 = 1;

/// Operations that must have taken longer than a percentile for it to be shown: a p99 needs 1,000.
pub const MIN_BEYOND: f64 = 10.0;

/// The tests of hdparm and bonnie++ by which their runs are compared.
const HEADLINES: [&str; 2] = ["buffered disk reads", "write by block"];

/// [`Part::name`] of the flushes between writes: they have a latency, and are no operations of the
/// workload.
pub const FLUSH: &str = "flush";

/// Everything about one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// Always [`FORMAT`].
    pub format: String,
    /// Version of this shape.
    pub version: u32,
    /// Whether it was measured here or read from a file.
    pub origin: Origin,
    /// The profile, as in `quick`; for an import the file's name without its folder.
    pub profile: String,
    /// When it began, in UTC, as in `2026-11-20T20:15:00Z`; empty if not known.
    pub started: String,
    /// How long it took.
    pub seconds: f64,
    /// Version of evenkeel that wrote this.
    pub software: String,
    /// The command line that made it.
    pub command: String,
    /// Factor on the sizes and times of the original workload; 1 for `quick`.
    pub scale: f64,
    /// The machine.
    pub machine: Machine,
    /// How it was measured, sentence by sentence.
    pub method: Vec<String>,
    /// What was measured.
    pub configurations: Vec<Configuration>,
    /// What was done to each.
    pub workloads: Vec<Workload>,
    /// The figures: one row for each configuration and workload that was measured.
    pub rows: Vec<Row>,
    /// What was left out, and why.
    pub skipped: Vec<Skipped>,
    /// What could not be read (imports only).
    pub illegible: Vec<Illegible>,
}

/// Where results come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// Measured by this command.
    Measured,
    /// Read from other tools' output.
    Imported,
}

/// The machine that was measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Kernel release.
    pub kernel: String,
    /// Name of the distribution.
    pub system: String,
    /// Processor's name.
    pub processor: String,
    /// Number of processors.
    pub processors: u32,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Filesystem and device under the scratch directory, and what is known of the disk.
    pub disk: String,
    /// Versions of the tools and peers, name and version.
    pub tools: Vec<(String, String)>,
    /// Processor time used by others during the measurements, as a fraction of all processors.
    pub foreign_load: Option<f64>,
    /// Load average of one minute when the run began.
    pub load_average: Option<f64>,
    /// How far apart the raw disk's rounds were: the median of its rows' spreads.
    pub raw_spread: Option<f64>,
}

/// One thing that was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Configuration {
    /// Short and unique, as in `replica-3-c`.
    pub id: String,
    /// For people, as in `evenkeel replica 3, protocol C`.
    pub name: String,
    /// What kind of thing.
    pub family: Family,
    /// Copies of each block.
    pub copies: u32,
    /// How the tool reaches it, as in `NBD over a unix socket`.
    pub access: String,
    /// What becomes of requests that ask for direct I/O, as in `direct I/O` or `page cache of the
    /// server`.
    pub cache: String,
    /// Whether a flush that it answered is on the disk.
    pub durable_flush: Durable,
    /// What else one must know to read its figures; may be empty.
    pub note: String,
    /// The commands that set it up.
    pub setup: Vec<String>,
    /// Whether data written through it read back right after the rounds; `None`: not checked.
    pub verified: Option<bool>,
}

/// Kinds of configurations; decides order and colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// The disk itself.
    Raw,
    /// N files of the disk at once: the limit of N copies on one disk.
    Limit,
    /// evenkeel.
    Evenkeel,
    /// Something else that replicates.
    ReplicatedPeer,
    /// Something else that serves one copy.
    SinglePeer,
    /// A configuration named by an imported report.
    Imported,
}

/// Whether a flush is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Durable {
    /// An answered flush is on the disk of every copy.
    Yes,
    /// It answers before that.
    No,
    /// Not known.
    Unknown,
}

/// One workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// Short and unique, as in `4k-randwrite-d32`.
    pub id: String,
    /// For people.
    pub name: String,
    /// `fio`, `dd`, `hdparm`, `bonnie++` or `iozone`.
    pub tool: String,
    /// The figure by which rows are compared.
    pub measure: Measure,
    /// Whether it writes: then N copies on one disk share the disk.
    pub writes: bool,
}

/// The figure by which rows of a workload are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// Operations per second: more is better.
    OperationsPerSecond,
    /// Bytes per second: more is better.
    BytesPerSecond,
    /// Seconds per operation: less is better.
    SecondsPerOperation,
}

impl Measure {
    /// Whether a larger figure is a better one.
    pub const fn more_is_better(self) -> bool {
        !matches!(self, Self::SecondsPerOperation)
    }
}

/// The figures of one configuration under one workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// [`Configuration::id`].
    pub configuration: String,
    /// [`Workload::id`].
    pub workload: String,
    /// The command of the last round, to repeat it.
    pub command: String,
    /// Which caches were in play, as in `direct I/O` or `page cache, dropped before each round`;
    /// empty if not known.
    #[serde(default)]
    pub cache: String,
    /// What each round gave.
    pub samples: Vec<Sample>,
    /// What the rounds give together; `None` if no sample has the workload's measure.
    pub summary: Option<Summary>,
}

/// What one round gave.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Counted from 1.
    pub round: u32,
    /// One for each figure that the tool reports: one for a read or a write, two for a mix.
    pub parts: Vec<Part>,
    /// Processor time of the tool itself, in seconds.
    pub client_cpu_seconds: Option<f64>,
    /// Processor time of all processes that serve the configuration, in seconds.
    pub server_cpu_seconds: Option<f64>,
    /// Processor time of the whole machine, kernel threads included, in seconds.
    pub machine_cpu_seconds: Option<f64>,
    /// Operations per second over time: seconds since the start, and the rate.
    pub series: Vec<(f64, f64)>,
}

/// One figure of a tool, with all that it says about it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// `read`, `write`, or what the tool calls it, as in `buffered reads`.
    pub name: String,
    /// Bytes moved.
    pub bytes: Option<f64>,
    /// Operations done.
    pub operations: Option<f64>,
    /// Run time.
    pub seconds: Option<f64>,
    /// Bytes per second.
    pub bytes_per_second: Option<f64>,
    /// Operations per second.
    pub operations_per_second: Option<f64>,
    /// Processor use that the tool reports, in percent.
    pub processor_percent: Option<f64>,
    /// Latency.
    pub latency: Option<Latency>,
}

/// Latency of operations, in microseconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Mean of the whole time from submission to completion.
    pub mean: Option<f64>,
    /// Shortest.
    pub min: Option<f64>,
    /// Longest.
    pub max: Option<f64>,
    /// Mean from acceptance by the kernel to completion, where the tool tells it apart.
    pub completion_mean: Option<f64>,
    /// Pairs of percentile and microseconds, ascending, of the completion time.
    pub percentiles: Vec<(f64, f64)>,
}

/// What the rounds of a row give together.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Median of the workload's measure.
    pub median: f64,
    /// Smallest round.
    pub low: f64,
    /// Largest round.
    pub high: f64,
    /// `(high - low) / median`.
    pub spread: f64,
    /// Median over the rounds of the ratio to raw in the same round.
    pub to_raw: Option<f64>,
    /// Median over the rounds of the ratio to the limit of as many copies in the same round.
    pub to_limit: Option<f64>,
    /// Median bytes per second.
    pub bytes_per_second: Option<f64>,
    /// Median of the rounds' 50th percentile, microseconds: of reads, writes or flushes, whichever
    /// are slowest. `None` where a round has too few operations to know it.
    pub p50: Option<f64>,
    /// Median of the rounds' 99th percentile, in the same way.
    pub p99: Option<f64>,
    /// Median processor time of the serving processes per operation, microseconds. `None` where it
    /// is too little for the clock of processes.
    pub server_cpu_per_operation: Option<f64>,
    /// Median processor time of the tool per operation, microseconds.
    pub client_cpu_per_operation: Option<f64>,
    /// Median processor time of the whole machine per operation, microseconds: kernel threads,
    /// which belong to no process, and other people's work included.
    #[serde(default)]
    pub machine_cpu_per_operation: Option<f64>,
}

/// Something that was left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// What was left out.
    pub what: String,
    /// The reason.
    pub why: String,
    /// What to do to have it the next time; may be empty.
    pub remedy: String,
}

/// Something in an imported file that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Illegible {
    /// Line of the file, counted from 1.
    pub line: usize,
    /// What is missing because of it.
    pub what: String,
}

impl Results {
    /// Reads results from JSON.
    ///
    /// # Errors
    /// If it is not JSON, not of this format, or of a later version.
    pub fn from_json(text: &str) -> Result<Self, String> {
        let value: serde_json::Value =
            serde_json::from_str(text).map_err(|error| format!("it is not JSON: {error}"))?;
        if value.get("format").and_then(|format| format.as_str()) != Some(FORMAT) {
            return Err(format!("its \"format\" is not \"{FORMAT}\""));
        }
        match value.get("version").and_then(serde_json::Value::as_u64) {
            Some(version) if version > u64::from(VERSION) => {
                Err(format!("it has version {version}; this evenkeel reads up to {VERSION}"))
            }
            _ => serde_json::from_value(value).map_err(|error| format!("it is damaged: {error}")),
        }
    }

    /// Writes results as JSON, with a newline at the end.
    pub fn to_json(&self) -> String {
        // Every field is a plain value: there is nothing that could fail.
        serde_json::to_string_pretty(self).map(|text| text + "\n").unwrap_or_default()
    }

    /// The row of a configuration and workload.
    pub fn row(&self, configuration: &str, workload: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.configuration == configuration && row.workload == workload)
    }

    /// The configuration of this identity.
    pub fn configuration(&self, id: &str) -> Option<&Configuration> {
        self.configurations.iter().find(|configuration| configuration.id == id)
    }

    /// The workload of this identity.
    pub fn workload(&self, id: &str) -> Option<&Workload> {
        self.workloads.iter().find(|workload| workload.id == id)
    }

    /// The configuration that is the raw disk.
    pub fn raw(&self) -> Option<&Configuration> {
        self.configurations.iter().find(|configuration| configuration.family == Family::Raw)
    }
}

impl Sample {
    /// The figure by which this sample is compared: of reads and writes together; of a tool with
    /// several tests its headline.
    pub fn figure(&self, measure: Measure) -> Option<f64> {
        let sum = |of: fn(&Part) -> Option<f64>| {
            let moved: Vec<&Part> = self
                .parts
                .iter()
                .filter(|part| matches!(part.name.as_str(), "read" | "write"))
                .collect();
            if moved.is_empty() {
                // A headline that was too fast to be measured is not made up for by another test.
                let mut parts = self.parts.iter();
                let headline = parts.find(|part| HEADLINES.contains(&part.name.as_str()));
                return match headline {
                    Some(headline) => of(headline),
                    None => self.parts.iter().find_map(of),
                };
            }
            // A half of a mix is not the mix.
            let found: Option<Vec<f64>> = moved.into_iter().map(of).collect();
            found.map(|found| found.iter().sum::<f64>())
        };
        match measure {
            Measure::OperationsPerSecond => sum(|part| part.operations_per_second),
            Measure::BytesPerSecond => sum(|part| part.bytes_per_second),
            Measure::SecondsPerOperation => {
                let part = self.parts.first()?;
                let operations = part.operations.filter(|count| *count > 0.0)?;
                Some(part.seconds? / operations)
            }
        }
    }

    /// How long it took: the longest of its parts.
    pub fn seconds(&self) -> Option<f64> {
        self.parts.iter().filter_map(|part| part.seconds).reduce(f64::max)
    }

    /// Operations of all parts.
    pub fn operations(&self) -> Option<f64> {
        let own = self.parts.iter().filter(|part| part.name != FLUSH);
        let found: Vec<f64> = own.filter_map(|part| part.operations).collect();
        (!found.is_empty()).then(|| found.iter().sum())
    }
}

impl Part {
    /// The latency at a percentile that was reported, in microseconds, if at least
    /// [`MIN_BEYOND`] operations took longer: of fewer, chance decides.
    pub fn percentile(&self, percentile: f64) -> Option<f64> {
        let counted = || Some(self.operations_per_second? * self.seconds?);
        let operations = self.operations.or_else(counted);
        let beyond = |count: f64| count * (100.0 - percentile) / 100.0;
        // What a report does not say of the number of operations is not held against it.
        let enough = operations.is_none_or(|count| beyond(count) + 1e-6 >= MIN_BEYOND);
        self.latency.as_ref()?.at(percentile).filter(|_| enough)
    }
}

impl Latency {
    /// The latency at a percentile that was reported, in microseconds.
    pub fn at(&self, percentile: f64) -> Option<f64> {
        let close = |(known, _): &&(f64, f64)| (known - percentile).abs() < 1e-6;
        self.percentiles.iter().find(close).map(|(_, microseconds)| *microseconds)
    }
}
