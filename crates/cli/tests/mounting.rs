//! `evenkeel mount` and `umount` beside other uses of a volume: the shipped command, a node that
//! runs, block devices and filesystems. Needs root, FUSE or ublk, loop devices and mkfs.ext4;
//! without them these tests say so and pass.

mod common;

use std::io::{Read as _, Write as _};
use std::ops::Deref;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use common::Scratch;
use serde_json::Value;

/// A node of its own, with a volume that nobody else on this machine has.
struct Machine {
    scratch: Scratch,
    node: Child,
    volume: String,
}

impl Deref for Machine {
    type Target = Scratch;

    fn deref(&self) -> &Scratch {
        &self.scratch
    }
}

impl Machine {
    /// `None`: this machine can't make block devices, or mount.
    fn new() -> Option<Self> {
        static VOLUMES: AtomicU32 = AtomicU32::new(0);
        let number = VOLUMES.fetch_add(1, Ordering::Relaxed);
        let volume = format!("mounting-{}-{number}", std::process::id());
        let scratch = Scratch::new();
        let disk = scratch.place("n1").join("d");
        std::fs::create_dir_all(&disk).unwrap();
        let config = format!(
            "name = \"n1\"\ncluster = \"mounting\"\nstate = {:?}\nruntime = {:?}\n[peer]\nlisten = [{:?}]\n[coordinator]\nhere = true\n",
            scratch.state("n1"),
            scratch.runtime("n1"),
            scratch.peer("n1")
        );
        std::fs::write(scratch.place("n1").join("evenkeel.toml"), config).unwrap();
        let node = daemon(&scratch);
        let machine = Self { scratch, node, volume };
        machine.until("n1", "node status", |_| true);
        machine.done("n1", &format!("disk add {}", disk.display()));
        machine.done("n1", &format!("volume create {} --size 64M --replicas 1", machine.volume));
        machine.has_devices().then_some(machine)
    }

    /// Ends the daemon by a signal.
    fn end(&mut self, signal: &str) {
        let id = self.node.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
        self.node.wait().unwrap();
    }

    /// Starts the next daemon, and waits until it answers.
    fn start(&mut self) {
        self.node = daemon(&self.scratch);
        self.until("n1", "node status", |_| true);
    }

    /// Starts the next daemon in a way that the volume's disk is missing for some tries, and lets a
    /// command be the first to find it: the daemon tries again seconds later.
    fn start_late(&mut self) {
        let (disk, away) = (self.place("n1").join("d"), self.place("n1").join("away"));
        std::fs::rename(&disk, &away).unwrap();
        self.start();
        std::thread::sleep(Duration::from_secs(8));
        std::fs::rename(&away, &disk).unwrap();
        self.until("n1", "disk list --json", |said| said.contains("\"state\":\"serving\""));
    }

    fn has_devices(&self) -> bool {
        let has_mkfs = Command::new("mkfs.ext4").arg("-V").output().is_ok();
        let attached = self.run("n1", &self.line("attach VOLUME --as device"));
        if !attached.status.success() || !has_mkfs {
            eprintln!("skipped: {}", String::from_utf8_lossy(&attached.stderr));
            return false;
        }
        self.ok("detach VOLUME");
        true
    }

    fn directory(&self) -> PathBuf {
        self.place("mnt")
    }

    /// A command in which this volume and a directory to mount it on are called so.
    fn line(&self, words: &str) -> String {
        let directory = self.directory().display().to_string();
        words.replace("VOLUME", &self.volume).replace("DIRECTORY", &directory)
    }

    fn ok(&self, words: &str) -> String {
        self.done("n1", &self.line(words))
    }

    /// A command that ends with this code; what it says.
    fn refused(&self, code: i32, words: &str) -> String {
        self.said(code, &self.run("n1", &self.line(words)))
    }

    fn said(&self, code: i32, output: &Output) -> String {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{}: {said}", self.volume);
        said
    }

    /// What the node says of the volume.
    fn status(&self) -> Value {
        let text = self.ok("volume status VOLUME --json");
        serde_json::from_str::<Value>(&text).unwrap()["volume"].take()
    }

