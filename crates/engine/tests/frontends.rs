//! What front ends can do with sockets and files.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use crate::common::{Cluster, Shape, ask, pattern};
use evenkeel_core::{Operation, Reply};
use evenkeel_engine::*;

const HEADER: usize = 12;

/// Gets an offset, a length and data from a socket; writes, reads back, and sends what it read.
struct Mirror {
    socket: Option<OwnedFd>,
    descriptor: Descriptor,
    header: Option<BufferMut>,
    at: (u64, u32),
}

impl Mirror {
    fn header(&mut self, context: &mut FrontendContext) {
        if let Some(memory) = self.header.take() {
            context.receive_all(self.descriptor, memory, 0..HEADER);
        }
    }

    fn payload(&mut self, context: &mut FrontendContext) {
        if let Some(buffer) = context.allocate(self.at.1 as usize) {
            context.receive_all(self.descriptor, buffer, 0..self.at.1 as usize);
        }
    }
}

impl Frontend for Mirror {
    fn handle(&mut self, event: FrontendEvent, context: &mut FrontendContext) {
        match event {
            FrontendEvent::Started => {
                self.descriptor = context.open(self.socket.take().expect("once"));
                self.header = Some(context.allocate_fixed(HEADER));
                self.header(context);
            }
            FrontendEvent::Received { result: Ok(0), .. } => context.end("closed"),
            FrontendEvent::Received { memory, result: Ok(HEADER), .. } if self.header.is_none() => {
                let offset = u64::from_le_bytes(memory[..8].try_into().expect("eight"));
                let length = u32::from_le_bytes(memory[8..].try_into().expect("four"));
                self.at = (offset, length);
                self.header = Some(memory);
                self.payload(context);
            }
            FrontendEvent::Received { memory, result: Ok(count), .. } => {
                assert_eq!(count, memory.len(), "all of it");
                let payload = memory.freeze();
                let operation = Operation::Write { offset: self.at.0, payload, durable: false };
                context.submit(RequestToken(0), operation).expect("a write is never given back");
            }
            FrontendEvent::Reply { token: RequestToken(0), .. } => {
                let operation = Operation::Read { offset: self.at.0, length: self.at.1 };
                context.submit(RequestToken(1), operation).expect("the write's room has returned");
            }
            FrontendEvent::Reply { result: Ok(Reply::Data(pieces)), .. } => {
                context.send(self.descriptor, b"here ");
                context.send(self.descriptor, b"it is");
                for (_, buffer) in pieces {
                    context.send_buffer(self.descriptor, buffer);
                }
                self.header(context);
            }
            FrontendEvent::MemoryAvailable => self.payload(context),
            _ => {}
        }
    }
}

#[test]
fn a_stream_is_served_with_small_buffers_on_both_sides() {
    let cluster = Cluster::start(Shape { memory: Some(4096), ..Shape::default() });
    cluster.attach();
    let (mut ours, theirs) = UnixStream::pair().expect("a pair");
    for socket in [&ours, &theirs] {
        rustix::net::sockopt::set_socket_send_buffer_size(socket, 4096).expect("set");
    }
    // As an asynchronous control plane would leave it.
    theirs.set_nonblocking(true).expect("set");
    let make: FrontendMaker = Box::new(move || {
        let socket = Some(OwnedFd::from(theirs));
        Box::new(Mirror { socket, descriptor: Descriptor(0), header: None, at: (0, 0) })
    });
    let (volume, id) = (cluster.volume, FrontendId(1));
    ask(|answer| cluster.engines[0].add_frontend(volume, id, "m".to_owned(), make, answer))
        .expect("added");
    for (number, length) in [512usize, 4096, 1 << 20, (3 << 20) + 512].into_iter().enumerate() {
        let data = pattern(number as u64, length);
        let offset = 512 * (number as u64 + 1);
        ours.write_all(&offset.to_le_bytes()).expect("written");
        ours.write_all(&(length as u32).to_le_bytes()).expect("written");
        ours.write_all(&data).expect("written");
        let mut got = vec![0; 10 + length];
        ours.read_exact(&mut got).expect("read");
        assert_eq!(&got[..10], b"here it is");
        assert!(got[10..] == data);
    }
    drop(ours);
    let is_end = |e: &EngineEvent| matches!(e, EngineEvent::FrontendEnded { .. });
    let event = cluster.wait_for("end", is_end);
    assert!(format!("{event:?}").contains("closed"));
    assert!(cluster.status(0).frontends.is_empty());
}

/// Writes to a file in parts, reads it back, and gives an impossible command.
struct Files {
    file: Option<OwnedFd>,
    descriptor: Descriptor,
    reported: Sender<String>,
}

