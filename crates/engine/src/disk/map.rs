//! Questions to the filesystem: which parts of a file hold data.

use std::io;

use super::asked::Asked;
use super::device::{Access, extents_of};
use super::helper::{Done, Helper};
use crate::ring::{Key, Slab};

/// Questions that the filesystem has not answered yet.
#[derive(Debug)]
pub(super) struct Questions(Slab<Asked>);

impl Questions {
    pub(super) const fn none() -> Self {
        Self(Slab::new())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Asks for the extents of a range of the file, on the disk's helper: the filesystem may have
    /// to read them.
    pub(super) fn ask<F: Access + Send + 'static>(
        &mut self,
        helper: &mut Helper,
        replica: Key,
        file: F,
        start: u64,
        asked: Asked,
    ) -> Result<(), (Asked, io::Error)> {
        if let Err(error) = helper.prepare() {
            return Err((asked, error));
        }
        let length = asked.length();
        let job = self.0.insert(asked);
        helper.ask(move || {
            let extents = extents_of(&file, start, length);
            Done::Mapped { replica, job, extents }
        });
        Ok(())
    }

    /// The one that has been answered.
    pub(super) fn answered(&mut self, job: Key) -> Option<Asked> {
        self.0.remove(job)
    }
}
