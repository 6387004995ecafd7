//! The numbers of a primary's operations, and how far its writes are acknowledged and flushed.

use crate::ids::Sequence;

/// How far operations are numbered, acknowledged and flushed.
#[derive(Debug, Default)]
pub(super) struct Writes {
    last: Sequence,
    /// The highest-numbered write that was acknowledged, or that failed and may be seen.
    acknowledged: Sequence,
    /// The highest-numbered write that a finished flush covers.
    flushed: Sequence,
}

impl Writes {
    /// The number of the next operation, which is sent now.
    #[inline]
    pub fn send_next(&mut self) -> Sequence {
        self.last = self.last.next();
        self.last
    }

    /// The number that the next operation will have.
    pub fn upcoming(&self) -> Sequence {
        self.last.next()
    }

    /// The operation that was sent last.
    #[inline]
    pub fn last(&self) -> Sequence {
        self.last
    }

    /// What a flush covers that begins now.
    #[inline]
    pub fn acknowledged(&self) -> Sequence {
        self.acknowledged
    }

    /// Whether writes were acknowledged that no flush covers yet.
    pub fn are_unflushed(&self) -> bool {
        self.acknowledged > self.flushed
    }

    /// A write was acknowledged, or has failed and may be seen.
    #[inline]
    pub fn acknowledge(&mut self, write: Sequence) {
        self.acknowledged = self.acknowledged.max(write);
    }

    /// A flush has finished that covers all up to here.
    pub fn flush(&mut self, covered: Sequence) {
        self.flushed = self.flushed.max(covered);
    }

    /// A primary that has gone may have acknowledged what no flush covers: losing it counts.
    pub fn inherit(&mut self) {
        self.acknowledged = self.send_next();
    }

    /// Panics if something is acknowledged that was not sent, or flushed that was not acknowledged.
    pub fn check_invariants(&self) {
        assert!(self.acknowledged <= self.last, "I4: acknowledged before it was sent");
        assert!(self.flushed <= self.acknowledged, "W4: a flush covers what is not acknowledged");
    }
}

#[cfg(test)]
mod tests;
