//! Hosts that connect again, on a clock of the test.

use std::time::Duration;

use evenkeel_exports::nvme::handshake::{Handshake, Progress};
use evenkeel_exports::nvme::pdu::{Framing, InitializeRequest, put_command};

use super::*;

const FRAMING: Framing = Framing { header_digest: false, data_digest: false, alignment: 0 };
const KEEP_ALIVE: Duration = Duration::from_secs(5);

fn at(millis: u64) -> Instant {
    Instant(1 << 40) + Duration::from_millis(millis)
}

/// An address of the node.
fn address() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}

/// A controller of the host, which has enabled it.
#[derive(Debug)]
struct Association {
    /// The host's end of its admin queue.
    end: TcpStream,
    name: QueueName,
    admin: Admin,
}

/// What the host sends for a new controller.
fn asks() -> (Handshake, Connect) {
    let mut bytes = Vec::new();
    let (header_digest, data_digest) = (false, false);
    InitializeRequest { alignment: 0, header_digest, data_digest, max_ready: 0 }.put(&mut bytes);
    let mut entry = [0; 64];
    (entry[0], entry[1], entry[4], entry[33], entry[39], entry[44]) = (0x7f, 0x40, 1, 4, 1, 31);
    entry[48..52].copy_from_slice(&(KEEP_ALIVE.as_millis() as u32).to_le_bytes());
    put_command(&entry, 1024, &FRAMING, &mut bytes);
    let mut data = [0; 1024];
    data[..16].fill(1);
    data[16..18].fill(0xff);
    let subsystem = names::subsystem(VOLUME);
    data[256..256 + subsystem.len()].copy_from_slice(subsystem.as_bytes());
    data[512..512 + HOST.len()].copy_from_slice(HOST.as_bytes());
    bytes.extend_from_slice(&data);
    let mut handshake = Handshake::default();
    let (_, progress) = handshake.receive(&bytes, &mut Vec::new());
    let Progress::Connect(connect) = progress else { panic!("{progress:?}") };
    (handshake, connect)
}

/// The host asks for a controller at this address, and is let in later.
fn associate(
    target: &Target,
    address: &TcpListener,
    (asked, let_in): (Instant, Instant),
) -> Result<Association, Refusal> {
    let (handshake, connect) = asks();
    let data = handshake.data().unwrap();
    let (end, handle) = connection_to(address);
    let wanted = Asked { connect: &connect, data: &data };
    let wait = target.end_lost(wanted, handle.between(), asked)?;
    assert_eq!(wait, Wait { since: asked, until: asked + DRAINED });
    let at = LetIn { since: wait.since, now: let_in };
    let connected = target.connect(wanted, at, handle)?;
    let Connected::Queue(name) = connected else { panic!("{connected:?}") };
    let queue = AdminQueue::new(handshake.accept(name, &mut Vec::new()).unwrap());
    let admin = Admin { queue, controller: name.controller, reached: [127, 0, 0, 1].into() };
    let mut association = Association { end, name, admin };
    let mut enable = [0; 64];
    (enable[0], enable[1], enable[44]) = (0x7f, 0x40, 0x14);
    (enable[48], enable[50]) = (1, 0x46);
    let mut bytes = Vec::new();
    put_command(&enable, 0, &FRAMING, &mut bytes);
    assert!(association.goes_on(target, &bytes, let_in));
    Ok(association)
}

impl Association {
    /// Gives its admin queue what has come, and looks what time it is; whether it goes on.
    fn goes_on(&mut self, target: &Target, bytes: &[u8], now: Instant) -> bool {
        !target.step(&mut self.admin, bytes, now, &mut Vec::new()).unwrap().has_ended
    }

    /// Its host asks for a queue for I/O: until when it waits.
    fn asks_for(&self, target: &Target, queue: u16, now: Instant) -> Instant {
        let wait = self.ask(queue, |asked| target.end_lost(asked, None, now).unwrap());
        wait.until
    }

    /// It gets it; the host's end.
    fn gets(&self, target: &Target, queue: u16, now: Instant) -> TcpStream {
        let (end, handle) = connection_to(&address());
        let at_once = LetIn { since: now, now };
        let connected = self.ask(queue, |asked| target.connect(asked, at_once, handle));
        assert!(matches!(connected, Ok(Connected::Queue(_))), "{connected:?}");
        end
    }

