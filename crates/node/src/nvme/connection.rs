//! A connection of NVMe over TCP, from its first byte until it is a queue, and the admin queues.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::{HostId, Instant, Operation, VolumeId};
use evenkeel_engine::{Frontend, FrontendContext, FrontendEvent, FrontendId, RequestToken};
use evenkeel_exports::nvme::admin_queue::AdminQueue;
use evenkeel_exports::nvme::authentication::Authentication;
use evenkeel_exports::nvme::command::{Connect, ConnectData, Refusal, Status};
use evenkeel_exports::nvme::connection::{Connection, NotExpected};
use evenkeel_exports::nvme::controller::{QueueName, Subsystem};
use evenkeel_exports::nvme::handshake::{Handshake, Progress};
use evenkeel_exports::nvme::io_queue::{
    IoQueue, RESERVATIONS_ANSWERED, ReservationAnswers, Reserving, front_end,
};
use evenkeel_exports::nvme::reservation::Wanted;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{oneshot, watch};
use tokio::time::{timeout, timeout_at};

use super::authentication::{Proving, Unproved, prove};
use super::health::Looked;
use super::reserving::{self, carry_out};
use super::target::{
    Admin, Asked, Between, Connected, FollowUp, Handle, LetIn, Persisting, Target,
};
use super::{Found, HANDSHAKE};
use crate::clock::core_now;
use crate::nvme::NvmeServer;
use crate::peer::stream::PeerStream;
use crate::seats::Source;

/// How long a host may leave answers of its admin queue in the socket.
const UNREAD: Duration = Duration::from_secs(10);
/// Bytes that are received at once.
const PIECE: usize = 4096;
/// Bytes of an admin queue that are given to its controller at once: one command or two, each of
/// which may be answered with 1 MiB.
const COMMANDS: usize = 128;

/// A queue's place in its subsystem, until the last of its commands is over.
pub(super) struct Seat {
    pub(super) target: Arc<Target>,
    pub(super) name: QueueName,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.target.gone(self.name);
    }
}

/// A connection that is a queue now.
pub(super) struct Accepted {
    pub(super) connection: Connection,
    pub(super) seat: Seat,
    pub(super) host: HostId,
    pub(super) host_name: String,
    /// What came behind what made it one.
    pub(super) rest: Vec<u8>,
}

/// From where a connection comes.
#[derive(Clone, Copy)]
pub(super) struct From {
    pub(super) address: SocketAddr,
    pub(super) source: Source,
}

/// What a Connect has led to.
enum Joined {
    Queue(Seat, HostId, String),
    Unproved(Unproved),
}

/// What the bytes of a host have led to.
enum Greeted {
    /// It wants nothing.
    Left,
    Accepted(Box<Accepted>),
    Unproved(Box<Proving>),
}

/// Serves a connection, in a task of its own.
pub(super) fn greet(server: &Arc<NvmeServer>, mut stream: TcpStream, from: From) {
    let mut seat = server.choosing.take(from.source);
    let server = server.clone();
    tokio::spawn(async move {
        let accepted = tokio::select! {
            accepted = admit(&server, &mut stream, from) => accepted,
            () = seat.gone() => return,
        };
        drop(seat);
        match accepted {
            Ok(Some(accepted)) => serve(&server, stream, accepted, from).await,
            Ok(None) => {}
            Err(why) => server.say_closed(from, &why),
        }
    });
}

/// Leads a connection to its queue, with a proof of who the host is where one is needed. `None`:
/// the host wants nothing.
async fn admit(
    server: &Arc<NvmeServer>,
    stream: &mut TcpStream,
    from: From,
) -> Result<Option<Accepted>, String> {
    let deadline = tokio::time::Instant::now() + HANDSHAKE;
    let greeted = timeout_at(deadline, accept(server, stream, from)).await;
    match greeted.map_err(|_| "it did not connect a queue in time")?? {
        Greeted::Left => Ok(None),
        Greeted::Accepted(accepted) => Ok(Some(*accepted)),
        Greeted::Unproved(proving) => {
            let proved = timeout_at(deadline, prove(server, stream, *proving, from)).await;
            proved.map_err(|_| "it did not prove who it is in time")?
        }
    }
}

