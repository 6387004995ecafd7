//! Ctrl-C: noticed at once, acted upon between steps, so that everything is cleaned up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::failure::Failure;

/// How often a wait looks again.
pub const POLL_PERIOD: Duration = Duration::from_millis(20);

/// Whether somebody wants an end.
#[derive(Debug, Clone, Default)]
pub struct Interrupt {
    wanted: Arc<AtomicBool>,
}

impl Interrupt {
    /// Takes over Ctrl-C, SIGTERM and SIGHUP from now on.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn watch() -> Result<Self, Failure> {
        let interrupt = Self::default();
        for signal in
            [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP]
        {
            signal_hook::flag::register(signal, Arc::clone(&interrupt.wanted))
                .map_err(|error| Failure::new("cannot watch for Ctrl-C", error))?;
        }
        Ok(interrupt)
    }

    /// Ends the work if somebody wants that.
    ///
    /// # Errors
    /// If so.
    pub fn check(&self) -> Result<(), Failure> {
        match self.wanted.load(Ordering::Relaxed) {
            true => Err(Failure::interrupted()),
            false => Ok(()),
        }
    }

    /// Looks until there is something to see; `None` of `look` means: not yet.
    ///
    /// # Errors
    /// If it takes too long, by Ctrl-C, and those of `look`.
    pub fn poll<T>(
        &self,
        what: &str,
        patience: Duration,
        mut look: impl FnMut() -> Result<Option<T>, Failure>,
    ) -> Result<T, Failure> {
        let start = Instant::now();
        loop {
            self.check()?;
            if let Some(found) = look()? {
                return Ok(found);
            }
            if start.elapsed() > patience {
                let why = format!("it is not so after {} s", patience.as_secs());
                return Err(Failure::new(format!("waited in vain: {what}"), why));
            }
            std::thread::sleep(POLL_PERIOD);
        }
    }
}
