//! An initiator that says what a test wants.

use super::super::{Connection, Event, Status};
use super::feed;
use crate::nvme::pdu::{Data, DataDigest, Flags, Framing, InitializeRequest, Kind, put_command};

/// Entries of the queue.
pub const SIZE: u32 = 8;
/// Types of SGL descriptors.
pub const IN_CAPSULE: u8 = 0x01;
pub const ON_REQUEST: u8 = 0x5a;

#[derive(Debug, Clone, Copy, Default)]
pub struct Host {
    pub header_digest: bool,
    pub data_digest: bool,
    pub framing: Framing,
}

/// A submission queue entry.
pub fn entry(opcode: u8, identifier: u16, descriptor: u8, length: u32) -> [u8; 64] {
    let mut bytes = [0; 64];
    (bytes[0], bytes[1], bytes[4], bytes[39]) = (opcode, 0x40, 1, descriptor);
    bytes[2..4].copy_from_slice(&identifier.to_le_bytes());
    bytes[32..36].copy_from_slice(&length.to_le_bytes());
    bytes
}

impl Host {
    /// With each choice of digests.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..4).map(|bits| {
            let host = Self {
                header_digest: bits & 1 != 0,
                data_digest: bits & 2 != 0,
                ..Self::default()
            };
            host.agreed()
        })
    }

    /// As it is once the controller has agreed.
    pub fn agreed(mut self) -> Self {
        self.framing.header_digest = self.header_digest;
        self.framing.data_digest = self.data_digest;
        self
    }

    /// Bytes behind a PDU's data.
    pub fn trailer(&self) -> usize {
        if self.data_digest { 4 } else { 0 }
    }

    pub fn initialize(&mut self) -> Vec<u8> {
        *self = self.agreed();
        let request = InitializeRequest {
            alignment: self.framing.alignment,
            header_digest: self.header_digest,
            data_digest: self.data_digest,
            max_ready: 0,
        };
        let mut bytes = Vec::new();
        request.put(&mut bytes);
        bytes
    }

    /// What the controller asks of data that the host sends.
    fn sending(&self) -> Framing {
        Framing { alignment: 0, ..self.framing }
    }

    pub fn capsule(&self, entry: &[u8; 64], data: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        put_command(entry, data.len() as u32, &self.sending(), &mut bytes);
        self.append(data, &mut bytes);
        bytes
    }

    pub fn data(&self, command: u16, tag: u16, offset: u32, data: &[u8], last: bool) -> Vec<u8> {
        let mut bytes = Vec::new();
        let flags = Flags { last, success: false };
        let header = Data { command, tag, offset, length: data.len() as u32 };
        header.put(Kind::HostData, flags, &self.sending(), &mut bytes);
        self.append(data, &mut bytes);
        bytes
    }

    fn append(&self, data: &[u8], bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(data);
        if self.data_digest && !data.is_empty() {
            bytes.extend_from_slice(&DataDigest::of(data));
        }
    }

    pub fn flush(&self, identifier: u16) -> Vec<u8> {
        self.capsule(&entry(0x00, identifier, ON_REQUEST, 0), &[])
    }

    /// Connect with its data, as command 1.
    pub fn connect(&self) -> Vec<u8> {
        self.capsule(&entry(0x7f, 1, IN_CAPSULE, 1024), &[0; 1024])
    }
}

/// A connection that is a queue of [`SIZE`] entries; its Connect was the first entry.
pub fn open(host: &Host, without_flow_control: bool) -> Connection {
    let mut connection = Connection::default();
    let mut host = *host;
    let mut out = Vec::new();
    let bytes = [host.initialize(), host.connect()].concat();
    feed(&mut connection, &bytes, &mut out, |connection, event, out| {
        if let Event::Received(tag) = event {
            connection.connected(SIZE, without_flow_control).unwrap();
            connection.answer(*tag, Status::Success, 0, out).unwrap();
        }
    });
    connection
}
