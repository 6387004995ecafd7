//! Flushes for the sake of the intent logs: they let writes become stable
//! ([`crate::primary::io::stability`]) though no client flushes.

use super::part::{MirrorTask, Part, PartAction};
use super::{Below, Parts};
use crate::ids::*;
use crate::payload::Payload;
use crate::primary::{Context, Stage};

impl<P: Payload> Parts<P> {
    /// A replica's intent log fills up.
    pub fn log_filling(
        &mut self,
        cx: &mut Context<'_, P>,
        below: &mut Below<'_, P>,
        replica: ReplicaId,
        generation: Generation,
    ) {
        if generation != below.views.generation() || !below.views.is_member(replica) {
            return; // A member says it again in this generation.
        }
        let (stability, lower) = below.stability();
        stability.log_fills_up(cx, &lower, replica);
        self.flush_to_stabilize(cx, below);
    }

    /// Lets what is not stable do so after a while, though the client does not flush.
    pub fn watch_stability(&mut self, cx: &mut Context<'_, P>, below: &mut Below<'_, P>) {
        let (stability, lower) = below.stability();
        stability.report_overdue(cx, &lower);
        if stability.is_flush_due(cx) {
            self.flush_to_stabilize(cx, below);
        }
    }

    /// Has all members flush what is finished. Apart from the client's flushes: those may wait for
    /// writes that wait for room in an intent log.
    fn flush_to_stabilize(&mut self, cx: &mut Context<'_, P>, below: &mut Below<'_, P>) {
        let is_stabilizing = self.table.values().any(Part::is_stabilizing);
        if cx.stage != Stage::Serving || is_stabilizing || !below.views.can_send(cx.stage) {
            return; // The next tick sees whether it is still wanted.
        }
        below.stability.flush_begins(cx.now);
        let mirrors = below.peers.mirrors().len();
        let number = below.requests.accept_internal(cx, mirrors);
        for mirror in 0..mirrors {
            let through = self.finished_through(below, mirror);
            let action = PartAction::Stabilize { through };
            self.send_part(cx, below, number, MirrorTask { mirror, from: 0, action });
        }
    }

    /// How far all writes to a mirror are finished.
    pub(super) fn finished_through(&self, below: &Below<'_, P>, mirror: usize) -> Sequence {
        below.stability.finished_through(mirror, self.table.first_write(mirror))
    }
}
