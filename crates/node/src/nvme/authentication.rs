//! A host proves who it is, between its Connect and the queue (the machine is in the `exports`
//! crate).
//!
//! Until then it takes no place of its volume: only one among the connections that are no queue
//! yet, of which the oldest gives way. Diffie-Hellman is computed by threads that may block, one
//! power of a usual group and one of a large group at a time, so that volumes and other hosts go
//! on; who waits for that waits behind one other connection of each address at most.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use evenkeel_exports::nvme::authentication::{Computation, EXPONENT_LENGTH, Fresh, Hash, Parties};
use evenkeel_exports::nvme::command::{Connect, ConnectData, Refusal};
use evenkeel_exports::nvme::controller::QueueName;
use evenkeel_exports::nvme::handshake::{Authenticating, ProofProgress};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use zeroize::Zeroizing;

use super::connection::{Accepted, From, Seat, end_lost, handle, host, reason, receive};
use super::target::{Asked, LetIn, Target};
use crate::clock::core_now;
use crate::nvme::NvmeServer;
use crate::random::fill_random;
use crate::seats::Source;

/// A connection whose host has to prove who it is.
pub(super) struct Unproved {
    pub(super) target: Arc<Target>,
    /// What it becomes then.
    pub(super) name: QueueName,
    pub(super) parties: Parties,
    /// What it has asked for.
    pub(super) connect: Connect,
    pub(super) host: [u8; 16],
    pub(super) controller: u16,
}

/// The same while it proves that.
pub(super) struct Proving {
    pub(super) unproved: Unproved,
    pub(super) authenticating: Authenticating,
    /// What has come and is not read yet.
    pub(super) rest: Vec<u8>,
}

impl Unproved {
    fn data(&self) -> ConnectData<'_> {
        let Parties { host: host_name, subsystem, .. } = &self.parties;
        let (host, controller) = (self.host, self.controller);
        ConnectData { host, controller, subsystem, host_name }
    }

    fn say_refused(&self, server: &NvmeServer, from: From, why: &str) {
        let Parties { host, subsystem, .. } = &self.parties;
        server.say_refused(from, host, subsystem, why);
    }
}

/// Leads a connection from its Connect to its queue. `None`: the host has left.
pub(super) async fn prove(
    server: &Arc<NvmeServer>,
    stream: &mut TcpStream,
    proving: Proving,
    from: From,
) -> Result<Option<Accepted>, String> {
    let Proving { unproved, mut authenticating, mut rest } = proving;
    let refuse = |why: &str| unproved.say_refused(server, from, why);
    loop {
        let mut out = Vec::new();
        let (used, step) = authenticating.receive(&rest, &mut out);
        rest.drain(..used);
        let is_waiting = matches!(step, ProofProgress::Wait);
        match step {
            ProofProgress::Wait => {}
            ProofProgress::Compute(computation) => {
                let value = server.prover.compute(from.source, computation).await?;
                authenticating.computed(value, &mut out);
            }
            ProofProgress::Proved => {
                let proving = Proving { unproved, authenticating, rest };
                return let_in(server, stream, proving, out, from).await;
            }
            ProofProgress::Failed(fault) => {
                refuse(&fault.to_string());
                return send(stream, &out).await.map(|()| None);
            }
            ProofProgress::End(end) => {
                return send(stream, &out).await.and(Err(end.to_string()));
            }
        }
        send(stream, &out).await?;
        if is_waiting && !receive(stream, &mut rest).await? {
            if let Some(fault) = authenticating.machine().fault() {
                refuse(&fault.to_string());
            }
            return Ok(None);
        }
    }
}

/// The connection becomes a queue, if there is a place for it still.
async fn let_in(
    server: &NvmeServer,
    stream: &mut TcpStream,
    proved: Proving,
    mut out: Vec<u8>,
    from: From,
) -> Result<Option<Accepted>, String> {
    let Proving { unproved, authenticating, rest } = proved;
    match open(stream, &unproved, from).await {
        Ok(seat) => {
            let (host, host_name) = (host(&unproved.data()), unproved.parties.host.clone());
            let connection = authenticating.finish(&mut out).map_err(|e| e.to_string())?;
            send(stream, &out).await?;
            Ok(Some(Accepted { connection, seat, host, host_name, rest }))
        }
        Err(refusal) => {
            authenticating.refuse(refusal, &mut out);
            unproved.say_refused(server, from, reason(refusal));
            send(stream, &out).await.map(|()| None)
        }
    }
}

