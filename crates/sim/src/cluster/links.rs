//! Dialling, sending, delivering and breaking links.

use evenkeel_core::message::CopyContent;
use evenkeel_core::*;

use super::{Cluster, Event};
use crate::codec::Frame;
use crate::describe;
use crate::marks::Mark;
use crate::network::Party;
use crate::payload::Sectors;
use crate::queue::Time;
use crate::tape::Stream;

/// An attempt to connect to a replica.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dial {
    pub from: Party,
    /// The dialler's node.
    pub node: usize,
    /// Number of the replica that is dialled.
    pub replica: usize,
    /// When it is given up.
    pub expires: Time,
}

impl Cluster {
    /// How long a message takes between two nodes.
    fn latency(&mut self, from: usize, to: usize) -> Time {
        let (least, mean) = self.profile.network;
        let slow = if self.now < self.slow_network_until { 50 } else { 1 };
        self.drawing_for(Stream::Path(from, to), |c| match from == to {
            true => 1000 + c.random.below(5000),
            false => least + c.random.waiting(mean * slow),
        })
    }

    pub(super) fn dial(&mut self, from: Party, node: usize, replica: ReplicaId) {
        let deadline = self.profile.settings.deadline.as_nanos() as Time;
        let Some(replica) = self.replicas.iter().position(|slot| slot.id == replica) else {
            return self.fail("internal", format!("a connection to the unknown replica {replica}"));
        };
        let expires = self.now + self.random.between(deadline / 10, deadline);
        let to = self.replicas[replica].node;
        let at = self.now + self.latency(node, to);
        self.queue.push(at, Event::DialArrives(Dial { from, node, replica, expires }));
    }

    pub(super) fn dial_arrives(&mut self, dial: Dial) {
        let target = &self.replicas[dial.replica];
        let (to, is_there) = (target.node, target.core.is_some());
        let blocked =
            self.network.is_blocked(dial.node, to) || self.network.is_blocked(to, dial.node);
        let refused = self.now < self.no_connections_until
            || (dial.node != to && self.random.chance(self.profile.connect_failures));
        let back = self.latency(to, dial.node);
        if blocked || self.now > dial.expires || !self.nodes[to].up {
            let at = dial.expires.max(self.now + back);
            return self.queue.push(at, Event::DialAnswered(dial, None));
        }
        if refused || !is_there || !self.lives(dial.from) {
            return self.queue.push(self.now + back, Event::DialAnswered(dial, None));
        }
        let answerer = Party::Replica(dial.replica, self.replicas[dial.replica].starts);
        let link = self.network.connect((dial.from, dial.node), (answerer, to));
        self.queue.push(self.now + back, Event::DialAnswered(dial, Some(link)));
        let from = (dial.node != to).then(|| self.identity_of(dial));
        self.step_replica(dial.replica, ReplicaEvent::LinkOpened { link, from });
    }

    /// Which node a connection proves to come from: a clone of one proves that it is that.
    fn identity_of(&self, dial: Dial) -> NodeId {
        match dial.from {
            Party::Primary(primary) => self.primaries[primary].id.node,
            Party::Replica(..) => NodeId(dial.node as u128 + 1),
        }
    }

    pub(super) fn dial_answered(&mut self, dial: Dial, link: Option<LinkId>) {
        if !self.lives(dial.from) {
            return;
        }
        let link = link.filter(|link| self.network.links.get(link).is_some_and(|l| !l.cut));
        if let Some(link) = link.and_then(|link| self.network.links.get_mut(&link)) {
            link.ends[0].open = true;
        }
        let id = self.replicas[dial.replica].id;
        self.log_detail(|| match link {
            Some(link) => format!(
                "{} is connected to replica {} by link {link}",
                describe::party(dial.from),
                dial.replica
            ),
            None => {
                format!("{} can't connect to replica {}", describe::party(dial.from), dial.replica)
            }
        });
        match (dial.from, link) {
            (Party::Primary(primary), Some(link)) => {
                self.answer_dial(primary, id);
                self.step_primary(primary, PrimaryEvent::LinkUp { replica: id, link });
            }
            (Party::Primary(primary), None) => {
                self.answer_dial(primary, id);
                self.step_primary(primary, PrimaryEvent::LinkDown { replica: id, link: None });
            }
            (Party::Replica(replica, _), link) => {
                self.step_replica(replica, ReplicaEvent::SourceLink { replica: id, link });
            }
        }
    }

