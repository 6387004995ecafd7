//! A small initiator of NVMe over TCP: one command at a time, no digests.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

pub const DISCOVERY: &str = "nqn.2014-08.org.nvmexpress.discovery";
/// Asks for a new controller.
pub const NEW: u16 = 0xffff;
/// Of answers: nobody should try again.
const DO_NOT_RETRY: u16 = 1 << 14;
const PATIENCE: Duration = Duration::from_secs(20);

/// What a command is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Without the bit that says whether to retry.
    pub status: u16,
    pub is_final: bool,
    pub result: u64,
    pub data: Vec<u8>,
}

/// A connection to a node.
pub struct Queue {
    stream: TcpStream,
    next: u16,
}

/// A command's entry; all fields are zero but those that are set.
pub struct Entry([u8; 64]);

impl Entry {
    pub fn new(opcode: u8) -> Self {
        let mut entry = Self([0; 64]);
        entry.put(0, &[opcode, 0x40]);
        // Without data: an SGL of the transport with no bytes.
        entry.put(39, &[0x5a]);
        entry
    }

    pub fn put(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// It reads so many bytes.
    pub fn reads(mut self, length: u32) -> Self {
        self.put(32, &length.to_le_bytes());
        self
    }
}

impl Queue {
    /// Connects a queue of a controller; the answer to its Connect.
    pub async fn connect(
        address: &str,
        (subsystem, host): (&str, &str),
        (controller, queue): (u16, u16),
    ) -> io::Result<(Self, Answer)> {
        let stream = TcpStream::connect(address).await?;
        Self::connect_by(stream, (subsystem, host), (controller, queue)).await
    }

    /// Discovers from this address of this machine.
    pub async fn discover_from(
        from: [u8; 4],
        address: &str,
        host: &str,
    ) -> io::Result<(Self, Answer)> {
        Self::connect_from(from, address, (DISCOVERY, host)).await
    }

    /// Asks for a new controller from this address of this machine.
    pub async fn connect_from(
        from: [u8; 4],
        address: &str,
        names: (&str, &str),
    ) -> io::Result<(Self, Answer)> {
        let socket = TcpSocket::new_v4()?;
        socket.bind((from, 0).into())?;
        let stream = socket.connect(address.parse().unwrap()).await?;
        Self::connect_by(stream, names, (NEW, 0)).await
    }

    async fn connect_by(
        mut stream: TcpStream,
        (subsystem, host): (&str, &str),
        (controller, queue): (u16, u16),
    ) -> io::Result<(Self, Answer)> {
        let mut hello = [0; 128];
        hello[2] = 128;
        hello[4] = 128;
        stream.write_all(&hello).await?;
        stream.read_exact(&mut hello).await?;
        assert_eq!(hello[0], 1, "it is an ICResp");
        let mut this = Self { stream, next: 1 };
        let mut entry = Entry::new(0x7f);
        entry.put(4, &[1]);
        entry.put(32, &1024_u32.to_le_bytes());
        entry.put(39, &[1]);
        entry.put(42, &queue.to_le_bytes());
        entry.put(44, &31_u16.to_le_bytes());
        let mut data = [0; 1024];
        data[..16].copy_from_slice(&identifier(host));
        data[16..18].copy_from_slice(&controller.to_le_bytes());
        data[256..256 + subsystem.len()].copy_from_slice(subsystem.as_bytes());
        data[512..512 + host.len()].copy_from_slice(host.as_bytes());
        let answer = this.call(entry, &data).await?;
        Ok((this, answer))
    }

    /// The admin queue of a new controller, which is enabled; and the controller's identifier.
    pub async fn admin(address: &str, subsystem: &str, host: &str) -> (Self, u16) {
        let names = (subsystem, host);
        let (mut this, answer) = Self::connect(address, names, (NEW, 0)).await.unwrap();
        assert_eq!(answer.status, 0, "{host} may use {subsystem}");
        assert_eq!(this.enable().await.status, 0);
        (this, answer.result as u16)
    }

    /// Enables the controller of an admin queue.
    pub async fn enable(&mut self) -> Answer {
        let mut enable = Entry::new(0x7f);
        enable.put(44, &0x14_u32.to_le_bytes());
        enable.put(48, &0x0046_0001_u64.to_le_bytes());
        self.call(enable, &[]).await.unwrap()
    }