    fn ask<T>(&self, queue: u16, by: impl FnOnce(Asked<'_>) -> T) -> T {
        let keep_alive = Duration::ZERO;
        let connect = Connect { queue, size: 32, without_flow_control: true, keep_alive };
        let subsystem = &names::subsystem(VOLUME);
        let controller = self.name.controller;
        let data = ConnectData { host: [1; 16], controller, subsystem, host_name: HOST };
        by(Asked { connect: &connect, data: &data })
    }

    /// It ends, and its queue for I/O has commands under way.
    fn ends(&self, target: &Target) {
        target.change(|inner| inner.subsystem.controller(self.name.controller).unwrap().end());
        target.gone(self.name);
    }
}

/// Linux before 6.7 sends its first Keep Alive once it has its queues for I/O.
#[test]
fn a_host_that_waits_for_an_older_association_is_not_taken_for_silent() {
    let (target, addresses) = (target(&[HOST]), [address(), address()]);
    let older = associate(&target, &addresses[0], (at(0), at(0))).unwrap();
    older.gets(&target, 1, at(0));
    let mut host = associate(&target, &addresses[1], (at(100), at(101))).unwrap();
    older.ends(&target);
    assert_eq!(host.asks_for(&target, 1, at(200)), at(5100));
    assert!(host.goes_on(&target, &[], at(5102)), "it has been waiting");
    host.gets(&target, 1, at(5102));
    assert_eq!(host.asks_for(&target, 2, at(5200)), at(5200), "no longer than for the first one");
    assert!(host.goes_on(&target, &[], at(10_190)));
    host.gets(&target, 2, at(10_190));
    assert!(host.goes_on(&target, &[], at(15_189)));
    assert!(!host.goes_on(&target, &[], at(15_190)), "it has its queues, and is silent");
}

#[test]
fn the_queues_of_a_controller_wait_no_longer_together_than_its_first_one_alone() {
    let (target, address) = (target(&[HOST]), address());
    let older = associate(&target, &address, (at(0), at(0))).unwrap();
    older.gets(&target, 1, at(0));
    let host = associate(&target, &address, (at(100), at(4100))).unwrap();
    assert_eq!(host.asks_for(&target, 1, at(4200)), at(5100));
    assert_eq!(host.asks_for(&target, 2, at(5300)), at(5300));
}

#[test]
fn a_connect_that_is_refused_ends_no_association() {
    let (target, address) = (target(&[HOST]), address());
    let mut all = Vec::new();
    // Each ends the one before, of which the volume has something still.
    for _ in 0..8 {
        let next = associate(&target, &address, (at(0), at(0))).unwrap();
        next.gets(&target, 1, at(0));
        all.push(next);
    }
    assert!(is_closed(&mut all[6].end) && is_open(&mut all[7].end));
    let busy = Refusal::from(Status::ControllerBusy);
    assert_eq!(associate(&target, &address, (at(0), at(0))).unwrap_err(), busy);
    assert!(is_open(&mut all[7].end), "it is the last one that the host has");
    // There is a place for another one.
    target.gone(all[0].name);
    target.gone(QueueName { queue: 1, ..all[0].name });
    associate(&target, &address, (at(0), at(0))).unwrap();
    assert!(is_closed(&mut all[7].end));
}

#[test]
fn a_host_with_many_associations_gets_one_again_that_it_has_lost() {
    let target = target(&[HOST]);
    let addresses: Vec<_> = (0..8).map(|_| address()).collect();
    let mut all: Vec<_> = addresses
        .iter()
        .map(|address| associate(&target, address, (at(0), at(0))).unwrap())
        .collect();
    let busy = Refusal::from(Status::ControllerBusy);
    assert_eq!(associate(&target, &address(), (at(0), at(0))).unwrap_err(), busy);
    let (handshake, connect) = asks();
    let data = handshake.data().unwrap();
    let (_end, handle) = connection_to(&addresses[3]);
    let asked = Asked { connect: &connect, data: &data };
    target.end_lost(asked, handle.between(), at(1)).unwrap();
    assert!(is_closed(&mut all[3].end) && target.is_ending(&data));
    target.gone(all[3].name);
    assert!(!target.is_ending(&data));
    target.connect(asked, LetIn { since: at(1), now: at(2) }, handle).unwrap();
    assert!(is_open(&mut all[2].end) && is_open(&mut all[4].end));
}