    fn lives(&self, party: Party) -> bool {
        match party {
            Party::Primary(primary) => self.primaries[primary].alive,
            Party::Replica(replica, starts) => {
                self.replicas[replica].starts == starts && self.replicas[replica].core.is_some()
            }
        }
    }

    pub(super) fn send(
        &mut self,
        from: Party,
        link: LinkId,
        message: Message,
        payload: Option<Sectors>,
    ) {
        let Some(mine) = self.network.end_of(link, from) else { return };
        let Some(state) = self.network.links.get(&link) else { return };
        if state.cut || !state.ends[mine].open {
            return;
        }
        let (here, there) = (state.ends[mine].node, state.ends[1 - mine].node);
        if let (Party::Replica(replica, _), Party::Primary(primary)) =
            (from, state.ends[1 - mine].party)
        {
            self.note_answer(replica, primary, &message);
        }
        let delay = self.latency(here, there);
        let (message, payload) = self.tamper(message, payload);
        if let Message::Copied { content: CopyContent::Begins { zeroes, .. }, .. } = message {
            self.marks.reach(if zeroes > 0 { Mark::FoundEmpty } else { Mark::FoundData });
        }
        let Some(state) = self.network.links.get_mut(&link) else { return };
        let end = &mut state.ends[1 - mine];
        let arrives = (self.now + delay).max(end.last_arrival);
        end.last_arrival = arrives;
        match Frame::encode(&message, payload.as_ref(), arrives) {
            Ok(frame) => end.incoming.push_back(frame),
            Err(text) => return self.fail("internal", text),
        }
        self.queue.push(arrives, Event::Deliver { link, end: 1 - mine });
    }

    pub(super) fn deliver(&mut self, link: LinkId, end: usize) {
        let Some(state) = self.network.links.get_mut(&link) else { return };
        let (from, to) = (state.ends[1 - end].node, state.ends[end].node);
        let received = &mut state.ends[end];
        if !received.open {
            return received.incoming.clear();
        }
        let is_due = received.incoming.front().is_some_and(|frame| frame.arrives <= self.now);
        if !is_due || (!state.cut && self.network.is_blocked(from, to)) {
            return;
        }
        let Some(state) = self.network.links.get_mut(&link) else { return };
        let party = state.ends[end].party;
        let Some(frame) = state.ends[end].incoming.pop_front() else { return };
        match frame.decode() {
            Ok((message, payload)) => self.arrive(party, link, message, payload),
            Err(text) => self.fail("internal", text),
        }
    }

    fn arrive(&mut self, party: Party, link: LinkId, message: Message, payload: Option<Sectors>) {
        if !self.lives(party) {
            return;
        }
        self.log_detail(|| {
            format!(
                "{} ← {}",
                describe::party(party),
                describe::message(&message, payload.as_ref())
            )
        });
        match party {
            Party::Primary(primary) => {
                self.note_garbage(primary, payload.as_ref());
                self.step_primary(primary, PrimaryEvent::Message { link, message, payload });
            }
            Party::Replica(replica, _) => {
                if let Message::Stable { generation, through, last_of_earlier_incarnations } =
                    message
                {
                    let earlier_incarnations =
                        last_of_earlier_incarnations.is_some_and(|last| last <= through);
                    self.note_stable(replica, link, generation, (through, earlier_incarnations));
                }
                self.judge_epoch(replica, link, &message);
                self.note_copy_asked(replica, link, &message);
                let payload = self.note_arrival((replica, link), &message, payload);
                self.step_replica(replica, ReplicaEvent::Message { link, message, payload });
            }
        }
    }

