//! Serving HTTP on streams of any kind.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustix::fs::{Mode, fchmod};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener};

mod unread;

use unread::Unread;

use crate::files::own_directory;
use crate::peer::stream::PeerStream;
use crate::seats::Source;
use crate::stopping::Stopping;

/// Connections to a unix socket that wait to be accepted.
const BACKLOG: i32 = 1024;
/// How long a request's head may take to arrive from another node, which keeps connections for
/// later.
pub const NODE_DEADLINE: Duration = Duration::from_secs(30);
/// The same from others, who occupy a place of few.
pub const CLIENT_DEADLINE: Duration = Duration::from_secs(5);

/// How long an answer may make no progress: whoever does not read it keeps its memory and a place.
pub const ANSWER_DEADLINE: Duration = Duration::from_secs(10);

/// The pause after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A socket that listens.
#[derive(Debug)]
pub enum Socket {
    /// TCP.
    Tcp(TcpListener),
    /// A unix socket.
    Unix(UnixListener),
}

/// A connection to a [`Socket`].
#[derive(Debug)]
pub struct Accepted {
    /// The stream, not encrypted.
    pub stream: PeerStream,
    /// Where it comes from, for the log.
    pub from: String,
    /// The same, to count connections by.
    pub source: Source,
}

impl Socket {
    /// Waits for the next connection.
    ///
    /// # Errors
    /// If the system refuses; the next one may come all the same.
    pub async fn accept(&self) -> io::Result<Accepted> {
        Ok(match self {
            Self::Tcp(socket) => {
                let (stream, from) = socket.accept().await?;
                let stream = PeerStream::Tcp(stream);
                Accepted { stream, from: from.to_string(), source: from.into() }
            }
            Self::Unix(socket) => {
                let (stream, _) = socket.accept().await?;
                let source = Source::of(&stream)?;
                Accepted { stream: PeerStream::Unix(stream), from: "a unix socket".into(), source }
            }
        })
    }
}

/// Serves requests on one connection until it ends, has been silent for so long, or does not read
/// its answer. What is no HTTP is answered by status 400.
pub async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    router: Router,
    silence: Duration,
) {
    serve_as((), stream, router, silence).await;
}

/// The same of requests that are all by `who`: they get it as an extension.
pub async fn serve_as(
    who: impl Clone + Send + Sync + 'static,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    router: Router,
    silence: Duration,
) {
    let router = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(who.clone());
        router.call(request)
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(silence)
        .serve_connection(TokioIo::new(Unread::new(stream, ANSWER_DEADLINE)), service);
    if let Err(error) = served.await {
        tracing::debug!(%error, "an HTTP connection ended");
    }
}

/// Listens on a unix socket. A socket that a killed daemon left is replaced, one that is in use is
/// not.
///
/// # Errors
/// Says what to do.
pub async fn bind_unix(path: &Path, mode: u32) -> Result<UnixListener, String> {
    let failed = |e: io::Error| format!("cannot listen on {}: {e}", path.display());
    if let Some(parent) = path.parent() {
        own_directory::make_for_sockets(parent).map_err(failed)?;
    }
    match tokio::net::UnixStream::connect(path).await {
        Ok(_) => {
            return Err(format!(
                "cannot listen on {}: another daemon is listening there; stop it, or choose another path (key `runtime`)",
                path.display()
            ));
        }
        Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map_err(failed)?;
        }
        Err(_) => {}
    }
    let listener = listen_closed(path).map_err(failed)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).map_err(failed)?;
    Ok(listener)
}

/// Listens on a unix socket whose file is for its owner alone from the moment that it is there.
fn listen_closed(path: &Path) -> io::Result<UnixListener> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
    let socket = rustix::net::socket_with(family, kind, flags, None)?;
    // Linux gives the file the mode of the socket, less the umask.
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    listen(&socket, BACKLOG)?;
    UnixListener::from_std(socket.into())
}

/// Listens on a TCP address.
///
/// # Errors
/// Says what to do; `key` is the configuration's.
pub async fn bind_tcp(address: &str, key: &str) -> Result<TcpListener, String> {
    TcpListener::bind(address).await.map_err(|e| {
        let advice = match e.kind() {
            io::ErrorKind::AddrInUse => {
                "another program uses it; stop that one, or choose another port"
            }
            io::ErrorKind::AddrNotAvailable => "this machine has no such address",
            io::ErrorKind::PermissionDenied => "ports below 1024 need a privilege",
            _ => "check the address",
        };
        format!("cannot listen on {address} ({key}): {e}; {advice}")
    })
}

/// Accepts clients on a TCP address until the daemon ends; `kind` says in the log what they are.
pub async fn accept_tcp(
    listener: TcpListener,
    stopping: &Stopping,
    kind: &str,
    greet: impl Fn(TcpStream, SocketAddr),
) {
    while let Some(accepted) = stopping.unless_begun(listener.accept()).await {
        match accepted {
            Ok((stream, from)) => {
                // Without it small answers wait for a timer; the connection works all the same.
                let _ = stream.set_nodelay(true);
                greet(stream, from);
            }
            Err(error) => accept_failed(kind, &error).await,
        }
    }
}

/// Says that a connection could not be accepted, and waits: with too many open files, others may
/// close some meanwhile.
pub async fn accept_failed(kind: &str, error: &io::Error) {
    tracing::warn!(%error, "cannot accept {kind}");
    tokio::time::sleep(ACCEPT_PAUSE).await;
}

#[cfg(test)]
mod tests;
