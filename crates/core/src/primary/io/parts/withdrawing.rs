//! Parts that nobody was sent, and that are not to be sent any more.

use super::{Below, Parts};
use crate::payload::Payload;
use crate::primary::Context;
use crate::primary::io::requests::RequestNumber;

impl<P: Payload> Parts<P> {
    /// Whether a request has parts, and no replica was sent any of them.
    pub fn are_unsent(&self, number: RequestNumber) -> bool {
        let mut own = self.table.values().filter(|part| part.request() == number).peekable();
        own.peek().is_some() && own.all(|part| part.is_unbegun())
    }

    /// Forgets the parts of a request that has been answered and of which no replica was sent
    /// anything.
    pub fn withdraw(
        &mut self,
        cx: &mut Context<'_, P>,
        below: &mut Below<'_, P>,
        number: RequestNumber,
    ) {
        let own = self.table.iter().filter(|(_, part)| part.request() == number);
        let own: Vec<_> = own.map(|(sequence, _)| sequence).collect();
        for sequence in own {
            let is_unbegun = self.table.known(sequence).is_none_or(|part| part.is_unbegun());
            debug_assert!(is_unbegun, "I14: {sequence:?} is withdrawn, and may be carried out");
            // Nobody differs from others by it.
            self.answer_drains(cx, below, sequence, |_| true);
            self.table.end(sequence);
            below.requests.part_forgotten(number);
            below.requests.part_finished(number);
        }
    }
}

#[cfg(test)]
mod tests;
