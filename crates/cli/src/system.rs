//! Mounts, processes and loop devices of this machine, as /proc and /sys tell them.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::failure::Failure;
use crate::interrupt::Interrupt;

/// How long a program may take to end that is asked to.
const ENDING: Duration = Duration::from_secs(2);

/// A mounted filesystem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Its device, or what stands in its place.
    pub source: PathBuf,
    /// Where it is mounted.
    pub point: PathBuf,
    /// Its type, as in `xfs`.
    pub kind: String,
}

/// What is mounted, in the order in which it was.
pub fn mounts() -> Vec<Mount> {
    fs::read("/proc/self/mountinfo").map(|text| parse_mountinfo(&text)).unwrap_or_default()
}

/// The mounts at or below a directory, the newest first.
pub fn mounts_below(directory: &Path) -> Vec<Mount> {
    let mut found: Vec<_> =
        mounts().into_iter().filter(|mount| mount.point.starts_with(directory)).collect();
    found.reverse();
    found
}

/// Where a device is mounted. Follows links such as /dev/evenkeel/NAME.
pub fn mount_points(device: &Path) -> Vec<PathBuf> {
    mounts().into_iter().filter(|mount| is_from(mount, device)).map(|mount| mount.point).collect()
}

/// What is mounted on a directory, if anything is: the newest, which hides what it covers.
pub fn top_mount<'a>(mounts: &'a [Mount], directory: &Path) -> Option<&'a Mount> {
    mounts.iter().rev().find(|mount| mount.point == directory)
}

/// Whether a device is mounted there. Follows links such as /dev/evenkeel/NAME.
pub fn is_from(mount: &Mount, device: &Path) -> bool {
    mount.source == device || fs::canonicalize(device).is_ok_and(|real| mount.source == real)
}

/// Whether a process of this machine has a device mounted, in whatever namespace, or another device
/// is built on it.
pub fn has_holder(device: &Path) -> bool {
    let name = device.file_name().unwrap_or_default();
    let holders = Path::new("/sys/class/block").join(name).join("holders");
    let is_part = fs::read_dir(holders).is_ok_and(|mut holders| holders.next().is_some());
    let mounts = |process: fs::DirEntry| fs::read(process.path().join("mountinfo")).ok();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let has = |text: Vec<u8>| parse_mountinfo(&text).iter().any(|mount| mount.source == device);
    is_part || processes.filter_map(mounts).any(has)
}

fn parse_mountinfo(text: &[u8]) -> Vec<Mount> {
    text.split(|byte| *byte == b'\n').filter_map(parse_mount).collect()
}

/// A line of mountinfo: `id parent major:minor root POINT options [tags] - KIND SOURCE options`.
fn parse_mount(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ');
    let point = fields.nth(4)?;
    fields.find(|field| *field == b"-")?;
    let kind = fields.next()?;
    let source = fields.next()?;
    Some(Mount {
        source: unescape(source),
        point: unescape(point),
        kind: String::from_utf8_lossy(kind).into_owned(),
    })
}

/// Undoes the kernel's `\040` for blanks.
fn unescape(text: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, tail)) = rest.split_first() {
        let octal = (first == b'\\').then(|| tail.get(..3)).flatten();
        let value = octal
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        bytes.push(value.unwrap_or(first));
        rest = if value.is_some() { &tail[3..] } else { tail };
    }
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

/// Unmounts the filesystems below a directory that nobody uses. One that is in use stays where
/// whoever ends that use can unmount it.
pub fn unmount_filesystems_below(directory: &Path) {
    for mount in mounts_below(directory).iter().filter(|mount| !mount.is_fuse()) {
        succeeds("umount", &[mount.point.as_os_str()]);
    }
}

/// Takes the files of dead nodes away, from under what still uses them if it must be.
pub fn unmount_fuse_below(directory: &Path) {
    for mount in mounts_below(directory).iter().filter(|mount| mount.is_fuse()) {
        let point = mount.point.as_os_str();
        if !succeeds("umount", &[point]) {
            succeeds("umount", &[OsStr::new("-l"), point]);
        }
    }
}

