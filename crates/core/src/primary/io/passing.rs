//! What the primary and its scrub ask of one room alone: it is passed on.

use super::{Asked, Client, Finding, Io, Lower, MirrorTask, Origin, RequestNumber};
use crate::ids::*;
use crate::operation::Operation;
use crate::payload::Payload;
use crate::policy::ReplicaSet;
use crate::primary::membership::LateWrite;
use crate::primary::views::edits::PendingEdit;
use crate::primary::{Context, Flow, PresentWait};
use crate::time::Instant;
use core::ops::Range;
use core::time::Duration;

impl<P: Payload> Io<P> {
    // How far writes are stable.

    /// Whether writes were acknowledged that no flush covers yet.
    pub fn is_unflushed(&self) -> bool {
        self.stability.is_unflushed()
    }

    /// A primary that has gone may have acknowledged what no flush covers: losing it counts.
    pub fn inherit_writes(&mut self) {
        self.stability.inherit();
    }

    /// A replica has left a mirror: before the other members adopt that, they note what it lacks.
    pub fn release_stability(&mut self, mirror: usize, left: ReplicaSet) {
        self.stability.release(mirror, left);
    }

    /// The number that the next part will have.
    pub fn upcoming(&self) -> Sequence {
        self.stability.upcoming()
    }

    // Requests.

    /// A client asks before any request may be served.
    pub fn wait(&mut self, asked: Asked<P>) {
        self.requests.wait(asked);
    }

    /// A client asks for something.
    pub fn request(&mut self, cx: &mut Context<'_, P>, lower: &Lower<'_>, asked: Asked<P>) {
        self.requests.request(cx, lower, asked);
    }

    /// Takes a request in and asks for its lock.
    pub fn accept(
        &mut self,
        cx: &mut Context<'_, P>,
        lower: &Lower<'_>,
        client: Option<Client>,
        origin: Origin,
        operation: Operation<P>,
    ) -> RequestNumber {
        self.requests.accept(cx, lower, client, origin, operation)
    }

    /// Tells over which paths nothing is under way any more, if somebody wants to know.
    #[inline]
    pub fn report_drained(&mut self, cx: &mut Context<'_, P>) {
        self.requests.report_drained(cx);
    }

    /// Requests may be served: takes in those that came before.
    pub fn accept_early(&mut self, cx: &mut Context<'_, P>, lower: &Lower<'_>) {
        self.requests.accept_early(cx, lower);
    }

    /// This primary joins others: it serves nothing before it has had the whole volume for itself.
    pub fn join(&mut self, cx: &mut Context<'_, P>) {
        self.requests.join(cx);
    }

    /// This primary joins others: it serves when it has had the whole volume for itself once.
    #[inline]
    pub fn is_joining(&self) -> bool {
        self.requests.are_joining()
    }

    /// Whether a request is under way.
    pub fn is_under_way(&self, number: RequestNumber) -> bool {
        self.requests.is_under_way(number)
    }

    /// What requests wait for, and since when.
    pub fn waiting(&self) -> Option<PresentWait> {
        self.requests.waiting()
    }

    /// How many requests of clients wait.
    pub fn waits(&self) -> usize {
        self.requests.waits()
    }

    /// Whether clients have asked for anything lately.
    pub fn is_busy(&self, now: Instant) -> bool {
        self.requests.are_busy(now)
    }

    /// A request of the primary itself that keeps everybody out of a range for several rounds of
    /// parts, until [`Self::end_kept`].
    pub fn keep_out(
        &mut self,
        cx: &mut Context<'_, P>,
        lower: &Lower<'_>,
        range: Range<u64>,
    ) -> RequestNumber {
        self.requests.keep_out(cx, lower, range)
    }

    /// Whether a request keeps its range.
    pub fn is_kept(&self, number: RequestNumber) -> bool {
        self.requests.is_kept(number)
    }

    /// What a range was kept for is over: gives it back.
    pub fn end_kept(&mut self, number: RequestNumber) {
        self.requests.end_kept(number);
    }

    /// Parts of a request that keeps its range are sent next: these many.
    pub fn expect_parts(&mut self, number: RequestNumber, parts: usize) {
        self.requests.expect_parts(number, parts);
    }

    /// Whether parts of a request are under way.
    pub fn has_parts(&self, number: RequestNumber) -> bool {
        self.requests.has_parts(number)
    }

    /// Whether a part of a request has failed.
    pub fn has_failed(&self, number: RequestNumber) -> bool {
        self.requests.has_failed(number)
    }

    /// Takes what a round of parts has read. What they could not read is no failure of the next
    /// round.
    pub fn take_data(&mut self, number: RequestNumber) -> Vec<(u32, P)> {
        self.requests.take_data(number)
    }

    /// An edit is in the view.
    pub fn edit_done(&mut self, cx: &mut Context<'_, P>, lower: &Lower<'_>, pending: PendingEdit) {
        self.requests.edit_done(cx, lower, pending);
    }

    /// The commands that wait until others keep out.
    pub fn commands(&self) -> impl Iterator<Item = CommandId> {
        self.requests.commands()
    }

    /// Answers changes of reservations that have waited for too long.
    pub fn give_up_clearing(&mut self, cx: &mut Context<'_, P>) {
        self.requests.give_up_clearing(cx);
    }

    /// Asks for the next cluster lock, and tells the lock manager what it does not know.
    #[inline]
    pub fn advance_cluster_locks(&mut self, cx: &mut Context<'_, P>, lower: &Lower<'_>) {
        self.requests.advance_cluster_locks(cx, lower);
    }

    // Parts.

