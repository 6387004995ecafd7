//! Which incarnation of a replica answers, and which ones views may name.

use crate::ids::*;
use crate::incarnations::Incarnations;

/// Which incarnation of a replica answers, and which ones views may name.
#[derive(Debug, Default)]
pub(in crate::primary) struct PeerIncarnations {
    /// Its own and its machine's, as it said in the last session.
    present: Option<(Incarnation, BootId)>,
    /// Incarnations in views that this primary has proposed, and of which it does not know whether
    /// they were committed, newest first. At most [`Incarnations::MAX`] - 3: a disk lists the
    /// newest one and two that views name besides.
    doubted: Vec<Incarnation>,
    /// A stale clone of its disk was put back, as it said in the last session.
    is_stale_clone: bool,
    /// The boot of its machine when operations could last be sent to it.
    relied_on_boot: Option<BootId>,
}

impl PeerIncarnations {
    pub fn present(&self) -> Option<Incarnation> {
        self.present.map(|(incarnation, _)| incarnation)
    }

    /// Whether its machine was booted since operations could last be sent to it.
    pub fn has_rebooted(&self) -> bool {
        self.relied_on_boot != self.present.map(|(_, boot)| boot)
    }

    /// Whether it says that a stale clone of its disk was put back, and does so in another
    /// incarnation than this one.
    pub fn is_stale_clone_unless(&self, named: Incarnation) -> bool {
        self.is_stale_clone && self.present().is_some_and(|present| present != named)
    }

    pub fn doubted(&self) -> &[Incarnation] {
        &self.doubted
    }

    /// It says in a session who it is.
    pub fn said(&mut self, incarnation: Incarnation, boot: BootId, is_stale_clone: bool) {
        (self.present, self.is_stale_clone) = (Some((incarnation, boot)), is_stale_clone);
    }

    /// Operations may be sent to it.
    pub fn rely(&mut self) {
        self.relied_on_boot = self.present.map(|(_, boot)| boot);
    }

    /// A view is asked for that names this one: it may be committed, and this primary not learn of
    /// it.
    pub fn doubt(&mut self, incarnation: Incarnation) {
        self.doubted.insert(0, incarnation);
        self.doubted.truncate(Incarnations::MAX - 3);
    }

    /// A newer view is known: what was asked for in place of it can't be committed any more.
    pub fn end_doubt(&mut self) {
        self.doubted.clear();
    }
}
