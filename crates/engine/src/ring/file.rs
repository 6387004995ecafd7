//! Open files, as the ring names them.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;

/// A descriptor that a front end has given to the engine. Never used twice by one front end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Descriptor(pub u32);

/// What a front end has asked of a descriptor, as the front end names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DescriptorToken(pub u64);

/// A descriptor that stays open while anything of it is under way.
#[derive(Debug, Clone)]
pub(crate) struct SharedFile {
    file: Arc<OwnedFd>,
    /// Whether reading or writing it may block the thread that submits that.
    submission_blocks: bool,
}

impl SharedFile {
    pub(crate) fn new(file: OwnedFd) -> Self {
        Self { file: Arc::new(file), submission_blocks: false }
    }

    /// One of which the kernel may block who submits a read or write.
    pub(crate) fn with_blocking_submission(file: OwnedFd, submission_blocks: bool) -> Self {
        Self { file: Arc::new(file), submission_blocks }
    }

    pub(crate) const fn submission_blocks(&self) -> bool {
        self.submission_blocks
    }

    pub(crate) fn raw(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

impl AsFd for SharedFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