/// Makes it a queue, once what its host has lost is gone.
async fn open(stream: &TcpStream, unproved: &Unproved, from: From) -> Result<Seat, Refusal> {
    let Unproved { target, name, parties, connect, .. } = unproved;
    let data = unproved.data();
    let asked = Asked { connect, data: &data };
    let since = end_lost(target, stream, asked).await?;
    let handle = handle(stream, from)?;
    target.open(*name, &parties.keys, asked, LetIn { since, now: core_now() }, handle)?;
    Ok(Seat { target: target.clone(), name: *name })
}

async fn send(stream: &mut TcpStream, out: &[u8]) -> Result<(), String> {
    stream.write_all(out).await.map_err(|e| e.to_string())
}

/// What proofs need of a node.
#[derive(Debug)]
pub(super) struct Prover {
    usual: Turns,
    /// Of groups whose powers take long: whoever asks for such delays only those who do, too.
    long: Turns,
    /// The next sequence number.
    sequence: AtomicU32,
}

impl Default for Prover {
    fn default() -> Self {
        let mut first = [0; 4];
        fill_random(&mut first);
        let sequence = AtomicU32::new(u32::from_le_bytes(first));
        Self { usual: Turns::default(), long: Turns::default(), sequence }
    }
}

/// Whose power is computed.
#[derive(Debug)]
struct Turns {
    /// One is computed at a time.
    one: Arc<Semaphore>,
    /// One connection of each source waits for that; the others of it wait for that one.
    of_sources: Mutex<HashMap<Source, Weak<Semaphore>>>,
}

impl Default for Turns {
    fn default() -> Self {
        Self { one: Arc::new(Semaphore::new(1)), of_sources: Mutex::default() }
    }
}

impl Turns {
    /// Whoever holds these may compute.
    async fn wait(&self, source: Source) -> Result<[OwnedSemaphorePermit; 2], String> {
        let ended = |_| "the node ends".to_owned();
        let own = self.of(source).acquire_owned().await.map_err(ended)?;
        let one = self.one.clone().acquire_owned().await.map_err(ended)?;
        Ok([own, one])
    }

    fn of(&self, source: Source) -> Arc<Semaphore> {
        let mut turns = self.of_sources.lock().unwrap_or_else(PoisonError::into_inner);
        turns.retain(|_, turn| turn.strong_count() > 0);
        if let Some(turn) = turns.get(&source).and_then(Weak::upgrade) {
            return turn;
        }
        let turn = Arc::new(Semaphore::new(1));
        turns.insert(source, Arc::downgrade(&turn));
        turn
    }
}

impl Prover {
    /// What is new for a conversation.
    pub(super) fn fresh(&self) -> Fresh {
        let mut challenge = [0; Hash::MAX_LENGTH];
        fill_random(&mut challenge);
        let mut exponent = Zeroizing::new([0; EXPONENT_LENGTH]);
        fill_random(&mut *exponent);
        // 0 has a meaning of its own.
        let next = || self.sequence.fetch_add(1, Ordering::Relaxed);
        let sequence = std::iter::repeat_with(next).find(|number| *number != 0).unwrap_or(1);
        Fresh { challenge, sequence, exponent }
    }

    async fn compute(
        &self,
        source: Source,
        computation: Computation,
    ) -> Result<Zeroizing<Vec<u8>>, String> {
        let turns = if computation.is_long() { &self.long } else { &self.usual };
        let turns = turns.wait(source).await?;
        // It goes on, and keeps its turns, also if nobody waits for it any more.
        let compute = move || {
            let _turns = turns;
            computation.run()
        };
        tokio::task::spawn_blocking(compute).await.map_err(|e| e.to_string())
    }
}

#[cfg(test)]
mod tests;