    /// Told to the oracle of what rebuilds copy, if the replica believes it.
    fn note_stable(
        &mut self,
        replica: usize,
        link: LinkId,
        generation: Generation,
        (through, earlier_incarnations): (Sequence, bool),
    ) {
        let dialler = self.network.links.get(&link).map(|link| link.ends[0].party);
        let slot = &self.replicas[replica];
        let listens = |core: &Replica<Sectors>| {
            let status = core.status();
            status.view.generation == generation && !status.is_adopting
        };
        if let Some(Party::Primary(primary)) = dialler
            && slot.core.as_ref().is_some_and(listens)
        {
            self.minimal.reported((slot.mirror, replica), primary, through);
            if earlier_incarnations {
                self.marks.reach(Mark::EarlierIncarnationsStable);
                self.minimal.reported_of_earlier_incarnations((slot.mirror, replica));
            }
        }
    }

    /// A party closes its end of a link.
    pub(super) fn hang_up(&mut self, party: Party, link: LinkId) {
        let Some(mine) = self.network.end_of(link, party) else { return };
        if let Some(state) = self.network.links.get_mut(&link) {
            state.ends[mine].open = false;
            state.ends[mine].incoming.clear();
            if state.cut {
                return self.network.forget_closed(link);
            }
            state.cut = true;
            let (here, there) = (state.ends[mine].node, state.ends[1 - mine].node);
            let delay = self.latency(here, there);
            self.plan_end(link, 1 - mine, delay);
        }
    }

    /// Breaks a link; its ends learn of it within `darkness`.
    pub(super) fn cut_link(&mut self, link: LinkId, darkness: Time) {
        self.network.cut(link, &mut self.random);
        for end in 0..2 {
            let delay = self.random.below(darkness.max(1)) + 1;
            self.plan_end(link, end, delay);
        }
        self.network.forget_closed(link);
    }

    /// Lets an end learn that its link is cut, after all that it still receives.
    fn plan_end(&mut self, link: LinkId, end: usize, delay: Time) {
        let Some(state) = self.network.links.get(&link) else { return };
        let at = (self.now + delay).max(state.ends[end].last_arrival);
        self.queue.push(at, Event::LinkEnds { link, end });
    }

    pub(super) fn link_ends(&mut self, link: LinkId, end: usize) {
        let Some(state) = self.network.links.get_mut(&link) else { return };
        let was_open = std::mem::replace(&mut state.ends[end].open, false);
        state.ends[end].incoming.clear();
        let party = state.ends[end].party;
        let other = state.ends[1].party;
        self.network.forget_closed(link);
        if !was_open || !self.lives(party) {
            return;
        }
        self.log_detail(|| format!("{} learns that link {link} is gone", describe::party(party)));
        match party {
            Party::Primary(primary) => {
                let Party::Replica(replica, _) = other else { return };
                let replica = self.replicas[replica].id;
                self.step_primary(primary, PrimaryEvent::LinkDown { replica, link: Some(link) });
            }
            Party::Replica(replica, _) => {
                self.step_replica(replica, ReplicaEvent::LinkClosed { link });
            }
        }
    }

    pub(super) fn partition_ends(&mut self, from: usize, to: usize) {
        self.network.block(from, to, false);
        if !self.network.is_blocked(from, to) {
            self.log(|| format!("the network lets node {from} reach node {to} again"));
            self.wake_links();
        }
    }

    /// What waited on links because of a partition goes on.
    pub(super) fn wake_links(&mut self) {
        for (link, state) in &self.network.links {
            for (end, waiting) in state.ends.iter().enumerate() {
                for frame in &waiting.incoming {
                    let at = frame.arrives.max(self.now);
                    self.queue.push(at, Event::Deliver { link: *link, end });
                }
            }
        }
    }
}
