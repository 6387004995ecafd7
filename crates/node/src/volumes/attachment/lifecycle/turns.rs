//! Whose turn it is: one at a time, in the order in which they asked.

use std::collections::VecDeque;

/// One turn of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::volumes) struct TurnId(u64);

#[derive(Debug)]
pub(super) struct Turns {
    holder: Option<TurnId>,
    waiting: VecDeque<TurnId>,
    last: u64,
}

impl Turns {
    pub(super) const fn new() -> Self {
        Self { holder: None, waiting: VecDeque::new(), last: 0 }
    }

    const fn next(&mut self) -> TurnId {
        self.last += 1;
        TurnId(self.last)
    }

    pub(super) fn ask(&mut self) -> TurnId {
        let turn = self.next();
        self.waiting.push_back(turn);
        turn
    }

    /// A turn at once, for what goes before all who wait. Only while nobody has one.
    pub(super) fn take(&mut self) -> TurnId {
        debug_assert!(self.is_free(), "somebody has the turn: {self:?}");
        let turn = self.next();
        self.holder = Some(turn);
        turn
    }

    /// Gives the turn to who has waited longest, if nobody has it.
    pub(super) fn grant(&mut self) -> Option<TurnId> {
        if self.holder.is_some() {
            return None;
        }
        self.holder = self.waiting.pop_front();
        self.holder
    }

    /// Returns true if this one had the turn; else it does not wait any more.
    pub(super) fn let_go(&mut self, turn: TurnId) -> bool {
        if self.holder == Some(turn) {
            self.holder = None;
            return true;
        }
        self.waiting.retain(|waiting| *waiting != turn);
        false
    }

    /// Whether nobody has the turn.
    pub(super) const fn is_free(&self) -> bool {
        self.holder.is_none()
    }
}
