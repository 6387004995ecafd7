//! Reads of what a replica has lost the checksum of: another replica is asked, whose copy may fit
//! its own. Only if there is none that answers with such a copy what was read has to do.

use crate::ids::*;
use crate::payload::Payload;
use crate::primary::Primary;
use crate::primary::io::part::Part;

impl<P: Payload> Primary<P> {
    /// Nobody else can be asked at present. If a replica has read it the answer is that: others
    /// might not come for as long as the coordinator is away. Returns whether there is one.
    pub(super) fn accept_unverified(&mut self, sequence: Sequence) -> bool {
        let part = self.parts.get_mut(&sequence);
        let Some(payload) = part.and_then(Part::accept_unverified) else { return false };
        self.keep_data(sequence, payload);
        true
    }

    /// What was read goes to the request.
    pub(super) fn keep_data(&mut self, sequence: Sequence, payload: P) {
        let Some(part) = self.parts.get(&sequence) else { return };
        let (number, from) = (part.request(), part.from() as u32);
        self.requests.keep_data(number, from, payload);
    }

    /// A read is over. If a replica has lost a checksum there, the range is compared, so that it
    /// comes back.
    pub(super) fn renew_what_was_read(&mut self, part: &Part<P>) {
        let (Some(is_vouched_for), Some(range)) =
            (part.is_vouched_for(), part.action().read_range())
        else {
            return;
        };
        if !self.is_check(part.request()) {
            self.must_renew(part.mirror(), range, is_vouched_for);
        }
    }
}
