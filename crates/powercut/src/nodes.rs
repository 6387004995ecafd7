//! Node processes of the shipped program, and its commands.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A node, in a directory of its own.
#[derive(Debug)]
pub struct Node {
    program: PathBuf,
    directory: PathBuf,
    /// `None`: it does not run.
    process: Option<Child>,
    /// Where its peers reach it.
    pub address: String,
}

impl Node {
    /// A node that belongs to the cluster of the one at `join`, or begins one. It does not run yet.
    ///
    /// # Errors
    /// Of the file system.
    pub fn new(
        program: &Path,
        directory: PathBuf,
        name: &str,
        join: Option<&str>,
    ) -> io::Result<Self> {
        let shown = directory.display();
        let address = format!("unix:{shown}/run/peer.sock");
        let role = join.map_or_else(|| "here = true".into(), |join| format!("join = \"{join}\""));
        fs::create_dir_all(&directory)?;
        fs::write(
            directory.join("evenkeel.toml"),
            format!(
                "name = \"{name}\"\ncluster = \"powercut\"\nstate = \"{shown}/state\"\nruntime = \"{shown}/run\"\n\
                 [coordinator]\n{role}\n[times]\nstabilize_after_ms = 200\nlease_ms = 600\nlease_margin_ms = 200\n"
            ),
        )?;
        Ok(Self { program: program.to_owned(), directory, process: None, address })
    }

    /// Starts its process, and waits until that answers.
    ///
    /// # Errors
    /// If it does not.
    pub fn start(&mut self) -> io::Result<()> {
        let log = File::options().create(true).append(true).open(self.directory.join("log"))?;
        let configuration = self.directory.join("evenkeel.toml");
        let mut command = Command::new(&self.program);
        command.args(["node", "run", "--config"]).arg(configuration);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        self.process = Some(command.spawn()?);
        self.run_until(&["node", "status"]).map(drop)
    }

    /// Kills its process, as a crash of it would.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Runs a command there, and returns what it says.
    ///
    /// # Errors
    /// If it fails: what it says then.
    pub fn run(&self, arguments: &[&str]) -> io::Result<String> {
        let socket = self.directory.join("run/api.sock");
        let mut command = Command::new(&self.program);
        let output = command.arg("--socket").arg(socket).args(arguments).output()?;
        let reported = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            return Ok(reported);
        }
        let error = String::from_utf8_lossy(&output.stderr);
        Err(io::Error::other(format!("evenkeel {}: {reported}{error}", arguments.join(" "))))
    }

    /// The same, again and again until it succeeds.
    ///
    /// # Errors
    /// The last one, after a minute.
    pub fn run_until(&self, arguments: &[&str]) -> io::Result<String> {
        let begun = Instant::now();
        loop {
            match self.run(arguments) {
                Err(error) if begun.elapsed() > PATIENCE => return Err(error),
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
                done => return done,
            }
        }
    }

    /// The socket at which a volume is exported that was attached here.
    #[must_use]
    pub fn export(&self, volume: &str) -> PathBuf {
        self.directory.join(format!("run/nbd/{volume}.sock"))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
    }
}
