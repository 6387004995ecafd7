//! One measurement: one workload on one configuration, once.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::failure::Failure;
use crate::fio::{self, FioJob, Reach};
use crate::import;
use crate::process;
use crate::result::{Part, Sample};
use crate::runner::commands::{buffered, plain_other};
use crate::scratch::Undo;
use crate::target::{Lab, Target, inside};
use crate::workload::{Filesystem, Place, Task, Work};

/// Longest time of one run of a tool that has no time limit of its own.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);
/// Above so many jobs fio's rate logs are not kept: one file each.
const MAX_LOGS: u32 = 8;
/// Bytes that are written and read back at the end.
const VERIFIED: u64 = 8 << 20;
/// How long each configuration is warmed up.
const WARM_UP_MILLISECONDS: u64 = 500;
/// Over so many bytes.
const WARMED: u64 = 256 << 20;

/// Runs a workload once. Returns the command and what it gave.
pub fn once(
    lab: &mut Lab<'_>,
    task: &Task,
    target: &Target,
    round: u32,
) -> Result<(String, Sample), Failure> {
    let by_client =
        matches!(target.reach, Reach::Files(_) | Reach::Load { .. } | Reach::Gfapi { .. });
    match task.place {
        // What has no file and no device has fio's own client, or its N files.
        _ if by_client && matches!(task.work, Work::Fio(_)) => {
            measure(lab, task, target, &target.reach, round)
        }
        Place::Shortest => measure(lab, task, target, &target.reach, round),
        Place::Device => {
            let device = device(target)?;
            measure(lab, task, target, &Reach::File(device), round)
        }
        Place::Filesystem(filesystem) => {
            let mark = lab.scratch.mark();
            let directory = match &target.directory {
                Some(directory) => directory.clone(),
                None => mount(lab, target, filesystem)?,
            };
            let reach = Reach::File(directory.join(file_name(&task.work)));
            let measured = fill_file(lab, task, target, &reach)
                .and_then(|()| measure(lab, task, target, &reach, round));
            if target.directory.is_none() {
                lab.scratch.undo_to(mark);
            }
            measured
        }
    }
}

/// fio keeps its file over the rounds; the others make theirs anew.
fn file_name(work: &Work) -> &'static str {
    match work {
        Work::Fio(_) => "benchmark",
        _ => "benchmark-new",
    }
}

/// fio's file is written full before it is measured: first writes to a file cost more than later
/// ones.
fn fill_file(
    lab: &mut Lab<'_>,
    task: &Task,
    target: &Target,
    reach: &Reach,
) -> Result<(), Failure> {
    let (Work::Fio(job), Reach::File(path)) = (&task.work, reach) else { return Ok(()) };
    match fs::metadata(path).is_ok_and(|known| known.len() >= job.size) {
        true => Ok(()),
        false => lab.fill(reach, job.size, target.namespace.as_deref()),
    }
}

/// Half a second of reads and writes, so that no configuration meets the first round cold.
pub fn warm_up(lab: &mut Lab<'_>, target: &Target) -> Result<(), Failure> {
    let job = FioJob::timed("randrw", 4096, 32, WARMED.min(lab.size), WARM_UP_MILLISECONDS);
    let mut words = inside(target.namespace.as_deref());
    words.extend(fio::arguments("warm-up", &job, &target.reach, None));
    process::run(lab.interrupt, &mut process::command(words), Duration::from_secs(60)).map(drop)
}

fn device(target: &Target) -> Result<PathBuf, Failure> {
    target.device.clone().ok_or_else(|| {
        Failure::new(
            "it needs a file or a block device",
            format!("{} is only reached by fio's own client", target.configuration.name),
        )
    })
}

/// Makes a filesystem on a configuration's device and mounts it; the caller undoes that.
fn mount(lab: &mut Lab<'_>, target: &Target, filesystem: Filesystem) -> Result<PathBuf, Failure> {
    let device = device(target)?.display().to_string();
    let point = lab.scratch.directory(&format!("mount-{}", target.configuration.id))?;
    process::helper(lab.interrupt, filesystem.make().iter().copied().chain([device.as_str()]))?;
    lab.scratch.note(Undo::Mount { point: point.clone() })?;
    process::helper(lab.interrupt, ["mount", &device, &point.display().to_string()])?;
    Ok(point)
}

