//! Runs against servers that answer as they should, in pieces, or wrongly.

use std::net::TcpListener;
use std::thread;

use super::*;

/// Reads and writes of a run: their number ends it, so that no test depends on a machine's speed.
const REQUESTS: u64 = 100;

fn args(address: String, pattern: &str, block: u64) -> LoadArgs {
    LoadArgs {
        address,
        export: Some("music".to_owned()),
        subsystem: None,
        host: None,
        pattern: pattern.to_owned(),
        block,
        depth: 4,
        size: 1 << 20,
        runtime: 0,
        requests: Some(REQUESTS),
        flush_every: 0,
    }
}

/// What a run says, as fio's reader understands it: the name and the number of each kind.
fn counted(args: &LoadArgs) -> Result<Vec<(String, f64)>, String> {
    let text = run(args).map_err(|failure| failure.why)?;
    let sample = crate::fio::parse(&text, 1)?;
    let parts = sample.parts.into_iter();
    Ok(parts.map(|part| (part.name, part.operations.unwrap_or_default())).collect())
}

/// Serves connections, each in a thread.
fn serve(answer: fn(&mut TcpStream) -> std::io::Result<()>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in listener.incoming() {
            thread::spawn(move || answer(&mut stream.unwrap()));
        }
    });
    address
}

fn pieces<const N: usize>(stream: &mut TcpStream) -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// An export of NBD that answers with this error.
fn nbd(stream: &mut TcpStream, error: u32) -> std::io::Result<()> {
    stream.write_all(&[0; 18])?;
    let hello: [u8; 4 + 16 + 4 + 5 + 2] = pieces(stream)?;
    assert_eq!(&hello[24..29], b"music");
    let reply = |kind: u32, data: &[u8]| {
        [&[0; 12][..], &kind.to_be_bytes(), &(data.len() as u32).to_be_bytes(), data].concat()
    };
    stream.write_all(&[reply(3, &[0; 12]), reply(1, &[])].concat())?;
    loop {
        let head: [u8; 28] = pieces(stream)?;
        let length = u32::from_be_bytes(head[24..28].try_into().unwrap()) as usize;
        let mut answer = 0x6744_6698_u32.to_be_bytes().to_vec();
        answer.extend_from_slice(&error.to_be_bytes());
        answer.extend_from_slice(&head[8..16]);
        match head[7] {
            0 => answer.resize(16 + length, 7),
            1 => stream.read_exact(&mut vec![0; length])?,
            kind => assert_eq!(kind, 3),
        }
        // Not all at once.
        let (begin, end) = answer.split_at(answer.len() / 3);
        stream.write_all(begin)?;
        stream.write_all(end)?;
    }
}

#[test]
fn an_export_of_nbd_is_read_and_written() {
    let address = serve(|stream| nbd(stream, 0));
    for (pattern, names) in
        [("randread", &["read"][..]), ("write", &["write"]), ("randrw", &["read", "write"])]
    {
        let counts = counted(&args(address.clone(), pattern, 4096)).unwrap();
        let found: Vec<&str> = counts.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(found, names);
        assert_eq!(counts.iter().map(|(_, count)| count).sum::<f64>(), REQUESTS as f64);
    }
    let flushed = LoadArgs { flush_every: 2, ..args(address, "randwrite", 4096) };
    let counts = counted(&flushed).unwrap();
    let [(_, writes), (_, flushes)] = &counts[..] else { panic!("{counts:?}") };
    // None after the last two.
    assert_eq!((*writes, *flushes), (REQUESTS as f64, (REQUESTS / 2 - 1) as f64), "{counts:?}");
}

#[test]
fn an_error_ends_the_run() {
    let why = counted(&args(serve(|stream| nbd(stream, 5)), "read", 4096)).unwrap_err();
    assert_eq!(why, "it answers error 5");
    let why = counted(&args(serve(|_| Ok(())), "read", 4096)).unwrap_err();
    assert!(!why.is_empty());
}

fn pdu(kind: u8, flags: u8, header: &[u8], data: &[u8]) -> Vec<u8> {
    let length = 8 + header.len() + data.len();
    let common = [kind, flags, 8 + header.len() as u8, 0];
    [&common[..], &(length as u32).to_le_bytes(), header, data].concat()
}

