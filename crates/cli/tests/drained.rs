//! The commands that a refusal lists are accepted, each as it is printed and one after the other:
//! the shipped command, and nodes that run.

mod common;

use std::collections::BTreeMap;
use std::ops::Deref;

use evenkeel_node::{Config, Daemon};
use tokio::runtime::Runtime;

use common::Scratch;

/// Nodes, each with one disk `d`.
struct Cluster {
    scratch: Scratch,
    daemons: BTreeMap<String, Daemon>,
    runtime: Runtime,
}

impl Deref for Cluster {
    type Target = Scratch;

    fn deref(&self) -> &Scratch {
        &self.scratch
    }
}

impl Cluster {
    fn new(names: &[&str]) -> Self {
        let runtime = Runtime::new().unwrap();
        let mut cluster = Self { scratch: Scratch::new(), daemons: BTreeMap::new(), runtime };
        for name in names {
            cluster.start(name);
            let disk = cluster.place(name).join("d");
            std::fs::create_dir_all(&disk).unwrap();
            cluster.done(name, &format!("disk add {}", disk.display()));
        }
        cluster.until(names[0], "node status", |said| {
            names.iter().all(|name| said.lines().any(|l| is_alive(l, name)))
        });
        cluster
    }

    fn start(&mut self, name: &str) {
        let config = self.config(name);
        let daemon = self.runtime.block_on(Daemon::start(config)).unwrap();
        self.daemons.insert(name.to_owned(), daemon);
    }

    fn end(&mut self, name: &str) {
        let daemon = self.daemons.remove(name).unwrap();
        self.runtime.block_on(daemon.stop());
    }

    /// The first one, named `a`, serves the coordinator.
    fn config(&self, name: &str) -> Config {
        std::fs::create_dir_all(self.place(name)).unwrap();
        let mut config = Config {
            name: Some(name.to_owned()),
            state: self.state(name),
            runtime: self.runtime(name),
            ..Config::default()
        };
        config.peer.listen = vec![self.peer(name)];
        config.coordinator.here = name == "a";
        config.coordinator.join = (name != "a").then(|| self.peer("a"));
        config.data.workers = Some(1);
        config.times.deadline_ms = 1000;
        config
    }

    fn stop(self) {
        for daemon in self.daemons.into_values() {
            self.runtime.block_on(daemon.stop());
        }
    }
}

fn is_alive(line: &str, node: &str) -> bool {
    let mut words = line.split_whitespace();
    (words.next(), words.next()) == (Some(node), Some("alive"))
}

/// The commands in a refusal.
fn commands(refusal: &str) -> Vec<String> {
    let lines = refusal.lines().map(str::trim);
    lines.filter_map(|line| line.strip_prefix("evenkeel ")).map(str::to_owned).collect()
}

#[test]
fn the_commands_that_drain_a_node_are_accepted_as_they_are_printed() {
    let cluster = Cluster::new(&["a", "b", "c", "d"]);
    let create = "volume create";
    // A stripe, whose mirrors have a replica on the same disk; detached.
    cluster.done(
        "a",
        &format!(
            "{create} film --size 8M --stripe 2 --replicas 2 --on c:d --on a:d --on c:d --on b:d"
        ),
    );
    // A spare.
    cluster.done("a", &format!("{create} music --size 4M --replicas 2 --on a:d --on b:d"));
    cluster.done("a", "replica add music c:d --spare");
    // Attached on the node, with the only replica there.
    cluster.done("a", &format!("{create} solo --size 4M --replicas 1 --on c:d"));
    cluster.done("a", "attach solo --as none --node c");
    // Stopped.
    cluster.done("a", &format!("{create} old --size 4M --replicas 2 --on b:d --on c:d"));
    cluster.done("a", "volume stop old");
    let refused = cluster.run("b", "node remove c --yes");
    assert_eq!(refused.status.code(), Some(4));
    let refusal = String::from_utf8(refused.stderr).unwrap();
    let listed = commands(&refusal);
    let moves = listed.iter().filter(|command| command.starts_with("replica move")).count();
    assert_eq!(moves, 4, "two of film, one of solo, one of old: {refusal}");
    for command in &listed {
        let output = cluster.run("b", command);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "evenkeel {command}: {said}\nof: {refusal}");
    }
    cluster.done("b", "node remove c --yes");
    let status = cluster.done("a", "volume status music");
    assert!(status.contains("spare"), "{status}");
    for name in ["film", "music", "solo", "old"] {
        let list = cluster.done("a", &format!("volume list {name}"));
        assert!(list.contains("in-sync"), "{list}");
    }
    cluster.stop();
}

#[test]
fn what_cannot_be_moved_is_told_and_is_no_command() {
    let cluster = Cluster::new(&["a", "b"]);
    cluster.done("a", "volume create web --size 4M --replicas 2 --on a:d --on b:d");
    let refused = cluster.run("a", "node remove b --yes");
    let refusal = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(commands(&refusal), Vec::<String>::new(), "{refusal}");
    assert!(refusal.contains("volume web: no other node can take b:d: "), "{refusal}");
    cluster.stop();
}

/// What nobody can be copied from is not replaced; the way out that the refusal tells is one.
#[test]
fn without_a_source_the_older_copy_is_taken_by_the_commands_that_are_advised() {
    let mut cluster = Cluster::new(&["a", "b", "c"]);
    cluster.done("a", "volume create web --size 4M --replicas 2 --on b:d --on c:d");
    cluster.done("a", "attach web --as none");
    cluster.end("c");
    cluster.until("a", "volume status web", |said| said.contains("stale"));
    cluster.end("b");
    cluster.start("c");
    cluster.until("a", "volume status web --json", |said| said.contains(r#""state":"suspended""#));
    let refused = cluster.run("a", "replica replace web c:d a:d");
    assert_eq!(refused.status.code(), Some(4), "{refused:?}");
    let refusal = String::from_utf8(refused.stderr).unwrap();
    let advised: Vec<&str> =
        refusal.split('`').filter_map(|quoted| quoted.strip_prefix("evenkeel ")).collect();
    assert_eq!(advised, ["detach web --node a", "volume assemble web --force"], "{refusal}");
    // Its replicas do not answer: the node keeps it until it is assembled.
    assert_eq!(cluster.run("a", advised[0]).status.code(), Some(5));
    cluster.done("a", advised[1]);
    cluster.done("a", "attach web --as none");
    cluster.done("a", "detach web");
    cluster.stop();
}
