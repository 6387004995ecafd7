mod connecting;

use std::io::Read;
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};

use evenkeel_exports::nvme::authentication::{SECRET_LENGTH, Secret};
use evenkeel_exports::nvme::command::{Connect, ConnectData, Refusal, Status};

use super::connecting::{DRAINED, MAX_DISCOVERING, Wait};
use super::*;

const NOW: Instant = Instant(1);
const VOLUME: VolumeId = VolumeId(0x1234);
const HOST: &str = "nqn.2026-11.org.example:a";

const fn shown(size: Arc<AtomicU64>) -> Shown {
    Shown { size, block_size: 512, best_write: 4096, is_read_only: false }
}

fn target(hosts: &[&str]) -> Target {
    let size = Arc::new(AtomicU64::new(1 << 20));
    let target = Target::volume(VOLUME, 7, shown(size));
    permit(&target, hosts, false);
    target
}

fn permit(target: &Target, hosts: &[&str], is_read_only: bool) {
    let hosts: Vec<String> = hosts.iter().map(|&host| host.to_owned()).collect();
    target.permit(&hosts, HostKeys::new(), is_read_only);
}

fn keys(byte: u8) -> Arc<Keys> {
    Arc::new(Keys { host: Secret::new(&[byte; SECRET_LENGTH]), controller: None })
}

/// It is for this host, by these keys.
fn permit_by(target: &Target, host: &str, keys: &Arc<Keys>) {
    let own = HostKeys::from([(host.to_owned(), keys.clone())]);
    target.permit(&[host.to_owned()], own, false);
}

/// A host is let in, and has not waited.
const AT_ONCE: LetIn = LetIn { since: NOW, now: NOW };

/// A connection: the host's end, and the target's.
fn connection() -> (TcpStream, Handle) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    connection_to(&listener)
}

/// The same to this address.
fn connection_to(address: &TcpListener) -> (TcpStream, Handle) {
    let host = TcpStream::connect(address.local_addr().unwrap()).unwrap();
    let (socket, from) = address.accept().unwrap();
    (host, Handle { socket, from })
}

fn connect(target: &Target, host: &str) -> Result<(TcpStream, TcpStream, QueueName), Refusal> {
    let (end, handle) = connection();
    let (kept, from) = (handle.socket.try_clone().unwrap(), handle.from);
    let connect = Connect {
        queue: 0,
        size: 32,
        without_flow_control: true,
        keep_alive: std::time::Duration::from_secs(30),
    };
    let subsystem = names::subsystem(VOLUME);
    let data =
        ConnectData { host: [1; 16], controller: 0xffff, subsystem: &subsystem, host_name: host };
    let asked = Asked { connect: &connect, data: &data };
    match target.connect(asked, AT_ONCE, handle)? {
        Connected::Queue(name) => Ok((end, kept, name)),
        Connected::Unproved(name, parties) => {
            let socket = kept.try_clone().unwrap();
            target.open(name, &parties.keys, asked, AT_ONCE, Handle { socket, from })?;
            Ok((end, kept, name))
        }
    }
}

fn is_closed(end: &mut TcpStream) -> bool {
    end.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
    matches!(end.read(&mut [0]), Ok(0))
}

fn is_open(end: &mut TcpStream) -> bool {
    end.set_read_timeout(Some(std::time::Duration::from_millis(200))).unwrap();
    !matches!(end.read(&mut [0]), Ok(0))
}

#[test]
fn who_is_not_permitted_any_more_is_closed() {
    let target = target(&[HOST, "nqn.2026-11.org.example:b"]);
    let (mut end, _kept, name) = connect(&target, HOST).unwrap();
    assert_eq!(target.hosts().len(), 1);
    assert_eq!(target.hosts()[0].nqn, HOST);
    permit(&target, &[HOST], false);
    assert!(is_open(&mut end));
    let changes = target.changes();
    permit(&target, &["nqn.2026-11.org.example:b"], false);
    assert!(changes.has_changed().unwrap());
    assert!(is_closed(&mut end));
    // It keeps its place until its connection is gone.
    assert!(!target.is_idle());
    target.gone(name);
    assert!(target.is_idle());
    assert_eq!(connect(&target, HOST).unwrap_err(), Status::ConnectHost.into());
}

