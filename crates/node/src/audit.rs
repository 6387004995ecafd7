//! The audit log: who has asked this node for which change, from where, and what came of it.
//!
//! `audit.log` in the state directory has a line of JSON before a change is begun and one when it
//! is answered, so that one that a crash has cut off is seen as well. A change is not refused
//! because its line cannot be written: with a full disk nobody could make room any more. It is
//! logged instead, and the node's status says so. Nor does it wait for a disk that hangs.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::fs::OFlags;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::clock::{iso_8601, unix_seconds};
use crate::files::own_file;
use crate::warnings::Warnings;

/// The file's name in the state directory. The one before it has `.1` behind its name.
pub const FILE: &str = "audit.log";
/// Most bytes of the file. When it is full, it takes the place of the one before it.
const MAX_LENGTH: u64 = 16 << 20;
/// Most bytes of a request's path that are kept.
const MAX_PATH: usize = 512;
/// Most bytes of a request's body that are kept, without spaces and with long texts and lists cut.
/// Of a longer one its length is.
const MAX_BODY: usize = 4096;
/// Most characters of one text in it.
const MAX_TEXT: usize = 256;
/// Most members of one list in it.
const MAX_LIST: usize = 16;
/// More bytes than a line has: a path, a body, and who asks.
const MAX_LINE: u64 = 16 << 10;
/// How long a change waits for its line.
const PATIENCE: Duration = Duration::from_secs(2);
/// Parts of names whose values are secret, such as a token or the key of a host.
const SECRET: [&str; 4] = ["token", "key", "secret", "password"];
/// What stands in the place of such a value.
const HIDDEN: &str = "(not logged)";

/// Who asks.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub enum Who {
    /// A user of this machine, as the kernel says.
    User {
        /// The number.
        uid: u32,
        /// The name, if there is one.
        user: Option<String>,
        /// The number of the user as whom they logged in, before they became another one.
        #[serde(skip_serializing_if = "Option::is_none")]
        login: Option<u32>,
    },
    /// Another node, as it has proved.
    Node {
        /// Its identity.
        node: String,
        /// The address from which it asked.
        from: String,
    },
}

/// A change that was asked for.
#[derive(Debug, Clone, Serialize)]
pub struct Asked {
    #[serde(flatten)]
    who: Option<Who>,
    method: String,
    path: String,
    #[serde(skip_serializing_if = "Value::is_null")]
    body: Value,
}

impl Asked {
    /// A request with this body, without what is secret in it; `who` is `None` where the process
    /// asks itself.
    #[must_use]
    pub fn new(who: impl Into<Option<Who>>, method: &str, path: &str, body: &[u8]) -> Self {
        let (method, path) = (method.to_owned(), cut(path, MAX_PATH));
        Self { who: who.into(), method, path, body: shown(body) }
    }
}

/// How a change was answered.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Answered {
    /// The status of HTTP.
    pub status: u16,
    /// What kind of error it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<evenkeel_api::ErrorCode>,
}

/// A line of the file.
#[derive(Serialize)]
struct Line<T> {
    time: String,
    /// The same in both lines of one request, and in no other one's.
    request: String,
    #[serde(flatten)]
    event: T,
}

/// The audit log of a daemon.
#[derive(Debug)]
pub struct Audit {
    path: PathBuf,
    start: u64,
    next: AtomicU64,
    log: Arc<Mutex<LogFile>>,
    warnings: Warnings,
}

impl Audit {
    /// Writes to a file, which is opened when the first line is written. `start` is the number of
    /// this start of the daemon.
    #[must_use]
    pub fn new(path: PathBuf, start: u64, warnings: Warnings) -> Arc<Self> {
        let file = LogFile { path: path.clone(), most: MAX_LENGTH, open: None };
        let log = Arc::new(Mutex::new(file));
        Arc::new(Self { path, start, next: AtomicU64::new(1), log, warnings })
    }

    /// Writes that a change was asked for; returns the request's name for [`Audit::answered`].
    pub async fn asked(&self, asked: &Asked) -> String {
        let request = format!("{}.{}", self.start, self.next.fetch_add(1, Ordering::Relaxed));
        self.write(&request, asked).await;
        request
    }

