//! A client of the NBD protocol, as small as it can be: one request at a time.
//! <https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md>

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

const OPTION_MAGIC: &[u8; 8] = b"IHAVEOPT";
const REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const ANSWER_MAGIC: u32 = 0x6744_6698;

const OPTION_GO: u32 = 7;
const REPLY_ACK: u32 = 1;

const READ: u16 = 0;
const WRITE: u16 = 1;
const FLUSH: u16 = 3;
const ZEROES: u16 = 6;

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection to an export.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    cookie: u64,
}

impl Client {
    /// Connects to this export of a server that listens at this socket.
    ///
    /// # Errors
    /// If it does not listen, or does not offer the export.
    pub fn connect(socket: &Path, export: &str) -> io::Result<Self> {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting)?;
        if &greeting[..8] != b"NBDMAGIC" || &greeting[8..16] != OPTION_MAGIC {
            return Err(io::Error::other("it does not speak the NBD protocol"));
        }
        // Fixed newstyle, no zeroes.
        stream.write_all(&3u32.to_be_bytes())?;
        let mut option = OPTION_MAGIC.to_vec();
        option.extend(OPTION_GO.to_be_bytes());
        option.extend((export.len() as u32 + 6).to_be_bytes());
        option.extend((export.len() as u32).to_be_bytes());
        option.extend(export.as_bytes());
        option.extend(0u16.to_be_bytes());
        stream.write_all(&option)?;
        loop {
            let mut header = [0; 20];
            stream.read_exact(&mut header)?;
            let number =
                |at: usize| u32::from_be_bytes(header[at..at + 4].try_into().unwrap_or_default());
            let magic = u64::from_be_bytes(header[..8].try_into().unwrap_or_default());
            let (kind, length) = (number(12), number(16));
            let mut body = vec![0; length as usize];
            stream.read_exact(&mut body)?;
            if magic != REPLY_MAGIC || kind & 1 << 31 != 0 {
                return Err(io::Error::other(format!("the export is refused: {kind:08x}")));
            }
            if kind == REPLY_ACK {
                return Ok(Self { stream, cookie: 0 });
            }
        }
    }

    fn ask(&mut self, command: u16, offset: u64, length: u32, data: &[u8]) -> io::Result<()> {
        self.cookie += 1;
        let mut request = REQUEST_MAGIC.to_be_bytes().to_vec();
        request.extend(0u16.to_be_bytes());
        request.extend(command.to_be_bytes());
        request.extend(self.cookie.to_be_bytes());
        request.extend(offset.to_be_bytes());
        request.extend(length.to_be_bytes());
        request.extend(data);
        self.stream.write_all(&request)?;
        let mut answer = [0; 16];
        self.stream.read_exact(&mut answer)?;
        let number =
            |at: usize| u32::from_be_bytes(answer[at..at + 4].try_into().unwrap_or_default());
        if number(0) != ANSWER_MAGIC || answer[8..] != self.cookie.to_be_bytes() {
            return Err(io::Error::other("the answer is not one"));
        }
        match number(4) {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(error.cast_signed())),
        }
    }

    /// Reads a range.
    ///
    /// # Errors
    /// Those of the server and the connection, as with all requests.
    pub fn read(&mut self, offset: u64, length: u32) -> io::Result<Vec<u8>> {
        self.ask(READ, offset, length, &[])?;
        let mut data = vec![0; length as usize];
        self.stream.read_exact(&mut data)?;
        Ok(data)
    }

    /// Writes a range.
    ///
    /// # Errors
    /// See [`Self::read`].
    pub fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.ask(WRITE, offset, data.len() as u32, data)
    }

    /// Makes a range zeroes.
    ///
    /// # Errors
    /// See [`Self::read`].
    pub fn zero(&mut self, offset: u64, length: u32) -> io::Result<()> {
        self.ask(ZEROES, offset, length, &[])
    }

    /// Makes durable what was answered.
    ///
    /// # Errors
    /// See [`Self::read`].
    pub fn flush(&mut self) -> io::Result<()> {
        self.ask(FLUSH, 0, 0, &[])
    }
}
