//! What one request asks of one mirror, and what its replicas have answered.

mod action;
mod invariants;
mod unverified;

pub(in crate::primary) use self::action::PartAction;

use core::ops::Range;

use self::unverified::{Search, Unverified};
use crate::ids::*;
use crate::message::Failure;
use crate::operation::RequestError;
use crate::payload::Payload;
use crate::policy::{ReplicaSet, WriteProgress};
use crate::primary::io::requests::RequestNumber;
use crate::primary::io::stability::Held;
use crate::primary::membership::mirror::MirrorPeers;
use crate::settings::BLOCK;
use crate::time::Instant;

/// What a mirror is to do for a request.
#[derive(Debug)]
pub(in crate::primary) struct MirrorTask<P> {
    /// Which mirror of the stripe.
    pub mirror: usize,
    /// Where in the request it begins, in bytes; the scrub has a meaning of its own for it.
    pub from: u64,
    pub action: PartAction<P>,
}

/// What one request asks of one mirror.
#[derive(Debug)]
pub(super) struct Part<P> {
    request: RequestNumber,
    mirror: usize,
    /// Where in the request it begins.
    from: u64,
    action: PartAction<P>,
    replicas: Replicas,
    failure: Option<Failure>,
    /// What was read where the checksum was lost.
    unverified: Option<Unverified<P>>,
    search: Option<Search>,
    /// When it was sent first, or when its read was placed.
    sent_at: Instant,
    reported: Reported,
    /// Whether its read was refused: then it waits for the coordinator's word on the view.
    was_refused: bool,
    /// Whether it reads one block of a range that no replica could read as a whole.
    is_one_block: bool,
}

/// Who is asked to carry out a part, and has.
#[derive(Debug, Default)]
struct Replicas {
    /// Who has to carry it out: the members when it was sent, less those that left since. Of a
    /// read, the one replica that was asked.
    targets: ReplicaSet,
    /// Whether it was ever sent to anybody.
    begun: bool,
    /// To whom it was sent in their present session.
    sent: ReplicaSet,
    received: ReplicaSet,
    written: ReplicaSet,
    failed: ReplicaSet,
}

/// What its request was told of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reported {
    Nothing,
    Failure,
    Success,
}

impl<P: Payload> Part<P> {
    /// A part that is to be sent to those that have to carry it out.
    pub fn new(
        request: RequestNumber,
        task: MirrorTask<P>,
        peers: &MirrorPeers,
        now: Instant,
    ) -> Self {
        let MirrorTask { mirror, from, action } = task;
        let replicas = Replicas { targets: action.targets(peers), ..Replicas::default() };
        Self {
            request,
            mirror,
            from,
            action,
            replicas,
            failure: None,
            unverified: None,
            search: None,
            sent_at: now,
            reported: Reported::Nothing,
            was_refused: false,
            is_one_block: false,
        }
    }

    /// The same, of one block of a range that nobody could read as a whole.
    pub fn of_one_block(self) -> Self {
        Self { is_one_block: true, ..self }
    }

    /// The same, a read that these can't answer.
    pub fn not_from(mut self, avoided: ReplicaSet) -> Self {
        self.replicas.failed = avoided;
        self
    }

    #[inline]
    pub fn request(&self) -> RequestNumber {
        self.request
    }

    #[inline]
    pub fn mirror(&self) -> usize {
        self.mirror
    }

    /// Where in the request it begins.
    #[inline]
    pub fn from(&self) -> u64 {
        self.from
    }

    #[inline]
    pub fn action(&self) -> &PartAction<P> {
        &self.action
    }

    /// When it was sent first, or when its read was placed.
    #[inline]
    pub fn sent_at(&self) -> Instant {
        self.sent_at
    }

    #[inline]
    pub fn is_read(&self) -> bool {
        self.action.is_read()
    }

    pub fn is_one_block(&self) -> bool {
        self.is_one_block
    }

    /// Whether its read was refused, and not placed since.
    pub fn was_refused(&self) -> bool {
        self.was_refused
    }

    #[inline]
    pub fn targets(&self) -> ReplicaSet {
        self.replicas.targets
    }

    /// Who has failed it.
    #[inline]
    pub fn failed(&self) -> ReplicaSet {
        self.replicas.failed
    }

    /// Who has failed it of those that have to carry it out.
    #[inline]
    pub fn failed_targets(&self) -> ReplicaSet {
        self.replicas.failed & self.replicas.targets
    }

    /// Whether this replica has still to answer.
    #[inline]
    pub fn waits_for(&self, bit: ReplicaSet) -> bool {
        self.missing() & bit != 0
    }

