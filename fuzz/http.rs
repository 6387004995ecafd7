//! The API of a node that runs in this process, for the target `api`: without disks and other
//! nodes, in a folder for temporary files.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::{Method, Request, StatusCode, Uri};
use axum::{Extension, Router};
use evenkeel_api::{ErrorCode, routes, types};
use evenkeel_core::NodeId;
use evenkeel_node::access::{Account, Role};
use evenkeel_node::api::permission::Requester;
use evenkeel_node::api::server;
use evenkeel_node::coordinator::{self, Caller};
use evenkeel_node::{Config, Daemon};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::runtime::Runtime;
use tower_service::Service;

/// How long an answer may take.
const DEADLINE: Duration = Duration::from_secs(10);

/// A node, and what is served by it.
struct Bench {
    runtime: Runtime,
    /// To users, and to other nodes.
    routers: [Router; 2],
    /// It runs until the process ends, and is kept where the search for leaks finds it.
    _daemon: Mutex<Daemon>,
}

static BENCH: OnceLock<Bench> = OnceLock::new();

fn bench() -> &'static Bench {
    BENCH.get_or_init(|| {
        let place = tempfile::tempdir().expect("a folder").keep();
        let text = format!(
            "name = \"n1\"\nstate = \"{0}/state\"\nruntime = \"{0}/run\"\n[peer]\nlisten = [\"unix:{0}/peer\"]\n\
             [coordinator]\nhere = true\n[data]\nworkers = 1",
            place.display()
        );
        let config = Config::parse(&text).expect("a sound configuration");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        let daemon = runtime.block_on(Daemon::start(config)).expect("the node starts");
        let running = daemon.running().clone();
        let (name, at) = ("n2".into(), "fuzzer".into());
        let caller = Caller { node: NodeId(2), name, start: None, at };
        // Who asks, a connection puts into each request: here it is always the same.
        let routers = [
            server::users_router(&running).layer(Extension(root())),
            server::control_router(&running).layer(Extension(caller)),
        ];
        Bench { runtime, routers, _daemon: Mutex::new(daemon) }
    })
}

/// Who may do everything.
fn root() -> Requester {
    Requester {
        account: Account::root(),
        role: Some(Role::Administer),
        login: None,
        refusals: Arc::default(),
    }
}

/// An error as it is told.
#[derive(Deserialize)]
struct Reported {
    version: u32,
    error: Error,
}

#[derive(Deserialize)]
struct Error {
    code: ErrorCode,
    what: String,
    why: String,
    #[serde(rename = "do")]
    action: String,
}

/// Plays a request: the first byte tells who asks, then `METHOD PATH`, a new line, and the body.
pub fn play(input: &[u8]) {
    let Some((asker, input)) = input.split_first() else { return };
    let mut halves = input.splitn(2, |byte| *byte == b'\n');
    let (head, body) = (halves.next().unwrap_or_default(), halves.next().unwrap_or_default());
    let Some((method, path)) = str::from_utf8(head).ok().and_then(|head| head.split_once(' '))
    else {
        return;
    };
    let (Ok(method), Ok(uri)) = (Method::try_from(method), Uri::try_from(path)) else { return };
    if reaches_out(&method, uri.path(), body) {
        return;
    }
    let path = uri.path().to_owned();
    let request = Request::builder().method(method.clone()).uri(uri);
    let Ok(request) = request.body(Body::from(body.to_vec())) else { return };
    let bench = bench();
    let mut router = bench.routers[usize::from(asker & 1)].clone();
    let (status, answer) = bench.runtime.block_on(async {
        let answer = tokio::time::timeout(DEADLINE, router.call(request)).await;
        let answer = answer.expect("it is answered in time").expect("a router never fails");
        let (head, body) = answer.into_parts();
        (head.status, to_bytes(body, usize::MAX).await.expect("a whole answer"))
    });
    check(&path, status, &answer, method == Method::HEAD);
}

/// What would change more than this process: a sound request for it is only read.
fn reaches_out(method: &Method, path: &str, body: &[u8]) -> bool {
    fn is<T: DeserializeOwned>(body: &[u8]) -> bool {
        serde_json::from_slice::<T>(if body.is_empty() { b"{}" } else { body }).is_ok()
    }
    *method == Method::POST
        && match path {
            routes::DISKS => is::<types::AddDiskRequest>(body),
            routes::JOIN => is::<types::JoinRequest>(body),
            routes::ASSEMBLE => is::<types::AssembleRequest>(body),
            coordinator::remote::PATH => is::<coordinator::Request>(body),
            _ => false,
        }
}

/// Nothing that is asked is the node's own fault, and what is refused is explained.
fn check(path: &str, status: StatusCode, answer: &[u8], is_head: bool) {
    let text = String::from_utf8_lossy(answer);
    assert_ne!(status, StatusCode::INTERNAL_SERVER_ERROR, "{path}: {text}");
    if status.is_success() || is_head {
        return;
    }
    let reported: Reported = serde_json::from_slice(answer)
        .unwrap_or_else(|error| panic!("{path}: {status} is not explained: {error}: {text}"));
    assert_eq!((reported.version, reported.error.code.status()), (1, status.as_u16()), "{path}: {text}");
    let Error { what, why, action, .. } = reported.error;
    assert!(!what.is_empty() && !why.is_empty() && !action.is_empty(), "{path}: {text}");
}