    /// Writes how it was answered.
    pub async fn answered(&self, request: &str, answered: Answered) {
        self.write(request, answered).await;
    }

    async fn write(&self, request: &str, event: impl Serialize) {
        let (time, request) = (iso_8601(unix_seconds()), request.to_owned());
        // A structure of texts and numbers has no value that JSON lacks.
        let line = serde_json::to_string(&Line { time, request, event }).unwrap_or_default();
        tracing::info!("audit: {line}");
        if let Err(error) = self.append(format!("{line}\n")).await {
            let path = self.path.display();
            tracing::warn!("not in the audit log: {line}");
            self.warnings.warn(format!(
                "the audit log {path} cannot be written: {error}; changes are carried out, and stand in the node's log only"
            ));
        }
    }

    /// One line waits for the other: a disk that hangs takes one thread, and no more.
    async fn append(&self, line: String) -> io::Result<()> {
        let late = |_| io::Error::other(format!("it takes longer than {} s", PATIENCE.as_secs()));
        let written = timeout(PATIENCE, async {
            let mut log = self.log.clone().lock_owned().await;
            // The daemon's end may cut it off; what it writes then is there as a whole or not.
            spawn_blocking(move || log.append(line.as_bytes())).await.unwrap_or(Ok(()))
        });
        written.await.map_err(late)?
    }
}

/// The file, and the one before it.
#[derive(Debug)]
struct LogFile {
    path: PathBuf,
    /// Most bytes.
    most: u64,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    file: File,
    length: u64,
}

impl LogFile {
    fn append(&mut self, line: &[u8]) -> io::Result<()> {
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.opened()?,
        };
        if open.length > 0 && open.length + line.len() as u64 > self.most {
            std::fs::rename(&self.path, self.path.with_extension("log.1"))?;
            open = self.opened()?;
        }
        // After an error it is opened anew: the file's end may be half a line.
        open.file.write_all(line)?;
        open.length += line.len() as u64;
        self.open = Some(open);
        Ok(())
    }

    /// Opens the file. A line that a crash or a full disk has cut off goes.
    fn opened(&self) -> io::Result<Open> {
        let file = own_file::open(&self.path, OFlags::CREATE | OFlags::APPEND)?;
        let length = file.metadata()?.len();
        let whole = end_of_last_line(&file, length)?;
        if whole < length {
            file.set_len(whole)?;
        }
        Ok(Open { file, length: whole })
    }
}

/// Where the last whole line ends, if the one after it has no more bytes than a line may have;
/// otherwise the file's end.
fn end_of_last_line(file: &File, length: u64) -> io::Result<u64> {
    let from = length.saturating_sub(MAX_LINE);
    let mut last = vec![0; (length - from) as usize];
    file.read_exact_at(&mut last, from)?;
    let end = last.iter().rposition(|byte| *byte == b'\n').map(|at| from + at as u64 + 1);
    Ok(end.unwrap_or(if from == 0 { 0 } else { length }))
}

/// A request's body as it is kept.
fn shown(body: &[u8]) -> Value {
    if body.is_empty() {
        return Value::Null;
    }
    let Ok(mut value) = serde_json::from_slice(body) else {
        return Value::String(format!("({} bytes that are no JSON)", body.len()));
    };
    shorten(&mut value);
    match value.to_string().len() {
        length if length > MAX_BODY => Value::String(format!("({} bytes)", body.len())),
        _ => value,
    }
}

/// Takes out what is secret, and cuts what is long.
fn shorten(value: &mut Value) {
    match value {
        Value::String(text) => *text = cut(text, MAX_TEXT),
        Value::Array(values) => {
            if values.len() > MAX_LIST {
                let more = values.len() - MAX_LIST;
                values.truncate(MAX_LIST);
                values.push(format!("(and {more} more)").into());
            }
            values.iter_mut().for_each(shorten);
        }
        Value::Object(members) => {
            for (name, value) in members {
                let name = name.to_ascii_lowercase();
                let is_secret = SECRET.iter().any(|part| name.contains(part));
                if is_secret && !value.is_null() {
                    *value = HIDDEN.into();
                } else {
                    shorten(value);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The text, or its beginning.
fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
