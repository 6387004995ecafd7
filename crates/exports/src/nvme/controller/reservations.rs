//! A controller's part in reservations: what its host is told of changes by others (Base 8.1.22),
//! and whether they are to outlast a power loss (feature 83h), which the volume has to say.

use std::collections::VecDeque;

use super::{AdminAnswer, NAMESPACE};
use crate::nvme::command::Status;
use crate::nvme::connection::Tag;
use crate::nvme::reservation::ReservationNotice;

/// Notices that the host has not read: of more, the oldest are dropped, and the count tells how
/// many.
const MAX_NOTICES: usize = 32;
/// Bytes of the log page.
const PAGE: usize = 64;
/// Commands that may wait until the volume has said that its reservations persist, or do not.
const MAX_WAITING: usize = 4;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Reservations {
    /// Reservation Notification Mask (feature 82h): which notices the host does not want.
    mask: u32,
    /// The number of the last notice.
    count: u64,
    /// Unread, the oldest first.
    unread: VecDeque<(u64, ReservationNotice)>,
    /// How many Set Features commands there have been which the volume has to carry out.
    asked: u64,
    /// Those that it has not been told of, and those that it has; by their numbers, since what it
    /// says may come after a reset.
    unreported: Vec<(u64, bool)>,
    waiting: Vec<(u64, Tag)>,
    answers: Vec<AdminAnswer>,
}

impl Reservations {
    pub(super) const fn mask(&self) -> u32 {
        self.mask
    }

    /// The host wants other notices from now on.
    pub(super) fn set_mask(&mut self, mask: u32) -> Result<(), Status> {
        const ALL: u32 = ReservationNotice::RegistrationPreempted.mask()
            | ReservationNotice::ReservationReleased.mask()
            | ReservationNotice::ReservationPreempted.mask();
        if mask & !ALL != 0 {
            return Err(Status::InvalidField);
        }
        self.mask = mask;
        Ok(())
    }

    /// Another host has changed reservations. Returns whether this one wants to know.
    pub(super) fn note(&mut self, notice: ReservationNotice) -> bool {
        let is_wanted = self.mask & notice.mask() == 0;
        if is_wanted {
            if self.unread.len() >= MAX_NOTICES {
                self.unread.pop_front();
            }
            self.count += 1;
            self.unread.push_back((self.count, notice));
        }
        is_wanted
    }

    /// The log page: the oldest notice that was not read, and how many more there are. Zeroes:
    /// none.
    pub(super) fn page(&self) -> Vec<u8> {
        let mut page = vec![0; PAGE];
        if let Some((number, notice)) = self.unread.front() {
            page[..8].copy_from_slice(&number.to_le_bytes());
            page[8] = *notice as u8;
            page[9] = (self.unread.len() - 1) as u8;
            page[12..16].copy_from_slice(&NAMESPACE.to_le_bytes());
        }
        page
    }

    /// The host has read the log page. Returns whether there is another notice.
    pub(super) fn read(&mut self) -> bool {
        self.unread.pop_front();
        !self.unread.is_empty()
    }

    /// Keeps a command until the volume has said that its reservations persist, or do not.
    pub(super) fn persist(&mut self, tag: Tag, is_persistent: bool) -> Result<(), Status> {
        if self.waiting.len() >= MAX_WAITING {
            return Err(Status::Interrupted);
        }
        self.asked += 1;
        self.waiting.push((self.asked, tag));
        self.unreported.push((self.asked, is_persistent));
        Ok(())
    }

    /// What the volume has to be asked, by numbers, each told once.
    pub(super) fn take_unreported(&mut self) -> Vec<(u64, bool)> {
        std::mem::take(&mut self.unreported)
    }

    /// The volume has answered.
    pub(super) fn persisted(&mut self, number: u64, status: Status) {
        if let Some(at) = self.waiting.iter().position(|(waiting, _)| *waiting == number) {
            let (_, tag) = self.waiting.remove(at);
            self.answers.push(AdminAnswer { tag, status, result: 0 });
        }
    }

    /// Answers all commands, and forgets what the host has set and was told.
    pub(super) fn reset(&mut self) {
        self.unreported.clear();
        let status = Status::AbortRequested;
        let aborted = self.waiting.drain(..);
        self.answers.extend(aborted.map(|(_, tag)| AdminAnswer { tag, status, result: 0 }));
        self.mask = 0;
        self.unread.clear();
    }

    /// How many commands are under way.
    pub(super) const fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// What has to be answered now.
    pub(super) fn take_answers(&mut self) -> Vec<AdminAnswer> {
        std::mem::take(&mut self.answers)
    }

    /// Asserts what holds after each step.
    pub(super) fn check_invariants(&self) {
        assert!(self.unread.len() <= MAX_NOTICES, "few notices are kept");
        assert!(self.waiting.len() <= MAX_WAITING, "few commands are kept");
        assert!(self.unreported.len() <= self.waiting.len(), "what is told of is kept");
        let numbers = self.unread.iter().map(|(number, _)| *number);
        let first = self.count + 1 - self.unread.len() as u64;
        assert!(numbers.eq(first..=self.count), "none is missing between those that are kept");
    }
}

#[cfg(test)]
mod tests;
