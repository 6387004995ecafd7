//! Reads of what a replica has lost the checksum of: another replica is asked, whose copy may fit
//! its own. Only if there is none that answers with such a copy what was read has to do.

use super::blockwise::may_read_blockwise;
use super::part::Part;
use super::{Below, Parts};
use crate::ids::*;
use crate::payload::Payload;
use crate::primary::Context;

impl<P: Payload> Parts<P> {
    /// A replica has read it, and nobody can be asked at present who may vouch for it. What was
    /// read has to do, because others might not come for as long as the coordinator is away. But
    /// not without the lease: no read is answered without it, and whoever confirms it can be asked.
    /// And not before others could be asked for a deadline.
    pub(super) fn await_or_accept(
        &mut self,
        cx: &mut Context<'_, P>,
        below: &mut Below<'_, P>,
        sequence: Sequence,
    ) {
        let Some(part) = self.table.known_mut(sequence) else { return };
        if !below.peers.has_lease(part.mirror(), cx.now) {
            part.search_anew(cx.now, cx.config.settings.deadline);
            return self.table.await_replica(sequence);
        }
        let has_others = below.peers.mirror(part.mirror()).in_sync() & !part.failed() != 0;
        if let Some(until) = part.waits_until(cx.now, cx.config.settings.deadline)
            && has_others
        {
            cx.wake_at(until);
            return self.table.await_replica(sequence);
        }
        if part.is_undecided() && may_read_blockwise(below, part) {
            return self.read_blockwise(cx, below, sequence);
        }
        let payload = part.accept_unverified();
        let (number, from) = (part.request(), part.from());
        payload.into_iter().for_each(|it| below.requests.keep_data(number, from, it));
        self.check_read(cx, below, sequence);
    }

    /// A read is over. If a replica has lost a checksum there, the range is compared, so that it
    /// comes back.
    pub(super) fn renew_what_was_read(&mut self, below: &Below<'_, P>, part: &Part<P>) {
        // A map has no range that is read, and what fits its checksum needs nothing.
        if let (Some(is_vouched_for), Some(range)) =
            (part.is_vouched_for(), part.action().read_range())
            && !below.requests.is_kept(part.request())
        {
            self.findings.must_renew(part.mirror(), range, is_vouched_for);
        }
    }
}