impl Frontend for Files {
    fn handle(&mut self, event: FrontendEvent, context: &mut FrontendContext) {
        match event {
            FrontendEvent::Started => {
                self.descriptor = context.open(self.file.take().expect("once"));
                let mut buffer = context.allocate(4096).expect("room");
                buffer.fill(b'x');
                let parts = vec![Part::Bytes(b"head".to_vec()), Part::Buffer(buffer.freeze())];
                context.write(self.descriptor, parts, 100, DescriptorToken(7));
            }
            FrontendEvent::Written { token: DescriptorToken(7), result } => {
                assert_eq!(result.expect("written"), 4100);
                let buffer = context.allocate(8).expect("room");
                context.read(self.descriptor, buffer, 98, DescriptorToken(8));
            }
            FrontendEvent::Read { token: DescriptorToken(8), memory, result } => {
                assert_eq!(result.expect("read"), 8);
                let _ = self.reported.send(format!("{:?}", &memory[..]));
                context.command(self.descriptor, 1, [0; 16], DescriptorToken(9));
            }
            FrontendEvent::Command { token: DescriptorToken(9), result } => {
                let _ = self.reported.send(format!("negative: {}", result < 0));
            }
            FrontendEvent::Stopping => {
                let _ = self.reported.send("stopping".to_owned());
            }
            _ => {}
        }
    }
}

#[test]
fn files_are_read_and_written_and_commands_given() {
    let cluster = Cluster::start(Shape::default());
    cluster.attach();
    let (reported, reports) = channel();
    let file = tempfile::tempfile().expect("a file");
    let make: FrontendMaker = Box::new(move || {
        Box::new(Files { file: Some(file.into()), descriptor: Descriptor(0), reported })
    });
    let (volume, id) = (cluster.volume, FrontendId(1));
    ask(|answer| cluster.engines[0].add_frontend(volume, id, "f".to_owned(), make, answer))
        .expect("added");
    let next = || reports.recv_timeout(Duration::from_secs(60)).expect("told");
    assert_eq!(next(), format!("{:?}", b"\0\0headxx"));
    assert_eq!(next(), "negative: true");
    cluster.detach();
    assert_eq!(next(), "stopping");
}

/// Whatever holds a worker up is seen in its counters: what is asked here sleeps on the worker's
/// thread.
#[test]
fn the_longest_turn_of_a_worker_is_counted() {
    let cluster = Cluster::start(Shape::default());
    let turns = || {
        let workers = ask(|answer| cluster.engines[0].survey(answer));
        let longest = workers.iter().map(|worker| worker.counters.longest_turn).max();
        let long: u64 = workers.iter().map(|worker| worker.counters.long_turns).sum();
        (longest.expect("there are workers"), long)
    };
    let (held_up, (_, long_before)) = (Duration::from_millis(300), turns());
    ask(|answer| {
        cluster.engines[0].volume_status(cluster.volume, move |status| {
            std::thread::sleep(held_up);
            answer(status);
        });
    });
    // It is counted when it ends, which is after its answer.
    let end = Instant::now() + Duration::from_secs(60);
    while turns().0 < held_up {
        assert!(Instant::now() < end, "the longest turn took {:?}", turns().0);
        std::thread::sleep(Duration::from_millis(10));
    }
    let (_, long) = turns();
    assert!(long > long_before, "{long} turns of more than 10 ms");
}

/// Sends more than a socket takes.
struct Talker {
    socket: Option<OwnedFd>,
}

impl Frontend for Talker {
    fn handle(&mut self, event: FrontendEvent, context: &mut FrontendContext) {
        if let FrontendEvent::Started = event {
            let descriptor = context.open(self.socket.take().expect("once"));
            context.send(descriptor, &vec![0; 8 << 20]);
        }
    }
}

/// Whoever asks for a front end to be removed that sends its last bytes is told when it is gone,
/// too.
#[test]
fn all_who_remove_a_front_end_are_answered() {
    let cluster = Cluster::start(Shape::default());
    cluster.attach();
    let (mut ours, theirs) = UnixStream::pair().expect("a pair");
    let make: FrontendMaker = Box::new(move || Box::new(Talker { socket: Some(theirs.into()) }));
    let (volume, id) = (cluster.volume, FrontendId(1));
    ask(|answer| cluster.engines[0].add_frontend(volume, id, "t".to_owned(), make, answer))
        .expect("added");
    ours.read_exact(&mut [0]).expect("it talks");
    let remove = || {
        let (sender, removed) = channel();
        cluster.engines[0].remove_frontend(volume, id, move |result| {
            let _ = sender.send(result);
        });
        removed
    };
    let removed = [remove(), remove()];
    // Orders are obeyed in turn: both have been.
    cluster.status(0);
    drop(ours);
    for removed in removed {
        let result = removed.recv_timeout(Duration::from_secs(60)).expect("an answer");
        assert!(result.is_ok(), "{result:?}");
    }
}

/// Holds a buffer, and wants three more, for which there is no room before it returns that one.
struct Triple {
    socket: Option<OwnedFd>,
    held: Option<BufferMut>,
    reported: Sender<&'static str>,
}

