//! An initiator of NVMe over TCP: one queue for I/O, no digests, one request for data at a time.
//!
//! It is apart from the product, as a host is: it knows the protocol by itself.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use super::{Ask, Protocol, open};

/// Types of PDUs.
const COMMAND: u8 = 4;
const RESPONSE: u8 = 5;
const HOST_DATA: u8 = 6;
const DATA: u8 = 7;
const READY: u8 = 9;
/// Bytes of the header of a command, and of other PDUs.
const COMMAND_HEADER: u8 = 72;
const HEADER: usize = 24;
/// Flags of data: it is the last, and stands for the response, too.
const LAST: u8 = 1 << 2;
const SUCCESS: u8 = 1 << 3;
/// Opcodes.
const FLUSH: u8 = 0;
const WRITE: u8 = 1;
const READ: u8 = 2;
const IDENTIFY: u8 = 6;
const FABRICS: u8 = 0x7f;
/// Types of SGL descriptors.
const IN_CAPSULE: u8 = 0x01;
const TRANSPORT: u8 = 0x5a;
/// Asks Connect for a new controller.
const NEW: u16 = 0xffff;

/// A queue for I/O.
#[derive(Debug)]
pub struct Queue {
    /// Keeps the controller.
    _admin: TcpStream,
    block: u64,
    /// Most bytes of data in a capsule.
    in_capsule: usize,
    /// Bytes of data that are still to come, and the request that they end, if they do.
    skipped: usize,
    ends: Option<u16>,
}

/// A command's entry, with its data's place.
fn entry(opcode: u8, number: u16, namespace: u32, (kind, length): (u8, u32)) -> [u8; 64] {
    let mut entry = [0; 64];
    (entry[0], entry[1], entry[39]) = (opcode, 0x40, kind);
    entry[2..4].copy_from_slice(&number.to_le_bytes());
    entry[4..8].copy_from_slice(&namespace.to_le_bytes());
    entry[32..36].copy_from_slice(&length.to_le_bytes());
    entry
}

fn put_command(entry: &[u8; 64], data: &[u8], out: &mut Vec<u8>) {
    let offset = if data.is_empty() { 0 } else { COMMAND_HEADER };
    out.extend_from_slice(&[COMMAND, 0, COMMAND_HEADER, offset]);
    out.extend_from_slice(&(u32::from(COMMAND_HEADER) + data.len() as u32).to_le_bytes());
    out.extend_from_slice(entry);
    out.extend_from_slice(data);
}

/// Connects an admin queue and one for I/O, with room for so many requests.
pub fn connect(
    address: &str,
    names: (&str, &str),
    depth: u32,
) -> Result<(TcpStream, Queue), String> {
    let in_words = |error: std::io::Error| error.to_string();
    let mut admin = open(address).map_err(in_words)?;
    let controller = join(&mut admin, names, (NEW, 0), 31)?;
    let mut enable = entry(FABRICS, 1, 0, (TRANSPORT, 0));
    enable[44] = 0x14;
    enable[48..52].copy_from_slice(&0x0046_0001_u32.to_le_bytes());
    call(&mut admin, &enable, &[])?;
    let page = |admin: &mut TcpStream, what: u8, namespace: u32| {
        let mut identify = entry(IDENTIFY, 2, namespace, (TRANSPORT, 4096));
        identify[40] = what;
        call(admin, &identify, &[]).map(|(_, data)| data)
    };
    let of_controller = page(&mut admin, 1, 0)?;
    let of_namespace = page(&mut admin, 0, 1)?;
    let (Some(capsule), Some(shift)) = (of_controller.get(1792..1796), of_namespace.get(130))
    else {
        return Err("its answer to Identify is short".to_owned());
    };
    let capsule = u32::from_le_bytes([capsule[0], capsule[1], capsule[2], capsule[3]]);
    let mut stream = open(address).map_err(in_words)?;
    join(&mut stream, names, (controller, 1), depth as u16)?;
    let queue = Queue {
        _admin: admin,
        block: 1 << (shift & 31),
        in_capsule: (capsule as usize * 16).saturating_sub(64),
        skipped: 0,
        ends: None,
    };
    Ok((stream, queue))
}

