//! Cluster locks of a primary of the whole volume, and what for: when one is granted nothing is
//! under way, at any primary, that was permitted before.

use core::time::Duration;

use super::table::RequestNumber;
use crate::ids::*;
use crate::time::Instant;

/// What this primary keeps all others out of the volume for, for a moment.
#[derive(Debug, Default)]
pub(super) struct Exclusions {
    /// It joins others: it serves nothing before.
    joining: Option<RequestNumber>,
    /// Changes of reservations that are made.
    clearing: Vec<Clearing>,
}

/// A change of reservations that is made, and is done when its cluster lock is granted.
#[derive(Debug)]
struct Clearing {
    number: RequestNumber,
    command: CommandId,
    since: Instant,
}

/// Why the volume was locked.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Exclusion {
    Joining,
    Clearing(CommandId),
}

impl Exclusions {
    /// This primary joins others when the cluster lock of this request is granted.
    pub fn join(&mut self, number: RequestNumber) {
        self.joining = Some(number);
    }

    #[inline]
    pub fn are_joining(&self) -> bool {
        self.joining.is_some()
    }

    /// A change of reservations is done when the cluster lock of this request is granted.
    pub fn clear(&mut self, number: RequestNumber, command: CommandId, now: Instant) {
        self.clearing.push(Clearing { number, command, since: now });
    }

    /// A request has its range. Tells what the cluster lock was for, which is over with that;
    /// `None` if it is another request.
    #[inline]
    pub fn granted(&mut self, number: RequestNumber) -> Option<Exclusion> {
        if self.joining.take_if(|joining| *joining == number).is_some() {
            return Some(Exclusion::Joining);
        }
        let at = self.clearing.iter().position(|clearing| clearing.number == number)?;
        Some(Exclusion::Clearing(self.clearing.remove(at).command))
    }

    /// Takes out a change that has waited for so long.
    pub fn give_up(
        &mut self,
        patience: Duration,
        now: Instant,
    ) -> Option<(RequestNumber, CommandId)> {
        let is_late = |clearing: &Clearing| now.since(clearing.since) >= patience;
        let at = self.clearing.iter().position(is_late)?;
        let Clearing { number, command, .. } = self.clearing.remove(at);
        Some((number, command))
    }

    /// The requests that keep others out.
    pub fn requests(&self) -> impl Iterator<Item = RequestNumber> {
        self.joining.into_iter().chain(self.clearing.iter().map(|clearing| clearing.number))
    }

    /// The commands that wait.
    pub fn commands(&self) -> impl Iterator<Item = CommandId> {
        self.clearing.iter().map(|clearing| clearing.command)
    }

    /// The primary has ended.
    pub fn forget(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests;
