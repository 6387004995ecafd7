//! What must hold of a connection after every step, whatever its host sends and its driver asks
//! for.

use super::tags::{Open, Tag};
use super::{Connection, Expected, MAX_TRANSFER};

impl Connection {
    /// Panics if an invariant does not hold. It is called after each [`Connection::receive`],
    /// wherever assertions are on; a driver calls it after what it does itself.
    pub fn check_invariants(&self) {
        self.tags.check_invariants();
        assert!(self.collected <= self.buffer.len(), "a header has a bound");
        for (tag, open) in self.tags.iter() {
            open.check_invariants(self.expects_of(tag));
        }
        self.check_halves();
        self.check_expected();
        let depth = self.depth();
        assert!(depth == 0 || u32::from(self.head) < depth, "the queue goes round");
        if let Some(first) = self.first.filter(|_| depth > 0) {
            let open = self.tags.get(first);
            assert!(open.is_some_and(|open| open.second.is_none()), "it has no second half yet");
        }
    }

    /// Whether data of a command comes next, or its digest.
    fn expects_of(&self, tag: Tag) -> bool {
        match self.expected {
            Expected::Data { tag: next, .. } | Expected::Digest { tag: next, .. } => next == tag,
            Expected::Header(_) | Expected::Nothing => false,
        }
    }

    /// A second half whose first one is not answered knows that, and no other command does.
    fn check_halves(&self) {
        let mut seconds = 0;
        for second in self.tags.iter().filter_map(|(_, open)| open.second) {
            let is_behind = self.tags.get(second).is_some_and(|open| open.is_behind);
            assert!(is_behind, "a second half waits for its first one");
            seconds += 1;
        }
        let behind = self.tags.iter().filter(|(_, open)| open.is_behind).count();
        assert_eq!(behind, seconds, "each second half has one first one");
    }

    /// What comes next is what is missing of a command.
    fn check_expected(&self) {
        match self.expected {
            Expected::Data { tag, left, .. } if left > 0 => {
                let open = self.tags.get(tag);
                let takes = open.is_some_and(|open| open.requested - open.received >= left);
                assert!(takes, "data that comes was requested");
                assert_eq!(self.collected, 0, "a header is used up before its data");
            }
            Expected::Nothing => assert_eq!(self.depth(), 0, "nothing is under way after the end"),
            Expected::Header(_) | Expected::Data { .. } | Expected::Digest { .. } => {}
        }
    }

    /// The commands that the driver has to answer.
    pub(in crate::nvme) fn unanswered(&self) -> impl Iterator<Item = Tag> {
        self.tags.iter().filter(|(_, open)| open.answer.is_none()).map(|(tag, _)| tag)
    }
}

impl Open {
    fn check_invariants(&self, is_coming: bool) {
        let Self { first, requested, received, .. } = *self;
        assert!(first <= requested && received <= requested, "what comes was requested");
        assert!(requested <= MAX_TRANSFER, "a command's data has a bound");
        let is_awaited = received < requested || is_coming || self.is_behind;
        assert!(self.answer.is_none() || is_awaited, "an answer that can be sent is");
    }
}
