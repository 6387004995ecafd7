//! Links: connections between a primary and a replica, or a rebuilding replica and its source.
//!
//! Each end of a link is an entry of its own. Ends on the same node pass messages in memory; an
//! end with a socket encodes and decodes frames. The end that was connected to (a replica)
//! reserves in a budget of the link what each message will hold, and reads no further when there
//! is no room, or when the other side does not read its answers. The end that connected always
//! reads: what it receives was asked for, and bounded, by itself.
//!
//! What an end's owner is to know goes into the worker's queue.

mod connects;
mod link;

use std::collections::HashMap;

use evenkeel_core::message::Message;
use evenkeel_core::{LinkId, NodeId, PrimaryEvent, ReplicaEvent, ReplicaId, VolumeId};

use self::connects::Connects;
use self::link::{Link, Transport};
use super::context::{Context, Unsent, Waiter, Work};
use crate::api::{Caller, ConnectRequest, EngineEvent, LinkStatus};
use crate::counters::LinkCounters;
use crate::memory::{Budget, Buffer};
use crate::ring::{Completion, Kept, Key, Owner, Slab, is_transient};
use crate::transport::{Connection, Next, Sent, Socket};

/// Whose end it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The primary of this volume.
    Primary(Key),
    Replica(Key),
}

/// Who connects to which replica.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    pub volume: VolumeId,
    pub end: End,
    pub caller: Caller,
    pub replica: ReplicaId,
}

/// All ends of links on this worker, and connections that are being made.
pub(super) struct Links {
    ends: Slab<Link>,
    connects: Connects,
    /// Bytes that one primary may hold at one replica.
    memory: usize,
}

impl Links {
    /// None yet. One primary may hold so many bytes at one replica.
    pub fn new(memory: usize) -> Self {
        Self { ends: Slab::new(), connects: Connects::default(), memory }
    }

    /// Whether an end is there. What came over one that has been closed is not heard any more.
    #[inline]
    pub fn has(&self, link: LinkId) -> bool {
        self.ends.get(Key::from_number(link.0)).is_some()
    }

    /// Forgets an end that has failed; `false` if it has been closed meanwhile.
    pub fn forget(&mut self, link: LinkId) -> bool {
        self.ends.remove(Key::from_number(link.0)).is_some()
    }

    /// Reaches a replica that is open on this node: joins two ends in memory.
    pub fn join(&mut self, cx: &mut Context, call: Call, host: Key) {
        let called = (call.replica, host);
        let ours = self.ends.insert(Link::of_caller(call, Transport::Failed));
        let theirs = Link::of_called(call.volume, called, Transport::Local(ours));
        let theirs = self.ends.insert(theirs);
        if let Some(link) = self.ends.get_mut(ours) {
            link.join(theirs);
        }
        let link = LinkId(theirs.number());
        cx.queue(Work::Replica(host, ReplicaEvent::LinkOpened { link, from: None }));
        cx.queue(reached(call, Some(LinkId(ours.number()))));
    }

    /// Reaches a replica on another node: asks the control plane for a connection.
    pub fn ask(&mut self, cx: &Context, call: Call, node: NodeId) {
        self.connects.ask(cx, call, node);
    }

    /// The control plane has answered. If who asked has gone, the connection is dropped, which
    /// tells the other side.
    pub fn connected(
        &mut self,
        cx: &mut Context,
        volume: VolumeId,
        request: ConnectRequest,
        connection: Option<Connection>,
    ) {
        // Whoever asked has gone.
        let Some((call, peer)) = self.connects.answered(volume, request) else { return };
        let link = connection.map(|connection| {
            let socket = Box::new(Socket::new(connection, cx.pool(), None));
            self.open(cx, Link::of_caller(call, Transport::Socket(socket, peer)))
        });
        cx.queue(reached(call, link));
    }

    /// A node has connected to a replica here.
    pub fn accept(
        &mut self,
        cx: &mut Context,
        volume: VolumeId,
        called: (ReplicaId, Key),
        peer: NodeId,
        connection: Connection,
    ) {
        let budget = Budget::new(cx.pool().clone(), self.memory);
        let socket = Box::new(Socket::new(connection, cx.pool(), Some(budget)));
        let transport = Transport::Socket(socket, peer);
        let link = self.open(cx, Link::of_called(volume, called, transport));
        let from = Some(peer);
        cx.queue(Work::Replica(called.1, ReplicaEvent::LinkOpened { link, from }));
    }

