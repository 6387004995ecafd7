//! Compare-and-write: reads what there is, and writes if it is what was expected. All the while the
//! request has its range for itself: by the lock here, or, if others run the volume, by a cluster
//! lock.

use super::Requests;
use super::table::RequestNumber;
use crate::operation::Operation;
use crate::payload::Payload;
use crate::primary::Context;

/// What is to be written, and over what.
#[derive(Debug)]
pub(super) struct Comparison<P> {
    pub offset: u64,
    pub expected: P,
    pub payload: P,
    pub durable: bool,
}

impl<P: Payload> Requests<P> {
    /// A request has its range. Returns what is sent of it first: if it compares, the read.
    #[inline]
    pub(super) fn read_to_compare(
        &mut self,
        number: RequestNumber,
        operation: Operation<P>,
    ) -> Operation<P> {
        let Operation::CompareAndWrite { offset, expected, payload, durable } = operation else {
            return operation;
        };
        let length = expected.length();
        let comparison = Comparison { offset, expected, payload, durable };
        self.table.will_compare(number, comparison);
        Operation::Read { offset, length }
    }

    /// It was read what there is, or could not be. Returns what is written, if anything is.
    pub(super) fn compare(
        &mut self,
        cx: &mut Context<'_, P>,
        number: RequestNumber,
        comparison: Comparison<P>,
    ) -> Option<Operation<P>> {
        let Comparison { offset, expected, payload, durable } = comparison;
        if self.table.compare(number, &expected) {
            return Some(Operation::Write { offset, payload, durable });
        }
        self.reply(cx, number);
        None
    }
}
