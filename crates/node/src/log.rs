//! The log: structured lines on standard error, as text or JSON.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt;

use crate::config::{LogConfig, LogFormat};

/// Starts logging. In a process that logs already (tests) nothing changes.
///
/// # Errors
/// If the level is no filter.
pub fn start(config: &LogConfig) -> Result<(), String> {
    let filter = EnvFilter::try_new(&config.level).map_err(|e| {
        format!("log.level = {:?}: {e}; use error, warn, info, debug or trace", config.level)
    })?;
    let builder = fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false);
    // Colours only for a person who looks on.
    let colours = std::io::IsTerminal::is_terminal(&std::io::stderr());
    let started = match config.format {
        LogFormat::Text => builder.with_ansi(colours).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    // An error says that somebody logs already.
    let _ = started;
    Ok(())
}
