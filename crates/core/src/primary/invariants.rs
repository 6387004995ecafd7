//! What must hold of a primary after every step, whatever replicas, clients or the coordinator have
//! said: if not, this code is wrong. It is checked where assertions are on: in the simulator, in
//! tests and under the fuzzers. The labels are those of `docs/rules.md`.

use super::membership::peer::Peer;
use super::{Informed, Phase, Primary, PrimaryConfig, State};
use crate::payload::Payload;
use crate::time::Instant;
use crate::view::View;

impl<P: Payload> Primary<P> {
    /// Panics if an invariant of this machine, or of one of its parts, does not hold.
    pub(super) fn check_invariants(&self, now: Instant) {
        let grace = self.config.settings.reconnect_grace;
        let longest = match &self.state {
            State::Unread(unread) => {
                unread.check_invariants();
                grace
            }
            State::Informed(informed) => {
                informed.check_invariants(&self.config, now);
                grace.max(informed.views.lease().time() / 4)
            }
            State::Over => return,
        };
        // No wait is without a moment at which it is looked at again.
        let is_awake = self.next_wakeup().is_none() || self.clock.tick_at <= now + longest;
        assert!(is_awake, "I11: nothing wakes it up");
    }
}

impl<P: Payload> Informed<P> {
    fn check_invariants(&self, config: &PrimaryConfig, now: Instant) {
        if matches!(self.phase, Phase::Ended) {
            return self.io.check_answered();
        }
        self.check_phase(config);
        self.scrub.check_invariants(&self.io);
        self.io.check_invariants(&self.membership, &self.views);
        // Until it serves it knows of replicas by older views, and waits for confirmations of
        // others.
        if let Phase::Serving | Phase::Detaching(_) = &self.phase {
            let view = self.views.view();
            self.views.check_invariants(config.id, now);
            self.check_mirrors(config, view);
            self.membership.values().for_each(|peer| check_peer(view, peer));
        }
        self.membership.check_invariants();
        self.membership.values().for_each(|peer| peer.check_speed(&config.settings.lag));
    }

    /// Who serves is a primary of the view; before anybody does, only those have to adopt it that
    /// confirm an assembly.
    fn check_phase(&self, config: &PrimaryConfig) {
        let view = self.views.view();
        match self.phase {
            Phase::Starting(_) => {
                let counts = |id| view.unconfirmed().any(|unconfirmed| unconfirmed == id);
                let all_count = self.views.adoption().awaited().iter().all(|id| counts(*id));
                assert!(all_count, "V7: it waits for the confirmation of one that did not count");
                assert!(self.io.is_over(), "W3: something is done before it is a primary");
            }
            Phase::Serving => {
                let is_primary = view.has_primary(config.id);
                assert!(is_primary, "V5: it serves, and is no primary of the view");
            }
            Phase::Detaching(_) | Phase::Ended => {}
        }
    }

    /// The sets by which answers are counted are those of the view.
    fn check_mirrors(&self, config: &PrimaryConfig, view: &View) {
        let mirrors = self.membership.mirrors();
        assert!(mirrors.len() == view.mirrors.len(), "I4: mirrors are not those of the view");
        for (peers, record) in mirrors.iter().zip(&view.mirrors) {
            peers.check_invariants(record, config.id.node);
        }
    }
}

fn check_peer(view: &View, peer: &Peer) {
    let id = peer.id();
    let Some((mirror, record)) = view.replica(id) else {
        panic!("I4: {id:?} is not of the volume");
    };
    assert!(mirror == peer.mirror(), "I4: {id:?} is of another mirror");
    let names = record.state.takes_writes().then_some(record.incarnation);
    let is_known = !peer.is_ready() || names.is_some() && names == peer.incarnation();
    assert!(is_known, "W3: {id:?} is sent what is meant for another incarnation of it");
}

#[cfg(test)]
pub(super) mod tests;
