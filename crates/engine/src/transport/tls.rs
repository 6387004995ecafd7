//! TLS as a machine without I/O: ciphertext in, plaintext out, and the other way round.
//!
//! Whoever has the socket moves the bytes: the control plane during the handshake and for its own
//! connections, a worker for a link. The machine holds at most one record's plaintext and what a
//! handshake wants to send. After an error it gives no more plaintext.

use std::fmt;
use std::sync::Arc;

use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::ServerName;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus, WriteTraffic,
};
use rustls::{ClientConfig, CommonState, Error, ServerConfig};

/// The most plaintext in one record, in bytes.
pub const MAX_PLAIN: usize = 16 << 10;
/// The most bytes by which a record is longer than its plaintext: 22 with TLS 1.3, 29 before.
pub const RECORD_OVERHEAD: usize = 32;
/// Room for what may have to be sent before a record: the answer to the other side's key update,
/// and an own one.
pub const KEY_UPDATES: usize = 256;
/// The most ciphertext that need be there to go on: handshake messages span records.
pub const MAX_UNREAD: usize = 64 << 10;

/// One end of a connection.
pub struct Tls {
    side: Side,
    /// Plaintext that was decrypted and found no room, and how much of it has been given since.
    left: Vec<u8>,
    given: usize,
    /// Ciphertext that is to be sent before anything else.
    queued: Vec<u8>,
    /// The other side has said that it sends no more.
    is_closed: bool,
    failed: Option<Error>,
}

enum Side {
    Client(Box<UnbufferedClientConnection>),
    Server(Box<UnbufferedServerConnection>),
}

/// What came of received bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Bytes of ciphertext that are done with.
    pub taken: usize,
    /// Bytes of plaintext.
    pub filled: usize,
}

/// What is to be done after one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TlsStep {
    /// Another one.
    Again,
    /// Wait for more ciphertext.
    Wait,
    /// Nothing: the other side sends no more.
    Closed,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

/// Where plaintext goes: to the caller, and what finds no room there is kept.
struct Sink<'a> {
    memory: &'a mut [u8],
    filled: usize,
    left: &'a mut Vec<u8>,
}

impl Sink<'_> {
    fn put(&mut self, plain: &[u8]) {
        let room = &mut self.memory[self.filled..];
        let (now, later) = plain.split_at(plain.len().min(room.len()));
        room[..now.len()].copy_from_slice(now);
        self.filled += now.len();
        self.left.extend_from_slice(later);
    }
}

impl Tls {
    /// The side that connects, to `name`, which the other side's certificate is compared with.
    ///
    /// # Errors
    /// If the configuration can't be used.
    pub fn client(config: Arc<ClientConfig>, name: ServerName<'static>) -> Result<Self, Error> {
        Ok(Self::new(Side::Client(Box::new(UnbufferedClientConnection::new(config, name)?))))
    }

    /// The side that was connected to.
    ///
    /// # Errors
    /// If the configuration can't be used.
    pub fn server(config: Arc<ServerConfig>) -> Result<Self, Error> {
        Ok(Self::new(Side::Server(Box::new(UnbufferedServerConnection::new(config)?))))
    }

    fn new(side: Side) -> Self {
        let (left, queued) = (Vec::new(), Vec::new());
        Self { side, left, given: 0, queued, is_closed: false, failed: None }
    }

    /// What was agreed on: version, the other side's certificates, whether the handshake goes on.
    #[must_use]
    pub fn agreed(&self) -> &CommonState {
        match &self.side {
            Side::Client(connection) => connection,
            Side::Server(connection) => connection,
        }
    }

