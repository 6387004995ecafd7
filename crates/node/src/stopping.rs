//! That the daemon is to end: whoever waits for something else learns of it.

use std::time::Duration;

use tokio::sync::watch;

/// Whether the daemon is to end. Each clone tells the same.
#[derive(Debug, Clone)]
pub struct Stopping(watch::Sender<bool>);

impl Default for Stopping {
    fn default() -> Self {
        Self(watch::Sender::new(false))
    }
}

impl Stopping {
    /// It is, from now on.
    pub fn begin(&self) {
        self.0.send_replace(true);
    }

    /// Whether it is.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        *self.0.borrow()
    }

    /// What work gives; `None` as soon as the daemon is to end: the work is left as it is then.
    pub async fn unless_begun<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut stopping = self.0.subscribe();
        tokio::select! {
            done = work => Some(done),
            _ = stopping.wait_for(|has_begun| *has_begun) => None,
        }
    }

    /// Waits for so long. Returns false as soon as the daemon is to end.
    pub async fn pause(&self, length: Duration) -> bool {
        self.unless_begun(tokio::time::sleep(length)).await.is_some()
    }
}

#[cfg(test)]
mod tests;
