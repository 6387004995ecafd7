//! Nodes to try, and a client of their API.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use evenkeel_node::running::Running;
use evenkeel_node::volumes::Node;
use evenkeel_node::{Config, Daemon, StartError};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::UnixStream;

/// A directory with the nodes' places in it.
pub struct Place {
    directory: tempfile::TempDir,
    /// What the nodes keep of their state, where no flush takes long.
    states: Option<tempfile::TempDir>,
    expiry_seconds: u64,
}

/// A directory in memory, if there is room.
fn in_memory() -> Option<tempfile::TempDir> {
    const ROOM: u64 = 256 << 20;
    let memory = Path::new("/dev/shm");
    let room = rustix::fs::statvfs(memory).ok()?;
    (room.f_bavail * room.f_frsize >= ROOM).then(|| tempfile::tempdir_in(memory).ok()).flatten()
}

/// A node, running or not.
pub struct TestNode {
    pub name: String,
    pub directory: PathBuf,
    pub config: Config,
    daemon: Option<Daemon>,
}

impl Place {
    pub fn new() -> Self {
        Self::with_expiry(3)
    }

    /// One whose nodes are dead after so many seconds of silence.
    pub fn with_expiry(expiry_seconds: u64) -> Self {
        Self { directory: tempfile::tempdir().unwrap(), states: in_memory(), expiry_seconds }
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The configuration of a node; the one named `a` serves the coordinator.
    pub fn config(&self, name: &str) -> Config {
        let directory = self.path().join(name);
        let peer =
            |name: &str| format!("unix:{}", self.path().join(name).join("peer.sock").display());
        let mut config = Config {
            name: Some(name.to_owned()),
            state: self
                .states
                .as_ref()
                .map_or(self.path(), |states| states.path())
                .join(name)
                .join("state"),
            runtime: directory.join("run"),
            ..Config::default()
        };
        config.peer.listen = vec![peer(name)];
        config.coordinator.here = name == "a";
        config.coordinator.join = (name != "a").then(|| peer("a"));
        config.coordinator.expiry_seconds = self.expiry_seconds;
        config.data.workers = Some(1);
        config.times.deadline_ms = 5000;
        config.times.lease_ms = 1000;
        config.times.lease_margin_ms = 100;
        config
    }

    /// Starts nodes, each with one disk `d`, and waits until all know each other.
    pub async fn cluster(&self, names: &[&str]) -> Vec<TestNode> {
        let mut nodes = Vec::new();
        for name in names {
            let mut node = TestNode::new(self, name);
            node.start().await.unwrap();
            node.add_disk("d").await;
            nodes.push(node);
        }
        for node in &nodes {
            node.until("/v1/nodes", |answer| {
                let nodes = answer["nodes"].as_array();
                nodes.is_some_and(|nodes| {
                    nodes.iter().filter(|n| n["alive"] == true).count() == names.len()
                })
            })
            .await;
        }
        nodes
    }
}

impl TestNode {
    pub fn new(place: &Place, name: &str) -> Self {
        let directory = place.path().join(name);
        std::fs::create_dir_all(&directory).unwrap();
        Self { name: name.to_owned(), directory, config: place.config(name), daemon: None }
    }

    pub async fn start(&mut self) -> Result<(), StartError> {
        self.daemon = Some(Daemon::start(self.config.clone()).await?);
        Ok(())
    }