    /// Begins to read from an end over a socket.
    fn open(&mut self, cx: &mut Context, link: Link) -> LinkId {
        let key = self.ends.insert(link);
        self.advance(cx, key);
        LinkId(key.number())
    }

    /// Says something over a link.
    #[inline]
    pub fn send(
        &mut self,
        cx: &mut Context,
        link: LinkId,
        message: Message,
        payload: Option<Buffer>,
    ) {
        let key = Key::from_number(link.0);
        // What is said over one that has failed or is closed is lost, as by a network.
        let Some(entry) = self.ends.get_mut(key) else { return };
        match entry.sends() {
            Transport::Local(peer) => {
                let peer = *peer;
                self.receive(cx, peer, message, payload);
            }
            Transport::Socket(socket, _) => match socket.queue(&message, payload) {
                Ok(true) => cx.send_at_end(Unsent::Link(key)),
                Ok(false) => {}
                Err(reason) => self.fail(cx, key, reason),
            },
            Transport::Failed => {}
        }
    }

    /// Tells the owner of this end what has come.
    #[inline]
    fn receive(&mut self, cx: &mut Context, key: Key, message: Message, payload: Option<Buffer>) {
        let Some(entry) = self.ends.get_mut(key) else {
            debug_assert!(false, "an end in memory is told of the other's end");
            return;
        };
        cx.queue(entry.receives(key, message, payload));
    }

    #[inline]
    fn socket(&mut self, key: Key) -> Option<(&mut Socket, &mut LinkCounters)> {
        self.ends.get_mut(key)?.socket()
    }

    /// Handles what has been received, as far as there is memory, and receives more.
    pub fn advance(&mut self, cx: &mut Context, key: Key) {
        loop {
            // It may have failed while it waited for memory.
            let Some((socket, _)) = self.socket(key) else { return };
            match socket.next(cx.pool()) {
                Ok(Next::Message(message, payload)) => self.receive(cx, key, message, payload),
                Ok(Next::Receive { memory, range, all }) => {
                    let owner = Owner::LinkReceive { link: key };
                    return socket.receive(cx.ring_mut(), owner, memory, range, all);
                }
                Ok(Next::NoMemory) => return cx.wait_for_memory(Waiter::Link(key)),
                Ok(Next::Nothing) => return,
                Err(reason) => return self.fail(cx, key, reason),
            }
        }
    }

    /// Begins to send what was queued during the turn.
    pub fn flush(&mut self, cx: &mut Context, key: Key) {
        // It may have failed since it was queued.
        let Some((socket, _)) = self.socket(key) else { return };
        let (ring, pool) = cx.ring_and_pool();
        if let Err(reason) = socket.flush(ring, Owner::LinkSend { link: key }, pool) {
            self.fail(cx, key, reason);
        }
    }

    /// A receive has ended. Returns whether the peer has said something, as far as is known.
    pub fn received(&mut self, cx: &mut Context, key: Key, completion: Completion) -> bool {
        // What was under way when it failed or was closed is of no interest.
        let Some((socket, counters)) = self.socket(key) else { return false };
        let count = match completion.result {
            Ok(0) => {
                self.fail(cx, key, "the other side has closed it".to_owned());
                return false;
            }
            Ok(count) => count,
            Err(error) if is_transient(&error) => 0,
            Err(error) => {
                self.fail(cx, key, error.to_string());
                return false;
            }
        };
        counters.bytes_received += count as u64;
        if let Kept::Fill(memory) = completion.kept {
            socket.received(memory, count);
            self.advance(cx, key);
        } else {
            debug_assert!(false, "a receive returns its memory");
        }
        true
    }

