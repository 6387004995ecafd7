//! The handshake, sans-I/O: the driver gives it what it received and sends what it wants sent.

use thiserror::Error;

use super::option::{Answer, Session, Tls, answer_option};
use super::{Exports, Negotiated};

/// Most bytes of an option's data. Longer options are passed over and answered with an error.
pub const MAX_OPTION_LENGTH: u32 = 64 << 10;
/// Longer options than this end the connection.
const MAX_SKIP: u32 = 4 << 20;
/// Most options of one handshake.
pub const MAX_OPTIONS: u32 = 4096;

const MAGIC: &[u8; 8] = b"NBDMAGIC";
const OPTION_MAGIC: &[u8; 8] = b"IHAVEOPT";
const FIXED_NEWSTYLE: u16 = 1;
const NO_ZEROES: u16 = 2;
const OPTION_HEADER: usize = 16;

/// How far the handshake is.
#[derive(Debug, PartialEq, Eq)]
pub enum Progress {
    /// Send what was appended, then receive more.
    More,
    /// Send what was appended, then do the TLS handshake as a server, then go on with this value
    /// and call [`Handshake::tls_started`].
    StartTls,
    /// Send what was appended; the client has chosen, and requests follow.
    Ready(Box<Negotiated>),
    /// Send what was appended, then close: the client wants nothing more.
    Ended,
}

/// Why the connection must be closed without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum HandshakeError {
    /// Flags that no client may send.
    #[error("the client set handshake flags {0:#x}, which are unknown here")]
    Flags(u32),
    /// The client does not speak the protocol.
    #[error("the client does not speak the NBD protocol")]
    Magic,
    /// More than [`MAX_OPTION_LENGTH`] by far.
    #[error("the client sent an option of {0} bytes")]
    OptionLength(u32),
    /// More than [`MAX_OPTIONS`].
    #[error("the client sent more than {MAX_OPTIONS} options")]
    TooManyOptions,
    /// Data where the client had to wait for TLS: somebody may be injecting it.
    #[error("the client sent data in the clear after it asked for TLS")]
    DataBeforeTls,
    /// An export chosen by the old option, which has no error answer, and that cannot be had.
    #[error("the client chose an export that does not exist, or not without TLS")]
    NoExport,
    /// The same, and the export takes no more clients.
    #[error("the client chose an export that has as many clients as it takes")]
    NoRoom,
}

/// What is expected next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    ClientFlags,
    Option,
    /// So many bytes of an option that was too long.
    Skip(u32),
}

/// One client's handshake.
#[derive(Debug)]
pub struct Handshake {
    expected: Expected,
    input: Vec<u8>,
    session: Session,
    no_zeroes: bool,
    options: u32,
}

impl Handshake {
    /// A handshake on a new connection; what it appends to `out` is to be sent first. If the
    /// connection is encrypted already, `tls` is [`Tls::Off`].
    #[must_use]
    pub fn new(tls: Tls, out: &mut Vec<u8>) -> Self {
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(OPTION_MAGIC);
        out.extend_from_slice(&(FIXED_NEWSTYLE | NO_ZEROES).to_be_bytes());
        Self {
            expected: Expected::ClientFlags,
            input: Vec::new(),
            session: Session::new(tls),
            no_zeroes: false,
            options: 0,
        }
    }

    /// To be called when TLS has been started: what was agreed before does not count any more.
    pub fn tls_started(&mut self) {
        self.session = Session::new(Tls::Active);
    }

    /// Takes what was received (any number of bytes, at most some 64 KiB at once) and appends what
    /// is to be sent. After anything but [`Progress::More`] it is not called again, except after
    /// TLS has been started.
    ///
    /// # Errors
    /// See [`HandshakeError`]; the connection is to be closed.
    pub fn receive(
        &mut self,
        received: &[u8],
        exports: &dyn Exports,
        out: &mut Vec<u8>,
    ) -> Result<Progress, HandshakeError> {
        self.input.extend_from_slice(received);
        let progress = self.go_on(exports, out)?;
        if cfg!(debug_assertions) {
            self.check_invariants(&progress);
        }
        Ok(progress)
    }

    fn go_on(
        &mut self,
        exports: &dyn Exports,
        out: &mut Vec<u8>,
    ) -> Result<Progress, HandshakeError> {
        loop {
            let progress = match self.expected {
                Expected::ClientFlags => self.client_flags()?,
                Expected::Skip(left) => self.skip(left),
                Expected::Option => self.option(exports, out)?,
            };
            match progress {
                Some(Progress::StartTls) if !self.input.is_empty() => {
                    return Err(HandshakeError::DataBeforeTls);
                }
                Some(progress) => return Ok(progress),
                None => {}
            }
        }
    }