/// Leads a connection to its Connect, and answers that.
async fn accept(
    server: &NvmeServer,
    stream: &mut TcpStream,
    from: From,
) -> Result<Greeted, String> {
    let mut handshake = Handshake::default();
    let mut rest = Vec::new();
    while receive(stream, &mut rest).await? {
        let mut out = Vec::new();
        let (used, progress) = handshake.receive(&rest, &mut out);
        rest.drain(..used);
        match progress {
            Progress::Wait => {}
            Progress::End(end) => {
                stream.write_all(&out).await.map_err(|e| e.to_string())?;
                return Err(end.to_string());
            }
            Progress::Connect(connect) => {
                match join(server, stream, &handshake, &connect, from).await {
                    Ok(joined) => {
                        let greeted = answer(server, handshake, joined, rest, &mut out);
                        stream.write_all(&out).await.map_err(|e| e.to_string())?;
                        return greeted.map_err(|e| e.to_string());
                    }
                    Err(refusal) => handshake.refuse(refusal, &mut out),
                }
            }
        }
        stream.write_all(&out).await.map_err(|e| e.to_string())?;
    }
    Ok(Greeted::Left)
}

/// Ends what a host has lost that asks for a new controller, and waits until that is gone: a write
/// from before must not take effect after one that comes over the new queues. Returns since when
/// the host has waited for its controller.
///
/// # Errors
/// What to answer, if there will be no place for it.
pub(super) async fn end_lost(
    target: &Target,
    stream: &TcpStream,
    asked: Asked<'_>,
) -> Result<Instant, Refusal> {
    let addresses = stream.peer_addr().ok().zip(stream.local_addr().ok());
    let addresses = addresses.map(|(from, reached)| Between { from: from.ip(), reached });
    let wait = target.end_lost(asked, addresses, core_now())?;
    let mut changes = target.changes();
    let drained =
        async { while target.is_ending(asked.data) && changes.changed().await.is_ok() {} };
    // After this time it is let in all the same.
    let _ = timeout(wait.until.since(core_now()), drained).await;
    Ok(wait.since)
}

/// Waits for bytes of the host. Returns false if it has left.
pub(super) async fn receive(stream: &mut TcpStream, to: &mut Vec<u8>) -> Result<bool, String> {
    let mut piece = [0; PIECE];
    let count = stream.read(&mut piece).await.map_err(|e| e.to_string())?;
    to.extend_from_slice(&piece[..count]);
    Ok(count > 0)
}

/// Answers the Connect of a host that may be let in.
fn answer(
    server: &NvmeServer,
    handshake: Handshake,
    joined: Joined,
    rest: Vec<u8>,
    out: &mut Vec<u8>,
) -> Result<Greeted, NotExpected> {
    match joined {
        Joined::Queue(seat, host, host_name) => {
            let connection = handshake.accept(seat.name, out)?;
            let accepted = Accepted { connection, seat, host, host_name, rest };
            Ok(Greeted::Accepted(Box::new(accepted)))
        }
        Joined::Unproved(unproved) => {
            let machine = Authentication::new(unproved.parties.clone(), server.prover.fresh());
            let authenticating = handshake.challenge(unproved.name, machine, out)?;
            Ok(Greeted::Unproved(Box::new(Proving { unproved, authenticating, rest })))
        }
    }
}

