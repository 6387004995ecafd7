//! The requests that the volume has not answered yet.

use evenkeel_core::Extent;
use evenkeel_engine::RequestToken;

/// What to do with the answer to a request. `unique` is the kernel's name of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pending {
    /// A flush or a hole.
    Done { unique: u64 },
    /// A write.
    Written { unique: u64, length: u32 },
    /// A read: `length` bytes are wanted, after `skip` that were read to begin with a block.
    Data { unique: u64, skip: u32, length: u32 },
    /// A search for a hole, or else for data, that has come to `position`.
    Seek { unique: u64, wanted: u64, hole: bool, position: u64 },
}

impl Pending {
    /// The kernel's name of the request.
    pub fn unique(&self) -> u64 {
        match *self {
            Self::Done { unique }
            | Self::Written { unique, .. }
            | Self::Data { unique, .. }
            | Self::Seek { unique, .. } => unique,
        }
    }
}

/// The open requests, by token.
#[derive(Debug, Default)]
pub struct Requests {
    pending: Vec<Option<Pending>>,
    free: Vec<usize>,
}

impl Requests {
    /// Adds a request and gives it a token that no other open one has.
    pub fn insert(&mut self, pending: Pending) -> RequestToken {
        let index = self.free.pop().unwrap_or_else(|| {
            self.pending.push(None);
            self.pending.len() - 1
        });
        self.pending[index] = Some(pending);
        RequestToken::of_index(index)
    }

    /// Removes a request that has been answered.
    pub fn remove(&mut self, token: RequestToken) -> Option<Pending> {
        let index = token.index();
        let pending = self.pending.get_mut(index)?.take()?;
        self.free.push(index);
        Some(pending)
    }

    /// The number of requests that are under way.
    pub fn len(&self) -> usize {
        self.pending.len() - self.free.len()
    }
}

/// The first byte at or after `wanted` that is in a hole, or else in data, where `extents` begin
/// at `from`. `Err`: where they end without one.
pub fn find(extents: &[Extent], from: u64, wanted: u64, hole: bool) -> Result<u64, u64> {
    let mut start = from;
    for extent in extents {
        let end = start.saturating_add(extent.length);
        if extent.allocated != hole && end > wanted {
            return Ok(start.max(wanted));
        }
        start = end;
    }
    Err(start)
}
