//! Who is at the other end of each link, as far as it has said.

use std::collections::BTreeMap;

use crate::ids::*;
use crate::incarnations::Incarnations;
use crate::message::Opener;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(in crate::replica) struct Links {
    sessions: BTreeMap<LinkId, Session>,
    /// Whether one of them may be waiting.
    may_wait: bool,
}

/// What is known of the other end of a link.
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
    /// No: this link has one already, or its opener a newer one.
    Refused,
}

impl Links {
    /// Somebody has connected.
    pub fn opened(&mut self, link: LinkId) {
        self.sessions.insert(link, Session::New);
    }

    /// A link has closed, and with it its session.
    pub fn closed(&mut self, link: LinkId) {
        self.sessions.remove(&link);
    }

    /// Whether a session that is asked for may begin.
    pub fn admission(&self, link: LinkId, asked: &Asked) -> Admission {
        if !matches!(self.sessions.get(&link), Some(Session::New)) {
            return Admission::Refused;
        }
        let older = self.sessions.iter().find_map(|(other, session)| match session {
            Session::Open(number, opener) if *opener == asked.opener => Some((*other, *number)),
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
        self.sessions.insert(link, Session::Waiting(asked));
        self.may_wait = true;
    }

    /// Whether any session may be waiting: nearly always none is, and this is asked often.
    pub const fn may_wait(&self) -> bool {
        self.may_wait
    }

    /// The sessions that wait.
    pub fn waiting(&self) -> impl Iterator<Item = (LinkId, Asked)> {
        self.sessions.iter().filter_map(|(link, session)| match session {
            Session::Waiting(asked) => Some((*link, *asked)),
            Session::New | Session::Open(..) => None,
        })
    }

    /// A session that waited is answered.
    pub fn open(&mut self, link: LinkId, asked: &Asked) {
        self.sessions.insert(link, Session::Open(asked.session, asked.opener));
    }

    /// All are answered that could be.
    pub fn are_answered(&mut self) {
        let may_wait = self.waiting().next().is_some();
        self.may_wait = may_wait;
    }

    /// The opener of the open session on a link.
    pub fn opener(&self, link: LinkId) -> Option<Opener> {
        match self.sessions.get(&link) {
            Some(Session::Open(_, opener)) => Some(*opener),
            Some(Session::New | Session::Waiting(_)) | None => None,
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

    /// The primaries with open sessions, with their links.
    pub fn open_primaries(&self) -> impl Iterator<Item = (LinkId, PrimaryId)> {
        self.sessions.iter().filter_map(|(link, session)| match session {
            Session::Open(_, Opener::Primary(primary)) => Some((*link, *primary)),
            _ => None,
        })
    }
}
