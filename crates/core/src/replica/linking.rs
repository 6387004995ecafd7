//! Links open and close, and sessions begin over them: the work of an older session ends first
//! (rule W2).

use super::sessions::{Admission, Asked};
use super::{Context, DiskError, Obeyed, Replica, Violation};
use crate::ids::*;
use crate::payload::Payload;

impl<P: Payload> Replica<P> {
    pub(super) fn open_session(
        &mut self,
        cx: &mut Context<'_, P>,
        link: LinkId,
        asked: Asked,
    ) -> Obeyed {
        match self.sessions.admission(&self.views, link, &asked) {
            Admission::Refused => return Err(Violation),
            Admission::InPlaceOf(other) => self.drop_link(cx, other),
            Admission::Free => {}
        }
        self.sessions.wait(link, asked);
        let (data, lower) = &mut self.data();
        data.answer_waiting_sessions(cx, lower);
        Ok(())
    }

    /// Closes the link of somebody who broke the protocol.
    pub(super) fn drop_violator(&mut self, cx: &mut Context<'_, P>, link: LinkId, obeyed: Obeyed) {
        if let Err(Violation) = obeyed {
            self.drop_link(cx, link);
        }
    }

    /// Closes a link that broke the protocol, or that a newer session replaces.
    pub(super) fn drop_link(&mut self, cx: &mut Context<'_, P>, link: LinkId) {
        cx.disconnect(link);
        self.link_closed(cx, link);
    }

    pub(super) fn link_closed(&mut self, cx: &mut Context<'_, P>, link: LinkId) {
        let (rebuilds, below) = &mut self.rebuilds();
        if rebuilds.source_link_closed(cx, below, link) {
            return;
        }
        self.sessions.closed(link);
        self.views.forget(link);
        let (data, lower) = &mut self.data();
        data.forget_operations_of(cx, lower, link);
        data.answer_waiting_sessions(cx, lower);
    }

    /// The superblocks list this incarnation, or can't be saved.
    pub(super) fn incarnation_saved(
        &mut self,
        cx: &mut Context<'_, P>,
        outcome: Result<(), DiskError>,
    ) {
        for link in self.sessions.incarnation_saved(outcome) {
            self.drop_link(cx, link);
        }
    }
}
