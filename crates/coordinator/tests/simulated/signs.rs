//! Which nodes live for sure, where one coordinator has the store alone: of each a sign of life has
//! come soon after the one before, or while that was waiting to be answered.

use std::collections::BTreeMap;

/// Signs of life come each second.
const MAX_GAP: u64 = 1400;

#[derive(Debug, Clone, Copy, Default)]
struct Node {
    /// It was answered as heard, and never stopped sending since.
    lives: bool,
    /// When something of it came or ended last, in milliseconds.
    last: u64,
    waiting: u64,
}

impl Node {
    fn speaks(&self, now: u64) -> bool {
        self.waiting > 0 || now.saturating_sub(self.last) <= MAX_GAP
    }
}

/// What became of a sign of life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Heard,
    /// Whoever sent it does not speak for the node.
    Refused,
    Failed,
}

/// All nodes, by identity.
#[derive(Debug, Clone, Default)]
pub struct Signs(BTreeMap<String, Node>);

impl Signs {
    /// One has come of a start that speaks for its node.
    pub fn came(&mut self, node: &str, now: u64) {
        let known = self.0.entry(node.to_owned()).or_default();
        known.lives &= known.speaks(now);
        known.last = now;
        known.waiting += 1;
    }

    /// It was answered, or was in vain.
    pub fn ended(&mut self, node: &str, now: u64, end: End) {
        let known = self.0.entry(node.to_owned()).or_default();
        known.waiting = known.waiting.saturating_sub(1);
        known.last = now;
        match end {
            End::Heard => known.lives = true,
            End::Refused => known.lives = false,
            End::Failed => {}
        }
    }

    /// All that waited is lost.
    pub fn restarted(&mut self, now: u64) {
        for known in self.0.values_mut().filter(|known| known.waiting > 0) {
            (known.waiting, known.last) = (0, now);
        }
    }

    pub fn lives(&self, node: &str, now: u64) -> bool {
        self.0.get(node).is_some_and(|known| known.lives && known.speaks(now))
    }
}
