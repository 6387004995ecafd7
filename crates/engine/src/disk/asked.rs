//! An action that was begun: what its answer needs to know of it.

use evenkeel_core::{DiskAction, DiskTicket, Instant};

use super::device::Failures;
use crate::counters::Kind;
use crate::memory::Buffer;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Asked {
    ticket: DiskTicket,
    kind: Kind,
    offset: u64,
    length: u64,
    began: Instant,
    is_durable: bool,
    failures: Failures,
}

impl Asked {
    /// `failures`: flushes that may have failed when it ends.
    pub(super) fn new(
        ticket: DiskTicket,
        action: &DiskAction<Buffer>,
        began: Instant,
        failures: Failures,
    ) -> Self {
        let (offset, length, _) = action.range().unwrap_or_default();
        let length = length.into();
        let is_durable = matches!(action, DiskAction::Write { durable: true, .. });
        Self { ticket, kind: kind(action), offset, length, began, is_durable, failures }
    }

    pub(super) const fn ticket(&self) -> DiskTicket {
        self.ticket
    }

    pub(super) const fn kind(&self) -> Kind {
        self.kind
    }

    /// Where it begins in the data, in bytes; 0 if what it asks for is in one place only.
    pub(super) const fn offset(&self) -> u64 {
        self.offset
    }

    /// Bytes of data that it is about; 0 if it is not about any.
    pub(super) const fn length(&self) -> u64 {
        self.length
    }

    pub(super) const fn began(&self) -> Instant {
        self.began
    }

    /// Whether it is a write that is to be durable when it ends.
    pub(super) const fn is_durable(&self) -> bool {
        self.is_durable
    }

    /// Flushes that may have failed when it ends.
    pub(super) const fn failures(&self) -> Failures {
        self.failures
    }
}

fn kind(action: &DiskAction<Buffer>) -> Kind {
    match action {
        DiskAction::Read { .. } => Kind::Read,
        DiskAction::Write { .. } => Kind::Write,
        DiskAction::Zero { .. } => Kind::Zero,
        DiskAction::Flush { .. } => Kind::Flush,
        DiskAction::Map { .. } => Kind::Map,
        DiskAction::SaveView(..) => Kind::SaveView,
        DiskAction::SaveIntents(_) => Kind::SaveIntents,
        DiskAction::SaveMissing(_) => Kind::SaveMissing,
    }
}
