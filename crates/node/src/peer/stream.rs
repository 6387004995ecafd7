//! Streams to and from peers: encrypted over TCP, or a unix socket.

use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::task::{Context, Poll};

use evenkeel_engine::Connection;
use rustls::ClientConfig;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

pub use self::encrypted::Encrypted;
use super::tls::PeerTls;
use crate::config::Address;

mod encrypted;
mod exporter;

/// A stream to or from a peer.
#[derive(Debug)]
pub enum PeerStream {
    /// TCP, before TLS; peers say nothing on it.
    Tcp(TcpStream),
    /// A unix socket.
    Unix(UnixStream),
    /// TCP with TLS.
    Tls(Box<Encrypted>),
}

/// Whose process is at the other end of a unix socket, as the kernel says.
#[derive(Debug, Clone, Copy)]
pub struct ProcessUser {
    /// The user.
    pub uid: u32,
    /// As whom the user logged in; `None`: the kernel does not know, or the process has ended.
    pub login: Option<u32>,
}

impl PeerStream {
    /// Whose process is at the other end.
    ///
    /// # Errors
    /// If the kernel does not say: the other end is on a network.
    pub fn user(&self) -> io::Result<ProcessUser> {
        let found = match self {
            Self::Unix(stream) => stream.peer_cred()?,
            Self::Tcp(_) | Self::Tls(_) => return Err(io::ErrorKind::Unsupported.into()),
        };
        let login = found.pid().and_then(login_of);
        Ok(ProcessUser { uid: found.uid(), login })
    }
}

/// The number of the user as whom a process's session began (`loginuid`).
fn login_of(process: i32) -> Option<u32> {
    let text = std::fs::read_to_string(format!("/proc/{process}/loginuid")).ok()?;
    // The kernel says so where nobody has logged in.
    text.trim().parse().ok().filter(|uid| *uid != u32::MAX)
}

/// Connects; over TCP always with TLS.
///
/// # Errors
/// If nobody listens there, or TLS fails: the certificate must name the host of the address. Over
/// TCP also if this node has no certificate, on a unix socket if another user listens there.
pub async fn connect(address: &Address, tls: Option<&PeerTls>) -> io::Result<PeerStream> {
    match (address, tls) {
        (Address::Unix(path), _) => {
            let stream = UnixStream::connect(path).await?;
            refuse_other_users(&stream)?;
            Ok(PeerStream::Unix(stream))
        }
        (Address::Tcp(_), Some(tls)) => connect_with(address, &tls.client).await,
        (Address::Tcp(_), None) => Err(io::Error::other(
            "this node has no certificate, by which it proves over TCP who it is: get one by `evenkeel node join ADDRESS --token TOKEN`, or set [peer.tls]",
        )),
    }
}

/// Nodes prove nothing to each other on a unix socket. So at its other end is root or the user as
/// whom this node runs: whoever could use this node's files without it.
///
/// # Errors
/// If it is somebody else, or the kernel does not say.
pub fn refuse_other_users(stream: &UnixStream) -> io::Result<()> {
    let (uid, own) = (stream.peer_cred()?.uid(), rustix::process::geteuid().as_raw());
    if uid == own || uid == 0 {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!(
            "user {uid} is at the other end of the unix socket, and only root and user {own}, as whom this node runs, are trusted there: run both nodes as one user, or connect them over TCP, with certificates"
        ),
    ))
}

/// Connects over TCP with TLS as configured.
///
/// # Errors
/// If nobody listens there, or TLS fails.
pub async fn connect_with(address: &Address, tls: &ClientConfig) -> io::Result<PeerStream> {
    let Address::Tcp(address) = address else {
        return Err(io::Error::other("TLS is for TCP"));
    };
    let stream = tuned(TcpStream::connect(address).await?)?;
    let host = address.rsplit_once(':').map_or(address.as_str(), |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let name = ServerName::try_from(host).map_err(io::Error::other)?;
    Ok(PeerStream::Tls(Box::new(Encrypted::connect(stream, tls, name).await?)))
}

/// The listening side of a TCP connection.
///
/// # Errors
/// If TLS fails.
pub async fn accept_tcp(stream: TcpStream, tls: &PeerTls) -> io::Result<PeerStream> {
    let stream = Encrypted::accept(tuned(stream)?, &tls.server).await?;
    Ok(PeerStream::Tls(Box::new(stream)))
}

/// Small messages leave at once, and the end of a dead machine is noticed.
fn tuned(stream: TcpStream) -> io::Result<TcpStream> {
    stream.set_nodelay(true)?;
    rustix::net::sockopt::set_socket_keepalive(&stream, true)?;
    Ok(stream)
}

impl PeerStream {
    /// The certificate that the other side has shown; `None` without TLS.
    #[must_use]
    pub fn certificate(&self) -> Option<CertificateDer<'static>> {
        self.certificates().first().cloned()
    }

    /// The same with those that were sent beside it.
    #[must_use]
    pub fn certificates(&self) -> &[CertificateDer<'static>] {
        let Self::Tls(stream) = self else { return &[] };
        stream.agreed().peer_certificates().unwrap_or_default()
    }

    /// A value that only the two ends of this very connection can know; `None` without TLS 1.3.
    #[must_use]
    pub fn export(&self, label: &[u8]) -> Option<[u8; 32]> {
        let Self::Tls(stream) = self else { return None };
        stream.export(label)
    }

    /// Whether it is encrypted.
    #[must_use]
    pub const fn is_tls(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    /// The connection as the engine's workers take it: they encrypt and decrypt themselves.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn into_connection(self) -> io::Result<Connection> {
        match self {
            Self::Tcp(_) | Self::Unix(_) => self.into_plain_fd().map(Connection::from),
            Self::Tls(stream) => stream.into_connection(),
        }
    }

    /// A descriptor in blocking mode that carries the bytes as they are meant, for front ends. For
    /// an encrypted stream it is one end of a socketpair, and a task moves the bytes between both
    /// until either side closes.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn into_plain_fd(self) -> io::Result<OwnedFd> {
        match self {
            Self::Tcp(stream) => {
                let stream = stream.into_std()?;
                stream.set_nonblocking(false)?;
                Ok(stream.into())
            }
            Self::Unix(stream) => blocking_fd(stream),
            Self::Tls(mut stream) => {
                let (mut near, far) = UnixStream::pair()?;
                tokio::spawn(async move {
                    // Both ends learn of the end by their own connection's closing.
                    let _ = tokio::io::copy_bidirectional(&mut *stream, &mut near).await;
                });
                blocking_fd(far)
            }
        }
    }
}

/// The descriptor of a unix stream, in blocking mode, as the engine's ring wants it.
///
/// # Errors
/// If the system refuses.
pub fn blocking_fd(stream: UnixStream) -> io::Result<OwnedFd> {
    let stream = stream.into_std()?;
    stream.set_nonblocking(false)?;
    Ok(stream.into())
}

/// Runs the same call on whichever stream it is.
macro_rules! either {
    ($self:expr, $stream:ident => $call:expr) => {
        match $self.get_mut() {
            PeerStream::Tcp($stream) => $call,
            PeerStream::Unix($stream) => $call,
            PeerStream::Tls($stream) => $call,
        }
    };
}

impl AsyncRead for PeerStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        either!(self, stream => Pin::new(stream).poll_read(context, buffer))
    }
}

impl AsyncWrite for PeerStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        either!(self, stream => Pin::new(stream).poll_write(context, buffer))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => Pin::new(stream).poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => Pin::new(stream).poll_shutdown(context))
    }
}

#[cfg(test)]
mod tests;