impl Mount {
    fn is_fuse(&self) -> bool {
        self.kind.starts_with("fuse")
    }
}

/// Loop devices over files below a directory.
pub fn loops_below(directory: &Path) -> Vec<PathBuf> {
    let Ok(devices) = fs::read_dir("/sys/block") else { return Vec::new() };
    let is_below = |device: &fs::DirEntry| {
        let file = fs::read(device.path().join("loop/backing_file")).unwrap_or_default();
        Path::new(OsStr::from_bytes(file.trim_ascii_end())).starts_with(directory)
    };
    let found = devices.flatten().filter(is_below);
    found.map(|device| Path::new("/dev").join(device.file_name())).collect()
}

/// Frees loop devices. One that is in use goes when its last user has closed it.
pub fn detach_loops(devices: &[PathBuf]) {
    for device in devices {
        succeeds("losetup", &[OsStr::new("-d"), device.as_os_str()]);
    }
}

/// Removes links in `links` that point below a directory, or to one of these devices.
pub fn remove_links(links: &Path, directory: &Path, devices: &[PathBuf]) {
    // Where there is no such directory there are no links.
    let Ok(entries) = fs::read_dir(links) else { return };
    for entry in entries.flatten() {
        let Ok(target) = fs::read_link(entry.path()) else { continue };
        if target.starts_with(directory) || devices.contains(&target) {
            // Cleaning up: a link that somebody else removed meanwhile is no loss.
            drop(fs::remove_file(entry.path()));
        }
    }
}

/// Whether this process may mount filesystems: whether it has CAP_SYS_ADMIN.
pub fn may_mount() -> bool {
    const CAP_SYS_ADMIN: u64 = 1 << 21;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    // What is not known is found out by trying.
    let known = effective.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok());
    known.is_none_or(|capabilities| capabilities & CAP_SYS_ADMIN != 0)
}

/// Who has a file or directory at or below a path in use, as in `sleep (process 4711)`; of other
/// users' processes only what this one may see.
pub fn users_of(path: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let uses = |process: &Path| {
        let open = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        let links = ["cwd", "root", "exe"].map(|name| process.join(name)).into_iter();
        links
            .chain(open.map(|entry| entry.path()))
            .any(|link| fs::read_link(link).is_ok_and(|target| target.starts_with(path)))
    };
    entries
        .flatten()
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse::<u32>().ok()?, entry.path())))
        .filter(|(_, process)| uses(process))
        .map(|(id, process)| {
            let name = fs::read_to_string(process.join("comm")).unwrap_or_default();
            format!("{} (process {id})", name.trim())
        })
        .collect()
}

/// Nodes whose configuration lies below a directory.
pub fn nodes_of(directory: &Path) -> Vec<Pid> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| runs_node(*pid, directory))
        .filter_map(Pid::from_raw)
        .collect()
}

fn runs_node(pid: i32, directory: &Path) -> bool {
    fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| is_node_command(&line, directory))
}

/// Whether a command line, its words ended by zero bytes, is `… node run … DIRECTORY/…`. The
/// program may have any name: it can be installed under another one.
fn is_node_command(line: &[u8], directory: &Path) -> bool {
    let mut words = line.split(|byte| *byte == 0).skip(1);
    words.next() == Some(b"node")
        && words.next() == Some(b"run")
        && words.any(|word| Path::new(OsStr::from_bytes(word)).starts_with(directory))
}

