//! How orders reach a worker: a queue, and an eventfd that its ring reads.
//!
//! The queue has no bound of its own: whoever gives an order may hold a lock, or be one of the few
//! threads of a runtime, and must not wait for a worker that is busy. It holds what callers have
//! ordered and not been answered, and they bound that: requests of the API, connections, and what
//! a worker has asked for itself.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use evenkeel_core::primary::{Command, CommandError, CoordinatorAnswer, PrimaryConfig};
use evenkeel_core::{CoordinatorCall, NodeId, PrimaryId, ReplicaId, VolumeId};
use rustix::event::{EventfdFlags, eventfd};

use crate::api::*;
use crate::disk::{Done, Reporter, SpaceRequest};
use crate::error::{Answer, EngineError};
use crate::frontend::FrontendMaker;
use crate::transport::Connection;

/// One call of the [`crate::Engine`], on its way to a worker.
pub(crate) enum Order {
    OpenReplica {
        replica: Box<OpenReplica>,
        answer: Answer<Result<(), EngineError>>,
    },
    CloseReplica {
        volume: VolumeId,
        replica: ReplicaId,
        answer: Answer<Result<(), EngineError>>,
    },
    MakeSpace {
        volume: VolumeId,
        replica: ReplicaId,
        request: SpaceRequest,
    },
    Attach {
        primary: Box<PrimaryConfig>,
        memory: Option<usize>,
        answer: Answer<Result<(), EngineError>>,
    },
    Command {
        volume: VolumeId,
        command: Command,
        answer: Answer<Result<(), CommandError>>,
    },
    AddFrontend {
        volume: VolumeId,
        frontend: FrontendId,
        name: String,
        make: FrontendMaker,
        answer: Answer<Result<(), EngineError>>,
    },
    RemoveFrontend {
        volume: VolumeId,
        frontend: FrontendId,
        answer: Answer<Result<(), EngineError>>,
    },
    TellFrontend {
        volume: VolumeId,
        frontend: FrontendId,
        what: u64,
    },
    AcceptLink {
        volume: VolumeId,
        replica: ReplicaId,
        peer: NodeId,
        connection: Connection,
    },
    Disconnect {
        node: NodeId,
    },
    Connected {
        volume: VolumeId,
        request: ConnectRequest,
        connection: Option<Connection>,
    },
    CoordinatorAnswer {
        volume: VolumeId,
        primary: PrimaryId,
        call: CoordinatorCall,
        answer: CoordinatorAnswer,
    },
    VolumeStatus {
        volume: VolumeId,
        answer: Answer<Option<VolumeStatus>>,
    },
    Survey {
        answer: Answer<WorkerStatus>,
    },
    Rebuilds {
        answer: Answer<VolumeRebuilds>,
    },
    /// Something that may block was done for a disk, elsewhere.
    Disk(Done),
    Stop,
}

/// The sending end.
#[derive(Debug, Clone)]
pub(crate) struct Mailbox {
    orders: Sender<Order>,
    waker: Arc<OwnedFd>,
}

/// The worker's end.
pub(crate) struct MailboxReceiver {
    orders: Receiver<Order>,
    waker: Arc<OwnedFd>,
    own: Mailbox,
}

/// A new mailbox.
pub(crate) fn mailbox() -> io::Result<(Mailbox, MailboxReceiver)> {
    let waker = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
    let (sender, receiver) = channel();
    let mailbox = Mailbox { orders: sender, waker: waker.clone() };
    let own = mailbox.clone();
    Ok((mailbox, MailboxReceiver { orders: receiver, waker, own }))
}

impl MailboxReceiver {
    /// Readable when orders have come; the worker's ring reads it.
    pub(super) const fn waker(&self) -> &Arc<OwnedFd> {
        &self.waker
    }

    /// The next order, if one has come.
    pub(super) fn take(&self) -> Option<Order> {
        self.orders.try_recv().ok()
    }

    /// The next order, which is waited for.
    ///
    /// # Errors
    /// If none comes in this time, or nobody is left who could give one.
    pub(super) fn wait(&self, at_most: Duration) -> Result<Order, RecvTimeoutError> {
        self.orders.recv_timeout(at_most)
    }

    /// By which those who work for this worker's disks answer.
    pub(super) fn reporter(&self) -> Reporter {
        let own = self.own.clone();
        Arc::new(move |done| own.send(Order::Disk(done)))
    }
}

impl Mailbox {
    /// Queues an order and wakes the worker; it never waits. After the worker has stopped, the
    /// order is dropped.
    pub(crate) fn send(&self, order: Order) {
        if self.orders.send(order).is_ok() {
            // Adding to an eventfd fails only if its counter is full, and then it is readable.
            let _ = rustix::io::write(&*self.waker, &1u64.to_ne_bytes());
        }
    }
}

#[cfg(test)]
mod tests;