    /// A send has ended.
    pub fn sent(&mut self, cx: &mut Context, key: Key, completion: Completion) {
        // The link was closed while its socket was being written to.
        let Some((socket, counters)) = self.socket(key) else { return };
        let count = match completion.result {
            Ok(count) => count,
            Err(error) if is_transient(&error) => 0,
            Err(error) => return self.fail(cx, key, error.to_string()),
        };
        counters.bytes_sent += count as u64;
        let Kept::Batch(batch) = completion.kept else {
            debug_assert!(false, "a send returns its batch");
            return;
        };
        let (ring, pool) = cx.ring_and_pool();
        match socket.sent((ring, pool), Owner::LinkSend { link: key }, batch, count) {
            // It may have been paused because its answers were not read.
            Ok(Sent::All(_)) => self.advance(cx, key),
            Ok(Sent::Partly) => {}
            Err(reason) => self.fail(cx, key, reason),
        }
    }

    /// The link can't be used any more: its owner is told, after what had come before.
    fn fail(&mut self, cx: &mut Context, key: Key, reason: String) {
        let Some(link) = self.ends.get_mut(key) else {
            debug_assert!(false, "a link fails while it is used");
            return;
        };
        let (volume, replica) = (link.volume(), link.replica());
        let (transport, down) = link.fail(key);
        #[cfg(test)]
        if crate::canary::is(crate::canary::Canary::FailUnheard) {
            return;
        }
        self.hang_up(cx, transport);
        cx.queue(down);
        cx.report(EngineEvent::LinkClosed { volume, replica, reason });
    }

    /// Ends all links with a node.
    pub fn disconnect(&mut self, cx: &mut Context, node: NodeId) {
        for key in self.keys(|link| link.reaches(node)) {
            self.fail(cx, key, "its node was removed from the cluster".to_owned());
        }
    }

    /// Closes an end; its owner hears nothing more of it, the other end learns of it.
    pub fn close(&mut self, cx: &mut Context, link: LinkId) {
        self.close_end(cx, Key::from_number(link.0));
    }

    /// Closes all ends of an owner, who waits for no connection any more either.
    pub fn close_all_of(&mut self, cx: &mut Context, end: End) {
        self.connects.forget(end);
        for key in self.keys(|link| link.is_of(end)) {
            self.close_end(cx, key);
        }
    }

    /// Closes all ends: the worker stops.
    pub fn close_all(&mut self, cx: &mut Context) {
        for key in self.ends.keys() {
            self.close_end(cx, key);
        }
    }

    fn close_end(&mut self, cx: &mut Context, key: Key) {
        if let Some(link) = self.ends.remove(key) {
            self.hang_up(cx, link.into_transport());
        }
    }

    fn hang_up(&mut self, cx: &mut Context, transport: Transport) {
        match transport {
            Transport::Local(peer) => {
                if let Some(link) = self.ends.get_mut(peer) {
                    cx.queue(link.fail(peer).1);
                }
            }
            Transport::Socket(socket, _) => socket.shut_down(),
            Transport::Failed => {}
        }
    }

    fn keys(&self, which: impl Fn(&Link) -> bool) -> Vec<Key> {
        self.ends.iter().filter(|(_, link)| which(link)).map(|(key, _)| key).collect()
    }

    /// The connections of one volume to and from other nodes.
    pub fn status_of(&self, volume: VolumeId) -> Vec<LinkStatus> {
        let links = self.ends.iter().filter(|(_, link)| link.volume() == volume);
        links.filter_map(|(_, link)| link.status()).collect()
    }

    /// Those of all volumes. One look at all links, not one for each volume: this holds up the data
    /// path.
    pub fn statuses(&self) -> HashMap<VolumeId, Vec<LinkStatus>> {
        let mut statuses: HashMap<_, Vec<_>> = HashMap::new();
        for (volume, status) in
            self.ends.iter().filter_map(|(_, link)| Some((link.volume(), link.status()?)))
        {
            statuses.entry(volume).or_default().push(status);
        }
        statuses
    }
}

/// Tells who has called that the replica is reached over this link; `None`: that it can't be.
fn reached(call: Call, link: Option<LinkId>) -> Work {
    let replica = call.replica;
    match (call.end, link) {
        (End::Primary(volume), Some(link)) => {
            Work::Primary(volume, PrimaryEvent::LinkUp { replica, link })
        }
        (End::Primary(volume), None) => {
            Work::Primary(volume, PrimaryEvent::LinkDown { replica, link: None })
        }
        (End::Replica(host), link) => {
            Work::Replica(host, ReplicaEvent::SourceLink { replica, link })
        }
    }
}

#[cfg(test)]
mod tests;
