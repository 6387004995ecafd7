use std::io::Read;
use std::net::TcpListener;

use super::*;

const NOW: Instant = Instant(1);
const VOLUME: VolumeId = VolumeId(0x1234);
const HOST: &str = "nqn.2026-11.org.example:a";

fn target(hosts: &[&str]) -> Target {
    let size = Arc::new(AtomicU64::new(1 << 20));
    let target = Target::volume(VOLUME, 7, Shown { size, block_size: 512, is_read_only: false });
    target.permit(&hosts.iter().map(|&host| host.to_owned()).collect::<Vec<_>>(), false);
    target
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
    let name = target.connect((&connect, &data), NOW, (socket, from))?;
    Ok((end, kept, name))
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
    target.permit(&[HOST.to_owned()], false);
    assert!(!is_closed(&mut end));
    let changes = target.changes();
    target.permit(&["nqn.2026-11.org.example:b".to_owned()], false);
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
    target.permit(&[HOST.to_owned()], true);
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
        target.permit(&[HOST.to_owned()], false);
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
    assert_eq!(kept[63].1, Err(Status::ControllerBusy.into()));
}