/// Makes a connection the queue that its host asks for, once what that has lost is gone, or says
/// what it has to prove first.
async fn join(
    server: &NvmeServer,
    stream: &TcpStream,
    handshake: &Handshake,
    connect: &Connect,
    from: From,
) -> Result<Joined, Refusal> {
    let data = handshake.data()?;
    let refused = |(refusal, why): (Refusal, &str)| {
        server.say_refused(from, data.host_name, data.subsystem, why);
        refusal
    };
    let because = |refusal| refused((refusal, reason(refusal)));
    let target = wanted(server, &data).map_err(refused)?;
    let asked = Asked { connect, data: &data };
    let since = match target.has_keys(data.host_name) {
        // It proves first who it is.
        true => core_now(),
        false => end_lost(&target, stream, asked).await.map_err(because)?,
    };
    // Meanwhile another export may have taken the place of this one.
    let target = wanted(server, &data).map_err(refused)?;
    let handle = handle(stream, from)?;
    let connected = target.connect(asked, LetIn { since, now: core_now() }, handle);
    Ok(match connected.map_err(because)? {
        Connected::Queue(name) => {
            Joined::Queue(Seat { target, name }, host(&data), data.host_name.to_owned())
        }
        Connected::Unproved(name, parties) => {
            let (connect, host, controller) = (*connect, data.host, data.controller);
            Joined::Unproved(Unproved { target, name, parties, connect, host, controller })
        }
    })
}

/// The subsystem that a host asks for; else why that is refused, for the host and for the log.
fn wanted(
    server: &NvmeServer,
    data: &ConnectData<'_>,
) -> Result<Arc<Target>, (Refusal, &'static str)> {
    match server.find(data.subsystem, data.host_name) {
        Found::Here(target) => Ok(target),
        Found::Soon => Err((Status::ControllerBusy.into(), "its volume is not back yet")),
        Found::Nowhere => Err((Subsystem::unknown(), "no such subsystem is exported here")),
    }
}

/// Another handle of a connection, by which its target closes it.
pub(super) fn handle(stream: &TcpStream, from: From) -> Result<Handle, Status> {
    let socket = stream.as_fd().try_clone_to_owned().map_err(|_| Status::Internal)?;
    Ok(Handle { socket: socket.into(), from: from.address })
}

/// The host, as the volume knows it.
pub(super) const fn host(data: &ConnectData<'_>) -> HostId {
    HostId(u128::from_be_bytes(data.host))
}

/// Why a target refuses a Connect, for the log.
pub(super) const fn reason(refusal: Refusal) -> &'static str {
    match refusal.status {
        Status::ConnectHost => "the export names other hosts, or other keys by now",
        Status::ControllerBusy => "too many connections, or old ones that have not ended yet",
        _ => "it asks for what there is not",
    }
}

/// Serves a queue until it ends, or hands it over to the engine.
async fn serve(server: &Arc<NvmeServer>, stream: TcpStream, accepted: Accepted, from: From) {
    if accepted.seat.name.queue != 0 {
        return serve_io(server, stream, accepted, from).await;
    }
    let volume = accepted.seat.target.of().and_then(|volume| server.volumes.name(volume));
    let host = accepted.host_name.clone();
    if volume.is_some()
        && let Some(left_out) = server.log.line(from.source)
    {
        tracing::info!(volume, %host, from = %from.address, "an NVMe host is connected{left_out}");
    }
    if let Err(why) = serve_admin(server, stream, accepted).await {
        server.say_closed(from, &why);
    }
}

/// Serves an admin queue until it ends.
async fn serve_admin(
    server: &Arc<NvmeServer>,
    mut stream: TcpStream,
    accepted: Accepted,
) -> Result<(), String> {
    let Accepted { connection, seat, rest: mut received, .. } = accepted;
    let (target, name) = (&seat.target, seat.name);
    let reached: IpAddr = stream.local_addr().map_err(|e| e.to_string())?.ip().to_canonical();
    let queue = AdminQueue::new(connection);
    let mut admin = Admin { queue, controller: name.controller, reached };
    let (mut changes, mut is_flushing, mut looked) = (target.changes(), false, Looked::default());
    let mut piece = vec![0; PIECE];
    loop {
        changes.mark_unchanged();
        if !received.is_empty() {
            looked.look(server, target).await;
        }
        let answered = answer_all(server, target, &mut stream, &mut admin, &received).await?;
        let FollowUp { has_ended, wants_flush, expires, .. } = answered;
        if has_ended {
            return Ok(());
        }
        if wants_flush && !is_flushing {
            is_flushing = true;
            tokio::spawn(flush(server.clone(), target.clone(), name.controller));
        }
        is_flushing &= wants_flush;
        let heard = hear(&mut stream, &mut piece, &mut changes, expires).await;
        let Some(count) = heard else { return Ok(()) };
        received.clear();
        received.extend_from_slice(&piece[..count]);
    }
}

