//! The handle by which the control plane talks to the workers.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use evenkeel_core::primary::{Command, CommandError, CoordinatorAnswer, PrimaryConfig};
use evenkeel_core::{CoordinatorCall, Generation, NodeId, PrimaryId, ReplicaId, VolumeId};

use crate::api::*;
use crate::disk::{SpaceRequest, SpaceStep, SpaceTask};
use crate::error::{Answer, EngineError};
use crate::frontend::FrontendMaker;
use crate::transport::Connection;
use crate::worker::{self, Mailbox, Order, mailbox};

/// A handle to the workers. Cloning it shares them; they stop when [`Engine::stop`] is called.
///
/// Every call returns at once, and what it orders happens later: orders for one volume are carried
/// out one after the other. Nothing bounds how many orders wait for a worker but what callers have
/// under way. Orders given after `stop` are dropped, with their answers.
#[derive(Clone, Debug)]
pub struct Engine {
    workers: Arc<Vec<Mailbox>>,
    threads: Arc<Mutex<Vec<JoinHandle<()>>>>,
}

impl Engine {
    /// Starts the workers.
    ///
    /// # Errors
    /// If the kernel has no io_uring, or forbids it, or a thread can't be started.
    pub fn start(config: EngineConfig) -> io::Result<Self> {
        let mut mailboxes = Vec::new();
        let mut threads = Vec::new();
        for index in 0..config.workers.clamp(1, 64) {
            let (mailbox, receiver) = mailbox()?;
            threads.push(worker::start(index, config.clone(), receiver)?);
            mailboxes.push(mailbox);
        }
        Ok(Self { threads: Arc::new(Mutex::new(threads)), ..Self::of(mailboxes) })
    }

    /// The handle of these workers.
    pub(crate) fn of(workers: Vec<Mailbox>) -> Self {
        Self { workers: Arc::new(workers), threads: Arc::default() }
    }

    /// Stops the workers and waits for them: closes what is open as a killed process would, but
    /// waits for disk writes under way. Detach volumes and close replicas before.
    pub fn stop(&self) {
        for worker in self.workers.iter() {
            worker.send(Order::Stop);
        }
        let threads: Vec<_> =
            self.threads.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect();
        for thread in threads {
            // A worker that panicked has said so on standard error.
            let _ = thread.join();
        }
    }

    /// Opens a replica of this node; from then on it accepts links. `answer` is told the result.
    pub fn open_replica(
        &self,
        replica: OpenReplica,
        answer: impl FnOnce(Result<(), EngineError>) + Send + 'static,
    ) {
        let volume = replica.newest.superblock.volume;
        self.order(
            volume,
            Order::OpenReplica { replica: Box::new(replica), answer: Box::new(answer) },
        );
    }

    /// Closes a replica: its links are closed, and `answer` is called when the last operation on
    /// its disk has ended and the file is closed.
    pub fn close_replica(
        &self,
        volume: VolumeId,
        replica: ReplicaId,
        answer: impl FnOnce(Result<(), EngineError>) + Send + 'static,
    ) {
        self.order(volume, Order::CloseReplica { volume, replica, answer: Box::new(answer) });
    }

    /// One step of making room for so many bytes of a replica's data, on a file or device that is
    /// long enough. Tells what has to be done before the next step; `None`: there is room.
    /// `spare_in`: a view in which it is an idle spare, if there is one. The answer takes as long
    /// as the disk does.
    pub fn make_space(
        &self,
        volume: VolumeId,
        replica: ReplicaId,
        length: u64,
        step: SpaceStep,
        spare_in: Option<Generation>,
        answer: impl FnOnce(Result<Option<SpaceTask>, EngineError>) + Send + 'static,
    ) {
        let answer = Box::new(answer);
        let request = SpaceRequest { length, step, spare_in, answer };
        self.order(volume, Order::MakeSpace { volume, replica, request });
    }

    /// Makes a primary and starts it. It serves requests when the note
    /// [`evenkeel_core::primary::Note::Serving`] has come; [`EngineEvent::Ended`] tells its end.
    /// `memory` bounds what the volume's clients hold, in bytes; `None`: as configured.
    pub fn attach(
        &self,
        primary: PrimaryConfig,
        memory: Option<usize>,
        answer: impl FnOnce(Result<(), EngineError>) + Send + 'static,
    ) {
        let answer = Box::new(answer);
        let (volume, primary) = (primary.volume, Box::new(primary));
        self.order(volume, Order::Attach { primary, memory, answer });
    }

    /// Gives an operator's command to a volume's primary.
    pub fn command(
        &self,
        volume: VolumeId,
        command: Command,
        answer: impl FnOnce(Result<(), CommandError>) + Send + 'static,
    ) {
        self.order(volume, Order::Command { volume, command, answer: Box::new(answer) });
    }