impl Triple {
    fn retry(&self, context: &mut FrontendContext) {
        let rooms = context.reserve([4096; 3]);
        let _ = self.reported.send(if rooms.is_some() { "room" } else { "none" });
    }
}

impl Frontend for Triple {
    fn handle(&mut self, event: FrontendEvent, context: &mut FrontendContext) {
        match event {
            FrontendEvent::Started => {
                let descriptor = context.open(self.socket.take().expect("once"));
                let memory = context.allocate_fixed(1);
                context.receive(descriptor, memory, 0..1);
                self.held = Some(context.allocate(4096).expect("room"));
                self.retry(context);
            }
            FrontendEvent::Received { .. } => self.held = None,
            FrontendEvent::MemoryAvailable => self.retry(context),
            _ => {}
        }
    }
}

/// Two of the three would fit. If these were taken and returned, the worker would wake the front
/// end with its own room, for ever, and serve nobody else.
#[test]
fn who_finds_no_room_for_several_buffers_does_not_wake_himself() {
    let cluster = Cluster::start(Shape { memory: Some(3 * 4096), ..Shape::default() });
    cluster.attach();
    let (mut ours, theirs) = UnixStream::pair().expect("a pair");
    let (reported, reports) = channel();
    let make: FrontendMaker =
        Box::new(move || Box::new(Triple { socket: Some(theirs.into()), held: None, reported }));
    let (volume, id) = (cluster.volume, FrontendId(1));
    ask(|answer| cluster.engines[0].add_frontend(volume, id, "t".to_owned(), make, answer))
        .expect("added");
    let next = || reports.recv_timeout(Duration::from_secs(60)).expect("told");
    assert_eq!(next(), "none");
    // The turn has ended.
    cluster.status(0);
    assert!(reports.try_recv().is_err(), "nothing has returned");
    ours.write_all(&[0]).expect("written");
    assert_eq!(next(), "room");
}

const BLOCK: usize = 4096;

/// Writes ones and then twos to the same block, and gives both up at once: the ones have been sent,
/// the twos wait for their range. Then it ends, or waits until nothing is under way.
struct GivesUp {
    ends: bool,
    reported: Sender<String>,
}

impl Frontend for GivesUp {
    fn handle(&mut self, event: FrontendEvent, context: &mut FrontendContext) {
        match event {
            FrontendEvent::Started => {
                for value in [1, 2] {
                    let mut buffer = context.allocate(BLOCK).expect("room");
                    buffer.fill(value);
                    let payload = buffer.freeze();
                    let operation = Operation::Write { offset: 0, payload, durable: false };
                    context
                        .submit(RequestToken(value.into()), operation)
                        .expect("never given back");
                }
                if self.ends {
                    return context.end("enough");
                }
                [1, 2, 3].into_iter().for_each(|token| context.cancel(RequestToken(token)));
                context.drain();
            }
            FrontendEvent::Reply { token, result } => {
                self.reported.send(format!("{}: {:?}", token.0, result.err())).expect("heard");
            }
            FrontendEvent::Drained => {
                self.reported.send("drained".to_owned()).expect("heard");
                context.end("drained");
            }
            _ => {}
        }
    }
}

/// Reads the block, and tells its first byte.
struct Looks(Sender<String>);

impl Frontend for Looks {
    fn handle(&mut self, event: FrontendEvent, context: &mut FrontendContext) {
        match event {
            FrontendEvent::Started => {
                let operation = Operation::Read { offset: 0, length: BLOCK as u32 };
                context.submit(RequestToken(0), operation).expect("room");
            }
            FrontendEvent::Reply { result: Ok(Reply::Data(pieces)), .. } => {
                self.0.send(format!("holds {}", pieces[0].1[0])).expect("heard");
                context.end("seen");
            }
            _ => {}
        }
    }
}

#[test]
fn what_is_given_up_is_cancelled_or_awaited() {
    let cluster = Cluster::start(Shape::default());
    cluster.attach();
    let (reported, hears) = channel();
    let volume = cluster.volume;
    let mut id = 0;
    let mut add = |make: FrontendMaker| {
        id += 1;
        let (id, name) = (FrontendId(id), "f".to_owned());
        let add = |answer| cluster.engines[0].add_frontend(volume, id, name, make, answer);
        ask(add).expect("added");
    };
    for ends in [false, true] {
        let of_it = reported.clone();
        add(Box::new(move || Box::new(GivesUp { ends, reported: of_it })));
        let expected: &[&str] =
            if ends { &[] } else { &["2: Some(Cancelled)", "1: None", "drained"] };
        for reported in expected {
            assert_eq!(hears.recv().expect("told"), *reported);
        }
        let of_it = reported.clone();
        add(Box::new(move || Box::new(Looks(of_it))));
        assert_eq!(hears.recv().expect("told"), "holds 1");
    }
}
