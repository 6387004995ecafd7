//! A TCP connection with TLS, while the control plane has it. For replication it then goes to a
//! worker, with its keys and with what has been received already.

use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use evenkeel_engine::Connection;
use evenkeel_engine::tls::{MAX_UNREAD, Tls};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, CommonState, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::exporter::Exporter;

/// Memory for what is received: the longest record fits. Handshakes take more if they need it, up
/// to [`MAX_UNREAD`].
const RECEIVE_BUFFER: usize = 20 << 10;

/// See the module's documentation.
#[derive(Debug)]
pub struct Encrypted {
    socket: TcpStream,
    tls: Tls,
    exporter: Arc<Exporter>,
    received: Vec<u8>,
    /// Of `received`, what has not been decrypted.
    pending: Range<usize>,
    is_closing: bool,
}

fn failed(error: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

impl Encrypted {
    /// The connecting side of a connection, with the handshake. The other side's certificate must
    /// be for `name`.
    ///
    /// # Errors
    /// If the handshake fails.
    pub async fn connect(
        socket: TcpStream,
        config: &ClientConfig,
        name: ServerName<'static>,
    ) -> io::Result<Self> {
        let exporter = Arc::new(Exporter::default());
        let mut config = config.clone();
        config.key_log = exporter.clone();
        let tls = Tls::client(Arc::new(config), name).map_err(failed)?;
        Self::shake(socket, tls, exporter).await
    }

    /// The listening side, with the handshake.
    ///
    /// # Errors
    /// If the handshake fails.
    pub async fn accept(socket: TcpStream, config: &ServerConfig) -> io::Result<Self> {
        let exporter = Arc::new(Exporter::default());
        let mut config = config.clone();
        config.key_log = exporter.clone();
        let tls = Tls::server(Arc::new(config)).map_err(failed)?;
        Self::shake(socket, tls, exporter).await
    }

    async fn shake(socket: TcpStream, tls: Tls, exporter: Arc<Exporter>) -> io::Result<Self> {
        let (received, pending) = (vec![0; RECEIVE_BUFFER], 0..0);
        let mut stream = Self { socket, tls, exporter, received, pending, is_closing: false };
        std::future::poll_fn(|context| stream.poll_handshake(context)).await?;
        Ok(stream)
    }

    fn poll_handshake(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let outcome = self.decrypt(&mut []);
            // The other side is told of an error, if the socket takes that at once.
            let sent = self.poll_send(context);
            outcome?;
            ready!(sent)?;
            if !self.agreed().is_handshaking() {
                return Poll::Ready(Ok(()));
            }
            if ready!(self.poll_receive(context))? == 0 {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
        }
    }

    /// What was agreed on, and the other side's certificates.
    #[must_use]
    pub fn agreed(&self) -> &CommonState {
        self.tls.agreed()
    }

    /// A value that only the two ends of this connection can know; `None` without TLS 1.3.
    #[must_use]
    pub fn export(&self, label: &[u8]) -> Option<[u8; 32]> {
        self.exporter.export(self.agreed(), label)
    }

    /// The connection as a worker takes it.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn into_connection(self) -> io::Result<Connection> {
        let received = self.received[self.pending].to_vec();
        let socket = self.socket.into_std()?;
        socket.set_nonblocking(false)?;
        Ok(Connection::encrypted(OwnedFd::from(socket), self.tls, received))
    }

    /// Decrypts what is there; zero: more has to come.
    fn decrypt(&mut self, plain: &mut [u8]) -> io::Result<usize> {
        let cipher = &mut self.received[self.pending.clone()];
        let received = self.tls.receive(cipher, plain).map_err(failed)?;
        self.pending.start += received.taken;
        Ok(received.filled)
    }

    /// Receives more ciphertext; zero: the other side has closed the connection.
    fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.pending.is_empty() {
            self.pending = 0..0;
        }
        if self.pending.end == self.received.len() {
            self.received.copy_within(self.pending.clone(), 0);
            self.pending = 0..self.pending.len();
        }
        if self.pending.end == self.received.len() {
            if self.received.len() >= MAX_UNREAD {
                let error = io::Error::new(io::ErrorKind::InvalidData, "a message is too long");
                return Poll::Ready(Err(error));
            }
            self.received.resize(MAX_UNREAD, 0);
        }
        let mut buffer = ReadBuf::new(&mut self.received[self.pending.end..]);
        ready!(Pin::new(&mut self.socket).poll_read(context, &mut buffer))?;
        let count = buffer.filled().len();
        self.pending.end += count;
        Poll::Ready(Ok(count))
    }

    /// Sends all that is queued.
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.tls.queued().is_empty() {
            let socket = Pin::new(&mut self.socket);
            let count = ready!(socket.poll_write(context, self.tls.queued()))?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.tls.sent(count);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Encrypted {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let stream = self.get_mut();
        while buffer.remaining() > 0 {
            let count = stream.decrypt(buffer.initialize_unfilled())?;
            if count > 0 {
                buffer.advance(count);
                break;
            }
            if stream.tls.is_closed() {
                break;
            }
            // An end that was not announced may be somebody else's.
            if ready!(stream.poll_receive(context))? == 0 {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Encrypted {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        plain: &[u8],
    ) -> Poll<io::Result<usize>> {
        let stream = self.get_mut();
        ready!(stream.poll_send(context))?;
        if plain.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let count = stream.tls.write(plain).map_err(failed)?;
        // What the socket does not take now leaves with the next write or flush.
        match stream.poll_send(context) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            _ => Poll::Ready(Ok(count)),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll_send(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let stream = self.get_mut();
        if !std::mem::replace(&mut stream.is_closing, true) {
            // A connection that has failed says nothing more.
            let _ = stream.tls.close();
        }
        ready!(stream.poll_send(context))?;
        Pin::new(&mut stream.socket).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests;
