//! Writes the seeds from which the fuzz targets start: `cargo run --example seeds`.

use std::fs;
use std::path::Path;

use evenkeel_core::message::*;
use evenkeel_core::*;
use evenkeel_exports::nvme::pdu::{Data, DataDigest, Flags, Framing, Kind, put_command};
use evenkeel_fuzz::{LEASE, superblock, tables, view};
use evenkeel_trust::{Fingerprint, JoinAnswer, JoinRequest, PublicKey, Token, TokenId};
use evenkeel_wire::hello::*;
use evenkeel_wire::{PayloadSummary, VERSIONS, carries_payload, encode};

fn main() -> std::io::Result<()> {
    let whole = superblock().encode().expect("a sound superblock");
    save("superblock", "raw", 0, &whole.0)?;
    save("superblock", "patched", 1, &[32, 0, 9, 48, 0, 1, 200, 2, 7, 16, 0, 1])?;
    let mut encoded = evenkeel_format::encode_view(&view()).expect("a valid view");
    save("view", "raw", 0, &encoded)?;
    encoded[LEASE].fill(0);
    save("view", "before_leases", 0, &encoded)?;
    save("view", "patched", 1, &[2, 0, 1, 96, 0, 255])?;
    for ((name, bytes), kind) in tables().into_iter().zip(0..) {
        save("tables", name, kind * 2, &bytes)?;
        save("tables", &format!("{name}_patched"), kind * 2 + 1, &[64, 0, 1, 40, 0, 9])?;
    }
    for (name, message) in messages() {
        let payload = PayloadSummary { length: 4096, crc: 7 };
        let mut bytes = Vec::new();
        encode(&message, carries_payload(&message).then_some(payload), &mut bytes)
            .expect("a sound message");
        save("frame", name, 0, &bytes)?;
    }
    hellos()?;
    tokens()?;
    nbd()?;
    nvme()?;
    nvme_controller()?;
    nvme_io_queue()?;
    nvme_authentication()?;
    machines()?;
    node()
}

fn save(target: &str, name: &str, mode: u8, bytes: &[u8]) -> std::io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(target);
    fs::create_dir_all(&folder)?;
    fs::write(folder.join(name), [&[mode], bytes].concat())
}

/// As it is, without a first byte that says how it is meant.
fn save_script(target: &str, name: &str, bytes: &[u8]) -> std::io::Result<()> {
    let (first, rest) = bytes.split_first().expect("a script is not empty");
    save(target, name, *first, rest)
}

/// Scripts for the state machines. Each begins with a view: its shape, how many edits, the edits.
fn machines() -> std::io::Result<()> {
    // Two replicas, a primary with slot 0; the script is about the first one.
    let attached = [0x14, 1, 4, 0, 0, 2, 0];
    // The same, but it rebuilds from the other one.
    let rebuilding = [0x14, 2, 4, 0, 0, 2, 0, 0, 0, 1, 0, 0];
    let session = [0, 64, 0];
    let write = [2, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0];
    let read = [2, 0, 1, 3, 0, 0, 0, 0, 0, 0, 0, 0];
    let adopt = [2, 0, 0, 7, 0, 0, 0, 0, 0, 0];
    let (all_done, wait, source, answer) = ([15, 0], [13, 5], [14, 0], [7, 0]);
    let operations =
        [&attached[..], &session, &write, &all_done, &read, &all_done, &adopt, &all_done];
    save_script("replica", "operations", &operations.concat())?;
    let copies = [&rebuilding[..], &session, &wait, &source, &answer, &answer, &answer, &answer];
    let copies = [copies.concat(), [answer, all_done, answer, all_done, wait, all_done].concat()];
    save_script("replica", "rebuild", &copies.concat())?;
    let restart = [&attached[..], &session, &write, &all_done, &[15, 255, 0], &session, &read];
    save_script("replica", "restart", &restart.concat())?;
    // Two replicas; nothing attached.
    let detached = [0x14, 0, 0, 0];
    let (write, answers, stable) = ([0, 0, 1, 0, 2], [3, 0, 0, 0], [15, 0]);
    let requests = [&detached[..], &write, &answers, &answers, &stable, &[0, 0, 1, 0, 0], &stable];
    save_script("primary", "requests", &requests.concat())?;
    let lost = [&detached[..], &write, &[13, 0], &wait_of(5), &stable, &wait_of(6), &stable];
    save_script("primary", "lost", &lost.concat())
}