#[test]
fn whoever_may_write_is_closed_when_it_becomes_read_only() {
    let target = target(&[HOST]);
    let (mut end, _kept, _) = connect(&target, HOST).unwrap();
    permit(&target, &[HOST], true);
    assert!(is_closed(&mut end));
    assert!(target.namespace().unwrap().0.is_read_only);
}

#[test]
fn attachments_that_follow_each_other_have_other_controllers() {
    let size = Arc::new(AtomicU64::new(1 << 20));
    let shown = shown(size);
    let mut controllers = std::collections::BTreeSet::new();
    for generation in 1020..1030 {
        let target = Target::volume(VOLUME, generation, shown.clone());
        permit(&target, &[HOST], false);
        let all: Vec<_> = (0..8).map(|_| connect(&target, HOST).unwrap()).collect();
        assert!(all.iter().all(|(.., name)| controllers.insert(name.controller)));
        assert_eq!(connect(&target, HOST).unwrap_err(), Status::ControllerBusy.into());
    }
}

/// Has a host of this name discover from this address; its end of the connection, and its queue.
fn discover(discovery: &Target, host: &str, from: [u8; 4]) -> Result<(TcpStream, Named), Refusal> {
    discover_as(discovery, [1; 16], host, from)
}

fn discover_as(
    discovery: &Target,
    identifier: [u8; 16],
    host: &str,
    from: [u8; 4],
) -> Result<(TcpStream, Named), Refusal> {
    let (end, Handle { socket, .. }) = connection();
    let connect = Connect {
        queue: 0,
        size: 32,
        without_flow_control: true,
        keep_alive: std::time::Duration::ZERO,
    };
    let subsystem = Subsystem::DISCOVERY;
    let data = ConnectData { host: identifier, controller: 0xffff, subsystem, host_name: host };
    let (asked, from) = (Asked { connect: &connect, data: &data }, (from, 999).into());
    let connected = discovery.connect(asked, AT_ONCE, Handle { socket, from })?;
    let Connected::Queue(name) = connected else { panic!("{connected:?}") };
    Ok((end, name))
}

type Named = QueueName;

/// Discovery, with a volume for this host.
fn discovery() -> Target {
    let discovery = Target::discovery();
    let record = Record {
        kind: evenkeel_exports::nvme::discovery::RecordKind::Volume,
        subsystem: names::subsystem(VOLUME),
        port: 1,
        address: ([192, 0, 2, 1], 4420).into(),
        security: evenkeel_exports::nvme::discovery::Security::None,
        hosts: Hosts::named([HOST.to_owned()]),
    };
    discovery.replace(vec![record]).unwrap();
    discovery
}

#[test]
fn strangers_of_one_source_or_many_take_no_place_of_a_host_that_discovers() {
    let one_source = |_| [192, 0, 2, 66];
    let many_sources = |number: u8| [198, 51, 100, number];
    let sources: [&dyn Fn(u8) -> [u8; 4]; 2] = [&one_source, &many_sources];
    for source in sources {
        let discovery = discovery();
        let (mut known, _) = discover(&discovery, HOST, [192, 0, 2, 1]).unwrap();
        let mut strangers = Vec::new();
        for number in 0..200 {
            let name = format!("nqn.2026-11.org.example:{number}");
            let (mut end, name) = discover(&discovery, &name, source(number)).unwrap();
            // The oldest has given way, and is gone soon.
            if number >= 127 {
                let (mut oldest, gone) = strangers.remove(0);
                assert!(is_closed(&mut oldest));
                discovery.gone(gone);
            }
            end.set_nonblocking(true).unwrap();
            assert!(end.read(&mut [0]).is_err(), "who has just come is there");
            end.set_nonblocking(false).unwrap();
            strangers.push((end, name));
        }
        assert!(is_open(&mut known));
        let (mut second, _) = discover(&discovery, HOST, [192, 0, 2, 2]).unwrap();
        assert!(is_open(&mut second) && is_open(&mut known));
    }
}

