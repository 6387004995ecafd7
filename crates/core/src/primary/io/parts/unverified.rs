//! Reads of what a replica has lost the checksum of: another replica is asked, whose copy may fit
//! its own. Only if there is none that answers with such a copy what was read has to do.

use super::part::Part;
use super::{Below, Parts};
use crate::ids::*;
use crate::payload::Payload;

impl<P: Payload> Parts<P> {
    /// Nobody else can be asked at present. If a replica has read it the answer is that: others
    /// might not come for as long as the coordinator is away. Returns whether there is one.
    pub(super) fn accept_unverified(
        &mut self,
        below: &mut Below<'_, P>,
        sequence: Sequence,
    ) -> bool {
        self.table.known_mut(sequence).is_some_and(|part| {
            let payload = part.accept_unverified();
            let is_accepted = payload.is_some();
            let (number, from) = (part.request(), part.from());
            payload.into_iter().for_each(|it| below.requests.keep_data(number, from, it));
            is_accepted
        })
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