    /// Adds a front end to an attached volume. `name` is for status and log, for example the
    /// client's address.
    pub fn add_frontend(
        &self,
        volume: VolumeId,
        frontend: FrontendId,
        name: String,
        make: FrontendMaker,
        answer: impl FnOnce(Result<(), EngineError>) + Send + 'static,
    ) {
        let answer = Box::new(answer);
        self.order(volume, Order::AddFrontend { volume, frontend, name, make, answer });
    }

    /// Removes a front end; `answer` is called when its descriptors are closed.
    pub fn remove_frontend(
        &self,
        volume: VolumeId,
        frontend: FrontendId,
        answer: impl FnOnce(Result<(), EngineError>) + Send + 'static,
    ) {
        self.order(volume, Order::RemoveFrontend { volume, frontend, answer: Box::new(answer) });
    }

    /// Tells a front end something, as [`crate::FrontendEvent::Reported`]. If it has ended, nobody.
    pub fn tell_frontend(&self, volume: VolumeId, frontend: FrontendId, what: u64) {
        self.order(volume, Order::TellFrontend { volume, frontend, what });
    }

    /// Hands over an inbound replication connection of node `peer` after its hello. If the replica
    /// is not open, it is closed.
    pub fn accept_link(
        &self,
        volume: VolumeId,
        replica: ReplicaId,
        peer: NodeId,
        connection: Connection,
    ) {
        self.order(volume, Order::AcceptLink { volume, replica, peer, connection });
    }

    /// Ends all links with a node, in both directions, that were handed over until now. Nobody is
    /// kept from handing over another one.
    pub fn disconnect(&self, node: NodeId) {
        self.workers.iter().for_each(|worker| worker.send(Order::Disconnect { node }));
    }

    /// Answers [`EngineEvent::Connect`]: the connection after its hello, or `None` if the replica
    /// can't be reached. An answer that nobody waits for any more is closed.
    pub fn connected(
        &self,
        volume: VolumeId,
        request: ConnectRequest,
        connection: Option<Connection>,
    ) {
        self.order(volume, Order::Connected { volume, request, connection });
    }

    /// Answers [`EngineEvent::ReadView`] and [`EngineEvent::SwapView`] of this primary. If it has
    /// ended, the answer is dropped, whoever is attached by then.
    pub fn coordinator_answer(
        &self,
        volume: VolumeId,
        primary: PrimaryId,
        call: CoordinatorCall,
        answer: CoordinatorAnswer,
    ) {
        self.order(volume, Order::CoordinatorAnswer { volume, primary, call, answer });
    }

    /// The state of one volume on this node; `None` if nothing of it is open here.
    pub fn volume_status(
        &self,
        volume: VolumeId,
        answer: impl FnOnce(Option<VolumeStatus>) + Send + 'static,
    ) {
        self.order(volume, Order::VolumeStatus { volume, answer: Box::new(answer) });
    }

    /// The state of every worker and all their volumes, in the order of the workers.
    pub fn survey(&self, answer: impl FnOnce(Vec<WorkerStatus>) + Send + 'static) {
        self.gather(
            |answer| Order::Survey { answer },
            move |mut all: Vec<WorkerStatus>| {
                all.sort_by_key(|status| status.worker);
                answer(all);
            },
        );
    }

    /// How far rebuilds have come, of all attached volumes on this node that have some: one
    /// question to each worker, so that it can be asked every second.
    pub fn rebuilds(&self, answer: impl FnOnce(VolumeRebuilds) + Send + 'static) {
        self.gather(
            |answer| Order::Rebuilds { answer },
            |all: Vec<VolumeRebuilds>| answer(all.into_iter().flatten().collect()),
        );
    }

    /// Asks all workers the same, and answers when the last of them has.
    fn gather<T: Send + 'static>(
        &self,
        order: impl Fn(Answer<T>) -> Order,
        answer: impl FnOnce(Vec<T>) + Send + 'static,
    ) {
        let count = self.workers.len();
        let gathered = Arc::new(Mutex::new((Vec::with_capacity(count), Some(answer))));
        for worker in self.workers.iter() {
            let gathered = gathered.clone();
            worker.send(order(Box::new(move |part| {
                let mut gathered = gathered.lock().unwrap_or_else(PoisonError::into_inner);
                gathered.0.push(part);
                if gathered.0.len() == count
                    && let Some(answer) = gathered.1.take()
                {
                    let all = std::mem::take(&mut gathered.0);
                    drop(gathered);
                    answer(all);
                }
            })));
        }
    }

    fn order(&self, volume: VolumeId, order: Order) {
        // Identities are random: any of their bits spread the volumes evenly.
        let index = (volume.0 % self.workers.len() as u128) as usize;
        self.workers[index].send(order);
    }
}
