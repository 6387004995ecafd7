//! A target of NVMe over TCP in one process, for tests with a kernel's initiator: a volume of two
//! replicas, on `127.0.0.1`, with a discovery subsystem beside it.
//!
//! `serve_nvme PORT HOSTNQN SIZE` says when it listens, and what it is called. Hosts see half of
//! the volume until its input has a line `grow`; a line `lost` or `found` changes the state of the
//! path. At the end of its input it detaches, and says whether the replicas are the same.

#[path = "../../engine/tests/common/mod.rs"]
mod cluster;

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use cluster::{Cluster, Shape};
use evenkeel_core::{HostId, Instant, Operation, VolumeId};
use evenkeel_engine::{Engine, Frontend, FrontendContext, FrontendEvent, FrontendId, RequestToken};
use evenkeel_exports::nvme::admin_queue::AdminQueue;
use evenkeel_exports::nvme::connection::{Connection, End};
use evenkeel_exports::nvme::controller::{
    Controller, Facts, Health, Hosts, Identifiers, Kind, Limits, Namespace, Notice, Path,
    PathState, QueueName, Subject, Subsystem, Volume,
};
use evenkeel_exports::nvme::discovery::{Directory, Record, RecordKind, Security};
use evenkeel_exports::nvme::handshake::{Handshake, Progress};
use evenkeel_exports::nvme::io_queue::{self, IoQueue, front_end};
use evenkeel_format::DATA_OFFSET;

const NAME: &str = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-123456789abc";
/// Bytes that are compared at once.
const PART: usize = 1 << 20;
/// How often an admin queue is looked at while its host is silent.
const POLL_PERIOD: Duration = Duration::from_millis(100);

/// What connections share.
struct Shared {
    volume: Subsystem,
    discovery: Subsystem,
    directory: Directory,
    path: Path,
    /// Queues for I/O, as front ends.
    queues: HashMap<QueueName, FrontendId>,
    next: u64,
}

#[derive(Clone)]
struct Target {
    engine: Engine,
    volume: VolumeId,
    size: Arc<AtomicU64>,
    began: std::time::Instant,
    shared: Arc<Mutex<Shared>>,
}

impl Shared {
    fn of(&mut self, kind: Kind) -> &mut Subsystem {
        match kind {
            Kind::Volume => &mut self.volume,
            Kind::Discovery => &mut self.discovery,
        }
    }
}

/// A connection whose Connect was accepted.
struct Accepted {
    connection: Connection,
    name: QueueName,
    kind: Kind,
    host: HostId,
    rest: Vec<u8>,
}

impl Target {
    fn new(cluster: &Cluster, address: SocketAddr, host: &str, size: u64) -> Self {
        let hosts = Hosts::named([host.to_owned()]);
        let identifiers = || Identifiers::of_attachment(0);
        let subsystem = |name: &str, kind, hosts| {
            Subsystem::new(name.to_owned(), kind, hosts, Limits::default(), identifiers())
        };
        let mut directory = Directory::default();
        let record = Record {
            kind: RecordKind::Volume,
            subsystem: NAME.to_owned(),
            port: 1,
            address,
            security: Security::None,
            hosts: hosts.clone(),
        };
        drop(directory.replace(vec![record]).expect("there is one"));
        let shared = Shared {
            volume: subsystem(NAME, Kind::Volume, hosts),
            discovery: subsystem(Subsystem::DISCOVERY, Kind::Discovery, Hosts::everyone()),
            directory,
            path: Path { state: PathState::Optimized, changes: 0 },
            queues: HashMap::new(),
            next: 100,
        };
        Self {
            engine: cluster.engines[0].clone(),
            volume: cluster.volume,
            size: Arc::new(AtomicU64::new(size / 2)),
            began: std::time::Instant::now(),
            shared: Arc::new(Mutex::new(shared)),
        }
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().expect("nobody panicked")
    }

    fn now(&self) -> Instant {
        Instant(0) + self.began.elapsed()
    }

    fn namespace(&self) -> Namespace {
        let identifier = self.volume.0.to_be_bytes();
        let size = self.size.load(Ordering::Relaxed);
        Namespace {
            identifier,
            size,
            block_size: 512,
            best_write: 1 << 20,
            is_read_only: false,
            has_reservations: false,
        }
    }

    fn serve(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let Some(accepted) = self.accept(&mut stream)? else { return Ok(()) };
        if accepted.name.queue == 0 {
            let (kind, name) = (accepted.kind, accepted.name);
            let result = self.admin(&mut stream, accepted);
            let mut shared = self.shared();
            if let Some(controller) = shared.of(kind).controller(name.controller) {
                controller.end();
            }
            self.close(&mut shared, kind, name.controller);
            shared.of(kind).gone(name);
            return result;
        }
        self.io(stream, accepted);
        Ok(())
    }

