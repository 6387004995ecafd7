//! What `volume status` prints of a cluster is what the tables in `docs/manual/states.md` say:
//! nodes that run, are killed, and stand still, each a process of the shipped command, and the line
//! that is printed of each state, with its code.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::ops::Deref;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::Scratch;
use rustix::process::{Pid, Signal, kill_process};

/// The tables, without what differs from one cluster to the next.
struct Page(String);

impl Page {
    fn read() -> Self {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/manual/states.md");
        Self(fs::read_to_string(page).unwrap())
    }

    /// The line and the code of a row.
    fn row(&self, heading: &str, name: &str) -> (String, i32) {
        let (_, section) = self.0.split_once(&format!("\n### {heading}\n")).expect(heading);
        let section = section.split("\n### ").next().unwrap();
        let row = section.lines().find_map(|line| line.strip_prefix(&format!("| {name} | ")));
        let row = row.unwrap_or_else(|| panic!("{heading} has no row {name}"));
        let cells: Vec<_> = row.trim_end_matches(" |").split(" | ").collect();
        (normal(cells[0]), cells[3].parse().unwrap())
    }
}

/// A line with no time, no number of regions and no volume of its own.
fn normal(line: &str) -> String {
    let line =
        ["film", "both"].iter().fold(line.to_owned(), |line, name| line.replace(name, "music"));
    let line = without(&line, "saved at ", " UTC");
    without(&line, "in up to ", ", where it wrote last")
}

/// The same without what stands between these two.
fn without(line: &str, from: &str, to: &str) -> String {
    let Some((before, rest)) = line.split_once(from) else { return line.to_owned() };
    let Some((_, after)) = rest.split_once(to) else { return line.to_owned() };
    format!("{before}{from}…{to}{after}")
}

/// Nodes n1 to n3, each with a disk `fast`, and one named c that serves the coordinator.
struct Cluster {
    scratch: Scratch,
    nodes: BTreeMap<String, Child>,
    page: Page,
    expiry: u32,
}

impl Deref for Cluster {
    type Target = Scratch;

    fn deref(&self) -> &Scratch {
        &self.scratch
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for node in self.nodes.values_mut() {
            drop(node.kill());
            drop(node.wait());
        }
    }
}

impl Cluster {
    fn new() -> Self {
        Self::with_expiry(3)
    }

    /// Where a silent node counts as dead after so many seconds.
    fn with_expiry(expiry: u32) -> Self {
        let scratch = Scratch::new();
        let mut cluster = Self { scratch, nodes: BTreeMap::new(), page: Page::read(), expiry };
        for name in ["c", "n1", "n2", "n3"] {
            fs::create_dir_all(cluster.disk(name)).unwrap();
            fs::write(cluster.place(name).join("node.toml"), cluster.config(name)).unwrap();
            cluster.start(name);
            if name != "c" {
                let disk = cluster.disk(name);
                cluster.done(name, &format!("disk add {} --name fast", disk.display()));
            }
        }
        cluster.until_alive(4);
        cluster
    }

    fn disk(&self, node: &str) -> PathBuf {
        self.place(node).join("fast")
    }

    fn config(&self, name: &str) -> String {
        let coordinator = match name {
            "c" => "here = true".to_owned(),
            _ => format!("join = {:?}", self.peer("c")),
        };
        format!(
            "name = {name:?}\nstate = {:?}\nruntime = {:?}\n[peer]\nlisten = [{:?}]\n\
             [coordinator]\n{coordinator}\nexpiry_seconds = {}\n[data]\nworkers = 1\n\
             [times]\ndeadline_ms = 1000\nspare_takes_over_after_ms = 1000\n",
            self.state(name),
            self.runtime(name),
            self.peer(name),
            self.expiry,
        )
    }

