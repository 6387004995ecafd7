//! Nodes in a scratch directory, and the shipped command that is asked of them.

// Each test program uses a part.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// How long a node may take to do what it was asked.
const PATIENCE: Duration = Duration::from_secs(60);

/// The command with these words, of the node behind a socket.
pub fn evenkeel<'a>(socket: &Path, words: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    command.args(words).arg("--socket").arg(socket);
    command
}

/// Where nodes lie: each has a directory of its own.
pub struct Scratch(tempfile::TempDir);

impl Scratch {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn place(&self, node: &str) -> PathBuf {
        self.0.path().join(node)
    }

    /// Where a node keeps its state.
    pub fn state(&self, node: &str) -> PathBuf {
        self.place(node).join("state")
    }

    /// Where its sockets are.
    pub fn runtime(&self, node: &str) -> PathBuf {
        self.place(node).join("run")
    }

    /// The address at which other nodes reach it.
    pub fn peer(&self, node: &str) -> String {
        format!("unix:{}", self.place(node).join("peer.sock").display())
    }

    /// A command on a node, in words with one space between.
    pub fn run(&self, node: &str, words: &str) -> Output {
        let socket = self.runtime(node).join("api.sock");
        evenkeel(&socket, words.split(' ')).output().unwrap()
    }

    /// The same of one that has to succeed; what it prints.
    pub fn done(&self, node: &str, words: &str) -> String {
        let output = self.run(node, words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "evenkeel {words}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Repeats a command until what it prints is wanted.
    pub fn until(&self, node: &str, words: &str, wanted: impl Fn(&str) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let output = self.run(node, words);
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            if output.status.success() && wanted(&said) {
                return;
            }
            let error = String::from_utf8_lossy(&output.stderr);
            assert!(Instant::now() < deadline, "evenkeel {words}: {said}{error}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}