fn wait_of(pause: u8) -> [u8; 2] {
    [12, pause]
}

/// What a node reads from people and programs.
fn node() -> std::io::Result<()> {
    let example = include_str!("../packaging/evenkeel.toml");
    // Each key with the value that its comment shows.
    let is_key =
        |rest: &str| rest.starts_with(|c: char| c.is_ascii_lowercase()) && rest.contains(" = ");
    let lines =
        example.lines().map(|line| line.strip_prefix('#').filter(|r| is_key(r)).unwrap_or(line));
    let full: Vec<_> = lines.filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    save("configuration", "example", 0, example.as_bytes())?;
    save("configuration", "full", 0, full.join("\n").as_bytes())?;
    save("configuration", "composed", 1, &[3, 18, 15, 6, 31, 11, 30, 11])?;
    for (number, (asker, request)) in REQUESTS.iter().enumerate() {
        save("api", &format!("request_{number:02}"), *asker, request.as_bytes())?;
    }
    Ok(())
}

/// Who asks (0: a user, 1: another node), and what.
const REQUESTS: &[(u8, &str)] = &[
    (0, "GET /v1/openapi.json\n"),
    (0, "GET /metrics\n"),
    (0, "GET /v1/node\n"),
    (0, "POST /v1/node/join\n{\"address\":7}"),
    (0, "GET /v1/nodes\n"),
    (0, "GET /v1/disks?all=true\n"),
    (0, "POST /v1/disks\n{\"path\":7,\"name\":\"fast\",\"force\":true}"),
    (0, "DELETE /v1/disks/fast\n"),
    (0, "GET /v1/volumes\n"),
    (
        0,
        "POST /v1/volumes\n{\"name\":\"v\",\"size\":1048576,\"replicas\":2,\"stripe\":2,\"protocol\":\"B\",\"on\":[\"n1\"]}",
    ),
    (0, "GET /v1/volumes/v?wait=1&until=in-sync\n"),
    (
        0,
        "PATCH /v1/volumes/v\n{\"protocol\":\"A\",\"replicas\":3,\"size\":1,\"region_size\":65536}",
    ),
    (0, "DELETE /v1/volumes/v\n"),
    (0, "POST /v1/volumes/v/stop\n"),
    (0, "POST /v1/assemble\n{\"volume\":7,\"keep\":\"n1\",\"paths\":[]}"),
    (0, "POST /v1/volumes/v/verify\n{\"repair\":true}"),
    (0, "POST /v1/volumes/v/attach\n{\"node\":\"n1\"}"),
    (0, "POST /v1/volumes/v/detach\n{}"),
    (0, "POST /v1/volumes/v/exports/nbd\n{\"tcp\":true}"),
    (0, "DELETE /v1/volumes/v/exports/nbd\n"),
    (0, "POST /v1/volumes/v/replicas\n{\"on\":\"n1:fast\",\"spare\":true,\"mirror\":0}"),
    (0, "POST /v1/volumes/v/replicas/3fa9/re-add\n"),
    (1, "POST /peer/v1/coordinator\n{}"),
    (1, "POST /peer/v1/replicas\n{\"disk\":\"fast\",\"superblock\":\"00\",\"thin\":true}"),
    (1, "GET /peer/v1/found\n"),
    (1, "POST /peer/v1/sweep\n"),
    (
        1,
        "POST /peer/v1/read\n{\"replica\":\"00000000-0000-0000-0000-000000000001\",\"offset\":1,\"length\":9}",
    ),
    (1, "DELETE /peer/v1/volumes/1/replicas/2\n"),
];

