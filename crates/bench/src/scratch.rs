//! The scratch directory, and everything that must be undone at the end.
//!
//! Each thing that outlives a failure (a process, a mount, a loop device, a network namespace, a
//! file) is written down in a state file before it is made, and undone in reverse order when the
//! [`Scratch`] is dropped: at the end, after a failure, after Ctrl-C. If the process itself was
//! killed, `evenkeel bench clean` finds the state file and does the same.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::failure::{Failure, Kind};
use crate::interrupt::POLL_PERIOD;
use crate::process;

/// How long a process may take to end when asked.
const PATIENCE: Duration = Duration::from_secs(10);

/// Something to undo.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Undo {
    /// End a process and its group.
    Process {
        /// The process id.
        pid: u32,
        /// When it started, so that no other one of this id is hurt.
        started: u64,
    },
    /// Unmount.
    Mount {
        /// The mount point.
        point: PathBuf,
    },
    /// Free the loop device over this file.
    Loop {
        /// The file.
        file: PathBuf,
    },
    /// End everything in a network namespace, and delete it.
    Namespace {
        /// Its name.
        name: String,
    },
    /// Run a command; that it fails is no harm.
    Run {
        /// The command.
        words: Vec<String>,
        /// It is run again, for [`PATIENCE`] at most, while it fails with a message that contains
        /// this: what it undoes is in the midst of something.
        #[serde(default)]
        again_on: Option<String>,
    },
    /// Delete a directory and all in it.
    Directory {
        /// Its path.
        path: PathBuf,
    },
}

impl Undo {
    /// Run a command once.
    pub const fn run(words: Vec<String>) -> Self {
        Self::Run { words, again_on: None }
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct State {
    owner: u32,
    owner_started: u64,
    undo: Vec<Undo>,
}

/// The scratch directory of one run. Dropping it undoes everything.
#[derive(Debug)]
pub struct Scratch {
    directory: PathBuf,
    sockets: PathBuf,
    file: PathBuf,
    state: State,
    children: Vec<Child>,
}

impl Scratch {
    /// Makes a scratch directory below `parent`.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn create(parent: &Path) -> Result<Self, Failure> {
        let owner = std::process::id();
        // One process may have several: the disks that were given away, and the run on them.
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let directory = parent.join(format!("evenkeel-bench-{owner}-{number}"));
        let failed = |error: io::Error| {
            Failure::new(format!("cannot make a scratch directory in {}", parent.display()), error)
                .advise("choose a directory on the disk to be measured with --scratch DIR")
        };
        let owner_started = process::started(owner).unwrap_or_default();
        let state = State { owner, owner_started, undo: Vec::new() };
        let file = state_directory().join(format!("{owner}-{number}.json"));
        fs::create_dir_all(state_directory()).map_err(failed)?;
        let sockets = file.with_extension("d");
        let mut scratch = Self { directory, sockets, file, state, children: Vec::new() };
        for path in [scratch.directory.clone(), scratch.sockets.clone()] {
            scratch.note(Undo::Directory { path: path.clone() })?;
            fs::create_dir_all(path).map_err(failed)?;
        }
        Ok(scratch)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.directory
    }

    /// A directory with a short path, wherever the scratch directory is: the kernel permits no more
    /// than 107 bytes for the path of a socket.
    pub fn sockets(&self) -> &Path {
        &self.sockets
    }

    /// A path inside it, made as a directory.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn directory(&self, name: &str) -> Result<PathBuf, Failure> {
        let path = self.directory.join(name);
        fs::create_dir_all(&path)
            .map_err(|error| Failure::new(format!("cannot make {}", path.display()), error))?;
        Ok(path)
    }

    /// Writes down what will have to be undone. Call it before doing it.
    ///
    /// # Errors
    /// If it cannot be written down: then it must not be done.
    pub fn note(&mut self, undo: Undo) -> Result<(), Failure> {
        self.state.undo.push(undo);
        self.save().map_err(|error| {
            Failure::new(format!("cannot write {}", self.file.display()), error)
                .advise("without it, a killed run could not be cleaned up")
        })
    }

