//! fio: its command line, and its JSON output.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::result::{FLUSH, Latency, Part, Sample};
use crate::units::short_size;

/// The percentiles that fio is asked for.
const PERCENTILES: &str = "1:5:10:20:30:40:50:60:70:80:90:95:99:99.5:99.9:99.95:99.99";
/// Width of a point of the time series.
const SERIES_MILLISECONDS: u32 = 100;

/// One run of fio.
#[derive(Debug, Clone, PartialEq)]
pub struct FioJob {
    /// Its `rw`, as in `randwrite`.
    pub pattern: String,
    /// Share of reads of a mix, in percent.
    pub reads: Option<u32>,
    /// Bytes of a request.
    pub block: u64,
    /// Requests in flight of each job.
    pub depth: u32,
    /// Jobs.
    pub jobs: u32,
    /// The engine; `None`: the best for the way in.
    pub engine: Option<&'static str>,
    /// Past the page cache.
    pub direct: bool,
    /// A flush after so many writes; 0: none.
    pub flush_every: u32,
    /// A flush at the end, counted into the time.
    pub flush_at_end: bool,
    /// Bytes of the file.
    pub size: u64,
    /// Longest time.
    pub milliseconds: Option<u64>,
    /// Start again at the end of the file until the time is over.
    pub time_based: bool,
}

impl FioJob {
    /// Requests past the page cache, for so long, over a file of this size.
    pub fn timed(pattern: &str, block: u64, depth: u32, size: u64, milliseconds: u64) -> Self {
        Self {
            pattern: pattern.to_owned(),
            reads: None,
            block,
            depth,
            jobs: 1,
            engine: None,
            direct: true,
            flush_every: 0,
            flush_at_end: false,
            size,
            milliseconds: Some(milliseconds),
            time_based: true,
        }
    }
}

/// How fio reaches what it measures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// One file or device for all jobs.
    File(PathBuf),
    /// A file of its own for each of N jobs at once.
    Files(Vec<PathBuf>),
    /// An NBD export on a unix socket.
    Nbd {
        /// The socket.
        socket: PathBuf,
        /// The export's name; may be empty.
        export: String,
    },
    /// An export over TCP, by the client of [`crate::load`]: fio has none for NVMe.
    Load {
        /// The `evenkeel` program.
        program: PathBuf,
        /// HOST:PORT.
        address: String,
        /// Which export, as options.
        options: Vec<String>,
    },
    /// GlusterFS' own client library.
    Gfapi {
        /// The volume.
        volume: String,
        /// A server.
        host: String,
    },
}

/// The command line of a job. With `log`, fio writes its time series there.
pub fn arguments(name: &str, job: &FioJob, reach: &Reach, log: Option<&Path>) -> Vec<String> {
    if let Reach::Load { program, address, options } = reach {
        return load_arguments(job, (program, address, options));
    }
    let mut words = vec!["fio".to_owned(), "--output-format=json".to_owned()];
    let mut say = |word: String| words.push(word);
    say(format!("--percentile_list={PERCENTILES}"));
    say(format!("--ioengine={}", engine(job, reach)));
    say(format!("--direct={}", u8::from(job.direct)));
    say(format!("--rw={}", job.pattern));
    if let Some(reads) = job.reads {
        say(format!("--rwmixread={reads}"));
    }
    say(format!("--bs={}", short_size(job.block)));
    say(format!("--iodepth={}", job.depth));
    say(format!("--size={}", short_size(job.size)));
    if job.pattern.contains("rand") {
        say("--norandommap".to_owned());
        say("--randrepeat=0".to_owned());
    }
    if job.jobs > 1 {
        say(format!("--numjobs={}", job.jobs));
    }
    if let Some(milliseconds) = job.milliseconds {
        say(format!("--runtime={milliseconds}ms"));
    }
    if job.time_based {
        say("--time_based".to_owned());
    }
    if job.flush_every > 0 {
        say(format!("--fsync={}", job.flush_every));
    }
    if job.flush_at_end {
        say("--end_fsync=1".to_owned());
    }
    say("--group_reporting".to_owned());
    if let Some(log) = log {
        say(format!("--write_iops_log={}", log.display()));
        say(format!("--log_avg_msec={SERIES_MILLISECONDS}"));
    }
    words.extend(way_in(name, reach));
    words
}

