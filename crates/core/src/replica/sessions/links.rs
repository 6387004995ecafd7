//! Who is at the other end of each link, as far as it has said.

use std::collections::BTreeMap;

use crate::ids::*;
use crate::incarnations::Incarnations;
use crate::message::Opener;
use crate::view::View;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(in crate::replica) struct Links {
    ends: BTreeMap<LinkId, OtherEnd>,
    /// Whether one of them may be waiting.
    may_wait: bool,
}

/// The other end of a link.
#[derive(Debug, Clone, Copy)]
struct OtherEnd {
    /// Its node, as the connection has proved; `None`: in the memory of this process.
    node: Option<NodeId>,
    session: Session,
}

/// What the other end of a link has said.
#[derive(Debug, Clone, Copy)]
enum Session {
    /// It has not said who it is.
    New,
    /// Work of its older session has to end before it is answered (W2).
    Waiting(Asked),
    /// Open.
    Open(SessionNumber, Opener),
}

/// A session that was asked for.
#[derive(Debug, Clone, Copy)]
pub(in crate::replica) struct Asked {
    /// Its number.
    pub session: SessionNumber,
    /// By whom.
    pub opener: Opener,
    /// Which incarnations of this replica the opener's view names, or others may.
    pub named: Incarnations,
}

/// Whether a session that is asked for may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::replica) enum Admission {
    /// Yes.
    Free,
    /// Yes, in place of its opener's older one over this link.
    InPlaceOf(LinkId),
    /// No: this link has one already, or its opener a newer one, or the opener is somebody else
    /// than the connection shows (rule W8).
    Refused,
}

impl OtherEnd {
    /// Whether the node of a primary, or of a replica that copies, is the one that has connected.
    /// A view without the replica may be older than it.
    fn may_be(&self, opener: Opener, view: &View) -> bool {
        match opener {
            Opener::Primary(primary) => self.is_on(primary.node),
            Opener::Copier(replica) => {
                view.replica(replica).is_none() || self.is_copier(replica, view)
            }
        }
    }

    /// Whether this replica of the view copies: from its node, or from a primary's, which reaches
    /// in its memory whatever is open there, also a disk that came from another node, and may read
    /// everything besides.
    fn is_copier(&self, replica: ReplicaId, view: &View) -> bool {
        let record = view.replica(replica).map(|(_, record)| record);
        record.is_some_and(|record| {
            self.is_on(record.node) || view.primaries.iter().any(|it| self.is_on(it.id.node))
        })
    }

    /// Who it says that it is.
    fn claims(&self) -> Option<Opener> {
        match self.session {
            Session::New => None,
            Session::Waiting(asked) => Some(asked.opener),
            Session::Open(_, opener) => Some(opener),
        }
    }

    fn is_on(&self, node: NodeId) -> bool {
        self.node.is_none_or(|its| its == node)
    }
}

impl Links {
    /// Somebody has connected, from this node (`None`: in memory).
    pub fn opened(&mut self, link: LinkId, node: Option<NodeId>) {
        self.ends.insert(link, OtherEnd { node, session: Session::New });
    }

    /// A link has closed, and with it its session.
    pub fn closed(&mut self, link: LinkId) {
        self.ends.remove(&link);
    }

    /// Whether a session that is asked for may begin.
    pub fn admission(&self, view: &View, link: LinkId, asked: &Asked) -> Admission {
        let Some(end) = self.ends.get(&link) else { return Admission::Refused };
        if !matches!(end.session, Session::New) || !end.may_be(asked.opener, view) {
            return Admission::Refused;
        }
        let older = self.ends.iter().find_map(|(other, end)| match end.session {
            Session::Open(number, opener) if opener == asked.opener => Some((*other, number)),
            Session::Waiting(other_asked) if other_asked.opener == asked.opener => {
                Some((*other, other_asked.session))
            }
            _ => None,
        });
        match older {
            Some((_, newest)) if newest >= asked.session => Admission::Refused,
            Some((other, _)) => Admission::InPlaceOf(other),
            None => Admission::Free,
        }
    }

    /// A session waits from now on until it can be answered.
    pub fn wait(&mut self, link: LinkId, asked: Asked) {
        self.set(link, Session::Waiting(asked));
        self.may_wait = true;
    }

    /// Whether any session may be waiting: nearly always none is, and this is asked often.
    pub const fn may_wait(&self) -> bool {
        self.may_wait
    }

    /// The sessions that wait.
    pub fn waiting(&self) -> impl Iterator<Item = (LinkId, Asked)> {
        self.ends.iter().filter_map(|(link, end)| match end.session {
            Session::Waiting(asked) => Some((*link, asked)),
            Session::New | Session::Open(..) => None,
        })
    }

    /// A session that waited is answered.
    pub fn open(&mut self, link: LinkId, asked: &Asked) {
        self.set(link, Session::Open(asked.session, asked.opener));
    }

    /// All are answered that could be.
    pub fn are_answered(&mut self) {
        let may_wait = self.waiting().next().is_some();
        self.may_wait = may_wait;
    }

    /// The opener of the open session on a link.
    pub fn opener(&self, link: LinkId) -> Option<Opener> {
        match self.ends.get(&link)?.session {
            Session::Open(_, opener) => Some(opener),
            Session::New | Session::Waiting(_) => None,
        }
    }

    /// The primary whose open session is on a link.
    pub fn primary_of(&self, link: LinkId) -> Option<PrimaryId> {
        match self.opener(link) {
            Some(Opener::Primary(primary)) => Some(primary),
            Some(Opener::Copier(_)) | None => None,
        }
    }

    /// The replica that copies from this one over a link.
    pub fn copier_of(&self, link: LinkId) -> Option<ReplicaId> {
        match self.opener(link) {
            Some(Opener::Copier(replica)) => Some(replica),
            Some(Opener::Primary(_)) | None => None,
        }
    }

    /// The links over which somebody has opened a session as a replica that is elsewhere by this
    /// view, which is another one since.
    pub fn impostors(&self, view: &View) -> impl Iterator<Item = LinkId> {
        self.ends
            .iter()
            .filter(|(_, end)| end.claims().is_some_and(|opener| !end.may_be(opener, view)))
            .map(|(link, _)| *link)
    }

    /// Panics if a session is open, or waits, in another's name (rule W8).
    pub fn check_invariants(&self, view: &View) {
        assert!(self.impostors(view).next().is_none(), "W8: a session in another's name");
    }

    /// Whether a view has the copier of a link, on the node at the link's other end.
    pub fn is_copier_of(&self, view: &View, link: LinkId) -> bool {
        let end = self.ends.get(&link);
        end.zip(self.copier_of(link)).is_some_and(|(end, copier)| end.is_copier(copier, view))
    }

    /// The primaries with open sessions, with their links.
    pub fn open_primaries(&self) -> impl Iterator<Item = (LinkId, PrimaryId)> {
        self.ends.iter().filter_map(|(link, end)| match end.session {
            Session::Open(_, Opener::Primary(primary)) => Some((*link, primary)),
            _ => None,
        })
    }

    /// What the other end of a link has said last. Its link is there: the session came over it.
    fn set(&mut self, link: LinkId, session: Session) {
        let end = self.ends.get_mut(&link);
        debug_assert!(end.is_some(), "a session on a link that nobody has opened");
        if let Some(end) = end {
            end.session = session;
        }
    }
}

#[cfg(test)]
mod tests;