    /// Starts a process that serves until the end. Its output goes to `NAME.log` in the scratch
    /// directory. Returns its id.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn serve(&mut self, name: &str, command: &mut Command) -> Result<u32, Failure> {
        use std::os::unix::process::CommandExt as _;
        let line = process::shown(command);
        let failed = |error: io::Error| Failure::new(format!("cannot start `{line}`"), error);
        let path = self.log_path(name);
        let log = fs::File::options().create(true).append(true).open(&path).map_err(failed)?;
        let child = command
            .env(process::SERVER_MARK, process::own_mark())
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(log.try_clone().map_err(failed)?)
            .stderr(log)
            .spawn()
            .map_err(failed)?;
        let pid = child.id();
        self.children.push(child);
        self.note(Undo::Process { pid, started: process::started(pid).unwrap_or_default() })?;
        Ok(pid)
    }

    /// The end of a served process's log, to show why something failed.
    pub fn log_end(&self, name: &str) -> String {
        let text = fs::read_to_string(self.log_path(name)).unwrap_or_default();
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        lines[lines.len().saturating_sub(5)..].join("\n")
    }

    /// How many things are to be undone now; for [`Self::undo_to`].
    pub fn mark(&self) -> usize {
        self.state.undo.len()
    }

    /// Undoes what was noted since a mark. Returns what could not be undone.
    pub fn undo_to(&mut self, mark: usize) -> Vec<String> {
        let mut complaints = Vec::new();
        while self.state.undo.len() > mark {
            let Some(undo) = self.state.undo.last().cloned() else { break };
            if let Undo::Process { pid, .. } = undo {
                self.end(pid);
            }
            complaints.extend(undo_one(&undo).err());
            self.state.undo.pop();
            // If it cannot be saved, a later clean-up finds it undone already.
            drop(self.save());
        }
        complaints
    }

    fn log_path(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.log"))
    }

    /// Ends a child and takes its exit status, so that no zombie is left.
    fn end(&mut self, pid: u32) {
        if let Some(index) = self.children.iter().position(|child| child.id() == pid) {
            process::end_group(&mut self.children.remove(index));
        }
    }

    fn save(&self) -> io::Result<()> {
        let text = serde_json::to_string(&self.state)?;
        let new = self.file.with_extension("new");
        fs::File::create(&new)?.write_all(text.as_bytes())?;
        fs::rename(new, &self.file)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let complaints = self.undo_to(0);
        for complaint in &complaints {
            eprintln!("evenkeel bench: not cleaned up: {complaint}");
        }
        if complaints.is_empty() {
            drop(fs::remove_file(&self.file));
        }
    }
}

/// What `bench clean` found and did.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Runs whose remains were cleaned up.
    pub runs: usize,
    /// Runs that are still going on; they were left alone.
    pub running: usize,
    /// What could not be undone.
    pub complaints: Vec<String>,
}

/// Undoes what killed runs have left behind.
///
/// # Errors
/// If the state files cannot be read.
pub fn clean() -> Result<Cleaned, Failure> {
    let mut cleaned = Cleaned::default();
    let directory = state_directory();
    let entries = match fs::read_dir(&directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(cleaned),
        Err(error) => {
            return Err(Failure::new(format!("cannot read {}", directory.display()), error));
        }
    };
    for path in entries.flatten().map(|entry| entry.path()) {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("json") => clean_one(&path, &mut cleaned)?,
            Some("new") => drop_unfinished(&path),
            _ => {}
        }
    }
    Ok(cleaned)
}

/// Deletes a state file that was being written when its writer was killed; the one before it is
/// still there, and counts.
fn drop_unfinished(path: &Path) {
    let owner = path.file_stem().and_then(|stem| stem.to_str()?.split('-').next()?.parse().ok());
    if owner.is_none_or(|owner| process::started(owner).is_none()) {
        // That it cannot be deleted harms nobody.
        drop(fs::remove_file(path));
    }
}

