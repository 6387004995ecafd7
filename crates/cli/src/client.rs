//! HTTP with JSON over the node's unix socket: the only thing that the command uses to talk to a
//! node.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use evenkeel_api::error::{ApiError, ErrorAnswer};
use evenkeel_api::routes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::{Method, Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;
use tokio::runtime::{Builder, Runtime};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output::harmless;

pub mod waiting;

/// Most bytes of an answer that are read.
const MAX_ANSWER: usize = 64 << 20;
/// How long the answer to a request for a change may take when the caller does not say.
pub const PATIENCE: Duration = Duration::from_secs(90);
/// The same of what only tells something: twice as long as a node takes that asks others in vain.
/// A monitor wants to know that nothing comes.
const READ_PATIENCE: Duration = Duration::from_secs(30);
/// How long the node may take to say what it is, for who watches.
const KNOCK_PATIENCE: Duration = Duration::from_secs(5);
/// How long an answer may take for which whole replicas are read.
const LONG_PATIENCE: Duration = Duration::from_secs(24 * 3600);
/// How long the node may take to accept the connection.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

/// A way to one node. Each request uses a connection of its own.
#[derive(Debug)]
pub struct Client {
    socket: PathBuf,
    runtime: Runtime,
    /// Whether a request that takes long says so on standard error.
    reports: bool,
    /// Whether one has said so where it stays: whoever looks again and again is told once.
    reported: AtomicBool,
}

/// An answer: the bytes as the node sent them, for `--json`.
#[derive(Debug, Clone)]
pub struct Answer {
    /// JSON.
    pub body: Bytes,
}

impl Answer {
    /// The answer as the node sent it, ended by a newline.
    pub fn text(&self) -> String {
        let mut text = String::from_utf8_lossy(&self.body).into_owned();
        if !text.ends_with('\n') {
            text.push('\n');
        }
        text
    }

    /// The answer as its type.
    ///
    /// # Errors
    /// If it does not have the shape that this version of the command expects.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        harmless::read(&self.body).map_err(|error| {
            Failure::new("the node's answer has an unexpected shape", error).advise(
                "the node probably runs another version; compare `evenkeel version` with \
                 `evenkeel node status`",
            )
        })
    }
}