    /// Starts it again, once the last daemon of this process has let go of everything.
    pub async fn restart(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while let Err(error) = self.start().await {
            assert!(Instant::now() < deadline, "{error}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// A machine with a copy of this node's state directory and of its configuration, but for its
    /// sockets; not started.
    pub fn copy(&self, place: &Place, name: &str) -> Self {
        let mut copy = Self::new(place, name);
        copy.config = Config {
            state: copy.config.state,
            runtime: copy.config.runtime,
            peer: copy.config.peer,
            ..self.config.clone()
        };
        std::fs::create_dir_all(&copy.config.state).unwrap();
        for entry in std::fs::read_dir(&self.config.state).unwrap() {
            let entry = entry.unwrap();
            match std::fs::copy(entry.path(), copy.config.state.join(entry.file_name())) {
                // The node was writing it, and has given it its name since.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                copied => assert!(copied.is_ok(), "{}: {copied:?}", entry.path().display()),
            }
        }
        copy
    }

    /// Waits until it has ended by itself.
    pub async fn ended(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while self.config.api_socket().exists() {
            assert!(Instant::now() < deadline, "node {} does not end", self.name);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        self.crash().await;
    }

    /// Ends it as SIGTERM does.
    pub async fn stop(&mut self) {
        self.daemon.take().unwrap().stop().await;
    }

    /// Ends it as a crash does, as far as that is possible in one process.
    pub async fn crash(&mut self) {
        self.daemon.take().unwrap().abandon().await;
    }

    /// What it is made of, for what no request can reach.
    pub fn running(&self) -> &Running {
        self.daemon.as_ref().unwrap().running()
    }

    pub fn node(&self) -> &Arc<Node> {
        self.daemon.as_ref().unwrap().node()
    }

    pub fn disk(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    pub async fn add_disk(&self, name: &str) {
        std::fs::create_dir_all(self.disk(name)).unwrap();
        self.ok("POST", "/v1/disks", json!({"path": self.disk(name)})).await;
    }

    /// The replicas' files on a disk.
    pub fn replicas(&self, disk: &str) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.disk(disk)).unwrap().map(|e| e.unwrap().path());
        entries.filter(|p| p.extension().is_some_and(|e| e == "replica")).collect()
    }

    /// One request to the API: the status and the answer.
    pub async fn call(&self, method: &str, path: &str, body: Value) -> (u16, Value) {
        let stream = UnixStream::connect(self.config.api_socket()).await.unwrap();
        let io = TokioIo::new(stream);
        let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
        tokio::spawn(connection);
        let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
        let request = hyper::Request::builder()
            .method(method)
            .uri(path)
            .header("host", "x")
            .header("content-type", "application/json")
            .body(Full::new(body))
            .unwrap();
        let answer = sender.send_request(request).await.unwrap();
        let status = answer.status().as_u16();
        let text = answer.into_body().collect().await.unwrap().to_bytes();
        let value = serde_json::from_slice(&text)
            .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&text).into_owned()));
        (status, value)
    }

    /// A request that succeeds.
    pub async fn ok(&self, method: &str, path: &str, body: Value) -> Value {
        let (status, answer) = self.call(method, path, body).await;
        assert_eq!(status, 200, "{method} {path}: {answer:#}");
        answer
    }

    pub async fn get(&self, path: &str) -> Value {
        self.ok("GET", path, Value::Null).await
    }

    /// A request that is refused with this code.
    pub async fn refused(&self, method: &str, path: &str, body: Value, code: &str) -> Value {
        let (status, answer) = self.call(method, path, body).await;
        assert_eq!(answer["error"]["code"], code, "{method} {path}: {status} {answer:#}");
        for key in ["what", "why", "do"] {
            let text = answer["error"][key].as_str().unwrap_or_default();
            assert!(!text.is_empty(), "{key} is missing: {answer:#}");
        }
        answer["error"].clone()
    }

    /// Asks until the answer is as wanted.
    pub async fn until(&self, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let (_, answer) = self.call("GET", path, Value::Null).await;
            if wanted(&answer) {
                return answer;
            }
            assert!(Instant::now() < deadline, "{path} of {}: {answer:#}", self.name);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Creates a volume of 4 MiB.
    pub async fn create(&self, name: &str, replicas: usize) -> Value {
        let request = json!({"name": name, "size": 4 << 20, "replicas": replicas});
        self.ok("POST", "/v1/volumes", request).await
    }

    /// Attaches a volume here, by NBD.
    pub async fn attach(&self, name: &str) -> Value {
        let path = format!("/v1/volumes/{name}/attach");
        self.ok("POST", &path, json!({"how": "nbd"})).await
    }

    /// Detaches it, once nobody uses it: who has gone may be waited for.
    pub async fn detach(&self, name: &str) -> Value {
        let (path, deadline) =
            (format!("/v1/volumes/{name}/detach"), Instant::now() + Duration::from_secs(60));
        loop {
            let (status, answer) = self.call("POST", &path, Value::Null).await;
            if answer["error"]["code"] != "device-busy" || Instant::now() > deadline {
                assert_eq!(status, 200, "{path}: {answer:#}");
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}
