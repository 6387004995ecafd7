//! The fence between two views: which primaries that this replica has confirmed may go on by the
//! older one, and for how long (rule V3).

use super::Sessions;
use crate::ids::*;
use crate::message::Message;
use crate::replica::Context;
use crate::replica::views::Views;
use crate::time::Instant;

impl Sessions {
    /// A primary says that it knows of a generation.
    pub fn knows(&mut self, primary: PrimaryId, generation: Generation) {
        self.confirmations.knows(primary, generation);
    }

    /// The same, over a link.
    pub fn fence_confirmed(&mut self, link: LinkId, generation: Generation) {
        if let Some(primary) = self.primary_of(link) {
            self.knows(primary, generation);
        }
    }

    /// When the last of those primaries may be heard no more that do not know of the pending view.
    /// A replica on whose data that view does not count waits for none of them: to go on by the
    /// older view they need the confirmation of all its members, and in each mirror one that the
    /// view calls in-sync waits.
    pub fn fenced_until(&self, views: &Views, now: Instant) -> Instant {
        if !views.does_pending_count_on_this() {
            return now;
        }
        let patience = views.view().lease.honoured();
        self.unaware(views).map(|(_, at)| at + patience).max().unwrap_or(now)
    }

    /// Tells primaries that the pending view may contradict.
    pub fn report_fenced<P>(&self, cx: &mut Context<'_, P>, views: &Views) {
        let Some((view, adopter)) = views.pending() else {
            debug_assert!(false, "a view is being adopted");
            return;
        };
        let unaware: Vec<_> = self.unaware(views).collect();
        let generation = view.generation;
        // Of a shared volume the others go on: they are to hear of it as soon as may be.
        let (is_shared, confirmations) = (view.is_shared(), &self.confirmations);
        let knows = |primary| primary == adopter || confirmations.has_learnt(primary, generation);
        let is_reported = |primary| {
            unaware.iter().any(|(other, _)| *other == primary) || (is_shared && !knows(primary))
        };
        for (link, _) in self.open_primaries().filter(|(_, primary)| is_reported(*primary)) {
            cx.send(link, Message::Fenced { generation }, None);
        }
    }

    /// The primaries that this replica has confirmed and that may not know of the pending view, if
    /// that view takes anything from anybody.
    fn unaware(&self, views: &Views) -> impl Iterator<Item = (PrimaryId, Instant)> {
        let pending = views.pending_that_takes().into_iter();
        pending.flat_map(move |(view, adopter)| {
            self.confirmations.unaware(view, adopter, views.follows(view))
        })
    }
}