fn response(number: [u8; 2], result: u8, status: u16) -> Vec<u8> {
    let mut header = [0; 16];
    header[0] = result;
    header[12..14].copy_from_slice(&number);
    header[14..].copy_from_slice(&(status << 1).to_le_bytes());
    pdu(5, 0, &header, &[])
}

/// A subsystem whose commands of an I/O queue end with this status.
fn nvme(stream: &mut TcpStream, status: u16) -> std::io::Result<()> {
    pieces::<128>(stream)?;
    let mut hello = [0; 128];
    hello[0] = 1;
    stream.write_all(&hello)?;
    loop {
        let common: [u8; 8] = pieces(stream)?;
        let length = u32::from_le_bytes(common[4..8].try_into().unwrap()) as usize;
        let mut rest = vec![0; length - 8];
        stream.read_exact(&mut rest)?;
        if common[0] == 6 {
            let number = [rest[0], rest[1]];
            assert!(
                rest[16..]
                    .iter()
                    .zip(0_u64..)
                    .all(|(byte, at)| { *byte == (at ^ (at >> 9) ^ 0xa5) as u8 })
            );
            stream.write_all(&response(number, 0, status))?;
            continue;
        }
        let (number, asked) = ([rest[2], rest[3]], &rest[32..36]);
        let count = u32::from_le_bytes(asked.try_into().unwrap()) as usize;
        let data = |flags, from: usize, to: usize, byte| {
            let header = [&number[..], &[0; 14]].concat();
            pdu(7, flags, &header, &vec![byte; to - from])
        };
        let answer = match (rest[0], rest[39]) {
            (0x7f, _) => response(number, 5, 0),
            (6, _) => {
                let mut page = data(4, 0, 4096, 0);
                page[24 + 130] = 9;
                page[24 + 1792..24 + 1794].copy_from_slice(&516_u16.to_le_bytes());
                [page, response(number, 0, 0)].concat()
            }
            (1, 0x5a) => {
                let header = [&number[..], &[3, 0, 0, 0, 0, 0], asked, &[0; 4]].concat();
                pdu(9, 0, &header, &[])
            }
            (2, _) if number[0] & 1 == 0 => {
                // In two pieces, of which the last stands for the response, too.
                [data(0, 0, count / 2, 7), data(12, count / 2, count, 7)].concat()
            }
            (2, _) => [data(4, 0, count, 7), response(number, 0, status)].concat(),
            _ => {
                assert!(count == 0 || rest.len() == 64 + count, "its data is in the capsule");
                response(number, 0, status)
            }
        };
        let (begin, end) = answer.split_at(answer.len() / 3);
        stream.write_all(begin)?;
        stream.write_all(end)?;
    }
}

fn of_nvme(address: String, pattern: &str, block: u64) -> LoadArgs {
    LoadArgs {
        export: None,
        subsystem: Some("nqn.2026-11.org.example:music".to_owned()),
        host: Some("nqn.2026-11.org.example:bench".to_owned()),
        ..args(address, pattern, block)
    }
}

#[test]
fn a_subsystem_of_nvme_is_read_and_written() {
    let address = serve(|stream| nvme(stream, 0));
    for (pattern, block) in [("randread", 4096), ("randwrite", 4096), ("write", 1 << 20)] {
        let counts = counted(&of_nvme(address.clone(), pattern, block)).unwrap();
        assert!(counts.len() == 1 && counts[0].1 == REQUESTS as f64, "{counts:?}");
    }
    let flushed = LoadArgs { flush_every: 1, depth: 1, ..of_nvme(address, "randwrite", 512) };
    assert_eq!(counted(&flushed).unwrap().len(), 2);
}

#[test]
fn a_status_ends_the_run() {
    let address = serve(|stream| nvme(stream, 0x281));
    let why = counted(&of_nvme(address, "write", 4096)).unwrap_err();
    assert_eq!(why, "it answers status 281h");
}

#[test]
fn arguments_without_sense_are_refused() {
    let sound = args("127.0.0.1:1".to_owned(), "read", 4096);
    for wrong in [
        LoadArgs { depth: 0, ..sound.clone() },
        LoadArgs { depth: 128, ..sound.clone() },
        LoadArgs { block: 1000, ..sound.clone() },
        LoadArgs { size: 512, ..sound.clone() },
        LoadArgs { pattern: "trim".to_owned(), ..sound },
    ] {
        assert_eq!(run(&wrong).unwrap_err().kind, Kind::Usage);
    }
}