    /// That the volume is as it was: attached, without a block device, and exported so often.
    fn is_attached_with(&self, exports: usize) {
        let status = self.status();
        assert_eq!(status["primaries"].as_array().unwrap().len(), 1, "{status:#}");
        assert_eq!(status["primaries"][0]["device"], Value::Null, "{status:#}");
        assert_eq!(status["exports"].as_array().unwrap().len(), exports, "{status:#}");
    }

    fn is_detached(&self) {
        assert_eq!(self.status()["state"], "detached");
    }

    /// Makes a filesystem, and leaves the volume detached.
    fn format(&self) {
        self.ok("mount VOLUME DIRECTORY --mkfs ext4");
        let said = self.ok("umount VOLUME");
        let expected =
            self.line("Unmounted volume VOLUME from DIRECTORY\nVolume VOLUME: it is detached\n");
        assert_eq!(said, expected);
        self.is_detached();
    }

    /// A `mount` whose program, called so, is there only for this: it heeds no signal, does this as
    /// soon as the file is there that is returned, and has begun.
    fn mounts_slowly(&self, name: &str, then: &str) -> (Child, PathBuf) {
        let programs = self.place(name);
        std::fs::create_dir(&programs).unwrap();
        let path = std::env::var("PATH").unwrap();
        let then = then.replace("SYSTEM", &path);
        let script = format!(
            "#!/bin/sh\ntrap '' INT TERM\ntouch \"$0.begun\"\nn=0\n\
             while [ $n -lt 600 ] && ! [ -e \"$0.end\" ]; do sleep 0.1; n=$((n + 1)); done\n\
             {then}\n"
        );
        let program = programs.join("mount");
        std::fs::write(&program, script).unwrap();
        assert!(Command::new("chmod").arg("+x").arg(&program).status().unwrap().success());
        let line = self.line("mount VOLUME DIRECTORY");
        let mut command = common::evenkeel(&self.runtime("n1").join("api.sock"), line.split(' '));
        let command = command.env("PATH", format!("{}:{path}", programs.display()));
        let child = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        while !programs.join("mount.begun").exists() {
            assert!(Instant::now() < deadline, "it does not begin to mount");
            std::thread::sleep(Duration::from_millis(20));
        }
        (child, programs.join("mount.end"))
    }

    /// A client of the NBD export, for as long as it is held.
    fn nbd_client(&self) -> UnixStream {
        let status = self.status();
        let socket = status["exports"][0]["socket"].as_str().unwrap();
        let mut stream = UnixStream::connect(socket).unwrap();
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting).unwrap();
        // Fixed newstyle without zeroes; then NBD_OPT_EXPORT_NAME.
        let mut request = 3u32.to_be_bytes().to_vec();
        request.extend(b"IHAVEOPT");
        request.extend(1u32.to_be_bytes());
        request.extend((self.volume.len() as u32).to_be_bytes());
        request.extend(self.volume.as_bytes());
        stream.write_all(&request).unwrap();
        let mut export = [0; 10];
        stream.read_exact(&mut export).unwrap();
        stream
    }
}

/// The daemon of the only node.
fn daemon(scratch: &Scratch) -> Child {
    let file = scratch.place("n1").join("evenkeel.toml");
    let log = scratch.place("n1").join("log");
    let log = std::fs::File::options().create(true).append(true).open(log).unwrap();
    let mut node = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    node.args(["node", "run", "--config"]).arg(&file).stderr(log).spawn().unwrap()
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.directory()).output();
        let _ = self.run("n1", &format!("detach {}", self.volume));
        let id = self.node.id().to_string();
        let _ = Command::new("kill").arg(&id).status();
        let _ = self.node.wait();
    }
}

#[test]
fn what_an_nbd_client_uses_is_neither_mounted_nor_formatted() {
    let Some(machine) = Machine::new() else { return };
    machine.ok("attach VOLUME --as nbd");
    let client = machine.nbd_client();
    for words in ["mount VOLUME DIRECTORY", "mount VOLUME DIRECTORY --mkfs ext4"] {
        let said = machine.refused(4, words);
        assert!(said.contains("an NBD client uses it (n1)"), "{said}");
        assert!(!said.contains("--mkfs"), "{said}");
        machine.is_attached_with(1);
    }
    drop(client);
    // Another client may come at any time: it is exported for that.
    let said = machine.refused(4, "mount VOLUME DIRECTORY --mkfs ext4");
    assert!(said.contains("it is exported by NBD (n1)"), "{said}");
    let said = machine.refused(4, "mount VOLUME DIRECTORY");
    assert!(said.contains("no filesystem that is known here, and it is exported"), "{said}");
    assert!(!said.contains("--mkfs"), "{said}");
    machine.is_attached_with(1);
    machine.ok("detach VOLUME");
    // Nobody else has it: then it is made.
    machine.format();
}

