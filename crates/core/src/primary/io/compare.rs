//! Compare-and-write: reads what there is, and writes if it is what was expected. All the while the
//! request has its range for itself: by the lock here, or, if others run the volume, by a cluster
//! lock.

use crate::operation::Operation;
use crate::payload::Payload;
use crate::primary::Context;
use crate::primary::io::requests::RequestNumber;
use crate::primary::io::{Io, Lower};

/// What is to be written, and over what.
#[derive(Debug)]
pub(in crate::primary) struct Comparison<P> {
    pub offset: u64,
    pub expected: P,
    pub payload: P,
    pub durable: bool,
}

impl<P: Payload> Io<P> {
    /// The range is locked: reads it.
    pub(in crate::primary::io) fn read_to_compare(
        &mut self,
        cx: &mut Context<'_, P>,
        lower: &mut Lower<'_>,
        number: RequestNumber,
        comparison: Comparison<P>,
    ) {
        let (offset, length) = (comparison.offset, comparison.expected.length());
        self.requests.will_compare(number, comparison);
        self.dispatch(cx, lower, number, Operation::Read { offset, length });
    }

    /// It was read what there is, or could not be.
    pub(in crate::primary::io) fn compare(
        &mut self,
        cx: &mut Context<'_, P>,
        lower: &mut Lower<'_>,
        number: RequestNumber,
        comparison: Comparison<P>,
    ) {
        let Comparison { offset, expected, payload, durable } = comparison;
        if self.requests.compare(number, &expected) {
            self.dispatch(cx, lower, number, Operation::Write { offset, payload, durable });
        } else {
            self.reply(cx, number);
        }
    }
}
