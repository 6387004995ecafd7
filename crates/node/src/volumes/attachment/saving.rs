//! What the state directory remembers of volumes: which ones the next daemon attaches, and which
//! ones are not wanted here any more of which the coordinator has not heard that.
//!
//! Files are replaced as wholes, one save at a time: however many volumes change at once, one
//! thread waits for the disk, and what changed until it began is saved with it. A save that fails
//! is tried again until one succeeds.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use evenkeel_api::{ApiError, ErrorCode};
use evenkeel_core::VolumeId;
use evenkeel_core::settings::Pauses;
use serde::Serialize;
use tokio::runtime::Handle;

use super::wanted::UNREPORTED;
use crate::state::{StateDirectory, StateError};
use crate::volumes::Node;
use crate::volumes::remembered::{ATTACHED, Wanted};
use crate::volumes::{Volumes, lock};

/// The pauses before a save that failed is tried again.
const PAUSES: Pauses = Pauses::new(Duration::from_secs(1), Duration::from_secs(60));

/// The saves of this daemon.
#[derive(Debug, Default)]
pub(in crate::volumes) struct Saves {
    /// Held while the files are written, so that no older list takes the place of a newer one.
    written: Mutex<Written>,
    /// Whoever is to write next has it: the others wait for it as tasks.
    next: tokio::sync::Mutex<()>,
    /// A save is to come that has not begun.
    is_pending: AtomicBool,
    /// Why the last one failed; it is tried again.
    failure: Mutex<Option<String>>,
}

/// What the files have; `None`: that is not known.
#[derive(Debug, Default)]
struct Written {
    remembered: Option<Vec<Wanted>>,
    unreported: Option<Vec<String>>,
}

/// While this is there no save begins.
pub(super) struct HeldSaves<'a> {
    _written: MutexGuard<'a, Written>,
}

impl Volumes {
    /// Keeps all saves waiting, while what the files have is loaded.
    pub(super) fn hold_saves(&self) -> HeldSaves<'_> {
        HeldSaves { _written: lock(&self.saves.written) }
    }

    /// Saves what has changed, as a task. What changes until that begins is saved with it.
    pub(super) fn save_soon(&self, node: &Arc<Node>, runtime: &Handle) {
        if !self.saves.is_pending.swap(true, Ordering::AcqRel) {
            let node = node.clone();
            drop(runtime.spawn(async move { node.volumes.save(&node).await }));
        }
    }

    /// Saves what has changed. If that fails it is logged once and tried again by itself.
    pub async fn save(&self, node: &Arc<Node>) {
        // It is saved.
        let Err(error) = self.save_once(node).await else { return };
        let had_failed = lock(&self.saves.failure).replace(error.why.clone()).is_some();
        if !had_failed {
            tracing::warn!("{error}");
            drop(tokio::spawn(retry(node.clone())));
        }
    }

    async fn save_once(&self, node: &Arc<Node>) -> Result<(), ApiError> {
        let _next = self.saves.next.lock().await;
        // What changes from now on may come too late for this one.
        self.saves.is_pending.store(false, Ordering::Release);
        let write = |node: &Node| {
            node.volumes.write(&node.state).map_err(|error| {
                let what = "cannot remember which volumes are attached";
                let advice =
                    "Free some space, or repair the file system of the state directory; it is tried again";
                ApiError::new(ErrorCode::System, what, error.to_string(), advice)
            })
        };
        node.blocking(write).await?;
        if lock(&self.saves.failure).take().is_some() {
            tracing::info!("which volumes are attached is remembered again");
        }
        Ok(())
    }

    /// Why what the state directory has is old, as a sentence.
    pub(crate) fn unsaved(&self) -> Option<String> {
        let why = lock(&self.saves.failure).clone()?;
        Some(format!(
            "cannot remember which volumes are attached: {why}; it is tried again. After a restart of the daemon it would be as it was before"
        ))
    }

    fn write(&self, state: &StateDirectory) -> Result<(), StateError> {
        let mut written = lock(&self.saves.written);
        let (remembered, unreported) = self.take_kept();
        let unreported = unreported.iter().map(VolumeId::to_string).collect();
        // One may be writable and the other not.
        let attached = replace(state, ATTACHED, &mut written.remembered, remembered);
        let detached = replace(state, UNREPORTED, &mut written.unreported, unreported);
        attached.and(detached)
    }
}

/// Replaces what a file has, if that is something else.
fn replace<T: PartialEq + Serialize>(
    state: &StateDirectory,
    name: &str,
    written: &mut Option<T>,
    now: T,
) -> Result<(), StateError> {
    if written.as_ref() == Some(&now) {
        return Ok(());
    }
    *written = None;
    state.save(name, &now)?;
    *written = Some(now);
    Ok(())
}

/// Tries until a save succeeds, or the daemon ends.
async fn retry(node: Arc<Node>) {
    let mut pause = PAUSES.first;
    while node.pause(pause).await {
        // Somebody else may have saved meanwhile.
        if node.volumes.unsaved().is_none() || node.volumes.save_once(&node).await.is_ok() {
            return;
        }
        pause = PAUSES.after(pause);
    }
}

#[cfg(test)]
mod tests;
