//! Running tools, and the processor time of processes.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::failure::Failure;
use crate::interrupt::{Interrupt, POLL_PERIOD};

/// Most bytes of a tool's output that are kept.
const MAX_OUTPUT: u64 = 64 << 20;
/// Lines of a tool's complaint that are shown.
const COMPLAINT_LINES: usize = 6;

/// In the environment of every tool, and of what it starts: who started it.
pub const TOOL_MARK: &str = "EVENKEEL_BENCH_TOOL";
/// In the environment of every server, and of what it starts: who started it.
pub const SERVER_MARK: &str = "EVENKEEL_BENCH_SERVER";

/// What a tool said.
#[derive(Debug, Clone, Default)]
pub struct Output {
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// How long it ran.
    pub seconds: f64,
}

/// A command line, as a person would type it.
pub fn shown(command: &Command) -> String {
    let quoted = |word: &OsStr| {
        let word = word.to_string_lossy();
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,+@%^".contains(c);
        match !word.is_empty() && word.chars().all(plain) {
            true => word.into_owned(),
            false => format!("'{}'", word.replace('\'', r"'\''")),
        }
    };
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(quoted).collect::<Vec<_>>().join(" ")
}

/// Makes a command of words.
pub fn command<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(words: I) -> Command {
    let mut words = words.into_iter();
    // An empty list cannot be run and says so when it is.
    let program = words.next().map(|word| word.as_ref().to_owned()).unwrap_or_default();
    let mut command = Command::new(program);
    command.args(words);
    command
}

/// Runs a tool to its end, or until Ctrl-C or the end of `patience`.
///
/// # Errors
/// If it cannot be started, fails, or takes too long; with the end of what it complained about.
pub fn run(
    interrupt: &Interrupt,
    command: &mut Command,
    patience: Duration,
) -> Result<Output, Failure> {
    let line = shown(command);
    let failed = |why: &dyn std::fmt::Display| Failure::new(format!("cannot run `{line}`"), why);
    let start = Instant::now();
    let mut child = command
        .env(TOOL_MARK, own_mark())
        // Ctrl-C goes to this process only, which ends its children in order.
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| failed(&error))?;
    let stdout = drain(child.stdout.take());
    let stderr = drain(child.stderr.take());
    let ended = interrupt.poll(&format!("`{line}` ends"), patience, || {
        child.try_wait().map_err(|error| failed(&error))
    });
    if ended.is_err() {
        end_group(&mut child);
    }
    let output = Output {
        stdout: stdout.join().unwrap_or_default(),
        stderr: stderr.join().unwrap_or_default(),
        seconds: start.elapsed().as_secs_f64(),
    };
    match ended? {
        status if status.success() => Ok(output),
        status => Err(failed(&format!("{status}\n{}", complaint(&output)))),
    }
}

/// Runs a short helper, at most a minute.
///
/// # Errors
/// As [`run`].
pub fn helper<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(
    interrupt: &Interrupt,
    words: I,
) -> Result<String, Failure> {
    run(interrupt, &mut command(words), Duration::from_secs(60)).map(|output| output.stdout)
}

/// Runs a short command of a clean-up: not stopped by Ctrl-C, its failure only told.
///
/// # Errors
/// What went wrong, in one line.
pub fn quiet<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(words: I) -> Result<String, String> {
    helper(&Interrupt::default(), words).map_err(|failure| failure.to_string())
}

fn drain<R: std::io::Read + Send + 'static>(pipe: Option<R>) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(pipe) = pipe {
            // What was read until an error is all there is to show.
            drop(pipe.take(MAX_OUTPUT).read_to_end(&mut bytes));
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// What a tool complains of stands at the beginning of its output, before its usage, or at the end.
fn complaint(output: &Output) -> String {
    let text = if output.stderr.trim().is_empty() { &output.stdout } else { &output.stderr };
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    if lines.len() <= COMPLAINT_LINES {
        return lines.join("\n");
    }
    let (begin, end) = (&lines[..COMPLAINT_LINES / 2], &lines[lines.len() - COMPLAINT_LINES / 2..]);
    format!("{}\n…\n{}", begin.join("\n"), end.join("\n"))
}

/// Ends a child and what it started: politely, then by force.
pub fn end_group(child: &mut Child) {
    if let Some(pid) = rustix::process::Pid::from_raw(child.id().cast_signed()) {
        // It may have ended by itself meanwhile.
        let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::TERM);
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(5) {
            if matches!(child.try_wait(), Ok(Some(_)) | Err(_)) {
                break;
            }
            std::thread::sleep(POLL_PERIOD);
        }
        let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
    }
    drop(child.wait());
}

/// Whether a process exists that was started at this time (as `/proc/PID/stat` tells it).
pub fn alive(pid: u32, started: u64) -> bool {
    stat_of(pid).is_some_and(|stat| stat.started == started && stat.state != 'Z')
}

