//! Answers that wait until replicas have confirmed that this is a primary still (rule V3).

use core::ops::ControlFlow;

use crate::ids::*;
use crate::message::SlotBits;
use crate::payload::Payload;
use crate::primary::io::{Io, Lower};
use crate::primary::{Context, Flow};

impl<P: Payload> Io<P> {
    /// A replica answers a ping.
    pub(in crate::primary::io) fn pong(
        &mut self,
        cx: &mut Context<'_, P>,
        lower: &mut Lower<'_>,
        replica: ReplicaId,
        (generation, number): (Generation, u64),
        slots: SlotBits,
    ) -> Flow {
        let is_current = generation == lower.views.generation();
        let peer = lower.peers.known_mut(replica);
        if peer.is_some_and(|peer| peer.pong(number, slots, is_current)) {
            return self.confirmations_changed(cx, lower);
        }
        ControlFlow::Continue(())
    }

    /// Holds an answer back until the lease is confirmed.
    pub(super) fn await_lease(&mut self, cx: &mut Context<'_, P>, sequence: Sequence) {
        self.parts.await_lease(sequence);
        cx.wake_at(cx.now + cx.config.settings.reconnect_grace / 4);
    }

    /// Somebody has confirmed: gives the answers that waited for it.
    pub(super) fn confirmations_changed(
        &mut self,
        cx: &mut Context<'_, P>,
        lower: &mut Lower<'_>,
    ) -> Flow {
        for sequence in self.parts.take_unconfirmed() {
            self.check_part(cx, lower, sequence)?;
        }
        ControlFlow::Continue(())
    }

    /// All members have adopted the view: looks at every part again.
    pub fn view_adopted(&mut self, cx: &mut Context<'_, P>, lower: &mut Lower<'_>) -> Flow {
        self.parts.take_unconfirmed();
        self.check_all_parts(cx, lower)
    }
}