/// Gives an admin queue what has come, piece by piece, and sends its answers. Without bytes it
/// looks for what has happened. Returns what follows in the end.
async fn answer_all(
    server: &Arc<NvmeServer>,
    target: &Arc<Target>,
    stream: &mut TcpStream,
    admin: &mut Admin,
    received: &[u8],
) -> Result<FollowUp, String> {
    let (mut bytes, mut rest) = received.split_at(received.len().min(COMMANDS));
    loop {
        let mut out = Vec::new();
        let step = target.step(admin, bytes, core_now(), &mut out);
        send(stream, &out).await?;
        let step = step.map_err(|end| end.to_string())?;
        for asked in &step.persisting {
            tokio::spawn(persist(server.clone(), target.clone(), admin.controller, *asked));
        }
        if rest.is_empty() {
            return Ok(step);
        }
        (bytes, rest) = rest.split_at(rest.len().min(COMMANDS));
    }
}

/// Waits for bytes of a host, or until something has happened, or the host has been silent for too
/// long; how many bytes there are. `None`: the host has left. If all of it is so at once, what the
/// host has sent counts first: when a node has stood still, a sign of life may be among it.
async fn hear(
    stream: &mut (impl AsyncRead + Unpin),
    piece: &mut [u8],
    changes: &mut watch::Receiver<()>,
    expires: Option<Instant>,
) -> Option<usize> {
    tokio::select! {
        biased;
        read = stream.read(piece) => read.ok().filter(|count| *count > 0),
        _ = changes.changed() => Some(0),
        () = until(expires) => Some(0),
    }
}

async fn send(stream: &mut TcpStream, out: &[u8]) -> Result<(), String> {
    match tokio::time::timeout(UNREAD, stream.write_all(out)).await {
        Ok(sent) => sent.map_err(|e| e.to_string()),
        Err(_) => Err("it does not read its answers".to_owned()),
    }
}

async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep(moment.since(core_now())).await,
        None => std::future::pending().await,
    }
}

/// Hands a queue for I/O over to the engine.
async fn serve_io(server: &Arc<NvmeServer>, stream: TcpStream, accepted: Accepted, from: From) {
    let Accepted { connection, seat, host, host_name, rest } = accepted;
    let (target, name) = (seat.target.clone(), seat.name);
    // Discovery has no queues for I/O: its controllers refuse them.
    let (Some(volume), Some((namespace, size))) = (target.of(), target.namespace()) else { return };
    reserving::look(server, &target).await;
    // Its seat keeps the name for it until it is gone.
    let Some(number) = target.number(name) else { return };
    let socket = match PeerStream::Tcp(stream).into_plain_fd() {
        Ok(socket) => socket,
        Err(error) => {
            return tracing::warn!(from = %from.address, %error, "cannot hand over an NVMe queue");
        }
    };
    let (of, by) = (target.clone(), target.clone());
    let deleted = Box::new(move || of.disconnect(name));
    let aborted = Box::new(move |command, is_aborted| by.aborted(name, command, is_aborted));
    let frontend = server.data.next_frontend();
    let asker = Asker { name, host, volume, frontend };
    let reserving = Some(reserve_by(server, &target, asker));
    let queue = IoQueue { connection, namespace, size, host, rest, deleted, aborted, reserving };
    let make = front_end(socket, queue);
    let maker = move || -> Box<dyn Frontend> { Box::new(Seated { frontend: make(), _seat: seat }) };
    let called = format!("nvme {host_name} {}", from.address);
    match server.data.add_frontend(volume, frontend, called, Box::new(maker)).await {
        Ok(()) => {
            let data = server.data.clone();
            let report = move |what| data.tell_frontend(volume, frontend, what);
            target.serves(name, number, Box::new(report));
        }
        Err(error) => server.say_closed(from, &error.to_string()),
    }
}