    /// Whether the other side has said that it sends no more, and all that it sent was given.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.is_closed && self.given == self.left.len()
    }

    /// Decrypts what came. Fills `plain` as far as there are complete records; one that is longer
    /// than what is left of it is given in pieces, by the next calls. What is not taken has to come
    /// again, with more behind it. `filled` is zero only if more has to be received, or
    /// [`Self::is_closed`], or `plain` is empty.
    ///
    /// # Errors
    /// If a record is not what the other side has sent, or it sends what it may not. Every later
    /// call returns the same error.
    pub fn receive(&mut self, cipher: &mut [u8], plain: &mut [u8]) -> Result<Received, Error> {
        let mut received = Received { taken: 0, filled: self.give(plain) };
        loop {
            let is_full = received.filled == plain.len() && !plain.is_empty();
            if self.given < self.left.len() || is_full {
                return Ok(received);
            }
            let rest = &mut cipher[received.taken..];
            let outcome = match self.step(rest, &mut plain[received.filled..]) {
                Ok((taken, filled, step)) => {
                    received.taken += taken;
                    received.filled += filled;
                    match step {
                        TlsStep::Again => continue,
                        TlsStep::Wait => self.refuse_spanning(&cipher[received.taken..]),
                        TlsStep::Closed => Ok(()),
                    }
                }
                Err(error) => Err(error),
            };
            return match outcome {
                // What came before is given first.
                Err(error) if received.filled == 0 => Err(error),
                _ => Ok(received),
            };
        }
    }

    /// Fails if `rest` begins with a whole record: the library keeps it, as the first part of a
    /// message of which more records have to come. It looks for that part again whenever it is
    /// called, also to send, and panics if it is not given. Certificates may be so long; what is
    /// sent after a handshake is not.
    fn refuse_spanning(&mut self, rest: &[u8]) -> Result<(), Error> {
        if !has_record(rest) || self.is_closed || self.agreed().is_handshaking() {
            return Ok(());
        }
        let error = Error::General("a message that is in several records".into());
        self.failed = Some(error.clone());
        Err(error)
    }

    /// Gives what has found no room before.
    fn give(&mut self, plain: &mut [u8]) -> usize {
        let rest = &self.left[self.given..];
        let count = rest.len().min(plain.len());
        plain[..count].copy_from_slice(&rest[..count]);
        self.given += count;
        if self.given == self.left.len() {
            self.left.clear();
            self.given = 0;
        }
        count
    }

    fn step(
        &mut self,
        cipher: &mut [u8],
        plain: &mut [u8],
    ) -> Result<(usize, usize, TlsStep), Error> {
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        let mut sink = Sink { memory: plain, filled: 0, left: &mut self.left };
        let queued = &mut self.queued;
        let (taken, step) = match &mut self.side {
            Side::Client(connection) => {
                take(connection.process_tls_records(cipher), &mut sink, queued)
            }
            Side::Server(connection) => {
                take(connection.process_tls_records(cipher), &mut sink, queued)
            }
        };
        let filled = sink.filled;
        match step {
            Ok(step) => {
                self.is_closed |= step == TlsStep::Closed;
                Ok((taken, filled, step))
            }
            Err(error) => {
                self.queue_alert(&mut cipher[taken..]);
                self.failed = Some(error.clone());
                Err(error)
            }
        }
    }

    /// Queues what tells the other side of an error. `cipher` is what was not taken.
    fn queue_alert(&mut self, cipher: &mut [u8]) {
        let mut nowhere = Sink { memory: &mut [], filled: 0, left: &mut Vec::new() };
        let _ = match &mut self.side {
            Side::Client(connection) => {
                take(connection.process_tls_records(cipher), &mut nowhere, &mut self.queued)
            }
            Side::Server(connection) => {
                take(connection.process_tls_records(cipher), &mut nowhere, &mut self.queued)
            }
        };
    }

    /// Ciphertext that is to be sent, in this order.
    #[must_use]
    pub fn queued(&self) -> &[u8] {
        &self.queued
    }

    /// Forgets the first `count` bytes of [`Self::queued`]: they have been sent.
    pub fn sent(&mut self, count: usize) {
        self.queued.drain(..count);
    }

    /// Encrypts at most [`MAX_PLAIN`] bytes as one record. Writes what is queued, and then that, to
    /// `cipher`, which has room for what is queued, [`KEY_UPDATES`], the plaintext and
    /// [`RECORD_OVERHEAD`]. Returns how much was written.
    ///
    /// # Errors
    /// If the handshake is not over, the connection has failed, or there is no room.
    pub fn seal(&mut self, plain: &[u8], cipher: &mut [u8]) -> Result<usize, Error> {
        self.prepare()?;
        let written = self.queued.len();
        let Some((front, rest)) = cipher.split_at_mut_checked(written) else {
            return Err(no_room());
        };
        front.copy_from_slice(&self.queued);
        let sealed = self.writing(|writer| writer.encrypt(plain, rest))?;
        self.queued.clear();
        Ok(written + sealed)
    }

    /// Encrypts so many bytes of this as fit into one record, and queues that. Returns how many.
    ///
    /// # Errors
    /// Like [`Self::seal`].
    pub fn write(&mut self, plain: &[u8]) -> Result<usize, Error> {
        let plain = &plain[..plain.len().min(MAX_PLAIN)];
        self.prepare()?;
        self.queue(|writer, room| writer.encrypt(plain, room), plain.len())?;
        Ok(plain.len())
    }

    /// Queues that nothing more is sent.
    ///
    /// # Errors
    /// Like [`Self::seal`].
    pub fn close(&mut self) -> Result<(), Error> {
        self.prepare()?;
        self.queue(|writer, room| writer.queue_close_notify(room), 0)
    }

    fn queue(
        &mut self,
        write: impl FnOnce(&mut dyn Writer, &mut [u8]) -> Result<usize, EncryptError>,
        length: usize,
    ) -> Result<(), Error> {
        let mut queued = std::mem::take(&mut self.queued);
        let before = queued.len();
        queued.resize(before + length + KEY_UPDATES + RECORD_OVERHEAD, 0);
        let written = self.writing(|writer| write(writer, &mut queued[before..]));
        queued.truncate(before + *written.as_ref().unwrap_or(&0));
        self.queued = queued;
        written.map(|_| ())
    }

    /// Queues what the library wants sent first.
    fn prepare(&mut self) -> Result<(), Error> {
        if self.agreed().is_handshaking() {
            return Err(self.failed.clone().unwrap_or(Error::HandshakeNotComplete));
        }
        // What is complete has been taken by `receive`.
        while self.step(&mut [], &mut [])?.2 == TlsStep::Again {}
        Ok(())
    }

    /// Writes in the state in which that is possible.
    fn writing(
        &mut self,
        write: impl FnOnce(&mut dyn Writer) -> Result<usize, EncryptError>,
    ) -> Result<usize, Error> {
        let written = match &mut self.side {
            Side::Client(connection) => in_state(connection.process_tls_records(&mut []), write),
            Side::Server(connection) => in_state(connection.process_tls_records(&mut []), write),
        };
        written.inspect_err(|error| self.failed = Some(error.clone()))
    }
}

