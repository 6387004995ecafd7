//! What somebody sees of a command whose node takes its time: the shipped command, and a node that
//! answers when the test lets it.

mod common;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::evenkeel;

const NODE: &str = r#"{"version":1,"node":{"id":"","name":"n1","cluster":"home","software":"0.1.0","pid":7,
"started":0,"addresses":[],"authentication":"mutual-tls","coordinator":{"id":null,"here":false,"address":null,
"reachable":false,"unreachable_since":1,"message":"it does not answer"},"workers":1,"memory":{"per_volume":0,
"buffers":0,"buffers_used":0},"disks":0,"replicas":0,"attached":[],"warnings":[]}}"#;

/// What a node answers that stands still while this is `true`, and how often it has answered.
fn serve_unless(stands: Arc<AtomicBool>, answered: Arc<AtomicUsize>, listener: UnixListener) {
    for stream in listener.incoming() {
        let mut stream = stream.unwrap();
        let (stands, answered) = (stands.clone(), answered.clone());
        std::thread::spawn(move || {
            while stands.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(50));
            }
            let mut request = vec![0; 4096];
            let length = stream.read(&mut request).unwrap();
            let is_node = request[..length].starts_with(b"GET /v1/node ");
            let volumes = r#"{"version":1,"volumes":[],"complete":true,"warnings":[]}"#;
            let body = if is_node { NODE } else { volumes };
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
            drop(stream.write_all((head + body).as_bytes()));
            answered.fetch_add(1, Ordering::Relaxed);
        });
    }
}

/// When a node refuses what it is asked.
#[derive(Clone)]
enum Refusal {
    After(Duration),
    /// Once this is `true`.
    When(Arc<AtomicBool>),
}

impl Refusal {
    fn wait(&self) {
        match self {
            Self::After(pause) => std::thread::sleep(*pause),
            Self::When(is_time) => {
                while !is_time.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(50));
                }
            }
        }
    }
}

/// Answers to a request for this node's status at once, and with a refusal to any other.
fn answer(mut stream: UnixStream, refusal: &Refusal) {
    let mut request = vec![0; 4096];
    let length = stream.read(&mut request).unwrap();
    let request = String::from_utf8_lossy(&request[..length]).into_owned();
    let (status, body) = match request.starts_with("GET /v1/node ") {
        true => ("200 OK", NODE),
        false => {
            refusal.wait();
            let body = r#"{"version":1,"error":{"code":"no-coordinator","what":"cannot attach volume music","why":"it is away","do":"start it"}}"#;
            ("503 Service Unavailable", body)
        }
    };
    let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n", body.len());
    // A command that has its answer does not wait for this one.
    drop(stream.write_all((head + body).as_bytes()));
}

/// A command to a node that refuses it.
fn attach(scratch: &Path, refusal: Refusal, options: &[&str]) -> Command {
    let socket = scratch.join("api.sock");
    drop(std::fs::remove_file(&socket));
    let listener = UnixListener::bind(&socket).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let refusal = refusal.clone();
            std::thread::spawn(move || answer(stream.unwrap(), &refusal));
        }
    });
    let words = ["attach", "music", "--as", "none"];
    evenkeel(&socket, words.into_iter().chain(options.iter().copied()))
}

const REFUSED: &str = "evenkeel: cannot attach volume music\n  why: it is away\n  do:  start it\n";

#[test]
fn a_command_that_waits_says_once_what_for() {
    assert!((0..10).any(|_| says_once_what_for()), "the node never answers within a second");
}

/// `false`: this machine let the node look as if it answered nothing at all.
fn says_once_what_for() -> bool {
    let scratch = tempfile::tempdir().unwrap();
    let is_time = Arc::new(AtomicBool::new(false));
    let mut command = attach(scratch.path(), Refusal::When(is_time.clone()), &[]);
    let mut waits = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(waits.stderr.take().unwrap());
    let mut first = String::new();
    said.read_line(&mut first).unwrap();
    let begins = "waiting for the node to attach volume music (";
    assert!(first.starts_with(begins), "{first}");
    let is_answered = !first.contains("it answers nothing at all");
    let ends = "): the coordinator does not answer\n";
    assert!(first.ends_with(ends) || !is_answered, "{first}");
    is_time.store(true, Ordering::Relaxed);
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, REFUSED);
    let output = waits.wait_with_output().unwrap();
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(5), &b""[..]));
    is_answered
}

#[test]
fn programs_and_who_wants_quiet_are_told_nothing() {
    let scratch = tempfile::tempdir().unwrap();
    let after = Refusal::After(Duration::from_secs(4));
    let quiet = attach(scratch.path(), after.clone(), &["--quiet"]).output().unwrap();
    assert_eq!(String::from_utf8(quiet.stderr).unwrap(), REFUSED);
    let json = attach(scratch.path(), after, &["--json"]).output().unwrap();
    assert_eq!(String::from_utf8(json.stderr).unwrap(), "");
    let text = String::from_utf8(json.stdout).unwrap();
    assert!(text.starts_with("{\"version\":1,\"error\"") && text.ends_with("}\n"), "{text}");
}

/// A machine that makes it wait has it say so: then it is tried again.
#[test]
fn a_command_that_does_not_wait_says_nothing_of_it() {
    /// After so long it says what it waits for.
    const MOMENT: Duration = Duration::from_secs(2);
    let scratch = tempfile::tempdir().unwrap();
    let is_judged = (0..10).any(|_| {
        let mut command = attach(scratch.path(), Refusal::After(Duration::ZERO), &[]);
        let began = Instant::now();
        let output = command.output().unwrap();
        let is_in_time = began.elapsed() < MOMENT;
        if is_in_time {
            assert_eq!(String::from_utf8(output.stderr).unwrap(), REFUSED);
        }
        is_in_time
    });
    assert!(is_judged, "no command is answered within {MOMENT:?}");
}

/// A monitor wants a code, not a command that hangs.
#[test]
fn a_question_to_a_node_that_stands_still_ends() {
    let scratch = tempfile::tempdir().unwrap();
    let socket = scratch.path().join("api.sock");
    // The kernel accepts for it; nobody reads.
    let _listener = UnixListener::bind(&socket).unwrap();
    let output = evenkeel(&socket, ["volume", "list", "--quiet"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("does not answer\n  why: nothing came for 30 s\n"), "{said}");
    assert_eq!(output.status.code(), Some(5));
}

#[test]
fn who_watches_is_told_that_the_node_stands_still_and_that_it_answers_again() {
    let scratch = tempfile::tempdir().unwrap();
    let socket = scratch.path().join("api.sock");
    let (stands, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (node, listener) =
        ((stands.clone(), answered.clone()), UnixListener::bind(&socket).unwrap());
    std::thread::spawn(move || serve_unless(node.0, node.1, listener));
    let mut command = evenkeel(&socket, ["volume", "status", "--watch", "--quiet"]);
    let mut watch = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    // Its first look is over, and it has nothing to say of it.
    while answered.load(Ordering::Relaxed) < 3 {
        std::thread::sleep(Duration::from_millis(50));
    }
    stands.store(true, Ordering::Relaxed);
    let still = lines.next().unwrap().unwrap();
    assert!(still.contains(" does not answer: nothing came for "), "{still}");
    stands.store(false, Ordering::Relaxed);
    let again = lines.next().unwrap().unwrap();
    assert!(again.ends_with(" the node answers again"), "{again}");
    watch.kill().unwrap();
    watch.wait().unwrap();
}