/// Its connection of before has been closed, and is not gone yet. It has nothing under way.
#[test]
fn a_host_that_discovers_again_waits_for_nothing() {
    let discovery = discovery();
    let (_end, name) = discover(&discovery, HOST, [192, 0, 2, 1]).unwrap();
    discovery.change(|inner| inner.subsystem.controller(name.controller).unwrap().end());
    let keep_alive = std::time::Duration::ZERO;
    let connect = Connect { queue: 0, size: 32, without_flow_control: true, keep_alive };
    let subsystem = Subsystem::DISCOVERY;
    let data = ConnectData { host: [1; 16], controller: 0xffff, subsystem, host_name: HOST };
    assert!(discovery.is_ending(&data));
    let wait = discovery.end_lost(Asked { connect: &connect, data: &data }, None, NOW).unwrap();
    assert_eq!(wait, Wait { since: NOW, until: NOW });
}

#[test]
fn nobody_gives_way_for_a_connect_that_is_refused() {
    let discovery = discovery();
    let stranger = "nqn.2026-11.org.example:x";
    let from = [192, 0, 2, 66];
    let mut ends: Vec<_> =
        (0..MAX_DISCOVERING).map(|_| discover(&discovery, stranger, from).unwrap()).collect();
    // All zeroes are nobody.
    assert!(discover_as(&discovery, [0; 16], HOST, from).is_err());
    for (end, _) in &mut ends {
        end.set_nonblocking(true).unwrap();
        assert!(end.read(&mut [0]).is_err(), "it has kept its place");
    }
    discover(&discovery, HOST, from).unwrap();
    ends[0].0.set_nonblocking(false).unwrap();
    assert!(is_closed(&mut ends[0].0));
}

#[test]
fn who_takes_a_hosts_name_takes_none_of_its_places() {
    let discovery = discovery();
    let (mut known, _) = discover(&discovery, HOST, [192, 0, 2, 1]).unwrap();
    let mut liars = Vec::new();
    for number in 0..200 {
        let from = if number % 2 == 0 { [192, 0, 2, 66] } else { [192, 0, 2, 67] };
        liars.push(discover(&discovery, HOST, from));
        // Their connections last until these notice, of which there is a bound.
        if let Some(Err(refusal)) = liars.last() {
            assert_eq!(*refusal, Status::ControllerBusy.into());
            let gone = liars.remove(0).unwrap();
            discovery.gone(gone.1);
        }
    }
    assert!(is_open(&mut known));
    let gone = liars.remove(0).unwrap();
    discovery.gone(gone.1);
    let (mut second, _) = discover(&discovery, HOST, [192, 0, 2, 2]).unwrap();
    assert!(is_open(&mut second));
    // All places are those of hosts that an export names: a stranger gets none.
    let refused = discover(&discovery, "nqn.2026-11.org.example:x", [192, 0, 2, 3]);
    assert_eq!(refused.unwrap_err(), Status::ControllerBusy.into());
}

#[test]
fn whose_keys_are_others_is_closed_and_comes_again_by_the_new_ones() {
    let target = target(&[HOST]);
    let (mut end, _kept, name) = connect(&target, HOST).unwrap();
    // It had none, and needs some now.
    permit_by(&target, HOST, &keys(1));
    assert!(is_closed(&mut end));
    target.gone(name);
    let (mut end, _kept, _) = connect(&target, HOST).unwrap();
    permit_by(&target, HOST, &keys(1));
    assert!(is_open(&mut end), "they are the same");
    permit_by(&target, HOST, &keys(2));
    assert!(is_closed(&mut end));
}

