//! A process for each call that waits for a device of this node.
//!
//! Such a call ([`crate::device_calls`]) waits for an answer of this daemon's worker, and no signal
//! interrupts that. If the daemon is killed meanwhile, its worker ends, and the kernel should end
//! the connection to it, so that the call fails. But the connection lasts as long as anything of
//! the daemon does: a thread that waits has its memory, into which the ring is mapped that has
//! `/dev/fuse`; a forked process has copies of that. So the call is done by a process that was
//! executed anew, which has nothing of the daemon.
//!
//! That process is this program, executed again: [`serve_if_asked`] is the first that `main` calls.
//! It reads one question from its standard input, and writes the answer to its standard output.
//! What it needs it opens by the names in the question.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};

use crate::device_calls::DeviceCall;
use crate::error::AttachError;
use crate::in_use::User;

/// The only argument of such a process.
const ARGUMENT: &str = "--device-helper";
/// The name of the process in lists of processes.
const NAME: &core::ffi::CStr = c"evenkeel-device";
/// This program as it was started, also if its file has been replaced since.
const PROGRAM: &str = "/proc/self/exe";
/// Where a program that is measured for its coverage writes that: the only variable that such a
/// process is given.
const PROFILE: &str = "LLVM_PROFILE_FILE";
/// The first descriptor after those of standard input, output and error.
const FIRST: libc::c_uint = 3;

#[derive(Serialize, Deserialize)]
struct Question<S> {
    /// The process that asks.
    asker: u32,
    call: S,
}

/// Why a call was not done.
#[derive(Debug, Serialize, Deserialize)]
enum Refusal {
    InUse { device: PathBuf, users: Vec<User> },
    NotDurable { device: PathBuf, error: Fault },
    System { action: String, error: Fault },
    Other(String),
}

/// An error of the system.
#[derive(Debug, Serialize, Deserialize)]
struct Fault {
    errno: Option<i32>,
    text: String,
}

/// Has a call done, and waits for that. Tells which device it was.
///
/// # Errors
/// Those of the call, and [`AttachError::Helper`] if it is not known what became of it.
pub(crate) fn ask(call: &DeviceCall) -> Result<PathBuf, AttachError> {
    ask_program(Path::new(PROGRAM), call)
}

fn ask_program(program: &Path, call: &DeviceCall) -> Result<PathBuf, AttachError> {
    let (answer, ended) =
        converse(program, call).map_err(|error| AttachError::Helper(error.to_string()))?;
    let answer: Result<PathBuf, Refusal> = serde_json::from_slice(&answer).map_err(|_| {
        let how = ended.map_or_else(|error| error.to_string(), |status| status.to_string());
        AttachError::Helper(format!("it ended without an answer ({how})"))
    })?;
    answer.map_err(AttachError::from)
}

/// What the process said, and how it ended.
fn converse(program: &Path, call: &DeviceCall) -> io::Result<(Vec<u8>, io::Result<ExitStatus>)> {
    let question = serde_json::to_vec(&Question { asker: std::process::id(), call })?;
    // In a group of its own: what a terminal sends to the daemon does not end the call. Without a
    // call-back before it is executed, for which the daemon would have to be forked.
    let mut process = Command::new(program)
        .arg(ARGUMENT)
        .env_clear()
        .envs(passed_on(std::env::vars_os()))
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    if let Some(mut input) = process.stdin.take() {
        // If it does not listen, it gives no answer, and its end says why.
        let _ = input.write_all(&question);
    }
    let mut answer = Vec::new();
    let read = process.stdout.take().map(|mut output| output.read_to_end(&mut answer));
    let ended = process.wait();
    read.transpose()?;
    Ok((answer, ended))
}

/// What such a process is given of the daemon's environment.
fn passed_on(
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> impl Iterator<Item = (OsString, OsString)> {
    variables.filter(|(name, _)| name == PROFILE)
}

/// Does the call for which this process was executed, and ends it. Returns if this is another
/// process. Call it before anything else in `main`: of a program that attaches devices.
pub fn serve_if_asked() {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().as_deref() == Some(OsStr::new(ARGUMENT)) && arguments.next().is_none() {
        let code = match serve() {
            Ok(()) => 0,
            Err(error) => {
                eprintln!("evenkeel {ARGUMENT}: {error}");
                1
            }
        };
        std::process::exit(code);
    }
}

fn serve() -> io::Result<()> {
    leave_descriptors()?;
    rustix::thread::set_name(NAME)?;
    let mut question = Vec::new();
    io::stdin().read_to_end(&mut question)?;
    let Question { asker, call } = serde_json::from_slice::<Question<DeviceCall>>(&question)?;
    end_with(asker)?;
    let answer = call.run().map_err(Refusal::from);
    let mut output = io::stdout();
    output.write_all(&serde_json::to_vec(&answer)?)?;
    output.flush()
}

/// Closes what the daemon has left open for others that it executes.
fn leave_descriptors() -> io::Result<()> {
    // SAFETY: this process has opened none of them, so nothing in it uses one.
    let result = unsafe { libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// This process is not to go on when the asker has ended: the next daemon would not expect what it
/// does. The thread that asks lives until it has the answer.
fn end_with(asker: u32) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let parent = getppid().map(|parent| parent.as_raw_nonzero().get().cast_unsigned());
    if parent == Some(asker) { Ok(()) } else { Err(io::Error::other("who asked has ended")) }
}

impl From<AttachError> for Refusal {
    fn from(error: AttachError) -> Self {
        match error {
            AttachError::InUse { device, users } => {
                Self::InUse { device, users: users.into_iter().map(User::readable).collect() }
            }
            AttachError::NotDurable { device, error } => {
                Self::NotDurable { device, error: error.into() }
            }
            AttachError::System { action, error } => Self::System { action, error: error.into() },
            other => Self::Other(other.to_string()),
        }
    }
}

impl From<Refusal> for AttachError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::InUse { device, users } => Self::InUse { device, users },
            Refusal::NotDurable { device, error } => {
                Self::NotDurable { device, error: error.into() }
            }
            Refusal::System { action, error } => Self::System { action, error: error.into() },
            Refusal::Other(why) => Self::Helper(why),
        }
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self { errno: error.raw_os_error(), text: error.to_string() }
    }
}

impl From<Fault> for io::Error {
    fn from(Fault { errno, text }: Fault) -> Self {
        errno.map_or_else(|| Self::other(text), Self::from_raw_os_error)
    }
}

#[cfg(test)]
mod tests;