    /// Resets the controller of an admin queue, and waits until it says that it is.
    pub async fn reset(&mut self) {
        let mut disable = Entry::new(0x7f);
        disable.put(44, &0x14_u32.to_le_bytes());
        disable.put(48, &0x0046_0000_u64.to_le_bytes());
        assert_eq!(self.call(disable, &[]).await.unwrap().status, 0);
        let is_ready = async {
            loop {
                let mut status = Entry::new(0x7f);
                status.put(4, &[4]);
                status.put(44, &0x1c_u32.to_le_bytes());
                if self.call(status, &[]).await.unwrap().result & 1 == 0 {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, is_ready).await.expect("it is reset");
    }

    /// Has a command of a queue for I/O aborted; whether it was.
    pub async fn abort(&mut self, queue: u16, command: u16) -> bool {
        let mut abort = Entry::new(8);
        abort.put(40, &queue.to_le_bytes());
        abort.put(42, &command.to_le_bytes());
        let answer = self.call(abort, &[]).await.unwrap();
        assert_eq!(answer.status, 0);
        answer.result & 1 == 0
    }

    /// Sends a command with its data in the capsule, and waits for its answer.
    pub async fn call(&mut self, entry: Entry, data: &[u8]) -> io::Result<Answer> {
        let identifier = self.send(entry, data).await?;
        loop {
            let (answered, answer) = self.answer().await?;
            if answered == identifier {
                return Ok(answer);
            }
        }
    }

    /// Sends a command; its identifier.
    pub async fn send(&mut self, mut entry: Entry, data: &[u8]) -> io::Result<u16> {
        let identifier = self.next;
        self.next += 1;
        entry.put(2, &identifier.to_le_bytes());
        let offset = if data.is_empty() { 0 } else { 72 };
        let length = 72 + data.len() as u32;
        let pdu = [&[4, 0, 72, offset], &length.to_le_bytes()[..], &entry.0, data].concat();
        self.stream.write_all(&pdu).await?;
        Ok(identifier)
    }

    /// The next answer, and to which command.
    pub async fn answer(&mut self) -> io::Result<(u16, Answer)> {
        match tokio::time::timeout(PATIENCE, self.next_answer()).await {
            Ok(answer) => answer,
            Err(_) => panic!("no answer"),
        }
    }

    async fn next_answer(&mut self) -> io::Result<(u16, Answer)> {
        let mut data = Vec::new();
        loop {
            let mut head = [0; 24];
            self.stream.read_exact(&mut head).await?;
            let number = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
            let (status, is_last) = (number(22) >> 1, head[1] & 0b1000 != 0);
            let length = u32::from_le_bytes(head[4..8].try_into().unwrap()) as usize;
            match head[0] {
                5 => {
                    let result = u64::from_le_bytes(head[8..16].try_into().unwrap());
                    let is_final = status & DO_NOT_RETRY != 0;
                    let status = status & !DO_NOT_RETRY;
                    return Ok((number(20), Answer { status, is_final, result, data }));
                }
                7 => {
                    let start = data.len();
                    data.resize(start + length - 24, 0);
                    self.stream.read_exact(&mut data[start..]).await?;
                    if is_last {
                        let answer = Answer { status: 0, is_final: false, result: 0, data };
                        return Ok((number(8), answer));
                    }
                }
                other => panic!("PDU {other} is not expected: {head:?}"),
            }
        }
    }

    /// Reads a namespace or the controller, as Identify calls them.
    pub async fn identify(&mut self, what: u8, namespace: u32) -> Vec<u8> {
        let mut entry = Entry::new(6).reads(4096);
        entry.put(4, &namespace.to_le_bytes());
        entry.put(40, &[what]);
        let answer = self.call(entry, &[]).await.unwrap();
        assert_eq!(answer.status, 0);
        answer.data
    }

    /// A log page of the whole controller.
    pub async fn log(&mut self, page: u8, length: u32) -> Vec<u8> {
        let mut entry = Entry::new(2).reads(length);
        entry.put(4, &u32::MAX.to_le_bytes());
        entry.put(40, &[page, 0]);
        entry.put(42, &((length / 4 - 1) as u16).to_le_bytes());
        let answer = self.call(entry, &[]).await.unwrap();
        assert_eq!(answer.status, 0);
        answer.data
    }

    /// The subsystems that discovery shows, with their addresses.
    pub async fn discovered(&mut self) -> Vec<(String, String)> {
        let mut entry = Entry::new(2).reads(8192);
        entry.put(40, &[0x70, 0]);
        entry.put(42, &(8192_u16 / 4 - 1).to_le_bytes());
        let log = self.call(entry, &[]).await.unwrap().data;
        let text = |bytes: &[u8]| {
            let text = String::from_utf8(bytes.to_vec()).unwrap();
            text.trim_end_matches(['\0', ' ']).to_owned()
        };
        let count = log[8] as usize;
        let records = log.chunks(1024).skip(1).take(count);
        records
            .map(|record| {
                let (address, port) = (text(&record[512..768]), text(&record[32..64]));
                (text(&record[256..512]), format!("{address}:{port}"))
            })
            .collect()
    }

    /// Writes up to 8 KiB, durably; `block_size` bytes are a block.
    pub async fn write(&mut self, offset: u64, data: &[u8], block_size: u64) -> Answer {
        self.call(durable_write(offset, data, block_size), data).await.unwrap()
    }

    /// Begins such a write; its identifier.
    pub async fn begin_write(&mut self, offset: u64, data: &[u8], block_size: u64) -> u16 {
        self.send(durable_write(offset, data, block_size), data).await.unwrap()
    }

    /// Begins to compare with up to 8 KiB.
    pub async fn begin_compare(&mut self, offset: u64, data: &[u8], block_size: u64) {
        let mut entry = transfer(5, offset, data.len() as u64, block_size);
        entry.put(32, &(data.len() as u32).to_le_bytes());
        entry.put(39, &[1]);
        self.send(entry, data).await.unwrap();
    }

    /// Compares with up to 8 KiB, and writes as many if it is the same (Compare and Write).
    pub async fn compare_and_write(
        &mut self,
        offset: u64,
        (expected, data): (&[u8], &[u8]),
        block_size: u64,
    ) -> [Answer; 2] {
        let mut sent = Vec::new();
        for (opcode, part, data) in [(5, 1, expected), (1, 2, data)] {
            let mut entry = transfer(opcode, offset, data.len() as u64, block_size);
            entry.put(1, &[0x40 | part]);
            entry.put(32, &(data.len() as u32).to_le_bytes());
            entry.put(39, &[1]);
            sent.push(self.send(entry, data).await.unwrap());
        }
        let (first, second) = (self.answer().await.unwrap(), self.answer().await.unwrap());
        assert_eq!([first.0, second.0], sent[..], "the first half is answered first");
        [first.1, second.1]
    }

    pub async fn read(&mut self, offset: u64, length: u64, block_size: u64) -> Vec<u8> {
        let answer = self.try_read(offset, length, block_size).await;
        assert_eq!(answer.status, 0);
        answer.data
    }

    pub async fn try_read(&mut self, offset: u64, length: u64, block_size: u64) -> Answer {
        let entry = transfer(2, offset, length, block_size).reads(length as u32);
        self.call(entry, &[]).await.unwrap()
    }

    /// Changes reservations: a command with this dword 10, and keys.
    pub async fn reserve(&mut self, opcode: u8, word: u32, keys: &[u64]) -> Answer {
        let data: Vec<u8> = keys.iter().flat_map(|key| key.to_le_bytes()).collect();
        let mut entry = Entry::new(opcode);
        entry.put(4, &[1]);
        entry.put(32, &(data.len() as u32).to_le_bytes());
        entry.put(39, &[1]);
        entry.put(40, &word.to_le_bytes());
        self.call(entry, &data).await.unwrap()
    }

    /// Sets a feature of the namespace.
    pub async fn set_feature(&mut self, feature: u8, value: u32) -> Answer {
        let mut entry = Entry::new(9);
        entry.put(4, &[1]);
        entry.put(40, &[feature]);
        entry.put(44, &value.to_le_bytes());
        self.call(entry, &[]).await.unwrap()
    }

    /// A feature of the namespace.
    pub async fn feature(&mut self, feature: u8) -> u64 {
        let mut entry = Entry::new(0x0a);
        entry.put(4, &[1]);
        entry.put(40, &[feature]);
        let answer = self.call(entry, &[]).await.unwrap();
        assert_eq!(answer.status, 0);
        answer.result
    }

    /// Waits until the other side has closed the connection.
    pub async fn closed(mut self) {
        let mut rest = [0; 64];
        let closed =
            async { while !matches!(self.stream.read(&mut rest).await, Ok(0) | Err(_)) {} };
        tokio::time::timeout(PATIENCE, closed).await.expect("it is closed");
    }
}

/// HOSTID of a host: another one for each that these tests name so.
fn identifier(host: &str) -> [u8; 16] {
    [if host.ends_with(":other") {
        8
    } else if host.ends_with(":third") {
        9
    } else {
        7
    }; 16]
}

fn durable_write(offset: u64, data: &[u8], block_size: u64) -> Entry {
    let mut entry = transfer(1, offset, data.len() as u64, block_size);
    entry.put(32, &(data.len() as u32).to_le_bytes());
    entry.put(39, &[1]);
    entry.put(51, &[1 << 6]);
    entry
}

fn transfer(opcode: u8, offset: u64, length: u64, block_size: u64) -> Entry {
    let mut entry = Entry::new(opcode);
    entry.put(4, &1_u32.to_le_bytes());
    entry.put(40, &(offset / block_size).to_le_bytes());
    entry.put(48, &((length / block_size - 1) as u16).to_le_bytes());
    entry
}