    /// Leads a connection to its queue.
    fn accept(&self, stream: &mut TcpStream) -> io::Result<Option<Accepted>> {
        let mut handshake = Handshake::default();
        let mut rest = Vec::new();
        loop {
            let mut bytes = vec![0; 4096];
            let count = stream.read(&mut bytes)?;
            if count == 0 {
                return Ok(None);
            }
            rest.extend_from_slice(&bytes[..count]);
            let mut out = Vec::new();
            let (used, progress) = handshake.receive(&rest, &mut out);
            rest.drain(..used);
            let Progress::Connect(connect) = progress else {
                stream.write_all(&out)?;
                if let Progress::End(end) = progress {
                    println!("refused: {end}");
                    return Ok(None);
                }
                continue;
            };
            let mut shared = self.shared();
            let connected = handshake.data().and_then(|data| {
                let is_discovery = data.subsystem == Subsystem::DISCOVERY;
                let kind = if is_discovery { Kind::Discovery } else { Kind::Volume };
                let name = shared.of(kind).connect(&connect, &data, self.now())?;
                Ok((name, kind, HostId(u128::from_be_bytes(data.host))))
            });
            match connected {
                Ok((name, kind, host)) => {
                    println!("controller {} has queue {}", name.controller, name.queue);
                    let connection = handshake.accept(name, &mut out).expect("it asked");
                    stream.write_all(&out)?;
                    return Ok(Some(Accepted { connection, name, kind, host, rest }));
                }
                Err(refusal) => {
                    println!("refused: {:?} ({:x})", refusal.status, refusal.result);
                    handshake.refuse(refusal, &mut out);
                    stream.write_all(&out)?;
                }
            }
        }
    }

    /// Serves an admin queue until it ends.
    fn admin(&self, stream: &mut TcpStream, accepted: Accepted) -> io::Result<()> {
        let Accepted { connection, name, kind, rest, .. } = accepted;
        let mut queue = AdminQueue::new(connection);
        stream.set_read_timeout(Some(POLL_PERIOD))?;
        let mut bytes = vec![0; 16 << 10];
        let mut received = rest;
        loop {
            let mut out = Vec::new();
            let goes_on = self.step(&mut queue, &received, kind, name.controller, &mut out);
            stream.write_all(&out)?;
            if let Err(end) = goes_on {
                println!("controller {}: {end}", name.controller);
                return Ok(());
            }
            if goes_on == Ok(false) {
                println!("controller {} has ended", name.controller);
                return Ok(());
            }
            received = match stream.read(&mut bytes) {
                Ok(0) => return Ok(()),
                Ok(count) => bytes[..count].to_vec(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Vec::new(),
                Err(error) => return Err(error),
            };
        }
    }

    /// Gives an admin queue what has come, and does what its controller asks for. Returns whether
    /// that goes on.
    fn step(
        &self,
        queue: &mut AdminQueue,
        received: &[u8],
        kind: Kind,
        identifier: u16,
        out: &mut Vec<u8>,
    ) -> Result<bool, End> {
        let mut shared = self.shared();
        let now = self.now();
        let volume = Volume {
            namespace: self.namespace(),
            path: shared.path,
            health: Health::default(),
            reservations_persist: false,
        };
        let Shared { volume: of_volume, discovery, directory, queues, .. } = &mut *shared;
        let (subsystem, subject, called) = match kind {
            Kind::Volume => (of_volume, Subject::Volume(&volume), NAME),
            Kind::Discovery => (
                discovery,
                Subject::Discovery(directory, [127, 0, 0, 1].into()),
                Subsystem::DISCOVERY,
            ),
        };
        let facts = Facts { serial: "evenkeel-test", firmware: "0.1", subsystem: called, subject };
        let Some(controller) = subsystem.controller(identifier) else { return Ok(false) };
        queue.receive(received, controller, &facts, now, out)?;
        controller.expire(now);
        for (queue, command) in controller.take_aborts() {
            match queues.get(&QueueName { controller: identifier, queue }) {
                Some(id) => self.engine.tell_frontend(self.volume, *id, io_queue::abort(command)),
                None => controller.aborted(queue, command, false),
            }
        }
        queue.answer_kept(controller, out);
        let wants_flush = controller.wants_flush();
        let has_ended = controller.has_ended();
        self.close(&mut shared, kind, identifier);
        drop(shared);
        if wants_flush {
            self.flush(kind, identifier);
        }
        Ok(!has_ended)
    }

    /// Closes the queues that a controller wants closed.
    fn close(&self, shared: &mut Shared, kind: Kind, identifier: u16) {
        let controller = shared.of(kind).controller(identifier);
        let closing = controller.map_or(Vec::new(), Controller::take_closing);
        for queue in closing {
            let name = QueueName { controller: identifier, queue };
            if let Some(frontend) = shared.queues.get(&name) {
                println!("closing queue {queue} of controller {identifier}");
                self.engine.remove_frontend(self.volume, *frontend, |_| {});
            }
        }
    }

    /// Makes durable what was acknowledged, and tells the controller.
    fn flush(&self, kind: Kind, identifier: u16) {
        let target = self.clone();
        let flusher = move || -> Box<dyn Frontend> {
            Box::new(Flusher(Box::new(move || {
                if let Some(controller) = target.shared().of(kind).controller(identifier) {
                    controller.shut_down();
                }
            })))
        };
        let id = self.next(&mut self.shared());
        self.engine.add_frontend(self.volume, id, "flush".into(), Box::new(flusher), |_| {});
    }

    /// Does what a line says, and has the hosts told.
    fn change(&self, line: &str) {
        let mut shared = self.shared();
        let notice = match line {
            "grow" => {
                let half = self.size.load(Ordering::Relaxed);
                self.size.store(half * 2, Ordering::Relaxed);
                Notice::Namespace
            }
            line => {
                let is_lost = line == "lost";
                let state = if is_lost { PathState::Inaccessible } else { PathState::Optimized };
                shared.path = Path { state, changes: shared.path.changes + 1 };
                Notice::Path
            }
        };
        shared.volume.notify(notice);
    }

    fn next(&self, shared: &mut Shared) -> FrontendId {
        shared.next += 1;
        FrontendId(shared.next)
    }

    /// Gives a queue for I/O to the engine.
    fn io(&self, stream: TcpStream, accepted: Accepted) {
        let Accepted { connection, name, host, rest, .. } = accepted;
        let mut shared = self.shared();
        let id = self.next(&mut shared);
        shared.queues.insert(name, id);
        drop(shared);
        let target = self.clone();
        let deleted = Box::new(move || {
            if let Some(controller) = target.shared().volume.controller(name.controller) {
                controller.disconnect(name.queue);
            }
        });
        let target = self.clone();
        let aborted = Box::new(move |command, is_aborted| {
            if let Some(controller) = target.shared().volume.controller(name.controller) {
                controller.aborted(name.queue, command, is_aborted);
            }
        });
        let (namespace, size) = (self.namespace(), self.size.clone());
        let reserving = None;
        let queue =
            IoQueue { connection, namespace, size, host, rest, deleted, aborted, reserving };
        let make = front_end(OwnedFd::from(stream), queue);
        let seat = Seat { target: self.clone(), name };
        let make =
            move || -> Box<dyn Frontend> { Box::new(Seated { frontend: make(), _seat: seat }) };
        self.engine.add_frontend(self.volume, id, "host".into(), Box::new(make), |_| {});
    }
}

/// Tells the subsystem that a queue is gone.
struct Seat {
    target: Target,
    name: QueueName,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut shared = self.target.shared();
        shared.queues.remove(&self.name);
        shared.volume.gone(self.name);
    }
}

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

