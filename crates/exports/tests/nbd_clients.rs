//! Real clients against a real volume: nbdinfo, nbdcopy, qemu-io and fio, over unix sockets, with
//! three replicas on three engines. A program that is not installed is named and left out.

#[path = "../../engine/tests/common/mod.rs"]
mod cluster;

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use cluster::{Cluster, Shape};
use evenkeel_core::VolumeId;
use evenkeel_engine::{Engine, FrontendId};
use evenkeel_exports::nbd::{Export, Exports, Handshake, Progress, Tls, front_end};

const SIZE: u64 = 64 << 20;

/// The control plane's part: accepts connections, drives handshakes, hands sockets over.
struct Server {
    engine: Engine,
    volume: VolumeId,
}

impl Exports for Server {
    fn find(&self, name: &str) -> Option<Export> {
        matches!(name, "" | "db").then(|| self.list().remove(0))
    }

    fn list(&self) -> Vec<Export> {
        vec![Export {
            volume: self.volume,
            name: "db".to_owned(),
            description: "three replicas".to_owned(),
            size: SIZE,
            block_size: 512,
            read_only: false,
            fast_zeroes: false,
        }]
    }
}

impl Server {
    fn run(self, listener: UnixListener) {
        for (number, stream) in (100..).zip(listener.incoming()) {
            let Ok(stream) = stream else { return };
            // A client that breaks off ends its own connection only.
            let _ = self.serve(stream, FrontendId(number));
        }
    }

    fn serve(&self, mut stream: UnixStream, id: FrontendId) -> std::io::Result<()> {
        let mut out = Vec::new();
        let mut handshake = Handshake::new(Tls::Off, &mut out);
        loop {
            stream.write_all(&out)?;
            out.clear();
            let mut bytes = [0; 4096];
            let count = stream.read(&mut bytes)?;
            if count == 0 {
                return Ok(());
            }
            match handshake.receive(&bytes[..count], self, &mut out) {
                Ok(Progress::More) => {}
                Ok(Progress::Ready(negotiated)) => {
                    stream.write_all(&out)?;
                    let make = front_end(OwnedFd::from(stream), *negotiated);
                    self.engine.add_frontend(self.volume, id, "client".into(), make, |_| {});
                    return Ok(());
                }
                Ok(Progress::StartTls | Progress::Ended) | Err(_) => return stream.write_all(&out),
            }
        }
    }
}

/// A volume of three replicas that is served on a socket.
struct Served {
    cluster: Cluster,
    socket: PathBuf,
}

impl Served {
    fn start() -> Self {
        let shape =
            Shape { size: SIZE, nodes: 3, mirrors: vec![vec![0, 1, 2]], ..Shape::default() };
        let cluster = Cluster::start(shape);
        cluster.attach();
        let socket = cluster.directory.path().join("nbd.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let server = Server { engine: cluster.engines[0].clone(), volume: cluster.volume };
        std::thread::spawn(move || server.run(listener));
        Self { cluster, socket }
    }

    fn uri(&self) -> String {
        format!("nbd+unix:///db?socket={}", self.socket.display())
    }

    fn scratch(&self, name: &str) -> PathBuf {
        self.cluster.directory.path().join(name)
    }

    /// Ends the volume; the replicas must be identical then.
    fn finish(self) -> Vec<u8> {
        self.cluster.wait_until_in_sync();
        self.cluster.detach();
        let data = self.cluster.data(0, 0);
        for replica in 1..3 {
            assert!(data == self.cluster.data(0, replica), "replica {replica} differs");
        }
        data
    }
}

/// What the program says; `None` if it is not installed.
fn run(program: &str, arguments: &[&str]) -> Option<String> {
    let output = match Command::new(program).args(arguments).output() {
        Ok(output) => output,
        Err(error) => {
            eprintln!("not checked: {program}: {error}");
            return None;
        }
    };
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(output.status.success(), "{program} {arguments:?}: {said}");
    Some(said)
}

/// Bytes that look random, with a hole of zeroes in the middle.
fn image(path: &Path) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut bytes: Vec<u8> = (0..SIZE as usize)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        })
        .collect();
    bytes[(8 << 20)..(24 << 20)].fill(0);
    std::fs::write(path, &bytes).unwrap();
    bytes
}

#[test]
fn nbdinfo_sees_what_is_offered() {
    let served = Served::start();
    let Some(said) = run("nbdinfo", &["--json", &served.uri()]) else { return };
    for expected in [
        "\"export-size\": 67108864",
        "\"protocol\": \"newstyle-fixed\"",
        "\"structured\": true",
        "\"base:allocation\"",
        "\"block_size_minimum\": 512",
        "\"block_size_maximum\": 33554432",
        "\"can_multi_conn\": true",
        "\"can_fua\": true",
        "\"can_flush\": true",
        "\"can_trim\": true",
        "\"can_zero\": true",
        "\"can_fast_zero\": true",
        "\"can_df\": true",
        "\"is_read_only\": false",
    ] {
        assert!(said.contains(expected), "{expected} is missing: {said}");
    }
    let list = run("nbdinfo", &["--list", &served.uri()]).unwrap();
    assert!(list.contains("export=\"db\"") && list.contains("three replicas"), "{list}");
    served.finish();
}

