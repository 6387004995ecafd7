//! Writes the seeds from which the fuzz targets start: `cargo run --example seeds`.

use std::fs;
use std::path::Path;

use evenkeel_core::message::*;
use evenkeel_core::*;
use evenkeel_fuzz::{superblock, tables, view};
use evenkeel_wire::hello::*;
use evenkeel_wire::{PayloadSummary, VERSIONS, carries_payload, encode};

fn main() -> std::io::Result<()> {
    let whole = superblock().encode().expect("a sound superblock");
    save("superblock", "raw", 0, &whole.0)?;
    save("superblock", "patched", 1, &[32, 0, 9, 48, 0, 1, 200, 2, 7, 16, 0, 1])?;
    save("view", "raw", 0, &evenkeel_format::encode_view(&view()).expect("a valid view"))?;
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
    nbd()
}

fn save(target: &str, name: &str, mode: u8, bytes: &[u8]) -> std::io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(target);
    fs::create_dir_all(&folder)?;
    fs::write(folder.join(name), [&[mode], bytes].concat())
}

fn messages() -> Vec<(&'static str, Message)> {
    let id = OperationId { generation: Generation(3), sequence: Sequence(4) };
    let (generation, token, session) = (id.generation, CopyToken(5), SessionNumber(6));
    let primary = PrimaryId { node: NodeId(9), incarnation: Incarnation(8) };
    let report = ReplicaReport {
        replica: ReplicaId(2),
        incarnation: Incarnation(5),
        is_old_copy: false,
        boot: BootId(1),
        generation,
        lineage: Lineage(11),
        size: 1 << 30,
        open_slots: 3,
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
            let (opener, named_lives) = (Opener::Primary(primary), Lives::of([Incarnation(4)]));
            Message::OpenSession { session, opener, named_lives }
        }),
        ("open_copier", {
            let (opener, named_lives) = (Opener::Copier(ReplicaId(1)), Lives::default());
            Message::OpenSession { session, opener, named_lives }
        }),
        ("opened", Message::SessionOpened { session, report }),
        ("adopt", Message::Adopt { view: Box::new(view()) }),
        ("refused", Message::Refused { adopted: generation, sequence: Some(Sequence(4)) }),
        ("write", Message::Write { id, offset, length, durable: true, receipt: true }),
        ("zero", Message::Zero { id, offset, length, unmap: true, durable: false, receipt: false }),
        ("flush", Message::Flush { id, covers: Sequence(3) }),
        ("done", Message::Done { id, result: Err(Failure::NoSpace) }),
        ("data", Message::Data { id }),
        ("extents", Message::Extents { id, extents }),
        ("drain", Message::Drain { generation, token, offset, length, source: ReplicaId(2) }),
        ("copied", Message::Copied { token, content }),
        ("progress", Message::RebuildProgress { generation, progress }),
    ]
}

fn hellos() -> std::io::Result<()> {
    let purpose = Purpose::Replication { volume: VolumeId(7), replica: ReplicaId(2) };
    let hello = Hello {
        versions: VERSIONS,
        purpose,
        authentication: Authentication::SharedKey,
        node: NodeId(9),
        node_name: "alpha".to_owned(),
        cluster: "lab".to_owned(),
        nonce: [3; NONCE_LENGTH],
        software: String::new(),
    };
    let answer = HelloAnswer {
        outcome: Ok(0),
        versions: VERSIONS,
        authentication: Authentication::SharedKey,
        node: NodeId(10),
        node_name: "beta".to_owned(),
        nonce: [4; NONCE_LENGTH],
        software: String::new(),
    };
    let refusal = Refusal { reason: Reason::KeyDiffers, text: "the keys differ".to_owned() };
    save("hello", "hello", 1, &hello.encode())?;
    save("hello", "answer", 2, &answer.encode())?;
    save("hello", "proof", 3, &Proof([5; PROOF_LENGTH]).encode())?;
    save("hello", "verdict", 4, &Verdict(Err(refusal)).encode())
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