    fn client_flags(&mut self) -> Result<Option<Progress>, HandshakeError> {
        let Some(bytes) = self.input.first_chunk::<4>() else { return Ok(Some(Progress::More)) };
        let flags = u32::from_be_bytes(*bytes);
        if flags & !u32::from(FIXED_NEWSTYLE | NO_ZEROES) != 0 {
            return Err(HandshakeError::Flags(flags));
        }
        self.no_zeroes = flags & u32::from(NO_ZEROES) != 0;
        self.input.drain(..4);
        self.expected = Expected::Option;
        Ok(None)
    }

    fn skip(&mut self, left: u32) -> Option<Progress> {
        let skipped = self.input.len().min(left as usize);
        self.input.drain(..skipped);
        let left = left - skipped as u32;
        self.expected = if left == 0 { Expected::Option } else { Expected::Skip(left) };
        (left > 0).then_some(Progress::More)
    }

    /// `None`: go on with the next option.
    fn option(
        &mut self,
        exports: &dyn Exports,
        out: &mut Vec<u8>,
    ) -> Result<Option<Progress>, HandshakeError> {
        let Some((number, length)) = self.option_header()? else {
            return Ok(Some(Progress::More));
        };
        if length > MAX_OPTION_LENGTH {
            self.count_option()?;
            self.input.drain(..OPTION_HEADER);
            self.expected = Expected::Skip(length);
            super::option::answer_too_big(number, out);
            return Ok(None);
        }
        let end = OPTION_HEADER + length as usize;
        if self.input.len() < end {
            return Ok(Some(Progress::More));
        }
        self.count_option()?;
        let rest = self.input.split_off(end);
        let option = std::mem::replace(&mut self.input, rest);
        let answer =
            answer_option(&mut self.session, number, &option[OPTION_HEADER..], exports, out);
        self.conclude(answer, out)
    }

    fn option_header(&self) -> Result<Option<(u32, u32)>, HandshakeError> {
        let magic = &self.input[..self.input.len().min(8)];
        if !OPTION_MAGIC.starts_with(magic) {
            return Err(HandshakeError::Magic);
        }
        let Some(header) = self.input.first_chunk::<OPTION_HEADER>() else { return Ok(None) };
        let [.., n0, n1, n2, n3, l0, l1, l2, l3] = *header;
        let length = u32::from_be_bytes([l0, l1, l2, l3]);
        if length > MAX_SKIP {
            return Err(HandshakeError::OptionLength(length));
        }
        Ok(Some((u32::from_be_bytes([n0, n1, n2, n3]), length)))
    }

    fn count_option(&mut self) -> Result<(), HandshakeError> {
        self.options += 1;
        if self.options > MAX_OPTIONS { Err(HandshakeError::TooManyOptions) } else { Ok(()) }
    }

    /// Asserts what holds after each step that the client survives.
    fn check_invariants(&self, progress: &Progress) {
        assert!(self.options <= MAX_OPTIONS, "options have a bound");
        let most = match (progress, self.expected) {
            (Progress::More, Expected::ClientFlags) => 3,
            (Progress::More, Expected::Option) => OPTION_HEADER + MAX_OPTION_LENGTH as usize,
            (Progress::More, Expected::Skip(left)) => {
                assert!(left > 0, "what is passed over has an end");
                0
            }
            // What follows is the next one's, or comes after TLS has been started.
            (Progress::StartTls | Progress::Ready(_), _) => 0,
            (Progress::Ended, _) => usize::MAX,
        };
        assert!(self.input.len() <= most, "no more is kept than is needed to go on");
    }

    fn conclude(
        &mut self,
        answer: Answer,
        out: &mut Vec<u8>,
    ) -> Result<Option<Progress>, HandshakeError> {
        Ok(match answer {
            Answer::GoOn => None,
            Answer::StartTls => Some(Progress::StartTls),
            Answer::Ended => Some(Progress::Ended),
            Answer::NoExport => return Err(HandshakeError::NoExport),
            Answer::NoRoom => return Err(HandshakeError::NoRoom),
            Answer::Chosen { mut negotiated, old_style } => {
                if old_style && !self.no_zeroes {
                    out.extend_from_slice(&[0; 124]);
                }
                negotiated.rest = std::mem::take(&mut self.input);
                Some(Progress::Ready(negotiated))
            }
        })
    }
}

#[cfg(test)]
mod tests;