fn messages() -> Vec<(&'static str, Message)> {
    let id = OperationId { generation: Generation(3), sequence: Sequence(4) };
    let (generation, token, session) = (id.generation, CopyToken(5), SessionNumber(6));
    let primary = PrimaryId { node: NodeId(9), incarnation: Incarnation(8) };
    let report = ReplicaReport {
        replica: ReplicaId(2),
        incarnation: Incarnation(5),
        is_stale_clone: false,
        boot: BootId(1),
        generation,
        history: History(11),
        size: 1 << 30,
        slots: SlotBits { open: 3, seen: 1 },
        state: Some(ReplicaState::InSync),
    };
    let progress = RebuildProgress {
        done: 1,
        total: 2,
        copied: 1,
        source: Some(ReplicaId(2)),
        waits_for: Some(RebuildWait::SourceMedium(7)),
    };
    let (offset, length) = (4096, 4096);
    let extents =
        vec![Extent { length: 512, allocated: true }, Extent { length: 1024, allocated: false }];
    let content = CopyContent::Data;
    vec![
        ("open_primary", {
            let (opener, named_incarnations) =
                (Opener::Primary(primary), Incarnations::of([Incarnation(4)]));
            Message::OpenSession { session, opener, named_incarnations: named_incarnations.into() }
        }),
        ("open_copier", {
            let (opener, named_incarnations) =
                (Opener::Copier(ReplicaId(1)), Incarnations::default());
            Message::OpenSession { session, opener, named_incarnations: named_incarnations.into() }
        }),
        ("opened", Message::SessionOpened { session, report: Box::new(report) }),
        ("adopt", Message::Adopt { view: Box::new(view()) }),
        ("refused", Message::Refused { adopted: generation, sequence: Some(Sequence(4)) }),
        ("write", Message::Write { id, offset, length, durable: true, receipt: true }),
        ("zero", Message::Zero { id, offset, length, unmap: true, durable: false, receipt: false }),
        ("flush", Message::Flush { id, covers: Sequence(3) }),
        ("done", Message::Done { id, result: Err(Failure::NoSpace) }),
        ("data", Message::Data { id, is_unverified: false }),
        ("extents", Message::Extents { id, extents }),
        ("drain", Message::Drain { generation, token, offset, length, source: ReplicaId(2) }),
        ("copied", Message::Copied { token, content }),
        ("progress", Message::RebuildProgress { generation, progress: Box::new(progress) }),
    ]
}

fn hellos() -> std::io::Result<()> {
    let purpose = Purpose::Replication { volume: VolumeId(7), replica: ReplicaId(2) };
    let hello = Hello {
        versions: VERSIONS,
        purpose,
        node: NodeId(9),
        node_name: "alpha".to_owned(),
        cluster: "lab".to_owned(),
        software: String::new(),
        start: Some(Start { counter: 3, incarnation: Incarnation(4) }),
        epoch: 5,
    };
    let answer = HelloAnswer {
        outcome: Ok(0),
        versions: VERSIONS,
        node: NodeId(10),
        node_name: "beta".to_owned(),
        software: String::new(),
        start: Some(Start { counter: 3, incarnation: Incarnation(4) }),
        epoch: 5,
    };
    let refusal = Refusal { reason: Reason::Busy, text: "node beta is stopping".to_owned() };
    save("hello", "hello", 1, &hello.encode())?;
    save("hello", "answer", 2, &answer.encode())?;
    save("hello", "refusal", 2, &HelloAnswer { outcome: Err(refusal), ..answer }.encode())
}

fn tokens() -> std::io::Result<()> {
    let id = TokenId([2; 8]);
    let token = Token::new(Fingerprint([1; 16]), id, [3; 16], 1_700_000_000, 3600);
    let text = token.expect("a time that a token can tell").to_string();
    let key = PublicKey::new(&[4; PublicKey::LENGTH]).expect("the form of a key");
    let (node, name, proof) = (NodeId(9), "alpha".to_owned(), [5; 32]);
    let request = JoinRequest { token: id, node, name, key, proof };
    let (cluster, made, certificate) = (CoordinatorId(7), 1_700_000_000, vec![0x30; 16]);
    let admitted = JoinAnswer::Admitted { cluster, made, certificate };
    let refused = JoinAnswer::Refused { why: "the token has expired".to_owned() };
    save("token", "token", 0, text.as_bytes())?;
    save("token", "request", 1, &request.encode()[2..])?;
    save("token", "admitted", 2, &admitted.encode()[2..])?;
    save("token", "refused", 2, &refused.encode()[2..])
}

fn option(number: u32, data: &[u8]) -> Vec<u8> {
    [b"IHAVEOPT", &number.to_be_bytes()[..], &(data.len() as u32).to_be_bytes(), data].concat()
}

fn request(command: u16, offset: u64, length: u32) -> Vec<u8> {
    let mut bytes = 0x2560_9513u32.to_be_bytes().to_vec();
    bytes.extend_from_slice(&[0, 1]);
    bytes.extend_from_slice(&command.to_be_bytes());
    bytes.extend_from_slice(&7u64.to_be_bytes());
    bytes.extend_from_slice(&offset.to_be_bytes());
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes
}