impl Client {
    /// A client of the node behind this socket. Connects with the first request.
    ///
    /// # Errors
    /// If the system refuses a runtime.
    pub fn new(socket: &Path) -> Result<Self, Failure> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::new("cannot start", error))?;
        Ok(Self {
            socket: socket.to_owned(),
            runtime,
            reports: false,
            reported: AtomicBool::new(false),
        })
    }

    /// The same; a request that takes longer than a moment says on standard error what it waits
    /// for.
    #[must_use]
    pub const fn reporting(mut self) -> Self {
        self.reports = true;
        self
    }

    /// Asks for something.
    ///
    /// # Errors
    /// If the node is not there, or says no.
    pub fn get(&self, path: &str) -> Result<Answer, Failure> {
        self.call(Method::GET, path, None, READ_PATIENCE)
    }

    /// Asks whether the node answers at all: it says what it is without asking anybody.
    ///
    /// # Errors
    /// If it does not answer within some seconds.
    pub fn knock(&self) -> Result<(), Failure> {
        self.call(Method::GET, routes::NODE, None, KNOCK_PATIENCE).map(drop)
    }

    /// Asks for something that may take long to find out, as when data are compared.
    ///
    /// # Errors
    /// If the node is not there, or says no.
    pub fn get_patiently(&self, path: &str) -> Result<Answer, Failure> {
        self.call(Method::GET, path, None, LONG_PATIENCE)
    }

    /// Asks for something and reads it as its type.
    ///
    /// # Errors
    /// If the node is not there, says no, or answers something else.
    pub fn fetch<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        self.get(path)?.parse()
    }

    /// The same, until somebody wants an end.
    ///
    /// # Errors
    /// As above, or with [`Exit::Interrupted`].
    pub fn fetch_unless<T: DeserializeOwned>(
        &self,
        interrupt: &Interrupt,
        path: &str,
    ) -> Result<T, Failure> {
        self.call_unless(Some(interrupt), Method::GET, path, None, READ_PATIENCE)?.parse()
    }

    /// Asks for a change.
    ///
    /// # Errors
    /// If the node is not there, or says no.
    pub fn post<T: Serialize>(&self, path: &str, body: &T) -> Result<Answer, Failure> {
        self.post_within(PATIENCE, path, body)
    }

    /// The same for who does not wait as long for the answer.
    ///
    /// # Errors
    /// If the node is not there, says no, or does not answer within `patience`.
    pub fn post_within<T: Serialize>(
        &self,
        patience: Duration,
        path: &str,
        body: &T,
    ) -> Result<Answer, Failure> {
        let body = serde_json::to_vec(body)
            .map_err(|error| Failure::new("cannot write the request", error))?;
        self.call(Method::POST, path, Some(body), patience)
    }

    /// Asks for a change, and asks no more as soon as somebody wants an end: the node then ends
    /// what it has begun.
    ///
    /// # Errors
    /// If the node is not there, or says no, or with [`Exit::Interrupted`].
    pub fn post_unless<T: Serialize>(
        &self,
        interrupt: &Interrupt,
        path: &str,
        body: &T,
    ) -> Result<Answer, Failure> {
        let body = serde_json::to_vec(body)
            .map_err(|error| Failure::new("cannot write the request", error))?;
        self.call_unless(Some(interrupt), Method::POST, path, Some(body), PATIENCE)
    }

    /// Asks for a change that may take long, as when data are compared.
    ///
    /// # Errors
    /// If the node is not there, or says no.
    pub fn post_patiently<T: Serialize>(&self, path: &str, body: &T) -> Result<Answer, Failure> {
        self.post_within(LONG_PATIENCE, path, body)
    }

    /// Asks to change a part of something.
    ///
    /// # Errors
    /// If the node is not there, or says no.
    pub fn patch<T: Serialize>(&self, path: &str, body: &T) -> Result<Answer, Failure> {
        let body = serde_json::to_vec(body)
            .map_err(|error| Failure::new("cannot write the request", error))?;
        self.call(Method::PATCH, path, Some(body), PATIENCE)
    }

    /// Asks to take something away.
    ///
    /// # Errors
    /// If the node is not there, or says no.
    pub fn delete(&self, path: &str) -> Result<Answer, Failure> {
        self.call(Method::DELETE, path, None, PATIENCE)
    }

    fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
        patience: Duration,
    ) -> Result<Answer, Failure> {
        self.call_unless(None, method, path, body, patience)
    }

    fn call_unless(
        &self,
        interrupt: Option<&Interrupt>,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
        patience: Duration,
    ) -> Result<Answer, Failure> {
        let wanted = async {
            match interrupt {
                Some(interrupt) => interrupt.until_wanted().await,
                None => std::future::pending().await,
            }
        };
        let asked = waiting::Asked::new(&method, path);
        let exchange = self.exchange(method, path, body);
        let answered = self.runtime.block_on(async {
            tokio::select! {
                answered = tokio::time::timeout(patience, exchange) => Some(answered),
                never = waiting::report(self, &asked), if self.reports => match never {},
                () = wanted => None,
            }
        });
        let Some(answered) = answered else {
            let stopped = interrupt.and_then(|interrupt| interrupt.check().err());
            return Err(stopped.unwrap_or_else(|| self.silent(patience)));
        };
        let (status, body) = answered.map_err(|_| self.silent(patience))??;
        if status.is_success() {
            return Ok(Answer { body });
        }
        Err(refusal(status, &body))
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> Result<(StatusCode, Bytes), Failure> {
        let stream = tokio::time::timeout(CONNECT_PATIENCE, UnixStream::connect(&self.socket))
            .await
            .map_err(|_| self.silent(CONNECT_PATIENCE))?
            .map_err(|error| self.unreachable(&error))?;
        let broken = |error: hyper::Error| {
            Failure::new("the connection to the node broke", error)
                .exit(Exit::Unreachable)
                .advise("see its log (journalctl -u evenkeel), then try again")
        };
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
        let driver = tokio::spawn(connection);
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "evenkeel")
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body.unwrap_or_default())))
            .map_err(|error| Failure::new("cannot write the request", error))?;
        let response = sender.send_request(request).await.map_err(broken)?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MAX_ANSWER)
            .collect()
            .await
            .map_err(|error| Failure::new("cannot read the node's answer", error))?
            .to_bytes();
        driver.abort();
        Ok((status, body))
    }

    fn silent(&self, patience: Duration) -> Failure {
        Failure::new(
            format!("the node behind {} does not answer", self.socket.display()),
            format!("nothing came for {} s", patience.as_secs()),
        )
        .exit(Exit::Unreachable)
        .advise("see its log (journalctl -u evenkeel)")
    }

    fn unreachable(&self, error: &io::Error) -> Failure {
        let what = format!("cannot reach the node on this machine at {}", self.socket.display());
        let (why, remedy) = match error.kind() {
            io::ErrorKind::NotFound => (
                "there is no such socket: the node does not run, or uses another one".to_owned(),
                "start it with `systemctl start evenkeel` or `evenkeel node run`, or name its \
                 socket with --socket PATH or EVENKEEL_SOCKET",
            ),
            io::ErrorKind::ConnectionRefused => (
                "nothing listens on it: the node has ended".to_owned(),
                "start it with `systemctl start evenkeel` or `evenkeel node run`",
            ),
            io::ErrorKind::PermissionDenied => {
                let remedy = "run this as root, with sudo for example, or have an administrator \
                              name you under [api] in the node's configuration";
                ("you may not open it".to_owned(), remedy)
            }
            _ => (error.to_string(), "see the node's log (journalctl -u evenkeel)"),
        };
        Failure::new(what, why).exit(Exit::Unreachable).advise(remedy)
    }
}

/// What the node said no with.
fn refusal(status: StatusCode, body: &Bytes) -> Failure {
    let text = String::from_utf8_lossy(body).into_owned();
    let Ok(answer) = harmless::read::<ErrorAnswer>(body) else {
        let said = harmless::text(text.trim());
        return Failure::new("the node refused", format!("{status}: {said}"));
    };
    let ApiError { code, what, why, action } = answer.error;
    let mut failure = Failure::new(what, why).advise(action).exit(code.exit());
    (failure.code, failure.json) = (Some(code), Some(format!("{}\n", text.trim_end())));
    failure
}
