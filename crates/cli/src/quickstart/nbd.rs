//! A small NBD client: enough to use a volume where it cannot be mounted.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

const GREETING: u64 = u64::from_be_bytes(*b"NBDMAGIC");
const OPTION: u64 = u64::from_be_bytes(*b"IHAVEOPT");
const OPTION_REPLY: u64 = 0x0003_e889_0455_65a9;
const REQUEST: u32 = 0x2560_9513;
const SIMPLE_REPLY: u32 = 0x6744_6698;
/// Fixed newstyle, no padding.
const FLAGS: u32 = 3;
const OPTION_GO: u32 = 7;
const REPLY_ACK: u32 = 1;
const REPLY_INFO: u32 = 3;
const REPLY_ERROR: u32 = 1 << 31;
/// Longest answer to an option that is read.
const MAX_OPTION_LENGTH: u32 = 4096;
/// No request of a quickstart may take longer.
const PATIENCE: Duration = Duration::from_secs(150);

/// Commands.
#[derive(Debug, Clone, Copy)]
enum Command {
    Read = 0,
    Write = 1,
    Disconnect = 2,
    Flush = 3,
}

/// A connection to one export, one request at a time.
#[derive(Debug)]
pub struct NbdClient {
    stream: UnixStream,
    cookie: u64,
    /// Bytes of the export.
    pub size: u64,
}

impl NbdClient {
    /// Connects to an export on a unix socket.
    ///
    /// # Errors
    /// If the server is not there, has no such export, or speaks otherwise.
    pub fn connect(socket: &Path, export: &str) -> io::Result<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut client = Self { stream, cookie: 0, size: 0 };
        expect(client.long()? == GREETING && client.long()? == OPTION, "its greeting is not NBD")?;
        let mut flags = [0; 2];
        client.stream.read_exact(&mut flags)?;
        client.stream.write_all(&FLAGS.to_be_bytes())?;
        client.choose(export)?;
        Ok(client)
    }

    fn choose(&mut self, export: &str) -> io::Result<()> {
        let name_length = u32::try_from(export.len()).map_err(io::Error::other)?;
        let mut message = Vec::new();
        message.extend(OPTION.to_be_bytes());
        message.extend(OPTION_GO.to_be_bytes());
        message.extend((name_length + 6).to_be_bytes());
        message.extend(name_length.to_be_bytes());
        message.extend(export.as_bytes());
        message.extend([0, 0]);
        self.stream.write_all(&message)?;
        loop {
            expect(self.long()? == OPTION_REPLY, "its answer to an option is not NBD")?;
            let _option = self.word()?;
            let kind = self.word()?;
            let length = self.word()?;
            expect(length <= MAX_OPTION_LENGTH, "its answer to an option is too long")?;
            let mut data = vec![0; length as usize];
            self.stream.read_exact(&mut data)?;
            match kind {
                REPLY_ACK => return expect(self.size > 0, "it did not tell the size"),
                REPLY_INFO if data.len() == 12 && data[..2] == [0, 0] => {
                    let size: [u8; 8] = data[2..10].try_into().unwrap_or_default();
                    self.size = u64::from_be_bytes(size);
                }
                kind if kind & REPLY_ERROR != 0 => {
                    let text = String::from_utf8_lossy(&data).into_owned();
                    return Err(io::Error::other(format!("the server refused: {text}")));
                }
                _ => {}
            }
        }
    }

    /// Writes.
    ///
    /// # Errors
    /// If the server reports one, or the connection breaks.
    pub fn write(&mut self, offset: u64, content: &[u8]) -> io::Result<()> {
        self.send(Command::Write, offset, content.len())?;
        self.stream.write_all(content)?;
        self.answer()
    }

    /// Reads.
    ///
    /// # Errors
    /// If the server reports one, or the connection breaks.
    pub fn read(&mut self, offset: u64, content: &mut [u8]) -> io::Result<()> {
        self.send(Command::Read, offset, content.len())?;
        self.answer()?;
        self.stream.read_exact(content)
    }

    /// Makes all earlier writes durable.
    ///
    /// # Errors
    /// If the server reports one, or the connection breaks.
    pub fn flush(&mut self) -> io::Result<()> {
        self.send(Command::Flush, 0, 0)?;
        self.answer()
    }

    fn send(&mut self, command: Command, offset: u64, length: usize) -> io::Result<()> {
        let length = u32::try_from(length).map_err(io::Error::other)?;
        self.cookie += 1;
        let mut message = Vec::with_capacity(28);
        message.extend(REQUEST.to_be_bytes());
        message.extend(0u16.to_be_bytes());
        message.extend((command as u16).to_be_bytes());
        message.extend(self.cookie.to_be_bytes());
        message.extend(offset.to_be_bytes());
        message.extend(length.to_be_bytes());
        self.stream.write_all(&message)
    }

    fn answer(&mut self) -> io::Result<()> {
        expect(self.word()? == SIMPLE_REPLY, "its answer is not NBD")?;
        let error = self.word()?;
        expect(self.long()? == self.cookie, "it answers another request")?;
        match error {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(error.cast_signed())),
        }
    }

    fn word(&mut self) -> io::Result<u32> {
        let mut bytes = [0; 4];
        self.stream.read_exact(&mut bytes)?;
        Ok(u32::from_be_bytes(bytes))
    }

    fn long(&mut self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.stream.read_exact(&mut bytes)?;
        Ok(u64::from_be_bytes(bytes))
    }
}

impl Drop for NbdClient {
    fn drop(&mut self) {
        // A farewell: if it does not arrive, the server sees the connection close.
        drop(self.send(Command::Disconnect, 0, 0));
    }
}

fn expect(so: bool, otherwise: &str) -> io::Result<()> {
    if so { Ok(()) } else { Err(io::Error::new(io::ErrorKind::InvalidData, otherwise)) }
}
