//! A daemon whose log nobody reads. It runs in a process of its own: this test, run again.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use evenkeel_node::Config;
use rustix::pipe::PipeFlags;
use serde_json::Value;

use crate::support::{Place, TestNode};

/// Names the configuration of the daemon to be, and this test as the one to run.
const DAEMON: &str = "EVENKEEL_TEST_DAEMON";

#[test]
#[ignore = "a daemon, which the test below runs"]
fn the_daemon_itself() {
    let Some(config) = std::env::var_os(DAEMON) else { return };
    evenkeel_node::run(Config::load(Path::new(&config)).unwrap()).unwrap();
}

struct Daemon(Child);

impl Daemon {
    fn start(node: &TestNode, log: OwnedFd) -> Self {
        let config = node.directory.join("evenkeel.toml");
        std::fs::write(&config, toml::to_string(&node.config).unwrap()).unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--ignored", "--exact", "log::the_daemon_itself", "--nocapture"]);
        command.env(DAEMON, config).stdout(Stdio::null()).stderr(log);
        Self(command.spawn().unwrap())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// A pipe that takes not one byte more, until it is read.
fn full_pipe() -> (File, OwnedFd) {
    let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).unwrap();
    let mut filler = File::from(writer.try_clone().unwrap());
    let flags = rustix::fs::fcntl_getfl(&filler).unwrap();
    rustix::fs::fcntl_setfl(&filler, flags | rustix::fs::OFlags::NONBLOCK).unwrap();
    while filler.write(&[b'.'; 4096]).is_ok() {}
    while filler.write(b".").is_ok() {}
    rustix::fs::fcntl_setfl(&filler, flags).unwrap();
    (File::from(reader), writer)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_whose_log_nobody_reads_serves_and_is_heard() {
    let place = Place::new();
    let nodes = place.cluster(&["a"]).await;
    let (mut reader, writer) = full_pipe();
    let silent = TestNode::new(&place, "b");
    let _daemon = Daemon::start(&silent, writer);
    let is_alive = |answer: &Value| {
        let nodes = answer["nodes"].as_array().unwrap();
        nodes.iter().any(|node| node["name"] == "b" && node["alive"] == true)
    };
    nodes[0].until("/v1/nodes", is_alive).await;
    silent.add_disk("d").await;
    silent.create("web", 1).await;
    silent.attach("web").await;
    // Longer than the coordinator waits for a heartbeat.
    tokio::time::sleep(Duration::from_secs(5)).await;
    nodes[0].until("/v1/nodes", is_alive).await;
    silent.detach("web").await;

    let mut text = Vec::new();
    let read = tokio::task::spawn_blocking(move || {
        while !String::from_utf8_lossy(&text).contains("the node serves") {
            let mut bytes = [0; 4096];
            let length = reader.read(&mut bytes).unwrap();
            assert!(length > 0, "it ended: {}", String::from_utf8_lossy(&text));
            text.extend_from_slice(&bytes[..length]);
        }
    });
    tokio::time::timeout(Duration::from_secs(60), read)
        .await
        .expect("what waited is written")
        .unwrap();
}
