use std::io::Read;
use std::net::TcpListener;

use evenkeel_exports::nvme::authentication::{SECRET_LENGTH, Secret};

use super::*;

const NOW: Instant = Instant(1);
const VOLUME: VolumeId = VolumeId(0x1234);
const HOST: &str = "nqn.2026-11.org.example:a";

fn target(hosts: &[&str]) -> Target {
    let size = Arc::new(AtomicU64::new(1 << 20));
    let target = Target::volume(VOLUME, 7, Shown { size, block_size: 512, is_read_only: false });
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

/// A connection: the host's end, and the target's with the address that it comes from.
fn connection() -> (TcpStream, (TcpStream, SocketAddr)) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (host, listener.accept().unwrap())
}

fn connect(target: &Target, host: &str) -> Result<(TcpStream, TcpStream, QueueName), Refusal> {
    let (end, (socket, from)) = connection();
    let kept = socket.try_clone().unwrap();
    let connect = Connect {
        queue: 0,
        size: 32,
        without_flow_control: true,
        keep_alive: std::time::Duration::from_secs(30),
    };
    let subsystem = names::subsystem(VOLUME);
    let data =
        ConnectData { host: [1; 16], controller: 0xffff, subsystem: &subsystem, host_name: host };
    match target.connect((&connect, &data), NOW, (socket, from))? {
        Connected::Queue(name) => Ok((end, kept, name)),
        Connected::Unproved(name, parties) => {
            let socket = kept.try_clone().unwrap();
            let proved = (name, &parties.keys);
            target.open(proved, (&connect, &data), NOW, (socket, from))?;
            Ok((end, kept, name))
        }
    }
}

fn is_closed(end: &mut TcpStream) -> bool {
    end.set_read_timeout(Some(std::time::Duration::from_millis(200))).unwrap();
    matches!(end.read(&mut [0]), Ok(0))
}

#[test]
fn who_is_not_permitted_any_more_is_closed() {
    let target = target(&[HOST, "nqn.2026-11.org.example:b"]);
    let (mut end, _kept, name) = connect(&target, HOST).unwrap();
    assert_eq!(target.hosts().len(), 1);
    assert_eq!(target.hosts()[0].nqn, HOST);
    permit(&target, &[HOST], false);
    assert!(!is_closed(&mut end));
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
    let shown = Shown { size, block_size: 512, is_read_only: false };
    let mut controllers = std::collections::BTreeSet::new();
    for generation in 1020..1030 {
        let target = Target::volume(VOLUME, generation, shown.clone());
        permit(&target, &[HOST], false);
        let all: Vec<_> = (0..8).map(|_| connect(&target, HOST).unwrap()).collect();
        assert!(all.iter().all(|(.., name)| controllers.insert(name.controller)));
        assert_eq!(connect(&target, HOST).unwrap_err(), Status::ControllerBusy.into());
    }
}

#[test]
fn connections_are_bounded() {
    let hosts: Vec<String> = (0..64).map(|n| format!("nqn.2026-11.org.example:{n}")).collect();
    let discovery = Target::discovery();
    let mut kept = Vec::new();
    for host in &hosts {
        let (end, from) = connection();
        let connect = Connect {
            queue: 0,
            size: 32,
            without_flow_control: true,
            keep_alive: std::time::Duration::ZERO,
        };
        let subsystem = Subsystem::DISCOVERY;
        let data = ConnectData { host: [1; 16], controller: 0xffff, subsystem, host_name: host };
        kept.push((end, discovery.connect((&connect, &data), NOW, from)));
    }
    assert_eq!(kept.iter().filter(|(_, name)| name.is_ok()).count(), 63);
    assert_eq!(kept.pop().unwrap().1.unwrap_err(), Status::ControllerBusy.into());
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
    assert!(!is_closed(&mut end), "they are the same");
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
    let asked = (&connect, &data);
    let (_end, (socket, from)) = connection();
    let again = || (socket.try_clone().unwrap(), from);
    let connected = target.connect(asked, NOW, again()).unwrap();
    let Connected::Unproved(name, parties) = connected else { panic!("{connected:?}") };
    assert_eq!((parties.host.as_str(), parties.subsystem), (HOST, subsystem.clone()));
    assert!(target.is_idle() && target.hosts().is_empty(), "it takes no place");
    permit_by(&target, HOST, &keys(2));
    let late = target.open((name, &parties.keys), asked, NOW, again());
    assert_eq!(late, Err(Status::ConnectHost.into()));
    permit_by(&target, HOST, &before);
    target.open((name, &parties.keys), asked, NOW, again()).unwrap();
    assert_eq!(target.hosts().len(), 1);
}