fn measure(
    lab: &mut Lab<'_>,
    task: &Task,
    target: &Target,
    reach: &Reach,
    round: u32,
) -> Result<(String, Sample), Failure> {
    let series = lab.scratch.path().join("series");
    let words = words(lab, task, reach, &series)?;
    let mut all = inside(target.namespace.as_deref());
    all.extend(words);
    let mut command = process::command(&all);
    command.env("LC_ALL", "C");
    let shown = process::shown(&command);
    drop_caches(task);
    let servers = target.servers.cpu_seconds();
    let machine = process::machine_cpu_seconds();
    let own = process::cpu_seconds(&[std::process::id()]);
    let start = Instant::now();
    let output = process::run(lab.interrupt, &mut command, PATIENCE)?;
    let seconds = start.elapsed().as_secs_f64();
    let failed = |why: String| Failure::new(format!("`{shown}` gave no figures"), why);
    let mut sample = match &task.work {
        Work::Fio(_) => fio::parse(&output.stdout, round).map_err(failed)?,
        other => Sample {
            round,
            parts: parts(other, &output).map_err(failed)?,
            client_cpu_seconds: Some(process::cpu_seconds(&[std::process::id()]) - own),
            ..Sample::default()
        },
    };
    let since = |before: Option<f64>, after: Option<f64>| Some((after? - before?).max(0.0));
    sample.server_cpu_seconds = since(servers, target.servers.cpu_seconds());
    sample.machine_cpu_seconds = since(machine, process::machine_cpu_seconds());
    sample.series = take_series(&series);
    for part in &mut sample.parts {
        part.seconds = part.seconds.or(Some(seconds));
    }
    Ok((shown, sample))
}

/// Buffered work begins with a cold cache where this user may empty it.
fn drop_caches(task: &Task) {
    if buffered(task) {
        rustix::fs::sync();
        // Without root the caches stay warm: the method says so.
        drop(fs::write("/proc/sys/vm/drop_caches", "3"));
    }
}

fn words(lab: &Lab<'_>, task: &Task, reach: &Reach, series: &Path) -> Result<Vec<String>, Failure> {
    if let Work::Fio(job) = &task.work {
        let log = (job.jobs <= MAX_LOGS && job.milliseconds.is_some()).then_some(series);
        return Ok(fio::arguments(&task.workload.id, job, reach, log));
    }
    let Reach::File(path) = reach else {
        return Err(Failure::new(
            format!("{} needs a file or a block device", task.workload.tool),
            "this configuration is reached over the network only",
        ));
    };
    let other = lab.scratch.path().join("copied");
    Ok(plain_other(&task.work, path, &other))
}

fn parts(work: &Work, output: &process::Output) -> Result<Vec<Part>, String> {
    let text = format!("{}\n{}", output.stdout, output.stderr);
    let parts = match work {
        Work::Fio(_) => Vec::new(),
        Work::Dd(job) => import::dd::outcomes(&text)
            .into_iter()
            .map(|mut part| {
                part.operations = Some(job.count as f64);
                part
            })
            .collect(),
        Work::Hdparm => import::hdparm::outcomes(&text),
        Work::Bonnie(_) => import::bonnie::outcomes(&output.stdout),
        Work::Iozone(_) => import::iozone::outcomes(&text),
    };
    match parts.is_empty() {
        true => Err(format!("its output was not understood: {}", text.trim())),
        false => Ok(parts),
    }
}

/// Takes fio's rate logs and deletes them.
fn take_series(prefix: &Path) -> Vec<(f64, f64)> {
    let logs: Vec<String> = (1..=MAX_LOGS)
        .map_while(|job| {
            let path = PathBuf::from(format!("{}_iops.{job}.log", prefix.display()));
            let text = fs::read_to_string(&path).ok()?;
            drop(fs::remove_file(path));
            Some(text)
        })
        .collect();
    fio::series(&logs)
}

/// Writes blocks with checksums and reads them back. `None` where that is not done.
pub fn verify(lab: &mut Lab<'_>, target: &Target) -> Result<Option<bool>, Failure> {
    if matches!(target.reach, Reach::Files(_) | Reach::Load { .. }) {
        return Ok(None);
    }
    let job = FioJob {
        milliseconds: None,
        time_based: false,
        ..FioJob::timed("randwrite", 4096, 32, VERIFIED.min(lab.size), 0)
    };
    let mut words = inside(target.namespace.as_deref());
    let mut own = fio::arguments("verify", &job, &target.reach, None);
    own.retain(|word| word != "--norandommap" && word != "--randrepeat=0");
    own.insert(1, "--verify=crc32c".to_owned());
    own.insert(2, "--verify_state_save=0".to_owned());
    words.extend(own);
    match process::run(lab.interrupt, &mut process::command(&words), Duration::from_secs(300)) {
        Ok(_) => Ok(Some(true)),
        Err(failure) if is_mismatch(&failure.why) => Ok(Some(false)),
        Err(failure) => Err(failure),
    }
}

/// Whether fio complains of the data that it read, and not of something else.
fn is_mismatch(complaint: &str) -> bool {
    ["verify: bad ", "verify failed at "].iter().any(|words| complaint.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_read_and_differs_is_wrong_data() {
        let bad = [
            "exit status: 1\nverify: bad magic header 6167, wanted acca at file /x offset 40960",
            "exit status: 1\ncrc32c: verify failed at file /x offset 40960, length 4096",
        ];
        assert!(bad.into_iter().all(is_mismatch));
        let other = [
            "exit status: 1\nfio: io_u error on file nbd: Input/output error: read offset=0",
            "it did not end within 300 s",
            "exit status: 1\nfio: failed to open --verify=crc32c",
        ];
        assert!(!other.into_iter().any(is_mismatch));
    }
}
