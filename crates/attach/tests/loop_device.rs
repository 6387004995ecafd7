//! A file attached through FUSE and a loop device of the real kernel. Needs root, FUSE and loop
//! devices; where one is missing, the test says so and passes.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use evenkeel_attach::{
    AttachError, Filesystems, Kind, Options, Place, attach, clean_up_stale, list, refuse,
};

const SIZE: u64 = 64 << 20;
const O_DIRECT: i32 = 0o40000;

/// A daemon that serves a file, with its standard input and output.
struct Daemon {
    process: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
    device: PathBuf,
}

fn serve_file(directory: &Path, name: &str) -> Command {
    let program = std::env::current_exe().unwrap();
    let program = program.ancestors().nth(2).unwrap().join("examples/serve_file");
    let mut command = Command::new(program);
    command
        .args(["attach".as_ref(), directory.as_os_str(), name.as_ref()])
        .args([directory.join("disk").as_os_str(), "loop".as_ref()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command
}

impl Daemon {
    fn start(directory: &Path, name: &str) -> Self {
        Self::start_with(&mut serve_file(directory, name), name)
    }

    fn start_with(command: &mut Command, name: &str) -> Self {
        let mut process = command.spawn().unwrap();
        let commands = process.stdin.take().unwrap();
        let mut answers = BufReader::new(process.stdout.take().unwrap());
        let device = PathBuf::from(format!("/dev/evenkeel/{name}"));
        let mut line = String::new();
        answers.read_line(&mut line).unwrap();
        assert!(line.starts_with(device.to_str().unwrap()), "{line}");
        Self { process, commands, answers, device }
    }

    fn open(&self) -> File {
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(O_DIRECT).open(&self.device).unwrap()
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Only after a failed assertion is it still there.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Takes everything away in the end, also after a failed assertion.
struct CleanUp(Place, String);

impl Drop for CleanUp {
    fn drop(&mut self) {
        if let Err(error) = clean_up_stale(&self.0, &self.1, Filesystems::Unmount) {
            eprintln!("{error}");
        }
    }
}

fn options(name: &str) -> Options {
    let size = Arc::new(AtomicU64::new(SIZE));
    Options { name: name.to_owned(), size, block_size: 512, kind: Some(Kind::Loop), resume: false }
}

/// Memory that is aligned for direct input and output.
#[repr(align(4096))]
struct Aligned([u8; 8192]);

fn is_possible() -> bool {
    let root = rustix::process::geteuid().is_root();
    let missing =
        ["/dev/fuse", "/dev/loop-control"].into_iter().find(|path| !Path::new(path).exists());
    if !root || missing.is_some() {
        eprintln!("skipped: needs root, /dev/fuse and /dev/loop-control");
    }
    root && missing.is_none()
}

#[test]
fn a_device_is_used_detached_and_cleaned_up_after_its_daemon_was_killed() {
    if !is_possible() {
        return;
    }
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let disk = File::create_new(directory.path().join("disk")).unwrap();
    disk.set_len(SIZE).unwrap();
    let place = Place::new(directory.path());
    let name = format!("test-{}", std::process::id());
    let _clean_up = CleanUp(place.clone(), name.clone());

    let mut daemon = Daemon::start(directory.path(), &name);
    use_device(&daemon, &disk);
    refuse_to_detach(&mut daemon);
    daemon.commands.write_all(b"detach\n").unwrap();
    assert!(daemon.process.wait().unwrap().success());
    assert!(!daemon.device.exists());
    assert_eq!(list(&place).unwrap(), []);

    let mut daemon = Daemon::start(directory.path(), &name);
    let record = list(&place).unwrap().pop().unwrap();
    assert_eq!((record.kind, record.daemon), (Kind::Loop, daemon.process.id()));
    let open = daemon.open();
    daemon.kill();
    get_errors(&open);
    let cleaned = clean_up_stale(&place, &name, Filesystems::Unmount).unwrap();
    assert_eq!(cleaned.devices, [record.device.unwrap()]);
    assert_eq!(cleaned.still_used.len(), 1, "this test has it open: {cleaned:?}");
    assert!(!daemon.device.is_symlink());
    assert_eq!(list(&place).unwrap(), []);
    // The old device gives errors for as long as someone has it open.
    get_errors(&open);
    // None is made in its place, however often that is tried.
    for _ in 0..2 {
        let beside = attach(&place, &options(&name), |_| Err("it is served".into()));
        assert!(matches!(beside, Err(AttachError::InUse { .. })), "{beside:?}");
        let refused = refuse(&place, &name);
        assert!(matches!(refused, Err(AttachError::InUse { .. })), "{refused:?}");
    }
    drop(open);
    refuse(&place, &name).unwrap();

    let daemon = Daemon::start(directory.path(), &name);
    let mut memory = Aligned([0; 8192]);
    daemon.open().read_exact_at(&mut memory.0[..512], 1024).unwrap();
    assert_eq!(memory.0[..512], [7; 512]);
}

/// It waits for an answer of the device that it makes, and nobody is left to give one.
#[test]
fn a_daemon_that_is_killed_while_it_asks_itself_goes() {
    if !is_possible() {
        return;
    }
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    File::create_new(directory.path().join("disk")).unwrap().set_len(SIZE).unwrap();
    let name = format!("silent-{}", std::process::id());
    // It also ends the connection by force, without which a process that waits for it would stay
    // for ever.
    let _clean_up = CleanUp(Place::new(directory.path()), name.clone());

    let mut daemon = serve_file(directory.path(), &name).arg("silent").spawn().unwrap();
    let mut line = String::new();
    BufReader::new(daemon.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "asked\n");
    ends_when_killed(&mut daemon);
}

/// It waits for a flush of its own device, in a process that has nothing of its own.
#[test]
fn a_daemon_that_is_killed_while_it_flushes_its_device_goes() {
    if !is_possible() {
        return;
    }
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    File::create_new(directory.path().join("disk")).unwrap().set_len(SIZE).unwrap();
    let name = format!("unflushed-{}", std::process::id());
    let place = Place::new(directory.path());
    let _clean_up = CleanUp(place.clone(), name.clone());

    let mut daemon =
        Daemon::start_with(serve_file(directory.path(), &name).arg("unflushed"), &name);
    let device = fs::canonicalize(&daemon.device).unwrap();
    // What is in the page cache makes the flush one that the device is asked for.
    OpenOptions::new().write(true).open(&device).unwrap().write_all_at(&[7; 4096], 0).unwrap();
    daemon.commands.write_all(b"detach\n").unwrap();
    let mut line = String::new();
    daemon.answers.read_line(&mut line).unwrap();
    assert_eq!(line, "asked\n");

    let [helper] = children(daemon.process.id())[..] else { panic!("one process flushes it") };
    let opened: Vec<PathBuf> =
        descriptors(helper).filter(|(number, _)| *number > 2).map(|(_, path)| path).collect();
    assert_eq!(opened, [device.as_path()], "it has no other descriptor");
    ends_when_killed(&mut daemon.process);
    within_a_minute("the process that flushed goes, too", || !is_running(helper));
    let cleaned = clean_up_stale(&place, &name, Filesystems::Unmount).unwrap();
    assert_eq!(cleaned.devices, opened);
}

fn ends_when_killed(daemon: &mut Child) {
    daemon.kill().unwrap();
    within_a_minute("it was killed, and goes", || daemon.try_wait().unwrap().is_some());
}

fn within_a_minute(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "not within a minute: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The state of a process and its parent; `None`: there is none.
fn state_of(process: u32) -> Option<(String, u32)> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let mut fields = text.rsplit(')').next()?.split_whitespace();
    Some((fields.next()?.to_owned(), fields.next()?.parse().ok()?))
}

/// Whether it is there, and is not only waited for by a parent that does not look.
fn is_running(process: u32) -> bool {
    state_of(process).is_some_and(|(state, _)| state != "Z")
}

fn children(of: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    processes.filter(|process| state_of(*process).is_some_and(|(_, parent)| parent == of)).collect()
}

/// Its descriptors, and what they are.
fn descriptors(process: u32) -> impl Iterator<Item = (u32, PathBuf)> {
    let entries = fs::read_dir(format!("/proc/{process}/fd")).unwrap().flatten();
    entries.filter_map(|entry| {
        Some((entry.file_name().to_str()?.parse().ok()?, fs::read_link(entry.path()).ok()?))
    })
}

/// Writes, flushes, reads and discards.
fn use_device(daemon: &Daemon, disk: &File) {
    let device = daemon.open();
    let memory = Aligned([7; 8192]);
    device.write_all_at(&memory.0[..1536], 1024).unwrap();
    device.sync_all().unwrap();
    let mut read = vec![0; 4096];
    disk.read_exact_at(&mut read, 0).unwrap();
    assert_eq!(read, [[0u8; 1024].as_slice(), &[7; 1536], &[0; 1536]].concat());

    device.write_all_at(&memory.0, 1 << 20).unwrap();
    let discard = Command::new("blkdiscard")
        .args(["-f", "-o", "1048576", "-l", "1048576"])
        .arg(&daemon.device)
        .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
        .stderr(Stdio::null())
        .status();
    assert!(discard.unwrap().success());
    disk.read_exact_at(&mut read, 1 << 20).unwrap();
    assert_eq!(read, [0; 4096]);
    let queue = fs::canonicalize(&daemon.device).unwrap();
    let queue = Path::new("/sys/block").join(queue.file_name().unwrap()).join("queue");
    let setting = |name| fs::read_to_string(queue.join(name)).unwrap().trim().to_owned();
    assert_eq!(setting("logical_block_size"), "512");
    assert_eq!(setting("write_cache"), "write back");
}

fn refuse_to_detach(daemon: &mut Daemon) {
    let open = daemon.open();
    daemon.commands.write_all(b"detach\n").unwrap();
    let mut line = String::new();
    daemon.answers.read_line(&mut line).unwrap();
    let here = format!("open in process {}", std::process::id());
    assert!(line.contains("is in use") && line.contains(&here), "{line}");
    drop(open);
}

/// Every request fails, and none hangs.
fn get_errors(device: &File) {
    let begin = Instant::now();
    let mut memory = Aligned([0; 8192]);
    assert!(device.read_at(&mut memory.0[..512], 0).is_err());
    assert!(device.write_at(&memory.0[..512], 0).is_err());
    assert!(begin.elapsed() < Duration::from_secs(60));
}