/// The same for the client of [`crate::load`].
fn load_arguments(
    job: &FioJob,
    (program, address, options): (&Path, &str, &[String]),
) -> Vec<String> {
    let mut words = vec![program.display().to_string(), "bench".to_owned(), "load".to_owned()];
    words.push(format!("--address={address}"));
    words.extend_from_slice(options);
    words.push(format!("--pattern={}", job.pattern));
    words.push(format!("--block={}", short_size(job.block)));
    words.push(format!("--depth={}", job.depth));
    words.push(format!("--size={}", short_size(job.size)));
    words.push(format!("--runtime={}", job.milliseconds.unwrap_or_default()));
    words.push(format!("--flush-every={}", job.flush_every));
    words
}

fn engine(job: &FioJob, reach: &Reach) -> &'static str {
    match reach {
        Reach::Nbd { .. } => "nbd",
        Reach::Gfapi { .. } => "gfapi_async",
        Reach::File(_) | Reach::Files(_) | Reach::Load { .. } => job.engine.unwrap_or("io_uring"),
    }
}

/// What names the target; last, because each `--name` begins a job.
fn way_in(name: &str, reach: &Reach) -> Vec<String> {
    match reach {
        Reach::File(path) => {
            vec![format!("--name={name}"), format!("--filename={}", path.display())]
        }
        Reach::Files(paths) => paths
            .iter()
            .enumerate()
            .flat_map(|(index, path)| {
                [format!("--name={name}-{index}"), format!("--filename={}", path.display())]
            })
            .collect(),
        Reach::Nbd { .. } => vec![format!("--name={name}"), format!("--uri={}", uri(reach))],
        // It has its own words.
        Reach::Load { .. } => Vec::new(),
        Reach::Gfapi { volume, host } => vec![
            format!("--name={name}"),
            format!("--volume={volume}"),
            format!("--brick={host}"),
            "--filename=gfapi-file".to_owned(),
        ],
    }
}

/// The NBD URI of an export; empty for anything else.
pub fn uri(reach: &Reach) -> String {
    match reach {
        Reach::Nbd { socket, export } => {
            format!("nbd+unix:///{export}?socket={}", socket.display())
        }
        _ => String::new(),
    }
}

/// Reads fio's JSON.
///
/// # Errors
/// If it is none, or fio reports an error in it.
pub fn parse(text: &str, round: u32) -> Result<Sample, String> {
    let start = text.find('{').ok_or("fio printed no JSON")?;
    let mut values = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Value>();
    let value = values
        .next()
        .ok_or("fio printed no JSON")?
        .map_err(|error| format!("fio's JSON is damaged: {error}"))?;
    let jobs =
        value["jobs"].as_array().filter(|jobs| !jobs.is_empty()).ok_or("fio reports no job")?;
    if let Some(error) = jobs.iter().filter_map(|job| job["error"].as_i64()).find(|code| *code != 0)
    {
        return Err(format!("fio reports error {error} of a job"));
    }
    let mut sample = Sample { round, ..Sample::default() };
    for job in jobs {
        for direction in ["read", "write", "trim"] {
            sample.parts.extend(part(&job[direction], direction));
        }
        sample.parts.extend(flushes(&job["sync"]));
    }
    let cpu: f64 = jobs.iter().filter_map(client_cpu).sum();
    sample.client_cpu_seconds = Some(cpu);
    match sample.parts.is_empty() {
        true => Err("fio did no I/O".to_owned()),
        false => Ok(sample),
    }
}

/// fio gives the mean use of each job, and the run time of all jobs together.
fn client_cpu(job: &Value) -> Option<f64> {
    let percent = job["usr_cpu"].as_f64()? + job["sys_cpu"].as_f64()?;
    Some(percent / 100.0 * job["job_runtime"].as_f64()? / 1000.0)
}