#[test]
fn what_somebody_has_open_is_not_formatted() {
    let Some(machine) = Machine::new() else { return };
    machine.ok("attach VOLUME --as device");
    let device = machine.status()["primaries"][0]["device"].as_str().unwrap().to_owned();
    let held = std::fs::File::open(device).unwrap();
    let said = machine.refused(4, "mount VOLUME DIRECTORY --mkfs ext4");
    assert!(said.contains(&format!("(process {}) has it open", std::process::id())), "{said}");
    drop(held);
    // It was attached by hand, and stays so.
    machine.ok("mount VOLUME DIRECTORY --mkfs ext4");
    let said = machine.ok("umount VOLUME");
    assert!(
        said.contains("it stays attached on node n1, as it was before it was mounted"),
        "{said}"
    );
    let said = machine.refused(1, "umount VOLUME");
    assert!(said.contains("is not mounted on this node"), "{said}");
    assert!(said.contains("to end its use: evenkeel detach"), "{said}");
    assert!(machine.status()["primaries"][0]["device"].is_string());
}

#[test]
fn what_a_mount_did_not_attach_is_there_afterwards() {
    let Some(machine) = Machine::new() else { return };
    machine.format();
    // It fails once the device is there.
    let fails = "mount VOLUME DIRECTORY -o no-such-option";
    machine.refused(1, fails);
    machine.is_detached();
    for (how, exports) in [("nbd", 1), ("none", 0)] {
        machine.ok(&format!("attach VOLUME --as {how}"));
        machine.refused(1, fails);
        machine.is_attached_with(exports);
        machine.ok("mount VOLUME DIRECTORY");
        let said = machine.ok("umount DIRECTORY");
        let stays =
            "it stays attached on node n1, without a block device: it was before it was mounted";
        assert!(said.contains(stays), "{said}");
        machine.is_attached_with(exports);
        machine.ok("detach VOLUME");
    }
    // Exported since: that is not the mount's to end.
    machine.ok("mount VOLUME DIRECTORY");
    machine.ok("export nbd VOLUME");
    let said = machine.ok("umount VOLUME");
    assert!(said.contains("without a block device: it is exported"), "{said}");
    machine.is_attached_with(1);
}

#[test]
fn a_mount_that_is_interrupted_leaves_what_was_there() {
    let Some(machine) = Machine::new() else { return };
    machine.format();
    // A mount that takes its time, and does nothing.
    let programs = machine.place("programs");
    std::fs::create_dir(&programs).unwrap();
    let slow = programs.join("mount");
    std::fs::write(&slow, "#!/bin/sh\ntouch \"$0.begun\"\nsleep 2\nexit 1\n").unwrap();
    assert!(Command::new("chmod").arg("+x").arg(&slow).status().unwrap().success());
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let interrupted = || {
        let _ = std::fs::remove_file(programs.join("mount.begun"));
        let socket = machine.runtime("n1").join("api.sock");
        let line = machine.line("mount VOLUME DIRECTORY");
        let mut command = common::evenkeel(&socket, line.split(' '));
        let child =
            command.env("PATH", &path).stderr(std::process::Stdio::piped()).spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        while !programs.join("mount.begun").exists() {
            assert!(Instant::now() < deadline, "it does not begin to mount");
            std::thread::sleep(Duration::from_millis(20));
        }
        let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        assert!(kill.unwrap().success());
        machine.said(130, &child.wait_with_output().unwrap())
    };
    let said = interrupted();
    assert!(said.contains("stopped by Ctrl-C"), "{said}");
    machine.is_detached();
    machine.ok("attach VOLUME --as nbd");
    interrupted();
    machine.is_attached_with(1);
}