    /// Who has not answered of those that have to carry it out.
    #[inline]
    pub fn missing(&self) -> ReplicaSet {
        self.replicas.missing()
    }

    /// To whom it was sent and who has not answered.
    pub fn unanswered(&self) -> ReplicaSet {
        self.replicas.sent & self.missing()
    }

    /// Who has to carry it out, and was not sent it in its present session.
    #[inline]
    pub fn unsent(&self) -> ReplicaSet {
        self.missing() & !self.replicas.sent
    }

    /// Whether it may change data.
    #[inline]
    pub fn changes_data(&self) -> bool {
        matches!(self.action, PartAction::Write { .. } | PartAction::Zero { .. })
    }

    pub fn is_stabilizing(&self) -> bool {
        matches!(self.action, PartAction::Stabilize { .. })
    }

    fn is_flush(&self) -> bool {
        matches!(self.action, PartAction::Flush { .. } | PartAction::Stabilize { .. })
    }

    /// Whether some replica has carried it out; of a read, whether its content is here.
    #[inline]
    pub fn was_written(&self) -> bool {
        self.replicas.written != 0
    }

    /// Who has carried it out.
    #[inline]
    pub fn written(&self) -> ReplicaSet {
        self.replicas.written
    }

    /// Whether its request was told what became of it.
    #[inline]
    pub fn is_answered(&self) -> bool {
        self.reported != Reported::Nothing
    }

    /// Whether its request was told that it succeeded.
    #[inline]
    pub fn is_acknowledged(&self) -> bool {
        self.reported == Reported::Success
    }

    /// Whether its request was told that it failed.
    #[inline]
    pub fn has_failed(&self) -> bool {
        self.reported == Reported::Failure
    }

    /// What its request is told of the failure of whoever has failed it last.
    pub fn error(&self) -> Option<RequestError> {
        self.failure.map(RequestError::from)
    }

    /// Whether it changes bytes of this range that this replica has not written.
    pub fn may_differ(&self, bit: ReplicaSet, range: &Range<u64>) -> bool {
        let Replicas { written, targets, .. } = self.replicas;
        let own = self.action.written_range();
        written & bit == 0
            && targets & bit != 0
            && own.is_some_and(|own| own.start < range.end && range.start < own.end)
    }

    /// Whether the mirror has this write, or is to get it. One that was answered with an error is
    /// in neither case while all in-sync replicas lack it: who copies from them lacks it, too. As
    /// soon as one that has it is in-sync it belongs to the data, and who copies from the others
    /// would not hear of it.
    fn is_of_the_mirror(&self, mirror: &MirrorPeers) -> bool {
        let Replicas { written, targets, .. } = self.replicas;
        !self.has_failed() || targets & written & mirror.in_sync() != 0
    }

    /// How far it is, for the rule of its protocol.
    #[inline]
    pub fn progress(&self, mirror: &MirrorPeers) -> WriteProgress {
        let Replicas { targets, received, written, .. } = self.replicas;
        WriteProgress {
            members: targets,
            in_sync: targets & mirror.in_sync(),
            local: mirror.local(),
            received,
            written,
            durable: self.action.is_durable(),
        }
    }

    /// What keeps others of its mirror's writes from becoming stable when it is over.
    pub fn held(&self, sequence: Sequence) -> Held {
        Held { first: sequence, targets: self.replicas.targets, failed: self.failed_targets() }
    }

    /// Whether this replica was asked, and has not answered.
    #[inline]
    pub fn awaits_answer_of(&self, bit: ReplicaSet) -> bool {
        let Replicas { targets, sent, written, failed, .. } = self.replicas;
        sent & targets & bit != 0 && (written | failed) & bit == 0
    }

    /// Whether it was never sent to anybody, and nobody was told anything of it.
    pub fn is_unbegun(&self) -> bool {
        !self.replicas.begun && !self.is_answered()
    }

    /// It is sent to a replica.
    #[inline]
    pub fn send_to(&mut self, bit: ReplicaSet) {
        self.replicas.begun = true;
        self.replicas.sent |= bit;
    }

    /// A replica has got it.
    #[inline]
    pub fn received_by(&mut self, bit: ReplicaSet) {
        self.replicas.received |= bit;
    }

    /// A replica has carried it out.
    #[inline]
    pub fn written_by(&mut self, bit: ReplicaSet) {
        self.replicas.written |= bit;
    }

