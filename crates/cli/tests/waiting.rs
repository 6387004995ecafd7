//! What somebody sees of a command whose node takes its time: the shipped command, and a node that
//! answers when the test lets it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const NODE: &str = r#"{"version":1,"node":{"id":"","name":"n1","cluster":"home","software":"0.1.0","pid":7,
"started":0,"addresses":[],"authentication":"mutual-tls","coordinator":{"id":null,"here":false,"address":null,
"reachable":false,"unreachable_since":1,"message":"it does not answer"},"workers":1,"memory":{"per_volume":0,
"buffers":0,"buffers_used":0},"disks":0,"replicas":0,"attached":[],"warnings":[]}}"#;

/// What a node answers that stands still while this is `true`.
fn serve_unless(stands: Arc<AtomicBool>, listener: UnixListener) {
    for stream in listener.incoming() {
        let mut stream = stream.unwrap();
        let stands = stands.clone();
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
        });
    }
}

/// Answers to a request for this node's status at once, and with a refusal to any other after
/// `pause`.
fn answer(mut stream: UnixStream, pause: Duration) {
    let mut request = vec![0; 4096];
    let length = stream.read(&mut request).unwrap();
    let request = String::from_utf8_lossy(&request[..length]).into_owned();
    let (status, body) = match request.starts_with("GET /v1/node ") {
        true => ("200 OK", NODE),
        false => {
            std::thread::sleep(pause);
            let body = r#"{"version":1,"error":{"code":"no-coordinator","what":"cannot attach volume music","why":"it is away","do":"start it"}}"#;
            ("503 Service Unavailable", body)
        }
    };
    let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n", body.len());
    // A command that has its answer does not wait for this one.
    drop(stream.write_all((head + body).as_bytes()));
}

fn attach(pause: Duration, options: &[&str]) -> Output {
    let scratch = tempfile::tempdir().unwrap();
    let socket = scratch.path().join("api.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            std::thread::spawn(move || answer(stream.unwrap(), pause));
        }
    });
    run(&socket, options)
}

fn run(socket: &Path, options: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    command.args(["attach", "music", "--as", "none", "--socket"]).arg(socket).args(options);
    command.output().unwrap()
}

const REFUSED: &str = "evenkeel: cannot attach volume music\n  why: it is away\n  do:  start it\n";

#[test]
fn a_command_that_waits_says_once_what_for() {
    let output = attach(Duration::from_secs(5), &[]);
    let said = String::from_utf8(output.stderr).unwrap();
    let (first, rest) = said.split_once('\n').unwrap();
    let begins = "waiting for the node to attach volume music (";
    assert!(first.starts_with(begins), "{said}");
    let ends = "): the coordinator does not answer";
    assert!(first.ends_with(ends), "{said}");
    assert_eq!(rest, REFUSED);
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(5), &b""[..]));
}

#[test]
fn programs_and_who_wants_quiet_are_told_nothing() {
    let quiet = attach(Duration::from_secs(4), &["--quiet"]);
    assert_eq!(String::from_utf8(quiet.stderr).unwrap(), REFUSED);
    let json = attach(Duration::from_secs(4), &["--json"]);
    assert_eq!(String::from_utf8(json.stderr).unwrap(), "");
    let text = String::from_utf8(json.stdout).unwrap();
    assert!(text.starts_with("{\"version\":1,\"error\"") && text.ends_with("}\n"), "{text}");
}

#[test]
fn a_command_that_does_not_wait_says_nothing_of_it() {
    let output = attach(Duration::ZERO, &[]);
    assert_eq!(String::from_utf8(output.stderr).unwrap(), REFUSED);
}

/// A monitor wants a code, not a command that hangs.
#[test]
fn a_question_to_a_node_that_stands_still_ends() {
    let scratch = tempfile::tempdir().unwrap();
    let socket = scratch.path().join("api.sock");
    // The kernel accepts for it; nobody reads.
    let _listener = UnixListener::bind(&socket).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    command.args(["volume", "list", "--quiet", "--socket"]).arg(&socket);
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("does not answer\n  why: nothing came for 30 s\n"), "{said}");
    assert_eq!(output.status.code(), Some(5));
}

#[test]
fn who_watches_is_told_that_the_node_stands_still_and_that_it_answers_again() {
    let scratch = tempfile::tempdir().unwrap();
    let socket = scratch.path().join("api.sock");
    let (stands, listener) =
        (Arc::new(AtomicBool::new(false)), UnixListener::bind(&socket).unwrap());
    let node = stands.clone();
    std::thread::spawn(move || serve_unless(node, listener));
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    command.args(["volume", "status", "--watch", "--quiet", "--socket"]).arg(&socket);
    let mut watch = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    // Its first look is over, and it has nothing to say of it.
    std::thread::sleep(Duration::from_secs(2));
    stands.store(true, Ordering::Relaxed);
    let still = lines.next().unwrap().unwrap();
    assert!(still.contains(" does not answer: nothing came for "), "{still}");
    stands.store(false, Ordering::Relaxed);
    let again = lines.next().unwrap().unwrap();
    assert!(again.ends_with(" the node answers again"), "{again}");
    watch.kill().unwrap();
    watch.wait().unwrap();
}