/// Flushes once.
struct Flusher(Box<dyn FnMut()>);

impl Frontend for Flusher {
    fn handle(&mut self, event: FrontendEvent, context: &mut FrontendContext) {
        match event {
            FrontendEvent::Started => drop(context.submit(RequestToken(0), Operation::Flush)),
            FrontendEvent::Reply { .. } => {
                self.0();
                context.end("flushed");
            }
            _ => {}
        }
    }
}

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [port, host, size] = &arguments[..] else { panic!("serve_nvme PORT HOSTNQN SIZE") };
    let size: u64 = size.parse().expect("a number of bytes");
    let shape = Shape { size, nodes: 2, mirrors: vec![vec![0, 1]], ..Shape::default() };
    let cluster = Cluster::start(shape);
    cluster.attach();
    let listener = TcpListener::bind(format!("127.0.0.1:{port}"))?;
    let target = Target::new(&cluster, listener.local_addr()?, host, size);
    println!("listening: {NAME}");
    let of_input = target.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let target = target.clone();
            std::thread::spawn(move || {
                let closing = stream.try_clone();
                if let Err(error) = target.serve(stream) {
                    println!("a connection failed: {error}");
                    let _ = closing.map(|stream| stream.shutdown(Shutdown::Both));
                }
            });
        }
    });
    for line in io::stdin().lock().lines() {
        of_input.change(&line?);
    }
    cluster.detach();
    let verdict = if are_same(&cluster, size)? { "identical" } else { "different" };
    println!("replicas: {verdict}");
    Ok(())
}

/// Whether both replicas have the same data. They may be larger than the memory.
fn are_same(cluster: &Cluster, size: u64) -> io::Result<bool> {
    let files = [File::open(cluster.path(0, 0))?, File::open(cluster.path(0, 1))?];
    let mut parts = [vec![0; PART], vec![0; PART]];
    for offset in (0..size).step_by(PART) {
        let length = PART.min((size - offset) as usize);
        for (file, part) in files.iter().zip(&mut parts) {
            file.read_exact_at(&mut part[..length], DATA_OFFSET + offset)?;
        }
        if parts[0][..length] != parts[1][..length] {
            return Ok(false);
        }
    }
    Ok(true)
}