    /// A replica has failed it.
    pub fn failed_by(&mut self, bit: ReplicaSet, failure: Failure) {
        self.replicas.failed |= bit;
        self.failure = Some(failure);
    }

    /// A replica does not have to carry it out any more.
    pub fn excuse(&mut self, bit: ReplicaSet) {
        self.replicas.targets &= !bit;
    }

    /// A replica has adopted another generation, and did not carry it out. Tells whether another
    /// one is to be chosen: after a surprise only by the newest view.
    pub fn refused_by(&mut self, bit: ReplicaSet, is_surprise: bool) -> bool {
        self.replicas.sent &= !bit;
        self.note_not_asked(bit);
        let goes_elsewhere = self.is_read() && !self.was_written() && self.replicas.targets == bit;
        if goes_elsewhere {
            (self.replicas.targets, self.was_refused) = (0, is_surprise);
        }
        goes_elsewhere
    }

    /// The session of a replica has ended: what it has not answered was not sent.
    pub fn forget_session(&mut self, bit: ReplicaSet) {
        self.replicas.sent &= !bit;
    }

    /// A replica stays although it has restarted. What had only arrived there is gone; so may be,
    /// if its machine restarted, what it had written.
    pub fn forget_incarnation(&mut self, bit: ReplicaSet, has_rebooted: bool) {
        self.replicas.received &= !bit;
        if has_rebooted {
            self.replicas.written &= !bit;
        }
    }

    /// A replica is no member any more: nothing waits for it.
    pub fn forget_replica(&mut self, bit: ReplicaSet) {
        self.replicas.targets &= !bit;
        self.replicas.failed &= !bit;
    }

    /// The view has changed: what was sent to nobody yet goes to its members. A write that is not
    /// finished goes to those that have joined, too: it may not have reached their source yet, so
    /// the source could not tell them of it. So does a flush: whoever rebuilds because another
    /// primary has died keeps what is written, and may lose it.
    pub fn retarget(&mut self, mirror: &MirrorPeers) {
        if !self.replicas.begun {
            self.replicas.targets = self.action.targets(mirror);
        } else if self.is_flush() || self.changes_data() && self.is_of_the_mirror(mirror) {
            self.replicas.join(mirror.members() & !self.replicas.targets);
        }
    }

    /// A read goes to this replica.
    #[inline]
    pub fn place(&mut self, bit: ReplicaSet, now: Instant) {
        (self.replicas.targets, self.replicas.sent) = (bit, 0);
        (self.was_refused, self.sent_at) = (false, now);
        self.note_asked(bit);
    }

    /// A read that this replica was asked for, and has not answered, goes to another one. Tells
    /// whether it is that.
    pub fn take_read_from(&mut self, bit: ReplicaSet) -> bool {
        let Replicas { targets, failed, .. } = self.replicas;
        let is_asked = targets == bit && !self.was_written() && failed & bit == 0;
        let goes_elsewhere = self.is_read() && is_asked;
        if goes_elsewhere {
            (self.replicas.targets, self.replicas.sent) = (0, 0);
        }
        goes_elsewhere
    }

    /// A read that failed goes to another replica.
    pub fn read_elsewhere(&mut self) {
        self.replicas.targets = 0;
    }

    /// What was read and not told is read anew. Tells whether it is such a read.
    pub fn read_again(&mut self) -> bool {
        let is_held = self.is_read() && self.was_written() && !self.is_answered();
        if is_held {
            let Replicas { targets, sent, written, .. } = &mut self.replicas;
            (*targets, *sent, *written) = (0, 0, 0);
        }
        is_held
    }

    /// Its request is told what became of it. Tells with what error.
    pub fn answer(&mut self) -> Option<RequestError> {
        let error = self.error().filter(|_| self.failed_targets() != 0);
        self.reported = if error.is_none() { Reported::Success } else { Reported::Failure };
        error
    }

    /// Whether a read that all have failed consists of several blocks.
    pub fn reads_several_blocks(&self) -> bool {
        let PartAction::Read { offset, length } = self.action else { return false };
        let block = u64::from(BLOCK);
        offset / block < (offset + u64::from(length) - 1) / block
    }
}

impl Replicas {
    #[inline]
    fn missing(&self) -> ReplicaSet {
        self.targets & !self.written & !self.failed
    }

    /// These have to carry it out, too, whatever they did of it when they were members before.
    fn join(&mut self, joined: ReplicaSet) {
        self.targets |= joined;
        self.sent &= !joined;
        self.received &= !joined;
        self.written &= !joined;
        self.failed &= !joined;
    }
}

#[cfg(test)]
pub(super) mod tests;
