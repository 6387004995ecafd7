//! Links: connections between a primary and a replica, or a rebuilding replica and its source.
//!
//! Each end of a link is an entry of its own. Ends on the same node pass messages in memory; an
//! end with a socket encodes and decodes frames. The end that was connected to (a replica)
//! reserves in a budget of the link what each message will hold, and reads no further when there
//! is no room, or when the other side does not read its answers. The end that connected always
//! reads: what it receives was asked for, and bounded, by itself.

use evenkeel_core::message::Message;
use evenkeel_core::{LinkId, NodeId, Payload, PrimaryEvent, ReplicaEvent, ReplicaId};
use evenkeel_wire::{PayloadSummary, encode};
use rustix::net::Shutdown;

use super::{Unsent, Waiter, Work, Worker};
use crate::api::{Caller, EngineEvent};
use crate::counters::LinkCounters;
use crate::memory::{Budget, Buffer};
use crate::ring::{Completion, Kept, Owner};
use crate::slab::{Key, Slab};
use crate::transport::{Connection, Next, Sent, Socket, is_transient};

/// Whose end it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Primary(Key),
    Replica(Key),
}

/// One end of a link.
pub(super) struct Link {
    pub(super) volume: Key,
    pub(super) end: End,
    /// Who connected, if this end did.
    pub(super) caller: Option<Caller>,
    /// The replica that was connected to.
    pub(super) replica: ReplicaId,
    /// The node at the other end; `None`: this one.
    pub(super) peer: Option<NodeId>,
    pub(super) transport: Transport,
    pub(super) counters: LinkCounters,
}

pub(super) enum Transport {
    /// The key of the other end.
    Local(Key),
    Socket(Box<Socket>),
    /// It has failed, and its owner has not been told yet.
    Failed,
}

impl Link {
    /// Tells its owner that this end has failed.
    fn down(&self, key: Key) -> Work {
        let (link, replica) = (LinkId(key.number()), self.replica);
        match self.end {
            End::Primary(volume) => {
                Work::Primary(volume, PrimaryEvent::LinkDown { replica, link: Some(link) })
            }
            End::Replica(replica) => Work::Replica(replica, ReplicaEvent::LinkClosed { link }),
        }
    }
}

/// The socket of an end that has one, and has neither failed nor been closed.
fn socket_of(links: &mut Slab<Link>, key: Key) -> Option<(&mut Socket, &mut LinkCounters)> {
    let link = links.get_mut(key)?;
    let Transport::Socket(socket) = &mut link.transport else { return None };
    Some((socket, &mut link.counters))
}

impl Worker {
    pub(super) fn has_link(&self, link: LinkId) -> bool {
        self.links.get(Key::from_number(link.0)).is_some()
    }

    /// Forgets a link that has failed; `false` if it has been closed meanwhile.
    pub(super) fn remove_link(&mut self, link: LinkId) -> bool {
        self.links.remove(Key::from_number(link.0)).is_some()
    }

    /// Joins two ends on this node in memory: the caller's, then the replica's.
    pub(super) fn join_locally(
        &mut self,
        volume: Key,
        caller: Caller,
        calling_replica: Option<Key>,
        replica: ReplicaId,
        host: Key,
    ) -> (LinkId, LinkId) {
        let end = calling_replica.map_or(End::Primary(volume), End::Replica);
        let link = |end, caller| Link {
            volume,
            end,
            caller,
            replica,
            peer: None,
            transport: Transport::Failed,
            counters: LinkCounters::default(),
        };
        let ours = self.links.insert(link(end, Some(caller)));
        let theirs = self.links.insert(link(End::Replica(host), None));
        for (key, other) in [(ours, theirs), (theirs, ours)] {
            if let Some(link) = self.links.get_mut(key) {
                link.transport = Transport::Local(other);
            }
        }
        (LinkId(ours.number()), LinkId(theirs.number()))
    }

    /// Makes an end of a link over a socket, and begins to read from it.
    pub(super) fn open_link(
        &mut self,
        volume: Key,
        end: End,
        caller: Option<Caller>,
        (replica, peer): (ReplicaId, NodeId),
        connection: Connection,
    ) -> LinkId {
        let limit = self.config.memory_per_link;
        let budget = caller.is_none().then(|| Budget::new(self.pool.clone(), limit));
        let socket = Box::new(Socket::new(connection, &self.pool, budget));
        let transport = Transport::Socket(socket);
        let counters = LinkCounters::default();
        let peer = Some(peer);
        let link = Link { volume, end, caller, replica, peer, transport, counters };
        let key = self.links.insert(link);
        self.advance_link(key);
        LinkId(key.number())
    }

    /// Says something over a link. What is said over one that has failed or is closed is lost.
    pub(super) fn send(&mut self, link: LinkId, message: Message, payload: Option<Buffer>) {
        let key = Key::from_number(link.0);
        let Some(entry) = self.links.get_mut(key) else { return };
        entry.counters.messages_sent += 1;
        let socket = match &mut entry.transport {
            Transport::Local(peer) => {
                let peer = *peer;
                return self.hear(peer, message, payload);
            }
            Transport::Socket(socket) => socket,
            Transport::Failed => return,
        };
        socket.answered(&message, payload.as_ref());
        let summary =
            payload.as_ref().map(|p| PayloadSummary { length: p.length(), crc: p.checksum() });
        let mut encoded = Ok(());
        socket.outbox.bytes(|out| encoded = encode(&message, summary, out));
        if let Err(error) = encoded {
            return self.fail_link(key, format!("a message can't be sent: {error}"));
        }
        if let Some(payload) = payload {
            socket.outbox.buffer(payload);
        }
        if !std::mem::replace(&mut socket.queued, true) {
            self.unsent.push(Unsent::Link(key));
        }
    }

