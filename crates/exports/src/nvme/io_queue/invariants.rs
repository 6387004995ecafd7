//! What must hold of a queue after every step, whatever its host sends and the volume answers.

use super::receiving::Receiving;
use super::{Open, Phase, Queue, State};
use crate::nvme::connection::Tag;

impl Queue {
    /// Panics if an invariant does not hold.
    pub(super) fn check_invariants(&self) {
        self.stream.check_invariants();
        self.queue.connection.check_invariants();
        self.check_waiting();
        for (index, open) in self.open.iter().enumerate() {
            let is_own = open.as_ref().is_none_or(|open| open.tag.index() == index);
            assert!(is_own, "a command is found by its tag");
        }
        for (tag, _) in &self.aborting {
            assert!(
                self.under_way(*tag).is_some_and(Open::is_submitted),
                "others are aborted here"
            );
        }
        match self.state {
            State::Serving => self.check_serving(),
            State::Draining(_) => self.check_draining(),
            State::Closing(_) => {
                self.check_draining();
                assert!(self.open.iter().all(Option::is_none), "what is drained is answered");
            }
            State::Ended => {}
        }
        assert!(!self.is_lost || self.out.is_empty(), "nobody is there to send to");
        let is_ended = matches!(self.state, State::Ended);
        assert!(is_ended || self.out.is_empty(), "what is to be sent is");
    }

    fn under_way(&self, tag: Tag) -> Option<&Open> {
        self.open.get(tag.index()).and_then(Option::as_ref)
    }

    /// Who waits for memory has none, and stands in line once.
    fn check_waiting(&self) {
        let mut is_waiting = vec![false; self.open.len()];
        for tag in &self.waiting {
            let waits =
                self.under_way(*tag).is_some_and(|open| matches!(open.phase, Phase::Waiting));
            assert!(waits, "who waits for memory has none");
            assert!(!std::mem::replace(&mut is_waiting[tag.index()], true), "once is enough");
        }
        for open in self.open.iter().flatten() {
            let waits = matches!(open.phase, Phase::Waiting);
            let is_seen = is_waiting[open.tag.index()] || self.stalled == Some(open.tag);
            assert!(!waits || is_seen, "nobody waits who is not tried again");
        }
    }

    fn check_serving(&self) {
        let lent = self.open.iter().flatten();
        let lent = lent.filter(|open| matches!(open.phase, Phase::Filling(None))).count();
        let is_direct = matches!(self.receiving, Receiving::Data(..));
        // Its command may have been aborted meanwhile.
        assert!(lent <= usize::from(is_direct), "one buffer is lent, if any");
        let is_open = |tag| self.under_way(tag).is_some();
        assert!(self.stalled.is_none_or(is_open), "who stops the stream is under way");
        let receives = !matches!(self.receiving, Receiving::Nothing);
        let is_held_up = self.stalled.is_some() || self.stream.is_full();
        assert!(receives || is_held_up, "the host is heard unless something has to end first");
        assert!(!self.is_drained && !self.is_lost, "who is gone is not served");
        let mut unanswered = 0;
        for tag in self.queue.connection.unanswered() {
            assert!(self.under_way(tag).is_some(), "each command that came is answered or kept");
            unanswered += 1;
        }
        let kept = self.open.iter().flatten().count();
        assert_eq!(kept, unanswered, "what is kept is answered once");
        self.check_pairs();
    }

    /// Only what was begun is awaited.
    fn check_draining(&self) {
        let mut open = self.open.iter().flatten();
        assert!(open.all(Open::is_submitted), "nothing else is under way");
        assert!(self.waiting.is_empty(), "nothing begins any more");
    }
}
