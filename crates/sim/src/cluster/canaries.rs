//! What the driver does wrong on purpose, where that is more than to leave something out.

use evenkeel_core::message::{CopyContent, MissingContent, SlotBits};
use evenkeel_core::primary::CoordinatorAnswer;
use evenkeel_core::view::Cause;
use evenkeel_core::*;

use super::Cluster;
use crate::disk::Disk;
use crate::payload::{Cell, Sectors, stamped};
use crate::sabotage::Sabotage;
use crate::store::Store;

impl Cluster {
    /// What a rebuild copies arrives as zeroes, what it is told is too much, what is locked is
    /// behind it.
    pub(super) fn tamper(
        &self,
        message: Message,
        payload: Option<Sectors>,
    ) -> (Message, Option<Sectors>) {
        match message {
            Message::Copied { token, content: CopyContent::Data }
                if self.sabotage == Some(Sabotage::CopyZeroes) =>
            {
                (Message::Copied { token, content: CopyContent::Zeroes }, None)
            }
            Message::Copied { token, content: CopyContent::Unverified { .. } }
                if self.sabotage == Some(Sabotage::CopyForgotten) =>
            {
                (Message::Copied { token, content: CopyContent::Data }, payload)
            }
            Message::MissingBlocks {
                replica,
                asked,
                content: MissingContent::Page(page, bits),
            } if self.sabotage == Some(Sabotage::CopyEverything) => {
                let bits = Box::new(bits.map(|_| u64::MAX));
                let content = MissingContent::Page(page, bits);
                (Message::MissingBlocks { replica, asked, content }, None)
            }
            Message::ClusterLock { generation, requester, number, range: Some(range) }
                if self.sabotage == Some(Sabotage::ClusterLockElsewhere)
                    && range.end < u64::MAX =>
            {
                let range = Some(range.end..range.end + 1);
                (Message::ClusterLock { generation, requester, number, range }, None)
            }
            Message::Pong { generation, number, slots }
                if self.sabotage == Some(Sabotage::HearNobody) =>
            {
                let slots = SlotBits { seen: 0, ..slots };
                (Message::Pong { generation, number, slots }, None)
            }
            Message::Adopt { view } => {
                (Message::Adopt { view: self.with_known_promises(view) }, payload)
            }
            message => (message, payload),
        }
    }

    /// What a primary reads of the view: a lease that is far longer than the one that replicas
    /// honour, or a shorter wait for the coordinator.
    pub(super) fn with_other_promises(&self, answer: CoordinatorAnswer) -> CoordinatorAnswer {
        let CoordinatorAnswer::Newest(mut view) = answer else { return answer };
        match self.sabotage {
            Some(Sabotage::CountOnLonger) => {
                let longer = Lease::new(view.lease.time() * 8, view.lease.margin());
                view.lease = longer.unwrap_or(view.lease);
            }
            Some(Sabotage::GiveUpEarly) => {
                let limit = view.no_coordinator.milliseconds();
                view.no_coordinator = NoCoordinatorPolicy::from_milliseconds(limit.div_ceil(4));
            }
            _ => {}
        }
        CoordinatorAnswer::Newest(view)
    }

    /// What that primary says of the view to others: what they know.
    pub(super) fn with_known_promises(&self, mut view: Box<View>) -> Box<View> {
        match self.sabotage {
            Some(Sabotage::CountOnLonger) => view.lease = self.profile.lease,
            Some(Sabotage::GiveUpEarly) => view.no_coordinator = self.profile.no_coordinator,
            _ => {}
        }
        view
    }

    /// Some saves of views do nothing.
    pub(super) fn forgets_view(&mut self) -> bool {
        self.sabotage == Some(Sabotage::ForgetViews) && self.random.chance(250)
    }

    /// Who takes over calls all in-sync that were, whatever they have of the last writes.
    pub(super) fn without_one_voice(&self, mut view: Box<View>) -> Box<View> {
        if self.sabotage == Some(Sabotage::TakeOverAll) {
            let old = self.coordinator.newest();
            let replicas = view.mirrors.iter_mut().flat_map(|mirror| &mut mirror.replicas);
            for record in replicas.filter(|record| record.cause == Cause::UncleanEnd) {
                if let Some((_, before)) = old.replica(record.id) {
                    let incarnation = record.incarnation;
                    *record = ReplicaRecord { incarnation, ..*before };
                }
            }
        }
        view
    }

    /// The stale clone of a disk lists the incarnations of the one that it takes the place of.
    pub(super) fn passing_for(&self, newest: &Disk, mut copy: Disk) -> Disk {
        if self.sabotage == Some(Sabotage::PassStaleClones)
            && let Some(newest) = Store::examine(newest)
        {
            Store::relabel(&mut copy, newest.incarnations);
        }
        copy
    }

    /// Bits rot where everything has been read already.
    pub(super) fn rot_unseen(&mut self) {
        if self.sabotage != Some(Sabotage::RotUnseen) {
            return;
        }
        for slot in &mut self.replicas {
            let written = (0..slot.disk.sectors()).find(|s| stamped(slot.disk.cell(*s)).0 != 0);
            if let Some(sector) = written {
                let rotten: Cell = slot.disk.cell(sector) ^ 1 << 63;
                return slot.disk.put(sector, rotten);
            }
        }
    }
}