    /// Tells the owner of this end what has come.
    fn hear(&mut self, key: Key, message: Message, payload: Option<Buffer>) {
        let Some(entry) = self.links.get_mut(key) else {
            debug_assert!(false, "an end in memory is told of the other's end");
            return;
        };
        entry.counters.messages_received += 1;
        let link = LinkId(key.number());
        self.work.push_back(match entry.end {
            End::Primary(volume) => {
                Work::Primary(volume, PrimaryEvent::Message { link, message, payload })
            }
            End::Replica(replica) => {
                Work::Replica(replica, ReplicaEvent::Message { link, message, payload })
            }
        });
    }

    /// Handles what has been received, as far as there is memory, and receives more.
    pub(super) fn advance_link(&mut self, key: Key) {
        loop {
            // It may have failed while it waited for memory.
            let Some((socket, _)) = socket_of(&mut self.links, key) else { return };
            match socket.next(&self.pool) {
                Ok(Next::Message(message, payload)) => self.hear(key, message, payload),
                Ok(Next::Receive { memory, range, all }) => {
                    let owner = Owner::LinkReceive { link: key };
                    return self.ring.receive(owner, &socket.file, memory, range, all);
                }
                Ok(Next::NoMemory) => return self.wait_for_memory(Waiter::Link(key)),
                Ok(Next::Nothing) => return,
                Err(reason) => return self.fail_link(key, reason),
            }
        }
    }

    pub(super) fn flush_link(&mut self, key: Key) {
        // It may have failed since it was queued.
        let Some((socket, _)) = socket_of(&mut self.links, key) else { return };
        socket.queued = false;
        let owner = Owner::LinkSend { link: key };
        if let Err(reason) = socket.flush(&mut self.ring, owner, &self.pool) {
            self.fail_link(key, reason);
        }
    }

    pub(super) fn link_received(&mut self, key: Key, completion: Completion) {
        // What was under way when it failed or was closed is of no interest.
        let Some((socket, counters)) = socket_of(&mut self.links, key) else { return };
        let count = match completion.result {
            Ok(0) => return self.fail_link(key, "the other side has closed it".to_owned()),
            Ok(count) => count,
            Err(error) if is_transient(&error) => 0,
            Err(error) => return self.fail_link(key, error.to_string()),
        };
        counters.bytes_received += count as u64;
        self.polling.heard_peer(self.now);
        let Kept::Fill(memory) = completion.kept else {
            debug_assert!(false, "a receive returns its memory");
            return;
        };
        socket.received(memory, count);
        self.advance_link(key);
    }

    pub(super) fn link_sent(&mut self, key: Key, completion: Completion) {
        let Some((socket, counters)) = socket_of(&mut self.links, key) else { return };
        let count = match completion.result {
            Ok(count) => count,
            Err(error) if is_transient(&error) => 0,
            Err(error) => return self.fail_link(key, error.to_string()),
        };
        counters.bytes_sent += count as u64;
        let Kept::Batch(batch) = completion.kept else {
            debug_assert!(false, "a send returns its batch");
            return;
        };
        let owner = Owner::LinkSend { link: key };
        let sent = socket.sent(&mut self.ring, owner, batch, count);
        if matches!(sent, Sent::All(_)) {
            if let Err(reason) = socket.flush(&mut self.ring, owner, &self.pool) {
                return self.fail_link(key, reason);
            }
            // It may have been paused because its answers were not read.
            self.advance_link(key);
        }
    }

    /// The link can't be used any more: its owner is told, after what had come before.
    fn fail_link(&mut self, key: Key, reason: String) {
        let Some(link) = self.links.get_mut(key) else {
            debug_assert!(false, "a link fails while it is used");
            return;
        };
        let transport = std::mem::replace(&mut link.transport, Transport::Failed);
        let (volume, replica) = (link.volume, link.replica);
        let down = link.down(key);
        self.hang_up(transport);
        self.work.push_back(down);
        if let Some(volume) = self.volumes.get(volume).map(|volume| volume.id) {
            self.tell(EngineEvent::LinkClosed { volume, replica, reason });
        }
    }

    /// Ends all links with a node.
    pub(super) fn disconnect(&mut self, node: NodeId) {
        let is_open = |link: &Link| !matches!(link.transport, Transport::Failed);
        let its =
            |(key, link): (Key, &Link)| (link.peer == Some(node) && is_open(link)).then_some(key);
        let ends: Vec<_> = self.links.iter().filter_map(its).collect();
        for key in ends {
            self.fail_link(key, "its node was removed from the cluster".to_owned());
        }
    }

    /// Closes an end; its owner hears nothing more of it, the other end learns of it.
    pub(super) fn close_link(&mut self, key: Key) {
        if let Some(link) = self.links.remove(key) {
            self.hang_up(link.transport);
        }
    }

    fn hang_up(&mut self, transport: Transport) {
        match transport {
            Transport::Local(peer) => {
                if let Some(link) = self.links.get_mut(peer) {
                    link.transport = Transport::Failed;
                    self.work.push_back(link.down(peer));
                }
            }
            Transport::Socket(socket) => {
                // What is under way ends by itself then; it may have ended already.
                let _ = rustix::net::shutdown(&socket.file, Shutdown::Both);
            }
            Transport::Failed => {}
        }
    }

    pub(super) fn close_links_of_primary(&mut self, volume: Key) {
        self.close_links(End::Primary(volume));
    }

    pub(super) fn close_links_of_replica(&mut self, replica: Key) {
        self.close_links(End::Replica(replica));
    }

    fn close_links(&mut self, end: End) {
        let ends: Vec<_> =
            self.links.iter().filter(|(_, link)| link.end == end).map(|(key, _)| key).collect();
        for key in ends {
            self.close_link(key);
        }
    }
}