/// Asks a process to end, and ends it if it has not after `patience`.
pub fn terminate(process: Pid, patience: Duration) {
    // An error means that it has ended already.
    let _ = kill_process(process, Signal::TERM);
    let start = Instant::now();
    while start.elapsed() < patience {
        if !is_alive(process) {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = kill_process(process, Signal::KILL);
}

/// Whether a process runs (a zombie does not).
pub fn is_alive(process: Pid) -> bool {
    let path = format!("/proc/{}/stat", process.as_raw_nonzero());
    let Ok(stat) = fs::read_to_string(path) else { return false };
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
    !matches!(state, None | Some('Z' | 'X'))
}

/// Whether a program of this name can be run.
pub fn has_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(usual).any(|directory| directory.join(name).is_file())
}

/// Runs a program.
///
/// # Errors
/// With what the program wrote to standard error.
pub fn run(program: &str, arguments: &[&OsStr]) -> Result<String, Failure> {
    let output = command(program, arguments).output();
    result(output.map_err(|error| not_run(program, arguments, &error))?, program, arguments)
}

/// Why a program that is not waited for any longer has not done its work.
#[derive(Debug)]
pub enum NotRun {
    /// It has failed, or was ended.
    Failed(Failure),
    /// Somebody wants an end, and it goes on: the kernel does not end it before it has done what it
    /// was asked.
    GoesOn,
}

/// Runs a program that writes little. If it has not ended after `patience`, it is told. If somebody
/// wants an end, the program is asked to end, too.
///
/// # Errors
/// With what the program wrote to standard error; or if it goes on.
pub fn run_unless(
    interrupt: &Interrupt,
    program: &str,
    arguments: &[&OsStr],
    patience: Duration,
    report: impl FnOnce(),
) -> Result<String, NotRun> {
    let failed = |error: std::io::Error| NotRun::Failed(not_run(program, arguments, &error));
    let mut child = spawn(program, arguments).map_err(NotRun::Failed)?;
    if !wait(&mut child, patience, report, || interrupt.wanted()).map_err(failed)? {
        if let Some(id) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
            // An error means that it has ended already.
            let _ = kill_process(id, Signal::TERM);
        }
        let begun = Instant::now();
        if !wait(&mut child, ENDING, || {}, || begun.elapsed() >= ENDING).map_err(failed)? {
            return Err(NotRun::GoesOn);
        }
        // What it has started may hold its output open.
        interrupt.check().map_err(NotRun::Failed)?;
    }
    ended(child, program, arguments).map_err(NotRun::Failed)
}

fn spawn(program: &str, arguments: &[&OsStr]) -> Result<Child, Failure> {
    let mut command = command(program, arguments);
    let spawned = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    spawned.map_err(|error| not_run(program, arguments, &error))
}

/// Waits for the end of a program, and tells once if that takes longer than `patience`. Returns
/// false if `is_enough` says so before it has ended.
fn wait(
    child: &mut Child,
    patience: Duration,
    report: impl FnOnce(),
    is_enough: impl Fn() -> bool,
) -> std::io::Result<bool> {
    let (begun, mut report) = (Instant::now(), Some(report));
    while child.try_wait()?.is_none() {
        if is_enough() {
            return Ok(false);
        }
        if begun.elapsed() >= patience
            && let Some(report) = report.take()
        {
            report();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(true)
}

fn ended(child: Child, program: &str, arguments: &[&OsStr]) -> Result<String, Failure> {
    let output = child.wait_with_output();
    result(output.map_err(|error| not_run(program, arguments, &error))?, program, arguments)
}

fn not_run(program: &str, arguments: &[&OsStr], error: &std::io::Error) -> Failure {
    let missing = error.kind() == std::io::ErrorKind::NotFound;
    let remedy = if missing { format!("install {program}") } else { String::new() };
    Failure::new(failed(program, arguments), error).advise(remedy)
}

fn result(output: Output, program: &str, arguments: &[&OsStr]) -> Result<String, Failure> {
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    let why = if said.is_empty() { output.status.to_string() } else { said };
    Err(Failure::new(failed(program, arguments), why))
}

fn failed(program: &str, arguments: &[&OsStr]) -> String {
    let words: Vec<_> = arguments.iter().map(|word| word.to_string_lossy()).collect();
    format!("`{program} {}` failed", words.join(" "))
}

fn succeeds(program: &str, arguments: &[&OsStr]) -> bool {
    let status = command(program, arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

fn command(program: &str, arguments: &[&OsStr]) -> Command {
    let mut path = std::env::var_os("PATH").unwrap_or_default();
    path.push(":/usr/sbin:/sbin");
    let mut command = Command::new(program);
    command.args(arguments).env("PATH", path).env("LC_ALL", "C").stdin(Stdio::null());
    command
}

#[cfg(test)]
mod tests;