    /// Starts a node, where that is possible in a mount namespace of its own: there its disk is
    /// made read-only, and nobody has to make it writable again.
    fn start(&mut self, name: &str) {
        let own = env!("CARGO_BIN_EXE_evenkeel");
        let mut command = match can_mount() {
            true => Command::new("unshare"),
            false => Command::new(own),
        };
        if can_mount() {
            command.args(["--mount", own]);
        }
        command.args(["node", "run", "--config"]).arg(self.place(name).join("node.toml"));
        let log = self.place(name).join("log");
        let log = fs::File::options().create(true).append(true).open(log).unwrap();
        command.stdout(log.try_clone().unwrap()).stderr(log).stdin(Stdio::null());
        self.nodes.insert(name.to_owned(), command.spawn().unwrap());
        let deadline = Instant::now() + Duration::from_secs(60);
        while !self.run(name, "node status --quiet").status.success() {
            assert!(Instant::now() < deadline, "node {name} does not start");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn kill(&mut self, name: &str) {
        let mut node = self.nodes.remove(name).unwrap();
        node.kill().unwrap();
        node.wait().unwrap();
    }

    /// As after `systemctl stop`.
    fn stop(&mut self, name: &str) {
        self.signal(name, Signal::TERM);
        self.nodes.remove(name).unwrap().wait().unwrap();
    }

    fn freeze(&self, name: &str) {
        self.signal(name, Signal::STOP);
    }

    fn thaw(&self, name: &str) {
        self.signal(name, Signal::CONT);
    }

    fn signal(&self, name: &str, signal: Signal) {
        kill_process(self.pid(name), signal).unwrap();
    }

    fn pid(&self, name: &str) -> Pid {
        Pid::from_raw(self.nodes[name].id().try_into().unwrap()).unwrap()
    }

    /// The file system of a node's disk becomes read-only, as that node sees it until it ends.
    fn make_read_only(&self, name: &str) {
        let disk = self.disk(name).display().to_string();
        for options in ["--bind", "-o remount,bind,ro"] {
            let mut mount = Command::new("nsenter");
            mount.args(["--mount", "--target", &self.pid(name).as_raw_nonzero().to_string()]);
            mount.arg("mount").args(options.split(' ')).args([&disk, &disk]);
            assert!(mount.status().unwrap().success(), "{mount:?}");
        }
    }

    /// The code of `volume list` on n1.
    fn listed(&self, words: &str) -> Option<i32> {
        self.run("n1", &format!("volume list {words}")).status.code()
    }

    /// Waits until the coordinator hears so many nodes.
    fn until_alive(&self, count: usize) {
        let are_alive = |said: &str| said.matches(r#""alive":true"#).count() == count;
        self.until("c", "node status --json", are_alive);
    }

    /// What `volume status --check` on n1 says above the layout, in one line, and its code.
    fn look(&self, volume: &str) -> (String, i32) {
        let output = self.run("n1", &format!("volume status {volume} --check"));
        let text = String::from_utf8(output.stdout).unwrap();
        let code = output.status.code().unwrap();
        let mut lines = text.lines();
        let Some(first) = lines.next() else {
            return (String::from_utf8(output.stderr).unwrap(), code);
        };
        let first = first.strip_prefix(&format!("volume {volume} ")).unwrap().to_owned();
        let why = lines.find_map(|line| line.strip_prefix("  why       "));
        let line = why.map_or(first.clone(), |why| format!("{first}: {why}"));
        (normal(&self.without_paths(&line)), code)
    }

    /// Writes to a volume that n1 exports, by NBD.
    fn write(&self, volume: &str) {
        let said = self.done("n1", &format!("volume status {volume} --json"));
        let (_, socket) = said.split_once(r#""socket":""#).expect(&said);
        let mut stream = UnixStream::connect(socket.split('"').next().unwrap()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.set_write_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting).unwrap();
        let name = volume.as_bytes();
        let length = u32::try_from(name.len()).unwrap().to_be_bytes();
        // Both flags of the client, and the option that chooses the export.
        let flags = 3u32.to_be_bytes();
        let hello = [&flags[..], b"IHAVEOPT", &1u32.to_be_bytes(), &length, name].concat();
        stream.write_all(&hello).unwrap();
        let mut export = [0; 10];
        stream.read_exact(&mut export).unwrap();
        let data = vec![7; 1 << 20];
        let (magic, kind, length) = (0x2560_9513u32, 1u32, 1u32 << 20);
        let head = [&magic.to_be_bytes()[..], &kind.to_be_bytes(), &[0; 16], &length.to_be_bytes()];
        stream.write_all(&[head.concat(), data].concat()).unwrap();
        let mut reply = [0; 16];
        stream.read_exact(&mut reply).unwrap();
        assert_eq!(reply[4..8], [0; 4], "the write failed");
    }

    /// Disks lie at `/fast`, and replicas at `/fast/r`.
    fn without_paths(&self, line: &str) -> String {
        let disks = ["n1", "n2", "n3"].map(|node| self.disk(node).display().to_string());
        let line = disks.iter().fold(line.to_owned(), |line, disk| line.replace(disk, "/fast"));
        let Some((before, after)) = line.split_once(".replica") else { return line };
        let begins = before.rfind('/').unwrap();
        format!("{}/r{after}", &before[..begins])
    }

    /// Waits until it says of a volume what this row says.
    fn says(&self, volume: &str, heading: &str, row: &str) {
        let expected = self.page.row(heading, row);
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut seen = Vec::new();
        loop {
            let found = self.look(volume);
            if found == expected {
                return;
            }
            if seen.last() != Some(&found) {
                seen.push(found);
            }
            assert!(
                Instant::now() < deadline,
                "{heading}: {row}: the table says\n  {expected:?}\nand the cluster\n  {seen:#?}"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Whether a process may have mounts of its own: in some containers root may not.
fn can_mount() -> bool {
    let mut try_it = Command::new("unshare");
    try_it.args(["--mount", "true"]).stderr(Stdio::null());
    rustix::process::geteuid().is_root() && try_it.status().is_ok_and(|status| status.success())
}

const NOWHERE: &str = "The coordinator: attached nowhere";
const SERVES: &str = "The primary on n1: it serves";
const THERE: &str = "The primary on n3: it serves";
const DEAD: &str = "The coordinator: attached on a node that is dead";
const UNSEEN: &str = "The primary on n1, while the coordinator does not answer";
const OLD: &str = "The replica on n1, while neither the coordinator nor a primary answers: it was attached nowhere";
const OLD_THERE: &str =
    "The replica on n1, while neither the coordinator nor a primary answers: it was attached on n3";
const OLD_STOPPED: &str =
    "The replica on n1, while neither the coordinator nor a primary answers: it was stopped";

/// It can't know that it is the volume's primary no more, and what it says may not pretend that.
#[test]
fn what_stood_still_and_was_taken_over_does_not_say_that_it_serves() {
    let mut cluster = Cluster::new();
    cluster.done("n1", "volume create music --size 8M --replicas 2 --on n1:fast --on n2:fast");
    cluster.done("n1", "attach music --as nbd");
    cluster.says("music", SERVES, "in-sync, answers");
    cluster.freeze("n1");
    cluster.until_alive(3);
    let said = cluster.done("n3", "attach music --as nbd");
    assert!(
        said.contains("note: the volume was taken over from node n1, which counts as"),
        "{said}"
    );
    cluster.kill("c");
    cluster.thaw("n1");
    let row = "it stood still, and a replica says that the volume was taken over; in-sync, answers";
    cluster.says("music", UNSEEN, row);
    assert_eq!(cluster.look("music").1, 6);
    cluster.start("c");
    cluster.until_alive(4);
    cluster.says("music", THERE, "in-sync, answers");
}

#[test]
fn who_stops_a_wait_is_told_that_it_goes_on() {
    let cluster = Cluster::new();
    cluster.done("n1", "volume create music --size 8M --replicas 2 --on n1:fast --on n2:fast");
    cluster.freeze("n2");
    cluster.until("n1", "volume status music", |said| said.contains("unreachable"));
    let socket = cluster.runtime("n1").join("api.sock");
    let mut command = common::evenkeel(&socket, "volume status music --wait in-sync".split(' '));
    let waits = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(4));
    kill_process(Pid::from_raw(waits.id().try_into().unwrap()).unwrap(), Signal::INT).unwrap();
    let output = waits.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{said}");
    let begins = "evenkeel: stopped by Ctrl-C\n  why: volume `music` is not in-sync yet: ";
    assert!(said.contains(begins), "{said}");
    assert!(said.contains("only the wait has ended: what is under way goes on"), "{said}");
    assert!(said.contains("evenkeel volume status music --wait in-sync"), "{said}");
    cluster.thaw("n2");
}

#[test]
fn what_is_printed_of_a_detached_volume_is_what_the_tables_say() {
    let mut cluster = Cluster::new();
    cluster.done("n1", "volume create music --size 8M --replicas 2 --on n1:fast --on n2:fast");
    let well = "in-sync, node alive";
    cluster.says("music", NOWHERE, well);

    cluster.freeze("n2");
    cluster.says("music", NOWHERE, "in-sync, node alive, and silent to the node that is asked");
    cluster.says("music", NOWHERE, "in-sync, node dead");
    // A list judges nothing but whether it has all.
    assert_eq!(cluster.listed("music --unhealthy"), Some(0));
    cluster.kill("c");
    assert_eq!(cluster.listed("music --unhealthy"), Some(5));
    cluster.says("music", OLD, "in-sync, its node does not answer");
    cluster.thaw("n2");
    cluster.says("music", OLD, "in-sync, its node answers");
    cluster.start("c");
    cluster.until_alive(4);
    cluster.says("music", NOWHERE, well);

    // Its disk is not where it was, and is again.
    let (disk, away) = (cluster.disk("n2"), cluster.place("n2").join("away"));
    cluster.kill("n2");
    fs::rename(&disk, &away).unwrap();
    cluster.start("n2");
    cluster.says("music", NOWHERE, "in-sync, node alive, its disk absent");
    cluster.kill("c");
    cluster.says("music", OLD, "in-sync, its node answers, its disk absent");
    cluster.start("c");
    fs::rename(&away, &disk).unwrap();
    cluster.says("music", NOWHERE, well);

    let file = fs::read_dir(&disk).unwrap().map(|entry| entry.unwrap().path());
    let file = file.into_iter().find(|path| path.extension().is_some_and(|e| e == "replica"));
    let (file, aside) = (file.unwrap(), disk.join("aside"));
    fs::rename(&file, &aside).unwrap();
    cluster.says("music", NOWHERE, "in-sync, node alive, its file deleted and open still");
    if can_mount() {
        cluster.make_read_only("n2");
        let closed = "its file deleted and its disk read-only, closed for that";
        cluster.says("music", NOWHERE, &format!("in-sync, node alive, {closed}"));
        cluster.kill("c");
        cluster.says("music", OLD, &format!("in-sync, its node answers, {closed}"));
        cluster.start("c");
        cluster.until_alive(4);
    }
    cluster.kill("n2");
    cluster.start("n2");
    cluster.says("music", NOWHERE, "in-sync, node alive, its file deleted");
    cluster.kill("n2");
    fs::rename(&aside, &file).unwrap();
    cluster.start("n2");
    cluster.says("music", NOWHERE, well);

    cluster.done("n1", "volume stop music");
    cluster.says("music", "The coordinator: stopped", well);
    cluster.kill("c");
    cluster.says("music", OLD_STOPPED, "in-sync, its node answers");
    cluster.start("c");
    cluster.until_alive(4);
    cluster.done("n1", "volume assemble music");
    cluster.says("music", NOWHERE, well);

    cluster.done("n1", "attach music --as none --node n3");
    cluster.says("music", THERE, "in-sync, answers");
    cluster.stop("n3");
    cluster.says("music", "The coordinator: attached nowhere, wanted on a node that is dead", well);
}

#[test]
fn what_is_printed_of_an_attached_volume_is_what_the_tables_say() {
    let mut cluster = Cluster::new();
    cluster.done("n1", "volume create music --size 8M --replicas 2 --on n1:fast --on n2:fast");
    cluster.done("n1", "attach music --as nbd");
    cluster.says("music", SERVES, "in-sync, answers");

    cluster.kill("c");
    cluster.says("music", UNSEEN, "it serves; in-sync, answers");
    cluster.kill("n2");
    let leaves = "in-sync, does not answer, leaves when the coordinator answers";
    cluster.says("music", UNSEEN, &format!("it waits for the coordinator; {leaves}"));
    cluster.start("c");
    cluster.says("music", SERVES, "stale, its node dead");
    // Nothing is copied while an operator wants that.
    cluster.done("n1", "volume rebuild music --pause");
    cluster.write("music");
    cluster.start("n2");
    cluster.says("music", "The primary on n1, with a rebuild that waits", "paused by an operator");
    cluster.done("n1", "volume rebuild music --resume");
    cluster.says("music", SERVES, "in-sync, answers");

    // It is connected to, and can't connect to the replica from which it is to copy.
    cluster.kill("n2");
    cluster.says("music", SERVES, "stale, its node dead");
    cluster.write("music");
    let socket = cluster.place("n1").join("peer.sock");
    let aside = cluster.place("n1").join("aside.sock");
    fs::rename(&socket, &aside).unwrap();
    cluster.start("n2");
    cluster.says("music", "The primary on n1, with a rebuild that waits", "waits for its source");
    fs::rename(&aside, &socket).unwrap();
    cluster.says("music", SERVES, "in-sync, answers");

    if can_mount() {
        cluster.make_read_only("n2");
        cluster.says("music", SERVES, "in-sync, answers, its disk read-only");
        cluster.says("music", SERVES, "faulty, its disk read-only");
    }
}

#[test]
fn what_is_printed_of_a_volume_whose_primary_is_frozen_or_dead_is_what_the_tables_say() {
    // A node that is asked waits for 3 s, and has to look before the other one counts as dead.
    let mut cluster = Cluster::with_expiry(12);
    cluster.done("n1", "volume create music --size 8M --replicas 2 --on n1:fast --on n2:fast");
    cluster.done("n1", "attach music --as none --node n3");
    cluster.says("music", THERE, "in-sync, answers");

    let well = "in-sync, node alive";
    cluster.freeze("n3");
    cluster.says("music", "The coordinator: attached on a node that does not answer", well);
    cluster.says("music", DEAD, well);
    cluster.kill("c");
    cluster.says("music", OLD_THERE, "in-sync, its node answers");
    cluster.thaw("n3");
    cluster.start("c");
    cluster.until_alive(4);
    cluster.says("music", THERE, "in-sync, answers");

    cluster.kill("n3");
    cluster.says("music", DEAD, well);
    cluster.kill("n2");
    cluster.says("music", DEAD, "in-sync, node dead");
    cluster.kill("c");
    cluster.says("music", OLD_THERE, "in-sync, its node does not answer");
}

#[test]
fn what_is_printed_of_spares_stripes_and_several_primaries_is_what_the_tables_say() {
    let mut cluster = Cluster::new();
    let create = "volume create";
    let on = "--on n1:fast --on n2:fast";
    cluster.done("n1", &format!("{create} music --size 8M --replicas 2 {on}"));
    cluster.done("n1", "replica add music n3:fast --spare");
    cluster.done("n1", &format!("{create} film --size 8M --stripe 2 --replicas 2 {on} {on}"));
    cluster.done("n1", &format!("{create} both --size 8M --replicas 2 --primaries 2 {on}"));
    let idle = "The coordinator, with a spare on n3: attached nowhere";
    cluster.says("music", idle, "in-sync; its node alive");
    for volume in ["music", "film", "both"] {
        cluster.done("n1", &format!("attach {volume} --as none"));
    }
    cluster.done("n1", "attach both --as none --node n3");
    let spare = "The primary on n1, with a spare on n3: it serves";
    let stripe = "The primary on n1, of a stripe of two mirrors with replicas on n1 and n2";
    let shared = "The primaries of a shared volume, attached on n1 and n3";
    cluster.says("music", spare, "in-sync; its node alive");
    cluster.says("film", stripe, "it serves; in-sync, answers; in-sync, answers");
    cluster.says("both", shared, "both serve, and say the same");

    cluster.freeze("n3");
    cluster.says("both", shared, "n1 serves; n3 does not answer");
    cluster.says("music", spare, "in-sync; its node dead");
    // All data is there: nothing is to be awaited.
    cluster.done("n1", "volume status music --wait in-sync --timeout 1h");
    cluster.thaw("n3");
    cluster.says("music", spare, "in-sync; its node alive");

    // Replicas report that the frozen one's lease has expired; nobody commits a view without it.
    cluster.kill("c");
    cluster.freeze("n3");
    cluster.says("both", shared, "n1 waits for the coordinator to evict n3, which does not answer");
    cluster.start("c");
    cluster.thaw("n3");
    cluster.until_alive(4);
    cluster.says("music", spare, "in-sync; its node alive");

    cluster.kill("n2");
    cluster.says("film", stripe, "it serves; stale, its node dead; stale, its node dead");
    cluster.says("music", spare, "stale, its node dead; stands in for it, in-sync");
}