/// A queue for I/O that asks for something about its volume's reservations.
struct Asker {
    name: QueueName,
    host: HostId,
    volume: VolumeId,
    frontend: FrontendId,
}

/// Carries out a queue's commands about reservations, each in a task of its own.
fn reserve_by(server: &Arc<NvmeServer>, target: &Arc<Target>, asker: Asker) -> Reserving {
    let Asker { name, host, volume, frontend } = asker;
    let (server, target, answers) = (server.clone(), target.clone(), ReservationAnswers::default());
    let excluded = target.excluded(name, host);
    // The queue asks on a thread of the engine.
    let tasks = tokio::runtime::Handle::current();
    let to = answers.clone();
    let ask = Box::new(move |number, wanted| {
        let (server, target, to) = (server.clone(), target.clone(), to.clone());
        tasks.spawn(async move {
            to.answer(number, carry_out(&server, &target, host, wanted).await);
            server.data.tell_frontend(volume, frontend, RESERVATIONS_ANSWERED);
        });
    });
    Reserving { ask, answers, excluded }
}

/// Has the volume say that its reservations persist, or do not, and tells the controller.
async fn persist(server: Arc<NvmeServer>, target: Arc<Target>, controller: u16, asked: Persisting) {
    let wanted = Wanted::Persist(asked.is_persistent);
    // It does not matter who asks.
    let done = carry_out(&server, &target, HostId(0), wanted).await;
    target.persisted(controller, asked.number, done.err().unwrap_or(Status::Success));
}

/// A queue that holds its place for as long as it lives, however it ends.
struct Seated {
    frontend: Box<dyn Frontend>,
    _seat: Seat,
}

impl Frontend for Seated {
    fn handle(&mut self, event: FrontendEvent, context: &mut FrontendContext) {
        self.frontend.handle(event, context);
    }

    fn next_wakeup(&self) -> Option<Instant> {
        self.frontend.next_wakeup()
    }
}

/// Makes durable what was acknowledged, and tells the controller. If that fails the controller does
/// not say that it is shut down.
async fn flush(server: Arc<NvmeServer>, target: Arc<Target>, controller: u16) {
    // Discovery has nothing to flush.
    let Some(volume) = target.of() else { return };
    if flushed(&server, volume).await {
        target.shut_down(controller);
    }
}

async fn flushed(server: &NvmeServer, volume: VolumeId) -> bool {
    let (sender, receiver) = oneshot::channel();
    let maker = move || -> Box<dyn Frontend> { Box::new(Flusher(Some(sender))) };
    let frontend = server.data.next_frontend();
    let added = server.data.add_frontend(volume, frontend, FLUSH.to_owned(), Box::new(maker)).await;
    added.is_ok() && receiver.await == Ok(true)
}

/// The name of the front end that flushes.
const FLUSH: &str = "flush for nvme";

/// Flushes once.
struct Flusher(Option<oneshot::Sender<bool>>);

impl Frontend for Flusher {
    fn handle(&mut self, event: FrontendEvent, context: &mut FrontendContext) {
        match event {
            FrontendEvent::Started => drop(context.submit(RequestToken(0), Operation::Flush)),
            FrontendEvent::Reply { result, .. } => {
                // Whoever asked may have gone.
                let _ = self.0.take().map(|sender| sender.send(result.is_ok()));
                context.end("flushed for an NVMe host");
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
