//! I14: what was cancelled has no effect, and what is drained is over.

mod zeroes;

use std::collections::{HashMap, HashSet};

use evenkeel_core::Sequence;

use super::Violation;
use crate::payload::{Cell, stamped};
pub use zeroes::Share;
use zeroes::Zeroes;

/// A path of a primary.
type Path = (usize, u64);

/// What clients have given up, and what their primaries have said of it.
#[derive(Debug, Default)]
pub struct GivenUp {
    /// Over which path each write was asked for.
    asked: HashMap<u32, Path>,
    /// How many stamps each write has that were not sent yet.
    unsent: HashMap<u32, usize>,
    /// Those of which something was sent.
    sent: HashSet<u32>,
    /// By which operation the primary that was asked has sent each stamp first. What sends it by
    /// another one repairs a replica with what was read.
    own: HashMap<Cell, Sequence>,
    zeroes: Zeroes,
    cancelled: HashSet<u32>,
    /// The members when a primary said that nothing of a path is under way any more. Others may
    /// have left with something under way: nobody reads there.
    drained: HashMap<Path, Vec<usize>>,
}

impl GivenUp {
    /// A client has something zeroed, which are these shares of mirrors.
    pub fn asks_zeroes(&mut self, write: u32, path: Path, shares: Vec<Share>) {
        self.asked.insert(write, path);
        self.zeroes.asks(path.0, write, shares);
    }

    /// A change has succeeded: each mirror was sent its part.
    pub fn succeeds(&mut self, primary: usize, write: u32) {
        self.zeroes.succeeds(primary, write);
    }

    /// A primary sends this share as zeroes.
    ///
    /// # Errors
    /// If all zeroings that it may be are cancelled, or drained.
    pub fn sends_zeroes(
        &mut self,
        primary: usize,
        sequence: Sequence,
        share: &Share,
    ) -> Result<(), Violation> {
        let may_be = self.zeroes.sends((primary, sequence), share);
        if let [write] = may_be {
            self.sent.insert(*write);
        }
        let is_given_up = |write: &u32| {
            let path = self.asked.get(write);
            self.cancelled.contains(write) || path.is_some_and(|it| self.drained.contains_key(it))
        };
        check(may_be.is_empty() || !may_be.iter().all(is_given_up), || {
            format!(
                "primary {primary} zeroes {share:?} (operation {sequence}); that is of {may_be:?}, cancelled or drained"
            )
        })
    }

    /// A client asks for a write with so many stamps.
    pub fn asks(&mut self, write: u32, path: Path, stamps: usize) {
        self.asked.insert(write, path);
        self.unsent.insert(write, stamps);
    }

    /// Whether one mirror was sent its part of a write, and another one was not.
    pub fn is_sent_in_part(&self, write: u32) -> bool {
        self.sent.contains(&write) && self.unsent.get(&write).is_some_and(|unsent| *unsent > 0)
    }

    /// A write is said to be cancelled.
    ///
    /// # Errors
    /// If it was sent before.
    pub fn cancels(&mut self, write: u32) -> Result<(), Violation> {
        self.cancelled.insert(write);
        let was_sent = self.sent.contains(&write);
        check(!was_sent, || format!("#{write} is said to be cancelled, and was sent to a replica"))
    }

    /// A primary says that nothing of a path is under way.
    pub fn drains(&mut self, path: Path, members: Vec<usize>) {
        self.drained.insert(path, members);
    }

    /// A primary sends this stamp.
    ///
    /// # Errors
    /// If its write is cancelled, or drained and now sent for the first time or again.
    pub fn sends(
        &mut self,
        primary: usize,
        sequence: Sequence,
        cell: Cell,
    ) -> Result<(), Violation> {
        let (write, _) = stamped(cell);
        self.sent.insert(write);
        let is_cancelled = self.cancelled.contains(&write);
        check(!is_cancelled, || format!("#{write} is sent, and was cancelled"))?;
        let Some(path) = self.asked.get(&write).filter(|(asked, _)| *asked == primary) else {
            return Ok(());
        };
        let own = *self.own.entry(cell).or_insert_with(|| {
            self.unsent.entry(write).and_modify(|unsent| *unsent = unsent.saturating_sub(1));
            sequence
        });
        let is_own = own == sequence;
        check(!is_own || !self.drained.contains_key(path), || {
            format!(
                "primary {primary} sends #{write} (operation {sequence}), and its path is drained"
            )
        })
    }

    /// A replica carries out an operation of a primary that writes this stamp.
    ///
    /// # Errors
    /// If its write is drained, and the replica was a member then.
    pub fn takes(
        &self,
        replica: usize,
        (primary, sequence): (usize, Sequence),
        cell: Cell,
    ) -> Result<(), Violation> {
        let (write, _) = stamped(cell);
        let path = self.asked.get(&write).filter(|(asked, _)| *asked == primary);
        let is_own = self.own.get(&cell) == Some(&sequence);
        let members = path.filter(|_| is_own).and_then(|path| self.drained.get(path));
        check(members.is_none_or(|members| !members.contains(&replica)), || {
            format!(
                "replica {replica} writes #{write} (operation {sequence} of primary {primary}), and its path is drained"
            )
        })
    }
}

fn check(holds: bool, text: impl FnOnce() -> String) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(Violation::new("I14", text())) }
}

#[cfg(test)]
mod tests;