/// Makes a connection a queue. Returns the controller's identifier.
fn join(
    stream: &mut TcpStream,
    (subsystem, host): (&str, &str),
    (controller, queue): (u16, u16),
    size: u16,
) -> Result<u16, String> {
    if subsystem.len() > 223 || host.len() > 223 {
        return Err("a name is longer than 223 bytes".to_owned());
    }
    let mut hello = [0; 128];
    (hello[2], hello[4]) = (128, 128);
    stream.write_all(&hello).map_err(|error| error.to_string())?;
    stream.read_exact(&mut hello).map_err(|error| error.to_string())?;
    if hello[0] != 1 {
        return Err("it does not speak NVMe over TCP".to_owned());
    }
    let mut connect = entry(FABRICS, 0, 1, (IN_CAPSULE, 1024));
    connect[42..44].copy_from_slice(&queue.to_le_bytes());
    connect[44..46].copy_from_slice(&size.to_le_bytes());
    let mut data = [0; 1024];
    data[..16].fill(0xbe);
    data[16..18].copy_from_slice(&controller.to_le_bytes());
    data[256..256 + subsystem.len()].copy_from_slice(subsystem.as_bytes());
    data[512..512 + host.len()].copy_from_slice(host.as_bytes());
    call(stream, &connect, &data).map(|(result, _)| result as u16)
}

/// Asks for one thing, and waits for it.
fn call(stream: &mut TcpStream, entry: &[u8; 64], data: &[u8]) -> Result<(u64, Vec<u8>), String> {
    let in_words = |error: std::io::Error| error.to_string();
    let (mut out, mut answer) = (Vec::new(), Vec::new());
    put_command(entry, data, &mut out);
    stream.write_all(&out).map_err(in_words)?;
    loop {
        let mut head = [0; HEADER];
        stream.read_exact(&mut head).map_err(in_words)?;
        match head[0] {
            RESPONSE => {
                check(&head)?;
                let mut result = [0; 8];
                result.copy_from_slice(&head[8..16]);
                return Ok((u64::from_le_bytes(result), answer));
            }
            DATA => {
                answer.resize(data_length(&head).min(1 << 20), 0);
                stream.read_exact(&mut answer).map_err(in_words)?;
                if head[1] & SUCCESS != 0 {
                    return Ok((0, answer));
                }
            }
            kind => return Err(format!("it sends a PDU of type {kind}")),
        }
    }
}

fn check(head: &[u8; HEADER]) -> Result<(), String> {
    match u16::from_le_bytes([head[22], head[23]]) >> 1 {
        0 => Ok(()),
        status => Err(format!("it answers status {:x}h", status & 0x7ff)),
    }
}

fn data_length(head: &[u8; HEADER]) -> usize {
    (u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize).saturating_sub(HEADER)
}

impl Protocol for Queue {
    fn ask(&mut self, number: u16, ask: Ask, data: &[u8], out: &mut Vec<u8>) {
        let (opcode, offset, length) = match ask {
            Ask::Read { offset, length } => (READ, offset, length),
            Ask::Write { offset, length } => (WRITE, offset, length),
            Ask::Flush => return put_command(&entry(FLUSH, number, 1, (TRANSPORT, 0)), &[], out),
        };
        let sent = match opcode {
            WRITE if length as usize <= self.in_capsule => &data[..length as usize],
            _ => &[],
        };
        let kind = if sent.is_empty() { TRANSPORT } else { IN_CAPSULE };
        let mut entry = entry(opcode, number, 1, (kind, length));
        entry[40..48].copy_from_slice(&(offset / self.block).to_le_bytes());
        let blocks = u64::from(length) / self.block;
        entry[48..50].copy_from_slice(&(blocks.saturating_sub(1) as u16).to_le_bytes());
        put_command(&entry, sent, out);
    }

    fn receive(
        &mut self,
        bytes: &[u8],
        data: &[u8],
        out: &mut Vec<u8>,
        done: &mut Vec<u16>,
    ) -> Result<usize, String> {
        let mut used = 0;
        loop {
            let count = self.skipped.min(bytes.len() - used);
            used += count;
            self.skipped -= count;
            if self.skipped > 0 {
                return Ok(used);
            }
            done.extend(self.ends.take());
            let Some(head) = bytes[used..].first_chunk::<HEADER>() else { return Ok(used) };
            used += HEADER;
            let number = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
            match head[0] {
                RESPONSE => {
                    check(head)?;
                    done.push(number(20));
                }
                DATA => {
                    self.skipped = data_length(head);
                    self.ends = (head[1] & SUCCESS != 0).then(|| number(8));
                }
                READY => put_data(head, data, out)?,
                kind => return Err(format!("it sends a PDU of type {kind}")),
            }
        }
    }
}

/// Sends the data that is asked for.
fn put_data(ready: &[u8; HEADER], data: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    let word =
        |at: usize| u32::from_le_bytes([ready[at], ready[at + 1], ready[at + 2], ready[at + 3]]);
    let (offset, length) = (word(12) as usize, word(16) as usize);
    let part = data.get(offset..offset.saturating_add(length));
    let part = part.ok_or("it asks for data that there is not")?;
    out.extend_from_slice(&[HOST_DATA, LAST, HEADER as u8, HEADER as u8]);
    out.extend_from_slice(&((HEADER + length) as u32).to_le_bytes());
    // Command, tag, offset, length, as they came.
    out.extend_from_slice(&ready[8..20]);
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(part);
    Ok(())
}