    /// Whether no replica has anything to do for a request.
    #[inline]
    pub fn are_parts_over(&self) -> bool {
        self.parts.are_over()
    }

    /// Sends a part of a request that keeps its range.
    pub fn send_part(
        &mut self,
        cx: &mut Context<'_, P>,
        lower: &mut Lower<'_>,
        request: RequestNumber,
        task: MirrorTask<P>,
    ) {
        let (parts, below) = &mut self.parts(lower);
        parts.send_part(cx, below, request, task);
    }

    /// Sends a read to a replica that is not one of `avoided`.
    pub fn send_read_elsewhere(
        &mut self,
        cx: &mut Context<'_, P>,
        lower: &mut Lower<'_>,
        request: RequestNumber,
        task: MirrorTask<P>,
        avoided: ReplicaSet,
    ) {
        let (parts, below) = &mut self.parts(lower);
        parts.send_read_elsewhere(cx, below, request, task, avoided);
    }

    /// Chooses replicas for reads that have none.
    #[inline]
    pub fn place_reads(&mut self, cx: &mut Context<'_, P>, lower: &mut Lower<'_>) {
        let (parts, below) = &mut self.parts(lower);
        parts.place_reads(cx, below);
    }

    /// This primary stood still: reads look for copies that fit as if they began now.
    pub fn excuse_searches(&mut self, now: Instant) {
        self.parts.excuse_searches(now);
    }

    /// Sends, in their order, the parts that a replica has not got in its present session.
    pub fn resend(&mut self, cx: &mut Context<'_, P>, lower: &mut Lower<'_>, replica: ReplicaId) {
        let (parts, below) = &mut self.parts(lower);
        parts.resend(cx, below, replica);
    }

    /// A replica did not run a part because it has adopted another generation. It is resent when
    /// the replica has adopted the primary's.
    pub fn part_refused(
        &mut self,
        lower: &mut Lower<'_>,
        replica: ReplicaId,
        sequence: Sequence,
        adopted: Generation,
    ) {
        let (parts, below) = &mut self.parts(lower);
        parts.part_refused(below, replica, sequence, adopted);
    }

    /// A replica's session has ended: what it has not answered was not sent. Its reads go to
    /// another one.
    pub fn session_ended(&mut self, lower: &mut Lower<'_>, replica: ReplicaId) {
        let (parts, below) = &mut self.parts(lower);
        parts.session_ended(below, replica);
    }

    /// A replica stays although it has restarted. What had only arrived there is gone; so may be,
    /// if its machine restarted, what it had written: it gets all that is not finished again.
    pub fn forget_incarnation(
        &mut self,
        lower: &mut Lower<'_>,
        replica: ReplicaId,
        has_rebooted: bool,
    ) {
        let (parts, below) = &mut self.parts(lower);
        parts.forget_incarnation(below, replica, has_rebooted);
    }

    /// A replica is no member any more: nothing waits for it, once the others have adopted that.
    pub fn forget_target(&mut self, mirror: usize, bit: ReplicaSet) {
        self.parts.forget_target(mirror, bit);
    }

    /// A link has closed: nobody waits for anything over it.
    pub fn forget_link(&mut self, link: LinkId) {
        self.parts.forget_link(link);
    }

    /// The replicas of a mirror that have failed a write which is acknowledged and under way still.
    pub fn out_of_sync(&self, mirror: usize) -> ReplicaSet {
        self.parts.out_of_sync(mirror)
    }

    /// Writes that are not answered and have taken this long already.
    pub fn late_writes(&self, now: Instant, least: Duration) -> Vec<LateWrite> {
        self.parts.late_writes(now, least)
    }

    /// Whether a replica has not answered an operation that was sent at such a moment.
    pub fn leaves_unanswered(
        &self,
        mirror: usize,
        bit: ReplicaSet,
        then: impl Fn(Instant) -> bool,
    ) -> bool {
        self.parts.are_unanswered_by(mirror, bit, then)
    }

    /// How many operations a replica has not answered, and for how long the oldest of them.
    pub fn unanswered_by(
        &self,
        mirror: usize,
        bit: ReplicaSet,
        now: Instant,
    ) -> (usize, Option<Duration>) {
        self.parts.unanswered_by(mirror, bit, now)
    }

    /// Tells those that have made a copy durable when what was sent by then is finished.
    #[inline]
    pub fn report_finished(&mut self, cx: &mut Context<'_, P>, lower: &mut Lower<'_>) {
        let (parts, below) = &mut self.parts(lower);
        parts.report_finished(cx, below);
    }

    /// Lets what is not stable do so after a while, though the client does not flush.
    pub fn watch_stability(&mut self, cx: &mut Context<'_, P>, lower: &mut Lower<'_>) {
        let (parts, below) = &mut self.parts(lower);
        parts.watch_stability(cx, below);
    }

    /// All members have adopted the view: looks at every part again.
    pub fn view_adopted(&mut self, cx: &mut Context<'_, P>, lower: &mut Lower<'_>) -> Flow {
        let (parts, below) = &mut self.parts(lower);
        parts.view_adopted(cx, below)
    }

    /// Whether anything was found since it was last taken out.
    #[inline]
    pub fn has_findings(&self) -> bool {
        self.parts.has_findings()
    }

    /// Takes out what was found since this was last asked.
    #[inline]
    pub fn take_findings(&mut self) -> Vec<Finding> {
        self.parts.take_findings()
    }

    /// A range that a replica could not read, for tests to make up.
    #[cfg(test)]
    pub fn must_repair(&mut self, mirror: usize, bytes: Range<u64>) {
        self.parts.must_repair(mirror, bytes);
    }
}