#[test]
fn who_proves_what_counts_no_more_gets_in_no_more() {
    let target = target(&[]);
    let before = keys(1);
    permit_by(&target, HOST, &before);
    let subsystem = names::subsystem(VOLUME);
    let connect = Connect {
        queue: 0,
        size: 32,
        without_flow_control: true,
        keep_alive: std::time::Duration::ZERO,
    };
    let data =
        ConnectData { host: [1; 16], controller: 0xffff, subsystem: &subsystem, host_name: HOST };
    let asked = Asked { connect: &connect, data: &data };
    let (_end, Handle { socket, from }) = connection();
    let again = || Handle { socket: socket.try_clone().unwrap(), from };
    let connected = target.connect(asked, AT_ONCE, again()).unwrap();
    let Connected::Unproved(name, parties) = connected else { panic!("{connected:?}") };
    assert_eq!((parties.host.as_str(), parties.subsystem), (HOST, subsystem.clone()));
    assert!(target.is_idle() && target.hosts().is_empty(), "it takes no place");
    permit_by(&target, HOST, &keys(2));
    let late = target.open(name, &parties.keys, asked, AT_ONCE, again());
    assert_eq!(late, Err(Status::ConnectHost.into()));
    permit_by(&target, HOST, &before);
    target.open(name, &parties.keys, asked, AT_ONCE, again()).unwrap();
    assert_eq!(target.hosts().len(), 1);
}

/// How a queue is told things, and what it is told.
fn reporting() -> (Report, Receiver<u64>) {
    let (reported, reports) = channel();
    (Box::new(move |what| reported.send(what).unwrap()), reports)
}

#[test]
fn a_queue_is_told_that_it_is_closed_also_before_the_engine_has_it() {
    let target = target(&[HOST]);
    let (_end, _kept, first) = connect(&target, HOST).unwrap();
    let (_end, _kept, second) = connect(&target, HOST).unwrap();
    let (report, reports) = reporting();
    target.serves(first, target.number(first).unwrap(), report);
    assert!(reports.try_recv().is_err());
    target.end();
    assert_eq!(reports.try_iter().collect::<Vec<_>>(), [io_queue::CLOSED]);
    let (report, reports) = reporting();
    target.serves(second, target.number(second).unwrap(), report);
    assert_eq!(reports.try_iter().collect::<Vec<_>>(), [io_queue::CLOSED]);
}

#[test]
fn a_queue_that_its_host_deletes_is_left_to_answer() {
    let target = target(&[HOST]);
    let (mut end, _kept, name) = connect(&target, HOST).unwrap();
    let (report, reports) = reporting();
    target.disconnect(name);
    target.serves(name, target.number(name).unwrap(), report);
    target.end();
    assert!(reports.try_recv().is_err() && is_open(&mut end));
}

#[test]
fn a_queue_gets_nothing_of_one_of_the_same_name_that_is_gone() {
    let target = target(&[HOST]);
    let (_end, _kept, name) = connect(&target, HOST).unwrap();
    let number = target.number(name).unwrap();
    let (old, reports) = reporting();
    target.gone(name);
    assert_eq!(target.number(name), None);
    // Names come again when all others have been used.
    let (_end, handle) = connection();
    target.lock().insert(name, handle, NOW);
    target.serves(name, number, old);
    target.lock().queues.get_mut(&name).unwrap().close();
    assert!(reports.try_recv().is_err());
}

#[test]
fn what_was_looked_up_before_and_is_told_later_does_not_count() {
    use evenkeel_core::view::{Registrant, Reservation, ReservationKind};
    let target = target(&[HOST]);
    let (_end, _kept, name) = connect(&target, HOST).unwrap();
    let (own, other) = (HostId(1), HostId(2));
    let held_by = |holder| Reservations {
        registrants: vec![Registrant { host: holder, key: 1 }],
        held: Some(Reservation { kind: ReservationKind::WriteExclusive, holder }),
        ..Reservations::default()
    };
    let free = Reservations::default();
    let excluded = target.excluded(name, own);
    let is_excluded = || excluded.load(Ordering::Relaxed);
    assert!(!is_excluded());
    target.know_reservations(Generation(5), &held_by(other));
    assert!(is_excluded());
    for older in [4, 5] {
        target.know_reservations(Generation(older), &free);
        assert!(is_excluded());
    }
    assert!(target.excluded(name, own).load(Ordering::Relaxed), "who comes later, too");
    let excluded = target.excluded(name, own);
    target.know_reservations(Generation(6), &held_by(own));
    assert!(!excluded.load(Ordering::Relaxed));
}