#[test]
fn nbdcopy_copies_in_and_out() {
    let served = Served::start();
    let (source, target) = (served.scratch("source"), served.scratch("target"));
    let bytes = image(&source);
    let Some(_) = run("nbdcopy", &[source.to_str().unwrap(), &served.uri()]) else { return };
    run("nbdcopy", &[&served.uri(), target.to_str().unwrap()]);
    assert!(std::fs::read(&target).unwrap() == bytes);
    let map = run("nbdinfo", &["--map", &served.uri()]).unwrap();
    assert!(map.contains("hole,zero"), "{map}");
    assert!(served.finish() == bytes);
}

#[test]
fn qemu_io_writes_with_fua_zeroes_and_discards() {
    let served = Served::start();
    let commands = [
        "write -P 0x11 0 1M",
        "write -f -P 0x22 64k 512",
        "aio_write -P 0x33 2M 4M",
        "aio_write -P 0x44 6M 512",
        "aio_flush",
        "flush",
        "write -z 128k 64k",
        "write -z -u 256k 64k",
        "discard 512k 128k",
        "read -P 0x11 0 64k",
        "read -P 0x22 64k 512",
        "read -P 0x11 66048 62k",
        "read -P 0 128k 64k",
        "read -P 0 256k 64k",
        "read -P 0 512k 128k",
        "read -P 0x33 2M 4M",
        "read -P 0x44 6M 512",
        "read -P 0 32M 16M",
    ];
    let uri = served.uri();
    let mut arguments = vec!["-f", "raw", "-d", "unmap"];
    commands.iter().for_each(|command| arguments.extend_from_slice(&["-c", command]));
    arguments.push(&uri);
    let Some(said) = run("qemu-io", &arguments) else { return };
    assert!(!said.contains("failed") && !said.contains("error"), "{said}");
    let data = served.finish();
    assert!(data[..64 << 10].iter().all(|byte| *byte == 0x11));
    assert!(data[512 << 10..640 << 10].iter().all(|byte| *byte == 0));
}

#[test]
fn fio_verifies_what_it_wrote_with_many_requests_in_flight() {
    let served = Served::start();
    let uri = format!("--uri={}", served.uri());
    for (sizes, depth) in [("--bsrange=512-128k", "--iodepth=64"), ("--bs=1m", "--iodepth=8")] {
        let arguments = [
            "--name=verify",
            "--ioengine=nbd",
            &uri,
            "--rw=randwrite",
            sizes,
            "--blockalign=512",
            depth,
            "--size=64m",
            "--io_size=64m",
            "--fsync=32",
            "--verify=crc32c",
            "--verify_fatal=1",
            "--do_verify=1",
            "--verify_state_save=0",
            "--randseed=7",
        ];
        if run("fio", &arguments).is_none() {
            return;
        }
    }
    served.finish();
}

#[test]
fn a_client_that_talks_nonsense_harms_nobody() {
    let served = Served::start();
    let garbage: Vec<u8> = (0..100_000u32).map(|n| ((n * 7919) >> 3) as u8).collect();
    for start in [&b""[..], b"\0\0\0\x03", b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\x02db"] {
        let mut stream = UnixStream::connect(&served.socket).unwrap();
        // The other side may close while this is being written.
        let _ = stream.write_all(start).and_then(|()| stream.write_all(&garbage));
    }
    let Some(said) = run("nbdinfo", &["--size", &served.uri()]) else { return };
    assert_eq!(said.trim(), SIZE.to_string());
    served.finish();
}

/// A client that has chosen the export by hand.
fn by_hand(socket: &Path) -> UnixStream {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\x02db").unwrap();
    stream.read_exact(&mut [0; 18 + 10]).unwrap();
    stream
}

fn request(command: u16, offset: u64, length: u32) -> Vec<u8> {
    let mut bytes = b"\x25\x60\x95\x13\0\0".to_vec();
    bytes.extend_from_slice(&command.to_be_bytes());
    bytes.extend_from_slice(&[0; 8]);
    bytes.extend_from_slice(&offset.to_be_bytes());
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes
}

#[test]
fn clients_that_vanish_or_stall_harm_nobody() {
    let served = Served::start();
    let (read, write) = (request(0, 0, 1 << 20), request(1, 8 << 20, 1 << 20));
    let mut stalled = Vec::new();
    for round in 0..20 {
        for bytes in [
            read[..13].to_vec(),
            [&write[..], &[7; 300_000]].concat(),
            [read.repeat(40), vec![1; 500_000]].concat(),
            [write.clone(), vec![round; 1 << 20], request(3, 0, 0), request(2, 0, 0)].concat(),
        ] {
            let mut stream = by_hand(&served.socket);
            // The other side may close while this is being written.
            stream.set_write_timeout(Some(std::time::Duration::from_millis(50))).unwrap();
            let _ = stream.write_all(&bytes);
            if round == 0 {
                stalled.push(stream);
            }
        }
    }
    let pattern = ["-f", "raw", "-c", "write -P 9 0 4M", "-c", "read -P 9 0 4M"];
    let uri = served.uri();
    if let Some(said) = run("qemu-io", &[&pattern[..], &[&uri]].concat()) {
        assert!(!said.contains("failed") && !said.contains("error"), "{said}");
    }
    drop(stalled);
    served.finish();
}