/// As after a reboot: a boot unit mounts before the daemon has attached the volume again by itself.
#[test]
fn what_was_attached_and_exported_is_so_whoever_attaches_it_first_after_a_restart() {
    let Some(mut machine) = Machine::new() else { return };
    machine.format();
    machine.ok("attach VOLUME --as nbd");
    machine.end("-TERM");
    machine.start_late();
    machine.ok("mount VOLUME DIRECTORY");
    let said = machine.ok("umount VOLUME");
    assert!(said.contains("without a block device: it was before it was mounted"), "{said}");
    machine.is_attached_with(1);
    machine.ok("detach VOLUME");
    // One that was attached to be mounted goes with the next unmount.
    machine.ok("mount VOLUME DIRECTORY");
    assert!(Command::new("umount").arg(machine.directory()).status().unwrap().success());
    machine.end("-TERM");
    machine.start_late();
    machine.ok("mount VOLUME DIRECTORY");
    machine.ok("umount VOLUME");
    machine.is_detached();
}

/// The old device gives errors and is mounted, so none is made in its place: a mount that is tried
/// before the unmount takes nothing away.
#[test]
fn a_mount_that_comes_too_early_after_a_kill_takes_no_device_away() {
    let Some(mut machine) = Machine::new() else { return };
    machine.format();
    machine.ok("attach VOLUME --as device");
    machine.ok("mount VOLUME DIRECTORY");
    machine.end("-KILL");
    machine.start();
    let lacks = |said: &str| said.contains("its block device could not be made yet");
    let status = machine.line("volume status VOLUME --json");
    let deadline = Instant::now() + Duration::from_secs(60);
    while !lacks(&machine.done("n1", &status)) {
        // With ublk the device is taken up again.
        if machine.status()["primaries"][0]["device"].is_string() {
            return;
        }
        assert!(Instant::now() < deadline, "{:#}", machine.status());
        std::thread::sleep(Duration::from_millis(100));
    }
    let other = machine.place("other").display().to_string();
    let said = machine.refused(4, &format!("mount VOLUME {other}"));
    assert!(said.contains("is in use"), "{said}");
    let said = machine.ok("umount VOLUME");
    assert!(said.contains("it stays attached on node n1, as it was before"), "{said}");
    machine.until("n1", &status, |said| said.contains("\"device\":\"/dev/evenkeel/"));
    machine.ok("mount VOLUME DIRECTORY");
    machine.ok("umount VOLUME");
    assert!(machine.status()["primaries"][0]["device"].is_string());
}

/// A program that the kernel holds does not end by a signal.
#[test]
fn an_interrupt_ends_the_wait_for_a_mount_that_hangs() {
    let Some(machine) = Machine::new() else { return };
    machine.format();
    let (child, end) = machine.mounts_slowly("programs", "exit 1");
    let begun = Instant::now();
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(kill.unwrap().success());
    let said = machine.said(130, &child.wait_with_output().unwrap());
    assert!(begun.elapsed() < Duration::from_secs(10), "it waited for the program");
    assert!(said.contains("`mount` goes on in the kernel until the volume answers"), "{said}");
    // What is said is so.
    assert!(machine.status()["primaries"][0]["device"].is_string());
    std::fs::write(end, "").unwrap();
    machine.ok("umount VOLUME");
    machine.is_detached();
}

/// The second one finds the device that the first one has made.
#[test]
fn a_mount_that_fails_leaves_the_device_to_another_one_that_has_found_it() {
    let Some(machine) = Machine::new() else { return };
    machine.format();
    let (first, end_first) = machine.mounts_slowly("first", "false");
    let (second, end_second) = machine.mounts_slowly("second", "exec env PATH=SYSTEM mount \"$@\"");
    std::fs::write(end_first, "").unwrap();
    machine.said(1, &first.wait_with_output().unwrap());
    assert!(machine.status()["primaries"][0]["device"].is_string(), "{:#}", machine.status());
    std::fs::write(end_second, "").unwrap();
    machine.said(0, &second.wait_with_output().unwrap());
    machine.ok("umount VOLUME");
    machine.is_detached();
}

