//! Reads of what a replica has lost the checksum of: another replica is asked, whose copy may fit its own. Only
//! if there is none that answers with such a copy what was read has to do.

use super::Part;
use crate::ids::*;
use crate::payload::Payload;
use crate::policy::ReplicaSet;
use crate::primary::Primary;

/// What was read by replicas that could not vouch for it.
#[derive(Debug)]
pub(super) struct Unverified<P> {
    by: ReplicaSet,
    /// What the first of them has read, unless it was the answer.
    kept: Option<P>,
}

impl<P: Payload> Part<P> {
    /// A replica has read what it can't vouch for: as long as others can be asked it has failed.
    pub(super) fn take_unverified(&mut self, bit: ReplicaSet, payload: P) {
        self.failed |= bit;
        match &mut self.unverified {
            Some(unverified) => unverified.by |= bit,
            None => self.unverified = Some(Unverified { by: bit, kept: Some(payload) }),
        }
    }

    /// Others may have changed it since: whoever has read it may be asked again.
    pub(super) fn forget_unverified(&mut self) {
        if let Some(unverified) = self.unverified.take_if(|_| !self.answered) {
            self.failed &= !unverified.by;
        }
    }
}

impl<P: Payload> Primary<P> {
    /// Nobody else can be asked at present. If a replica has read it the answer is that: others might not
    /// come for as long as the coordinator is away. Returns whether there is one.
    pub(super) fn settle_for_unverified(&mut self, sequence: Sequence) -> bool {
        let Some(part) = self.parts.get_mut(&sequence) else { return false };
        let Some(unverified) = &mut part.unverified else { return false };
        let Some(payload) = unverified.kept.take() else { return false };
        // As if the first had answered just now, and alone.
        part.failed &= !unverified.by;
        part.targets = 1 << unverified.by.trailing_zeros();
        part.written = part.targets;
        self.keep_data(sequence, payload);
        true
    }

    /// What was read goes to the request.
    pub(super) fn keep_data(&mut self, sequence: Sequence, payload: P) {
        let Some(part) = self.parts.get(&sequence) else { return };
        let (number, from) = (part.request, part.from as u32);
        if let Some(request) = self.requests.get_mut(&number) {
            request.data.push((from, payload));
        }
    }

    /// A read is over. If a replica has lost a checksum there, the range is compared, so that it comes back.
    pub(super) fn renew_what_was_read(&mut self, part: &Part<P>) {
        let (Some(unverified), Some(range)) = (&part.unverified, part.action.read_range()) else {
            return;
        };
        let is_vouched_for = unverified.kept.is_some() && part.written != 0;
        if !self.is_check(part.request) {
            self.must_renew(part.mirror, range, is_vouched_for);
        }
    }
}
