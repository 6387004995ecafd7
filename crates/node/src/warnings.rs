//! What was unusual since the start: sentences for the log and for the node's status.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel_core::VolumeId;

use crate::clock::unix_seconds;

/// Most warnings that are kept.
const MAX_WARNINGS: usize = 64;

/// Something unusual that was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// When it was seen last, in seconds since 1970.
    pub at: u64,
    /// What, as a sentence.
    pub text: String,
    /// When it is over by itself, if it ever is.
    pub until: Option<Until>,
}

/// What ends a warning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// The volume is attached and shown here as it is meant to be, or nobody wants that any more.
    Shown(VolumeId),
    /// The volume is attached here again.
    Attached(VolumeId),
}

/// What was unusual since the start, shared by all that see such things.
#[derive(Debug, Clone, Default)]
pub struct Warnings(Arc<Mutex<Vec<Warning>>>);

impl Warnings {
    fn lock(&self) -> MutexGuard<'_, Vec<Warning>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a sentence for the status, with the time, and logs it.
    pub fn warn(&self, text: String) {
        self.add(text, None);
    }

    /// The same of a volume that is not attached or shown here yet, as it is meant to be: it is
    /// told until it is, or nobody wants that any more.
    pub fn warn_until_shown(&self, volume: VolumeId, text: String) {
        self.add(text, Some(Until::Shown(volume)));
    }

    /// The same of a volume that is not attached here any more: it is told until it is again.
    pub fn warn_until_attached(&self, volume: VolumeId, text: String) {
        self.add(text, Some(Until::Attached(volume)));
    }

    /// A volume is attached here.
    pub fn attached(&self, volume: VolumeId) {
        self.lock().retain(|warning| warning.until != Some(Until::Attached(volume)));
    }

    fn add(&self, text: String, until: Option<Until>) {
        tracing::warn!("{text}");
        keep(&mut self.lock(), Warning { at: unix_seconds(), text, until });
    }

    /// What is not over. `is_to_be_shown`: whether a volume is still to be attached or shown here.
    pub fn past(&self, is_to_be_shown: impl Fn(VolumeId) -> bool) -> Vec<Warning> {
        let mut warnings = self.lock();
        warnings.retain(|warning| match warning.until {
            Some(Until::Shown(volume)) => is_to_be_shown(volume),
            Some(Until::Attached(_)) | None => true,
        });
        warnings.clone()
    }
}

/// Adds what was seen, for the first time or again. Of one volume only the last is kept that ends
/// by itself. Of too many the oldest is forgotten.
fn keep(warnings: &mut Vec<Warning>, warning: Warning) {
    let is_of_it = |before: &Warning| before.until.is_some() && before.until == warning.until;
    warnings.retain(|before| before.text != warning.text && !is_of_it(before));
    if warnings.len() == MAX_WARNINGS {
        warnings.remove(0);
    }
    warnings.push(warning);
}

#[cfg(test)]
mod tests;
