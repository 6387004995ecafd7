//! Answers that wait until replicas have confirmed that this is a primary still (rule V3).

use core::ops::ControlFlow;

use super::{Below, Parts};
use crate::ids::*;
use crate::message::SlotBits;
use crate::payload::Payload;
use crate::primary::{Context, Flow};
use crate::time::Instant;

impl<P: Payload> Parts<P> {
    /// A replica answers a ping.
    pub fn pong(
        &mut self,
        cx: &mut Context<'_, P>,
        below: &mut Below<'_, P>,
        replica: ReplicaId,
        generation: Generation,
        number: PingNumber,
        slots: SlotBits,
    ) -> Flow {
        let is_current = generation == below.views.generation();
        let peer = below.peers.known_mut(replica);
        if peer.is_some_and(|peer| peer.pong(number, slots, is_current)) {
            return self.confirmations_changed(cx, below);
        }
        ControlFlow::Continue(())
    }

    /// Holds an answer back until the lease is confirmed.
    pub(super) fn await_lease(&mut self, cx: &mut Context<'_, P>, sequence: Sequence) {
        self.table.await_lease(sequence);
        cx.wake_at(cx.now + cx.config.settings.reconnect_grace / 4);
    }

    /// Somebody has confirmed: gives the answers that waited for it.
    pub(super) fn confirmations_changed(
        &mut self,
        cx: &mut Context<'_, P>,
        below: &mut Below<'_, P>,
    ) -> Flow {
        for sequence in self.table.take_unconfirmed() {
            self.check_part(cx, below, sequence)?;
        }
        ControlFlow::Continue(())
    }

    /// Nobody could answer for a time: reads look for copies that fit as if they began now.
    pub fn excuse_searches(&mut self, now: Instant) {
        self.table.values_mut().for_each(|part| part.excuse_search(now));
    }

    /// All members have adopted the view: looks at every part again.
    pub fn view_adopted(&mut self, cx: &mut Context<'_, P>, below: &mut Below<'_, P>) -> Flow {
        self.table.take_unconfirmed();
        self.excuse_searches(cx.now);
        self.check_all_parts(cx, below)
    }
}