fn nbd() -> std::io::Result<()> {
    let go = option(7, b"\0\0\0\x02db\0\x01\0\x03");
    let context = option(10, b"\0\0\0\x02db\0\0\0\x01\0\0\0\x0fbase:allocation");
    let modern = [&[0, 0, 0, 3][..], &option(8, &[]), &context, &option(3, &[]), &go].concat();
    save("nbd_handshake", "modern", 0xfc, &modern)?;
    save("nbd_handshake", "old", 0xfc, &[&[0, 0, 0, 1][..], &option(1, b"db")].concat())?;
    save("nbd_handshake", "tls", 0xfd, &[&[0, 0, 0, 3][..], &option(5, &[])].concat())?;
    let write = [request(1, 4096, 512), vec![9; 512]].concat();
    let others = [(0, 512), (3, 0), (4, 4096), (6, 4096), (7, 4096), (5, 512), (2, 0)];
    let others = others.iter().flat_map(|(command, length)| request(*command, 0, *length));
    save("nbd_requests", "all", 0x7c, &write.iter().copied().chain(others).collect::<Vec<_>>())?;
    save("nbd_requests", "refused", 0x08, &[request(1, 1, 9000), vec![1; 9000]].concat())
}

/// What a host sends after it has opened the connection: all ways in which data goes.
fn nvme() -> std::io::Result<()> {
    for mode in [0x00, 0x13, 0x29, 0x5a] {
        let framing =
            Framing { header_digest: mode & 1 != 0, data_digest: mode & 2 != 0, alignment: 0 };
        let capsule = |opcode: u8, identifier: u8, kind: u8, length: u32, data: usize| {
            let mut entry = [0; 64];
            (entry[0], entry[1], entry[2], entry[4], entry[39]) =
                (opcode, 0x40, identifier, 1, kind);
            entry[32..36].copy_from_slice(&length.to_le_bytes());
            let mut bytes = Vec::new();
            put_command(&entry, data as u32, &framing, &mut bytes);
            with_data(bytes, data, &framing)
        };
        let data = |offset: u32, length: u32, last: bool| {
            let mut bytes = Vec::new();
            let flags = Flags { last, success: false };
            let header = Data { command: 4, tag: 0, offset, length };
            header.put(Kind::HostData, flags, &framing, &mut bytes);
            with_data(bytes, length as usize, &framing)
        };
        let bytes = [
            capsule(0x7f, 1, 0x01, 1024, 1024),
            capsule(0x00, 2, 0x5a, 0, 0),
            capsule(0x01, 3, 0x01, 512, 512),
            capsule(0x01, 6, 0x01, 512, 512),
            capsule(0x01, 5, 0x20, 512, 512),
            capsule(0x02, 2, 0x5a, 512, 0),
            capsule(0x01, 4, 0x5a, 4608, 0),
            data(0, 512, false),
            data(512, 3584, true),
            data(4096, 512, true),
        ];
        save("nvme_connection", &format!("mode_{mode:02x}"), mode, &bytes.concat())?;
    }
    Ok(())
}

/// What Linux offers, and replies with and without Diffie-Hellman; by a wrong key.
fn nvme_authentication() -> std::io::Result<()> {
    let message = |bytes: Vec<u8>| [vec![b's', bytes.len() as u8 / 8], bytes].concat();
    for (group, value) in [(0, 0), (1, 256)] {
        let mut offer = vec![0; 72];
        (offer[4], offer[7], offer[8], offer[10], offer[11]) = (7, 1, 1, 1, 1);
        (offer[12], offer[42]) = (1, group);
        let mut reply = vec![9; 80 + value];
        let head = [1, 2, 0, 0, 7, 0, 32, 0, 1, 0, 0, (value >> 8) as u8, 5, 0, 0, 0];
        reply[..16].copy_from_slice(&head);
        let success2 = [1, 4, 0, 0, 7].into_iter().chain([0; 11]).collect();
        let steps = [
            message(offer),
            vec![b'r', 200],
            message(reply),
            vec![b'r', 200],
            message(success2),
            message(vec![0, 0xf0, 0, 0, 7, 0, 1, 1]),
            vec![b'r', 1],
        ];
        save("nvme_authentication", &format!("group_{group}"), group, &steps.concat())?;
    }
    Ok(())
}

