//! Links between primaries and replicas: ordered, delayed, cut.
//!
//! A link is a TCP connection as its two ends see it: what one sends arrives at the other in its
//! order or not at all; when it breaks, each end learns of that in its own time. Where a partition
//! stands between two nodes, messages wait on the link (TCP would send them again) until it is gone
//! or the link is cut.

use std::collections::{BTreeMap, VecDeque};

use evenkeel_core::LinkId;

use crate::codec::Frame;
use crate::queue::Time;
use crate::random::Random;

/// The primary or replica at one end of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Party {
    /// The primary of this number.
    Primary(usize),
    /// The replica of this number, in this incarnation.
    Replica(usize, u32),
}

/// One end of a link.
#[derive(Debug)]
pub struct End {
    /// The primary or replica.
    pub party: Party,
    /// The number of its node.
    pub node: usize,
    /// Whether the party has it and has not been told that it ended.
    pub open: bool,
    /// Frames that are on their way to this end, in order.
    pub incoming: VecDeque<Frame>,
    /// When the last of them arrives.
    pub last_arrival: Time,
}

/// A connection.
#[derive(Debug)]
pub struct Link {
    /// The end that dialled, and the end that answered.
    pub ends: [End; 2],
    /// Whether it is broken: nothing more gets onto it.
    pub cut: bool,
}

/// All links and partitions.
#[derive(Debug)]
pub struct Network {
    /// By number. A link is forgotten when both ends are closed.
    pub links: BTreeMap<LinkId, Link>,
    last: u64,
    /// For each pair of nodes, how many partitions stand between them in this direction.
    blocked: Vec<Vec<u32>>,
}

impl Network {
    /// Between this many nodes.
    #[must_use]
    pub fn new(nodes: usize) -> Self {
        Self { links: BTreeMap::new(), last: 0, blocked: vec![vec![0; nodes]; nodes] }
    }

    /// Makes a link between two parties on their nodes. The dialling end is not open yet.
    pub fn connect(&mut self, dialler: (Party, usize), answerer: (Party, usize)) -> LinkId {
        self.last += 1;
        let end = |(party, node): (Party, usize), open| End {
            party,
            node,
            open,
            incoming: VecDeque::new(),
            last_arrival: 0,
        };
        let link = Link { ends: [end(dialler, false), end(answerer, true)], cut: false };
        self.links.insert(LinkId(self.last), link);
        LinkId(self.last)
    }

    /// The link that was made last.
    #[must_use]
    pub const fn newest(&self) -> LinkId {
        LinkId(self.last)
    }

    /// Puts up or takes down a partition in one direction.
    pub fn block(&mut self, from: usize, to: usize, up: bool) {
        let count = &mut self.blocked[from][to];
        *count = if up { *count + 1 } else { count.saturating_sub(1) };
    }

    /// Takes down all partitions.
    pub fn unblock_all(&mut self) {
        self.blocked.iter_mut().flatten().for_each(|count| *count = 0);
    }

    /// Whether anything gets from one node to the other.
    #[must_use]
    pub fn is_blocked(&self, from: usize, to: usize) -> bool {
        from != to && self.blocked[from][to] > 0
    }

    /// Which end of a link a party is.
    #[must_use]
    pub fn end_of(&self, link: LinkId, party: Party) -> Option<usize> {
        self.links.get(&link)?.ends.iter().position(|end| end.party == party)
    }

    /// The party that answers at a link.
    #[must_use]
    pub fn far_end(&self, link: LinkId) -> Option<Party> {
        self.links.get(&link).map(|link| link.ends[1].party)
    }

    /// The numbers of the links that have a party as an end.
    #[must_use]
    pub fn links_of(&self, wanted: impl Fn(Party) -> bool) -> Vec<LinkId> {
        let links = self.links.iter();
        links
            .filter(|(_, link)| link.ends.iter().any(|end| wanted(end.party)))
            .map(|(id, _)| *id)
            .collect()
    }

    /// Breaks a link. Of what is on its way, each end still gets a beginning that it has received
    /// already; the rest is lost.
    pub fn cut(&mut self, link: LinkId, random: &mut Random) {
        let Some(link) = self.links.get_mut(&link) else { return };
        link.cut = true;
        for end in &mut link.ends {
            let kept = random.index(end.incoming.len() + 1);
            end.incoming.truncate(kept);
        }
    }

    /// Forgets a link that nobody has any more.
    pub fn forget_closed(&mut self, link: LinkId) {
        if self.links.get(&link).is_some_and(|l| l.cut && l.ends.iter().all(|end| !end.open)) {
            self.links.remove(&link);
        }
    }
}
