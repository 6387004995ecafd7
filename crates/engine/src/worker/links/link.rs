//! One end of a link.

use evenkeel_core::message::Message;
use evenkeel_core::{LinkId, NodeId, PrimaryEvent, ReplicaEvent, ReplicaId, VolumeId};

use super::{Call, End};
use crate::api::{Caller, LinkStatus};
use crate::counters::LinkCounters;
use crate::memory::Buffer;
use crate::ring::Key;
use crate::transport::Socket;
use crate::worker::context::Work;

/// See the module's documentation.
pub(super) struct Link {
    volume: VolumeId,
    end: End,
    /// Who connected, if this end did.
    caller: Option<Caller>,
    /// The replica that was connected to.
    replica: ReplicaId,
    transport: Transport,
    counters: LinkCounters,
}

/// How messages reach the other end.
pub(super) enum Transport {
    /// In memory: the key of the other end.
    Local(Key),
    /// To this node.
    Socket(Box<Socket>, NodeId),
    /// Not any more: it has failed, and its owner has not been told yet.
    Failed,
}

impl Link {
    /// The end of who has called.
    pub fn of_caller(call: Call, transport: Transport) -> Self {
        let Call { volume, end, caller, replica } = call;
        let counters = LinkCounters::default();
        Self { volume, end, caller: Some(caller), replica, transport, counters }
    }

    /// The end of the replica that was called.
    pub fn of_called(
        volume: VolumeId,
        (replica, host): (ReplicaId, Key),
        transport: Transport,
    ) -> Self {
        let (end, counters) = (End::Replica(host), LinkCounters::default());
        Self { volume, end, caller: None, replica, transport, counters }
    }

    /// The same, joined to the other end in memory.
    pub fn join(&mut self, other: Key) {
        self.transport = Transport::Local(other);
    }

    pub const fn volume(&self) -> VolumeId {
        self.volume
    }

    pub const fn replica(&self) -> ReplicaId {
        self.replica
    }

    /// Whether it is an end of this owner.
    pub fn is_of(&self, end: End) -> bool {
        self.end == end
    }

    /// Whether it is a connection to or from this node, and has not failed.
    pub fn reaches(&self, node: NodeId) -> bool {
        matches!(self.transport, Transport::Socket(_, peer) if peer == node)
    }

    /// The socket of an end that has one, and has not failed; and what went over it.
    #[inline]
    pub fn socket(&mut self) -> Option<(&mut Socket, &mut LinkCounters)> {
        let Transport::Socket(socket, _) = &mut self.transport else { return None };
        Some((socket, &mut self.counters))
    }

    /// Counts a message that is sent, and says how.
    #[inline]
    pub fn sends(&mut self) -> &mut Transport {
        self.counters.messages_sent += 1;
        &mut self.transport
    }

    /// A message has come: its owner is told.
    #[inline]
    pub fn receives(&mut self, key: Key, message: Message, payload: Option<Buffer>) -> Work {
        self.counters.messages_received += 1;
        let link = LinkId(key.number());
        match self.end {
            End::Primary(volume) => {
                Work::Primary(volume, PrimaryEvent::Message { link, message, payload })
            }
            End::Replica(replica) => {
                Work::Replica(replica, ReplicaEvent::Message { link, message, payload })
            }
        }
    }

    /// It can't be used any more: how it was, and what its owner is told.
    pub fn fail(&mut self, key: Key) -> (Transport, Work) {
        let transport = std::mem::replace(&mut self.transport, Transport::Failed);
        let (link, replica) = (LinkId(key.number()), self.replica);
        let down = match self.end {
            End::Primary(volume) => {
                Work::Primary(volume, PrimaryEvent::LinkDown { replica, link: Some(link) })
            }
            End::Replica(replica) => Work::Replica(replica, ReplicaEvent::LinkClosed { link }),
        };
        (transport, down)
    }

    /// It is closed; its owner hears nothing more of it.
    pub fn into_transport(self) -> Transport {
        self.transport
    }

    /// What is shown of it, if it is a connection to or from another node.
    pub fn status(&self) -> Option<LinkStatus> {
        let Self { caller, replica, counters, .. } = *self;
        let is_connection = matches!(self.transport, Transport::Socket(..));
        is_connection.then_some(LinkStatus { caller, replica, counters })
    }
}
