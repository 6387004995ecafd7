//! The log: structured lines on standard error, as text or JSON. Nobody waits for whoever reads it.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io;
use std::panic::PanicHookInfo;
use std::sync::OnceLock;
use std::time::Duration;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt;

use crate::config::{LogConfig, LogFormat};

mod queue;

use queue::Queue;

/// How long the end of the daemon, or of a thread that panics, waits for its last lines to be
/// written.
const PATIENCE: Duration = Duration::from_secs(1);

/// Of the daemon of this process, if it logs.
static QUEUE: OnceLock<Queue> = OnceLock::new();

/// While this is there, the log goes on; then its last lines are written, if that does not take
/// long.
#[derive(Debug)]
#[must_use]
pub struct Log(());

impl Drop for Log {
    fn drop(&mut self) {
        flush();
    }
}

/// Lines that were lost, because standard error did not take them.
#[must_use]
pub fn lost_lines() -> u64 {
    QUEUE.get().map_or(0, Queue::lost)
}

fn flush() {
    if let Some(queue) = QUEUE.get() {
        queue.flush(PATIENCE);
    }
}

/// Starts logging. In a process that logs already (tests) nothing changes.
///
/// # Errors
/// If the level is no filter, or there is no thread to write the lines.
pub fn start(config: &LogConfig) -> Result<Log, String> {
    // The TLS library warns of what a stranger sends, once for each connection.
    let filter = EnvFilter::try_new(format!("rustls=error,{}", config.level)).map_err(|e| {
        format!("log.level = {:?}: {e}; use error, warn, info, debug or trace", config.level)
    })?;
    let queue = QUEUE.get_or_init(Queue::default);
    let builder = fmt().with_env_filter(filter).with_writer(|| Line(queue)).with_target(false);
    // Colours only for a person who looks on.
    let colours = io::IsTerminal::is_terminal(&io::stderr());
    let started = match config.format {
        LogFormat::Text => builder.with_ansi(colours).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    // An error says that somebody logs already.
    if started.is_ok() {
        let write = move || queue.write_to(io::stderr(), report);
        std::thread::Builder::new()
            .name("log".into())
            .spawn(write)
            .map_err(|e| format!("cannot start the thread that writes the log: {e}"))?;
        // The usual hook writes to standard error itself, and waits for whoever reads it.
        std::panic::set_hook(Box::new(panicked));
    }
    Ok(Log(()))
}

fn report(lost: u64) {
    tracing::warn!(
        lines = lost,
        "lines of this log were lost: standard error did not take them for a while"
    );
}

fn panicked(panic: &PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let (thread, place) = (thread.name().unwrap_or("?"), panic.location().map(ToString::to_string));
    let why = panic.payload_as_str().unwrap_or("?");
    let trace = Backtrace::capture();
    let trace = (trace.status() == BacktraceStatus::Captured).then(|| trace.to_string());
    tracing::error!(thread, place, trace, "panicked: {why}");
    flush();
}

/// One line, on its way to the queue.
struct Line<'a>(&'a Queue);

impl io::Write for Line<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