/// As an operator who does not wait for the node, which attaches it again by itself.
#[test]
fn what_is_attached_by_hand_after_a_restart_is_no_mounts_any_more() {
    let Some(mut machine) = Machine::new() else { return };
    machine.format();
    machine.ok("mount VOLUME DIRECTORY");
    assert!(Command::new("umount").arg(machine.directory()).status().unwrap().success());
    // The daemon may be the first all the same: then nothing has changed.
    let is_first = |machine: &mut Machine| {
        machine.end("-TERM");
        machine.start_late();
        machine.run("n1", &machine.line("attach VOLUME --as device")).status.success()
    };
    assert!((0..5).any(|_| is_first(&mut machine)), "the daemon was always the first");
    machine.ok("mount VOLUME DIRECTORY");
    // That it is mounted there is what was asked for.
    machine.ok("mount VOLUME DIRECTORY");
    let said = machine.ok("umount VOLUME");
    assert!(said.contains("it stays attached on node n1, as it was before"), "{said}");
    assert!(machine.status()["primaries"][0]["device"].is_string());
}

/// The view names the primary of the killed daemon: no other node could attach it.
#[test]
fn nothing_is_called_detached_that_the_cluster_counts_as_attached() {
    let Some(mut machine) = Machine::new() else { return };
    machine.ok("attach VOLUME --as none");
    machine.end("-KILL");
    let (disk, away) = (machine.place("n1").join("d"), machine.place("n1").join("away"));
    std::fs::rename(&disk, &away).unwrap();
    machine.start();
    let status = machine.line("volume status VOLUME --json");
    machine.until("n1", &status, |said| said.contains("which has not attached it: "));
    let output = machine.run("n1", &machine.line("detach VOLUME"));
    machine.said(5, &output);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("it may count as attached there still, because "), "{said}");
    std::fs::rename(&away, &disk).unwrap();
    machine.until("n1", "disk list --json", |said| said.contains("\"state\":\"serving\""));
    let said = machine.ok("detach VOLUME");
    assert!(said.contains("node n1 has given it up"), "{said}");
    machine.is_detached();
}

/// Nobody else may write beside what is mounted, though that gives errors.
#[test]
fn what_is_mounted_after_a_kill_is_not_handed_to_others_by_a_detach() {
    let Some(mut machine) = Machine::new() else { return };
    machine.format();
    machine.ok("mount VOLUME DIRECTORY");
    if machine.status()["primaries"][0]["device_kind"] == "ublk" {
        // An unmount waits until the next daemon serves it.
        return;
    }
    machine.end("-KILL");
    let (disk, away) = (machine.place("n1").join("d"), machine.place("n1").join("away"));
    std::fs::rename(&disk, &away).unwrap();
    machine.start();
    let status = machine.line("volume status VOLUME --json");
    machine.until("n1", &status, |said| said.contains("which has not attached it: "));
    for _ in 0..2 {
        let said = machine.refused(4, "detach VOLUME");
        assert!(said.contains(&machine.line("is in use (mounted at DIRECTORY")), "{said}");
    }
    std::fs::rename(&away, &disk).unwrap();
    machine.until("n1", "disk list --json", |said| said.contains("\"state\":\"serving\""));
    assert!(Command::new("umount").arg(machine.directory()).status().unwrap().success());
    let said = machine.ok("detach VOLUME");
    assert!(said.contains("node n1 has given it up"), "{said}");
    machine.is_detached();
}

/// After some seconds the command asks the node why the volume does not answer.
#[test]
fn an_interrupt_ends_the_wait_for_a_node_that_does_not_say_why() {
    let Some(machine) = Machine::new() else { return };
    machine.format();
    let (child, end) = machine.mounts_slowly("programs", "exit 1");
    let node = machine.node.id().to_string();
    let signal = |signal: &str, process: &str| {
        assert!(Command::new("kill").args([signal, process]).status().unwrap().success());
    };
    signal("-STOP", &node);
    std::thread::sleep(Duration::from_secs(8));
    let begun = Instant::now();
    signal("-INT", &child.id().to_string());
    let output = child.wait_with_output().unwrap();
    signal("-CONT", &node);
    std::fs::write(end, "").unwrap();
    assert!(begun.elapsed() < Duration::from_secs(10), "it waited for the node");
    let said = machine.said(130, &output);
    assert!(said.contains("`mount` goes on in the kernel until the volume answers"), "{said}");
    machine.ok("umount VOLUME");
    machine.is_detached();
}