/// What can be written once the handshake is over, on either side.
trait Writer {
    fn encrypt(&mut self, plain: &[u8], cipher: &mut [u8]) -> Result<usize, EncryptError>;
    fn queue_close_notify(&mut self, cipher: &mut [u8]) -> Result<usize, EncryptError>;
}

impl<D> Writer for WriteTraffic<'_, D> {
    fn encrypt(&mut self, plain: &[u8], cipher: &mut [u8]) -> Result<usize, EncryptError> {
        WriteTraffic::encrypt(self, plain, cipher)
    }

    fn queue_close_notify(&mut self, cipher: &mut [u8]) -> Result<usize, EncryptError> {
        WriteTraffic::queue_close_notify(self, cipher)
    }
}

fn in_state<D>(
    status: UnbufferedStatus<'_, '_, D>,
    write: impl FnOnce(&mut dyn Writer) -> Result<usize, EncryptError>,
) -> Result<usize, Error> {
    match status.state? {
        ConnectionState::WriteTraffic(mut writer) => {
            write(&mut writer).map_err(|error| match error {
                EncryptError::EncryptExhausted => Error::EncryptError,
                EncryptError::InsufficientSize(_) => no_room(),
            })
        }
        _ => Err(Error::General("nothing can be sent any more".into())),
    }
}

/// Whether the bytes begin with a whole record.
fn has_record(bytes: &[u8]) -> bool {
    let Some((header, rest)) = bytes.split_first_chunk::<5>() else { return false };
    rest.len() >= usize::from(u16::from_be_bytes([header[3], header[4]]))
}

fn no_room() -> Error {
    Error::General("a record found no room".into())
}

/// One step of the library: how much ciphertext is done with, and what is next.
fn take<D>(
    status: UnbufferedStatus<'_, '_, D>,
    sink: &mut Sink<'_>,
    queued: &mut Vec<u8>,
) -> (usize, Result<TlsStep, Error>) {
    let mut discard = status.discard;
    let step = match status.state {
        Ok(ConnectionState::ReadTraffic(mut traffic)) => loop {
            match traffic.next_record() {
                Some(Ok(record)) => {
                    discard += record.discard;
                    sink.put(record.payload);
                }
                Some(Err(error)) => break Err(error),
                None => break Ok(TlsStep::Again),
            }
        },
        Ok(ConnectionState::EncodeTlsData(mut data)) => encode(&mut data, queued),
        // It is in `queued`, from which everything is sent in its order.
        Ok(ConnectionState::TransmitTlsData(transmit)) => {
            transmit.done();
            Ok(TlsStep::Again)
        }
        Ok(ConnectionState::BlockedHandshake | ConnectionState::WriteTraffic(_)) => {
            Ok(TlsStep::Wait)
        }
        Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => Ok(TlsStep::Closed),
        // Data before the handshake's end is never offered, nor asked for.
        Ok(_) => Err(Error::General("an unknown state".into())),
        Err(error) => Err(error),
    };
    (discard, step)
}

fn encode<D>(data: &mut EncodeTlsData<'_, D>, queued: &mut Vec<u8>) -> Result<TlsStep, Error> {
    let before = queued.len();
    loop {
        match data.encode(&mut queued[before..]) {
            Ok(written) => {
                queued.truncate(before + written);
                return Ok(TlsStep::Again);
            }
            Err(EncodeError::InsufficientSize(needed)) => {
                queued.resize(before + needed.required_size, 0);
            }
            Err(error) => return Err(Error::General(error.to_string())),
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