/// The value of a mark in the environment of what this process starts.
pub fn own_mark() -> String {
    let own = std::process::id();
    mark_of(own, started(own).unwrap_or_default())
}

/// The value of a mark of this owner. The start keeps it apart from a later process of that id.
pub fn mark_of(owner: u32, owner_started: u64) -> String {
    format!("{owner}-{owner_started}")
}

/// The processes that carry a mark in their environment, with their starts: also those whose
/// starter was killed before it could write them down.
pub fn marked(name: &str, value: &str) -> Vec<(u32, u64)> {
    let wanted = format!("{name}={value}");
    let carries = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|word| word == wanted.as_bytes())
    };
    all_stats()
        .into_iter()
        .filter(|(pid, stat)| stat.state != 'Z' && carries(pid))
        .map(|(pid, stat)| (pid, stat.started))
        .collect()
}

/// When a process started, in the kernel's ticks since boot.
pub fn started(pid: u32) -> Option<u64> {
    stat_of(pid).map(|stat| stat.started)
}

/// Processor time of these processes, their living descendants and their ended children, in
/// seconds. Resolution: 10 ms for each process.
pub fn cpu_seconds(roots: &[u32]) -> f64 {
    let stats = all_stats();
    let mut counted: Vec<u32> = roots.to_vec();
    let mut index = 0;
    while index < counted.len() {
        let parent = counted[index];
        let children = stats.iter().filter(|(_, stat)| stat.parent == parent).map(|(pid, _)| *pid);
        let new: Vec<u32> = children.filter(|pid| !counted.contains(pid)).collect();
        counted.extend(new);
        index += 1;
    }
    let ticks: u64 = counted.iter().filter_map(|pid| stats.get(pid)).map(|stat| stat.ticks).sum();
    ticks as f64 / ticks_per_second()
}

/// Busy processor time of the whole machine since boot, in seconds.
pub fn machine_cpu_seconds() -> Option<f64> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    let fields: Vec<f64> = text
        .lines()
        .next()?
        .split_whitespace()
        .skip(1)
        .filter_map(|word| word.parse().ok())
        .collect();
    // user nice system idle iowait irq softirq steal; guest time is part of user time.
    let busy: f64 = [0, 1, 2, 5, 6, 7].iter().filter_map(|index| fields.get(*index)).sum();
    Some(busy / ticks_per_second())
}

fn ticks_per_second() -> f64 {
    rustix::param::clock_ticks_per_second() as f64
}

struct Stat {
    state: char,
    parent: u32,
    ticks: u64,
    started: u64,
}

fn stat_of(pid: u32) -> Option<Stat> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The name in parentheses may hold anything, also parentheses: the fields follow the last one.
fn parse_stat(text: &str) -> Option<Stat> {
    let fields: Vec<&str> = text[text.rfind(')')? + 1..].split_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    Some(Stat {
        state: fields.first()?.chars().next()?,
        parent: u32::try_from(number(1)?).ok()?,
        ticks: (11..=14).filter_map(number).sum(),
        started: number(19)?,
    })
}

fn all_stats() -> HashMap<u32, Stat> {
    let Ok(entries) = fs::read_dir("/proc") else { return HashMap::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid| Some((pid, stat_of(pid)?))).collect()
}

/// Where a program lies, searched as root does.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    path.split(':')
        .map(|directory| PathBuf::from(directory).join(name))
        .find(|candidate| candidate.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_tool_shows_its_complaint() {
        let failure = run(
            &Interrupt::default(),
            &mut command(["sh", "-c", "echo no such luck >&2; exit 3"]),
            Duration::from_secs(60),
        )
        .unwrap_err();
        assert!(failure.to_string().contains("no such luck"), "{failure}");
        assert!(failure.what.contains("sh -c 'echo no such luck"), "{failure}");
    }

    #[test]
    fn a_tool_that_hangs_is_ended_with_its_children() {
        let start = Instant::now();
        let mut hanging = command(["sh", "-c", "sleep 60 & wait"]);
        assert!(run(&Interrupt::default(), &mut hanging, Duration::from_millis(100)).is_err());
        assert!(start.elapsed() < Duration::from_secs(50));
    }

    #[test]
    fn processor_time_counts_ended_children() {
        let before = cpu_seconds(&[std::process::id()]);
        let mut busy = command(["sh", "-c", "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done"]);
        run(&Interrupt::default(), &mut busy, Duration::from_secs(60)).unwrap();
        assert!(cpu_seconds(&[std::process::id()]) > before);
        assert!(machine_cpu_seconds().unwrap() > 0.0);
    }

    #[test]
    fn a_process_is_known_by_its_start() {
        let pid = std::process::id();
        let start = started(pid).unwrap();
        assert!(alive(pid, start));
        assert!(!alive(pid, start + 1));
        assert!(parse_stat("1 (a) b) S 7 x").is_none());
    }
}