fn clean_one(path: &Path, cleaned: &mut Cleaned) -> Result<(), Failure> {
    let failed = |why: &dyn std::fmt::Display| {
        Failure::new(format!("cannot use the state file {}", path.display()), why)
            .advise("delete it after looking for what that run has left behind")
            .kind(Kind::Failed)
    };
    let text = fs::read_to_string(path).map_err(|error| failed(&error))?;
    let state: State = serde_json::from_str(&text).map_err(|error| failed(&error))?;
    if process::alive(state.owner, state.owner_started) {
        cleaned.running += 1;
        return Ok(());
    }
    cleaned.runs += 1;
    // A tool that still runs would keep mounts and devices busy.
    let mut complaints = end_marked(process::TOOL_MARK, &state);
    complaints.extend(state.undo.iter().rev().filter_map(|undo| undo_one(undo).err()));
    // Killed between the start of a server and its note.
    complaints.extend(end_marked(process::SERVER_MARK, &state));
    if complaints.is_empty() {
        fs::remove_file(path).map_err(|error| failed(&error))?;
    }
    cleaned.complaints.extend(complaints);
    Ok(())
}

fn end_marked(name: &str, state: &State) -> Vec<String> {
    let found = process::marked(name, &process::mark_of(state.owner, state.owner_started));
    found.into_iter().filter_map(|(pid, started)| end_process(pid, started).err()).collect()
}

/// Where the state files lie: of root in /run, of others in their own runtime directory, or a
/// directory of their own beside other people's.
fn state_directory() -> PathBuf {
    let user = rustix::process::geteuid();
    if user.is_root() {
        return PathBuf::from("/run/evenkeel-bench");
    }
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|path| Path::new(path).is_dir()) {
        Some(path) => PathBuf::from(path).join("evenkeel-bench"),
        None => std::env::temp_dir().join(format!("evenkeel-bench-{}", user.as_raw())),
    }
}

/// Undoes one thing; that it is undone already is no error.
fn undo_one(undo: &Undo) -> Result<(), String> {
    match undo {
        Undo::Process { pid, started } => end_process(*pid, *started),
        Undo::Mount { point } => unmount(point),
        Undo::Loop { file } => free_loops(file),
        Undo::Namespace { name } => delete_namespace(name),
        Undo::Run { words, again_on } => {
            let is_over = || match (process::quiet(words), again_on) {
                (Err(why), Some(text)) => !why.contains(text),
                _ => true,
            };
            await_gone(is_over);
            Ok(())
        }
        Undo::Directory { path } => match fs::remove_dir_all(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(format!("{}: {error}", path.display()))
            }
            _ => Ok(()),
        },
    }
}

fn end_process(pid: u32, started: u64) -> Result<(), String> {
    use rustix::process::{Pid, Signal, kill_process, kill_process_group};
    let Some(id) = Pid::from_raw(pid.cast_signed()) else { return Ok(()) };
    for signal in [Signal::TERM, Signal::KILL] {
        if !process::alive(pid, started) {
            return Ok(());
        }
        // Either may fail because it ends at this moment; what counts is whether it lives after.
        let _ = kill_process_group(id, signal);
        let _ = kill_process(id, signal);
        await_gone(|| !process::alive(pid, started));
    }
    match process::alive(pid, started) {
        true => Err(format!("process {pid} does not end")),
        false => Ok(()),
    }
}

fn unmount(point: &Path) -> Result<(), String> {
    let mounted = || {
        let table = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let wanted = point.to_string_lossy();
        table.lines().any(|line| line.split(' ').nth(1) == Some(&wanted))
    };
    if !mounted() {
        return Ok(());
    }
    // Busy for a moment is usual right after a tool has ended.
    await_gone(|| process::quiet(["umount".as_ref(), point.as_os_str()]).is_ok() || !mounted());
    if mounted() {
        drop(process::quiet(["umount".as_ref(), "-l".as_ref(), point.as_os_str()]));
    }
    match mounted() {
        true => Err(format!("{} cannot be unmounted", point.display())),
        false => Ok(()),
    }
}