fn part(value: &Value, name: &str) -> Option<Part> {
    let operations = value["total_ios"].as_f64().filter(|count| *count > 0.0)?;
    let micros = |value: &Value| value.as_f64().map(|nanoseconds| nanoseconds / 1000.0);
    let (whole, completion) = (&value["lat_ns"], &value["clat_ns"]);
    Some(Part {
        name: name.to_owned(),
        bytes: value["io_bytes"].as_f64(),
        operations: Some(operations),
        seconds: value["runtime"].as_f64().map(|milliseconds| milliseconds / 1000.0),
        bytes_per_second: value["bw_bytes"].as_f64(),
        operations_per_second: value["iops"].as_f64(),
        processor_percent: None,
        latency: Some(Latency {
            mean: micros(&whole["mean"]),
            min: micros(&whole["min"]),
            max: micros(&whole["max"]),
            completion_mean: micros(&completion["mean"]),
            percentiles: percentiles(&completion["percentile"]),
        }),
    })
}

/// The flushes between writes, which the latency of a write does not contain.
fn flushes(value: &Value) -> Option<Part> {
    let operations = value["total_ios"].as_f64().filter(|count| *count > 0.0)?;
    let micros = |value: &Value| value.as_f64().map(|nanoseconds| nanoseconds / 1000.0);
    let whole = &value["lat_ns"];
    Some(Part {
        name: FLUSH.to_owned(),
        operations: Some(operations),
        latency: Some(Latency {
            mean: micros(&whole["mean"]),
            min: micros(&whole["min"]),
            max: micros(&whole["max"]),
            completion_mean: None,
            percentiles: percentiles(&whole["percentile"]),
        }),
        ..Part::default()
    })
}

fn percentiles(value: &Value) -> Vec<(f64, f64)> {
    let Some(map) = value.as_object() else { return Vec::new() };
    let mut pairs: Vec<(f64, f64)> = map
        .iter()
        .filter_map(|(key, value)| Some((key.parse::<f64>().ok()?, value.as_f64()? / 1000.0)))
        // fio fills what it was not asked for with zeroes.
        .filter(|(percentile, _)| *percentile > 0.0)
        .collect();
    pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
    pairs
}

/// Sums fio's rate logs of all jobs: lines of `milliseconds, value, direction, block size, offset`.
pub fn series(logs: &[String]) -> Vec<(f64, f64)> {
    let mut buckets: Vec<f64> = Vec::new();
    for line in logs.iter().flat_map(|log| log.lines()) {
        let mut fields = line.split(',').map(str::trim);
        let time = fields.next().and_then(|field| field.parse::<f64>().ok());
        let rate = fields.next().and_then(|field| field.parse::<f64>().ok());
        let (Some(time), Some(rate)) = (time, rate) else { continue };
        let bucket = (time / f64::from(SERIES_MILLISECONDS)).round();
        // A day of points; a wrong clock does not make a list without bounds.
        if !(0.0..864_000.0).contains(&bucket) {
            continue;
        }
        let bucket = bucket as usize;
        if buckets.len() <= bucket {
            buckets.resize(bucket + 1, 0.0);
        }
        buckets[bucket] += rate;
    }
    let width = f64::from(SERIES_MILLISECONDS) / 1000.0;
    // fio logs no interval in which nothing was done. One that is empty alone may be a neighbour's
    // that was logged late; two are a stall, which must not look like a line from peak to peak.
    let idle = |index: usize| buckets.get(index).is_none_or(|rate| *rate <= 0.0);
    let first = buckets.iter().position(|rate| *rate > 0.0).unwrap_or(0);
    let counts = |index: usize| {
        let stalled = idle(index + 1) || (index > 0 && idle(index - 1));
        index >= first && (!idle(index) || stalled)
    };
    let points = buckets.iter().enumerate().filter(|(index, _)| counts(*index));
    points.map(|(index, rate)| (index as f64 * width, *rate)).collect()
}

#[cfg(test)]
mod tests;