/// Steps of a host that uses its controller as Linux does, and of one that discovers.
fn nvme_controller() -> std::io::Result<()> {
    // By the place of the opcode in the target's list; so many bytes of the entry from 32 on.
    let command = |opcode: u8, length: u16, words: &[u8]| {
        let mut step = vec![1, opcode];
        step.resize(2 + 64, 0);
        step[34..36].copy_from_slice(&length.to_le_bytes());
        step[42..42 + words.len()].copy_from_slice(words);
        step
    };
    let (enable, shut_down, flushed) = ([7, 1], [7, 0x41], [14, 0]);
    let event = command(5, 0, &[]);
    let identify = |what: u8| command(1, 4096, &[what]);
    let log = |log: u8, length: u16| command(0, length, &[log]);
    let set =
        |feature: u8, value: [u8; 4]| command(3, 0, &[&[feature, 0, 0, 0][..], &value].concat());
    let get = |feature: u8| command(4, 0, &[feature]);
    let volume = [
        &enable[..],
        &identify(1),
        &set(0x07, [3, 0, 3, 0]),
        &[9, 1, 9, 2],
        &set(0x0b, [0, 9, 0, 0]),
        &event,
        &event,
        &[11, 0, 11, 1],
        &log(0x04, 4092),
        &log(0x0c, 48),
        &log(0x02, 508),
        &log(0x05, 4092),
        &get(0x07),
        &command(6, 0, &[]),
        &event,
        &command(2, 0, &[]),
        &shut_down,
        &[10, 0, 10, 0],
        &flushed,
    ];
    save("nvme_controller", "volume", 0, &volume.concat())?;
    let discovery = [
        &enable[..],
        &identify(1),
        &set(0x0b, [0, 0, 0, 0x80]),
        &event,
        &[13, 3],
        &log(0x70, 4092),
        &set(0x0f, [0, 0x10, 0, 0]),
        &[12, 60],
    ];
    save("nvme_controller", "discovery", 7, &discovery.concat())
}

/// Steps of a host that has all kinds of commands carried out, aborted, and dropped with their
/// queue.
fn nvme_io_queue() -> std::io::Result<()> {
    // By the place of the opcode in the target's list: the opcode, identifier, first block, blocks
    // less one, whether data is on request, FUSE.
    let (flush, write, read, compare, zero, manage, leave) = (0, 1, 3, 4, 5, 6, 8);
    let command =
        |opcode: u8, identifier: u8, on_request: u8| [0, opcode, identifier, 3, 7, on_request, 0];
    let half = |opcode: u8, identifier: u8, fuse: u8| [0, opcode, identifier, 0, 0, 0, 0x80 | fuse];
    let (data, part, reply, cancelled) = ([6, 0], [6, 0x80], [8, 0, 0], [8, 0, 1]);
    let (taken, drained, closed) = ([11], [14, 0], [14, 7]);
    let all = [
        &command(write, 1, 0)[..],
        &command(write, 2, 1),
        &part,
        &data,
        &command(read, 3, 1),
        &command(compare, 4, 1),
        &command(zero, 5, 1),
        &command(flush, 6, 1),
        &command(manage, 7, 0),
        &reply.repeat(6),
        &data,
        &reply.repeat(6),
        &taken,
        &half(compare, 8, 1),
        &half(write, 9, 2),
        &reply,
        &command(leave, 10, 1),
        &drained,
        &taken,
    ];
    save("nvme_io_queue", "all", 0, &all.concat())?;
    let given_up = [
        &command(write, 1, 0)[..],
        &[10, 1],
        &cancelled,
        &command(compare, 2, 0),
        &half(compare, 3, 1),
        &[10, 3],
        &command(write, 4, 1),
        &[10, 4],
        &data,
        &closed,
        &cancelled,
        &drained,
    ];
    for mode in [3, 4] {
        save("nvme_io_queue", &format!("given_up_{mode}"), mode, &given_up.concat())?;
    }
    Ok(())
}

/// Appends so much data, and its digest.
fn with_data(mut bytes: Vec<u8>, length: usize, framing: &Framing) -> Vec<u8> {
    let data = vec![9; length];
    bytes.extend_from_slice(&data);
    if framing.data_digest && length > 0 {
        bytes.extend_from_slice(&DataDigest::of(&data));
    }
    bytes
}
