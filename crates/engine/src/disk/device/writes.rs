//! How far a transfer is, and metadata that are written piece after piece.

use crate::memory::{Buffer, Pool};

/// How far a transfer is.
pub(in crate::disk) enum Advance {
    Whole,
    /// So many bytes are done.
    Part(usize),
    /// The file or device ends before.
    CutShort,
}

/// Takes note of what a transfer of so many bytes has done; `None`: nothing, and it is to be tried
/// again.
pub(in crate::disk) fn advance(done: &mut usize, count: Option<usize>, length: usize) -> Advance {
    *done += count.unwrap_or(0);
    match count {
        _ if *done >= length => Advance::Whole,
        Some(0) => Advance::CutShort,
        _ => Advance::Part(*done),
    }
}

/// Metadata that are written piece after piece.
#[derive(Debug)]
pub(in crate::disk) struct Writes {
    /// Each with its place.
    pieces: Vec<(u64, Vec<u8>)>,
    /// How many of them are written.
    next: usize,
    /// Bytes of the next one that are written.
    done: usize,
    is_flushed_later: bool,
}

impl Writes {
    /// Of at least one piece.
    pub(in crate::disk) const fn new(pieces: Vec<(u64, Vec<u8>)>) -> Self {
        Self { pieces, next: 0, done: 0, is_flushed_later: false }
    }

    /// Those that a flush makes durable that begins when they have ended.
    pub(in crate::disk) fn before_flush(pieces: Vec<(u64, Vec<u8>)>) -> Self {
        Self { is_flushed_later: true, ..Self::new(pieces) }
    }

    pub(in crate::disk) const fn is_flushed_later(&self) -> bool {
        self.is_flushed_later
    }

    /// How many writes are left.
    pub(in crate::disk) const fn count(&self) -> usize {
        self.pieces.len() - self.next
    }

    /// Whether nothing is left to be written.
    pub(in crate::disk) const fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// Panics if nothing is left to be written, or no part of the next piece.
    pub(in crate::disk) fn check_invariants(&self) {
        let next = self.pieces.get(self.next);
        let is_left = next.is_some_and(|(_, bytes)| self.done < bytes.len());
        assert!(is_left, "pieces are under way of which all is written");
    }

    /// What is written where.
    #[cfg(test)]
    pub(in crate::disk) fn pieces(&self) -> &[(u64, Vec<u8>)] {
        &self.pieces
    }

    /// Where the next piece belongs.
    pub(in crate::disk) fn place(&self) -> u64 {
        self.pieces[self.next].0
    }

    /// The next piece, in memory that the device takes, and its place.
    pub(in crate::disk) fn piece(&self, pool: &Pool) -> (u64, Buffer) {
        let (place, bytes) = &self.pieces[self.next];
        let mut memory = pool.take(bytes.len());
        memory.copy_from_slice(bytes);
        (*place, memory.freeze())
    }

    /// So many bytes more of the next piece are written, which has this length.
    pub(in crate::disk) fn wrote(&mut self, count: Option<usize>, length: usize) -> Advance {
        let advance = advance(&mut self.done, count, length);
        if matches!(advance, Advance::Whole) {
            (self.next, self.done) = (self.next + 1, 0);
        }
        advance
    }
}
