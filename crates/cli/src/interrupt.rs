//! Ctrl-C and SIGTERM: noticed at once, acted upon between steps, so that everything is cleaned up.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use crate::exit::Exit;
use crate::failure::Failure;

/// Whether somebody wants an end.
#[derive(Debug, Clone)]
pub struct Interrupt {
    /// By which signal; nothing until then.
    wanted: Arc<OnceLock<Signal>>,
}

/// What ends a command early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Signal {
    ControlC,
    Terminate,
}

impl Signal {
    /// Its name for people.
    fn name(self) -> &'static str {
        match self {
            Self::ControlC => "Ctrl-C",
            Self::Terminate => "SIGTERM",
        }
    }
}

impl Interrupt {
    /// Takes over Ctrl-C and SIGTERM from now on.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn watch() -> Result<Self, Failure> {
        let failed = |error: std::io::Error| Failure::new("cannot watch for Ctrl-C", error);
        let wanted = Arc::new(OnceLock::new());
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let entered = runtime.enter();
        let mut control_c = signal(SignalKind::interrupt()).map_err(failed)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
        drop(entered);
        let flag = Arc::clone(&wanted);
        std::thread::spawn(move || {
            runtime.block_on(async {
                loop {
                    let caught = tokio::select! {
                        _ = control_c.recv() => Signal::ControlC,
                        _ = terminate.recv() => Signal::Terminate,
                    };
                    if flag.set(caught).is_err() {
                        eprintln!("Still cleaning up; this takes a few seconds.");
                    }
                }
            });
        });
        Ok(Self { wanted })
    }

    /// Whether somebody wants an end.
    pub fn wanted(&self) -> bool {
        self.wanted.get().is_some()
    }

    /// Ends the work if somebody wants that.
    ///
    /// # Errors
    /// With [`Exit::Interrupted`] if so.
    pub fn check(&self) -> Result<(), Failure> {
        let Some(caught) = self.wanted.get() else { return Ok(()) };
        let what = format!("stopped by {}", caught.name());
        Err(Failure::new(what, "").exit(Exit::Interrupted))
    }

    /// The same for what takes its turns with other things.
    pub async fn until_wanted(&self) {
        while !self.wanted() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until somebody wants an end.
    pub fn wait(&self) {
        while !self.wanted() {
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Tries until it is so; `None` of `look` means: not yet.
    ///
    /// # Errors
    /// If it takes too long, or if somebody wants an end.
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
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

#[cfg(test)]
mod tests;
