//! A client of NBD: fixed newstyle, simple replies.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use super::{Ask, Protocol, open};

const REQUEST: u32 = 0x2560_9513;
const REPLY: u32 = 0x6744_6698;
const OPTION: &[u8; 8] = b"IHAVEOPT";
/// NBD_OPT_GO, NBD_REP_ACK, NBD_REP_INFO.
const GO: u32 = 7;
const ACKNOWLEDGED: u32 = 1;
const INFORMATION: u32 = 3;
/// Bytes of a reply without data.
const REPLY_LENGTH: usize = 16;

/// A connection that has chosen its export.
#[derive(Debug, Default)]
pub struct Client {
    /// By number: the bytes that a read brings.
    lengths: Vec<usize>,
    /// Bytes of a read's data that have not come yet, and whose they are.
    expected: Option<(usize, u16)>,
}

/// Connects to an export.
pub fn connect(address: &str, export: &str) -> Result<(TcpStream, Client), String> {
    let mut stream = open(address).map_err(|error| error.to_string())?;
    let chosen = choose(&mut stream, export).map_err(|error| error.to_string())?;
    match chosen {
        true => Ok((stream, Client::default())),
        false => Err(format!("it has no export {export} for this client")),
    }
}

fn choose(stream: &mut TcpStream, export: &str) -> std::io::Result<bool> {
    stream.read_exact(&mut [0; 18])?;
    // Fixed newstyle, no zeroes.
    let mut out = 3_u32.to_be_bytes().to_vec();
    out.extend_from_slice(OPTION);
    out.extend_from_slice(&GO.to_be_bytes());
    out.extend_from_slice(&(export.len() as u32 + 6).to_be_bytes());
    out.extend_from_slice(&(export.len() as u32).to_be_bytes());
    out.extend_from_slice(export.as_bytes());
    out.extend_from_slice(&[0; 2]);
    stream.write_all(&out)?;
    loop {
        let mut head = [0; 20];
        stream.read_exact(&mut head)?;
        let number =
            |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        stream.read_exact(&mut vec![0; (number(16) as usize).min(1 << 16)])?;
        match number(12) {
            ACKNOWLEDGED => return Ok(true),
            INFORMATION => {}
            _ => return Ok(false),
        }
    }
}

impl Protocol for Client {
    fn ask(&mut self, number: u16, ask: Ask, data: &[u8], out: &mut Vec<u8>) {
        let (kind, offset, length) = match ask {
            Ask::Read { offset, length } => (0_u16, offset, length),
            Ask::Write { offset, length } => (1, offset, length),
            Ask::Flush => (3, 0, 0),
        };
        let index = usize::from(number);
        if self.lengths.len() <= index {
            self.lengths.resize(index + 1, 0);
        }
        self.lengths[index] = if kind == 0 { length as usize } else { 0 };
        out.extend_from_slice(&REQUEST.to_be_bytes());
        out.extend_from_slice(&[0; 2]);
        out.extend_from_slice(&kind.to_be_bytes());
        out.extend_from_slice(&u64::from(number).to_be_bytes());
        out.extend_from_slice(&offset.to_be_bytes());
        out.extend_from_slice(&length.to_be_bytes());
        if kind == 1 {
            out.extend_from_slice(&data[..length as usize]);
        }
    }

    fn receive(
        &mut self,
        bytes: &[u8],
        _data: &[u8],
        _out: &mut Vec<u8>,
        done: &mut Vec<u16>,
    ) -> Result<usize, String> {
        let mut used = 0;
        loop {
            let rest = &bytes[used..];
            if let Some((left, number)) = self.expected {
                let count = left.min(rest.len());
                used += count;
                if count < left {
                    self.expected = Some((left - count, number));
                    return Ok(used);
                }
                self.expected = None;
                done.push(number);
                continue;
            }
            let Some(head) = rest.first_chunk::<REPLY_LENGTH>() else { return Ok(used) };
            used += REPLY_LENGTH;
            let word = |at: usize| {
                u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]])
            };
            if word(0) != REPLY {
                return Err("what it answers is no simple reply of NBD".to_owned());
            }
            if word(4) != 0 {
                return Err(format!("it answers error {}", word(4)));
            }
            let number = word(12) as u16;
            let length = self.lengths.get(usize::from(number)).copied().unwrap_or_default();
            self.expected = Some((length, number));
        }
    }
}