fn free_loops(file: &Path) -> Result<(), String> {
    let list = || {
        process::quiet([
            "losetup".as_ref(),
            "-n".as_ref(),
            "-O".as_ref(),
            "NAME".as_ref(),
            "-j".as_ref(),
            file.as_os_str(),
        ])
        .unwrap_or_default()
    };
    for device in list().lines().map(str::trim).filter(|name| !name.is_empty()) {
        drop(process::quiet(["losetup", "-d", device]));
    }
    await_gone(|| list().trim().is_empty());
    match list().trim() {
        "" => Ok(()),
        left => Err(format!("loop device {left} cannot be freed")),
    }
}

fn delete_namespace(name: &str) -> Result<(), String> {
    let path = Path::new("/run/netns").join(name);
    if !path.exists() {
        return Ok(());
    }
    let pids = process::quiet(["ip", "netns", "pids", name]).unwrap_or_default();
    for pid in pids.lines().filter_map(|line| line.trim().parse().ok()) {
        end_process(pid, process::started(pid).unwrap_or_default())?;
    }
    process::quiet(["ip", "netns", "del", name]).map(drop)
}

fn await_gone(mut gone: impl FnMut() -> bool) {
    let start = Instant::now();
    while !gone() && start.elapsed() < PATIENCE {
        std::thread::sleep(POLL_PERIOD);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_undone_in_reverse_order_when_dropped() {
        let parent = tempfile::tempdir().unwrap();
        let mut scratch = Scratch::create(parent.path()).unwrap();
        let path = scratch.path().to_owned();
        let sockets = scratch.sockets().to_owned();
        assert!(sockets.is_dir() && sockets.as_os_str().len() < 60, "{sockets:?}");
        let witness = parent.path().join("witness");
        let order = format!("test -d {} && echo inside > {}", path.display(), witness.display());
        let words = vec!["sh".into(), "-c".into(), order];
        scratch.note(Undo::run(words)).unwrap();
        let pid = scratch.serve("sleeper", &mut process::command(["sleep", "600"])).unwrap();
        let started = process::started(pid).unwrap();
        assert!(process::alive(pid, started));
        drop(scratch);
        assert!(!process::alive(pid, started));
        assert!(!path.exists() && !sockets.exists());
        assert_eq!(fs::read_to_string(witness).unwrap(), "inside\n");
    }

    #[test]
    fn what_is_busy_is_undone_when_it_is_no_longer() {
        let parent = tempfile::tempdir().unwrap();
        let tries = parent.path().join("tries");
        let order = format!(
            "echo >> {0}; [ $(wc -l < {0}) -ge 3 ] || {{ echo \"$1\" >&2; exit 11; }}",
            tries.display()
        );
        let run = |message: &str| Undo::Run {
            words: ["sh", "-c", &order, "sh", message].map(str::to_owned).to_vec(),
            again_on: Some("transient state".into()),
        };
        let count = || fs::read_to_string(&tries).unwrap().lines().count();
        undo_one(&run("no such resource")).unwrap();
        assert_eq!(count(), 1, "what fails otherwise is left");
        undo_one(&run("In transient state, retry")).unwrap();
        assert_eq!(count(), 3);
    }

    #[test]
    fn undoing_what_is_not_there_is_no_error() {
        for undo in [
            Undo::Process { pid: 4_000_000, started: 1 },
            Undo::Mount { point: "/nowhere/at/all".into() },
            Undo::Namespace { name: "evenkeel-none".into() },
            Undo::Directory { path: "/nowhere/at/all".into() },
        ] {
            assert_eq!(undo_one(&undo), Ok(()), "{undo:?}");
        }
    }
}
