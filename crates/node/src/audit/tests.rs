use std::fs;
use std::path::Path;

use super::*;
use evenkeel_api::ErrorCode;
use serde_json::json;

fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.ends_with('\n'));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn alice() -> Who {
    Who::User { uid: 1001, user: Some("alice".into()), login: Some(1000) }
}

#[tokio::test]
async fn a_change_has_a_line_before_it_and_one_after_it() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join(FILE);
    let warnings = Warnings::default();
    let audit = Audit::new(path.clone(), 17, warnings.clone());
    let attach = Asked::new(alice(), "POST", "/v1/volumes/web/attach", b"{\"how\": \"nbd\"}");
    let first = audit.asked(&attach).await;
    let who = Who::Node { node: "06f0".into(), from: "10.0.0.2:7740".into() };
    let second = audit.asked(&Asked::new(who, "DELETE", "/v1/volumes/web", b"")).await;
    audit.answered(&second, Answered { status: 409, error: Some(ErrorCode::Attached) }).await;
    audit.answered(&first, Answered { status: 200, error: None }).await;

    let mut written = lines(&path);
    for line in &mut written {
        let time = line.as_object_mut().unwrap().remove("time").unwrap();
        let time = time.as_str().unwrap().to_owned();
        assert!(time.len() == 20 && time.ends_with('Z') && time.contains('T'), "{time}");
    }
    assert_eq!(
        written,
        [
            json!({"request": "17.1", "uid": 1001, "user": "alice", "login": 1000, "method": "POST", "path": "/v1/volumes/web/attach", "body": {"how": "nbd"}}),
            json!({"request": "17.2", "node": "06f0", "from": "10.0.0.2:7740", "method": "DELETE", "path": "/v1/volumes/web"}),
            json!({"request": "17.2", "status": 409, "error": "attached"}),
            json!({"request": "17.1", "status": 200}),
        ]
    );
    assert!(warnings.past(|_| true).is_empty());
    let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&path).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn what_is_secret_is_not_kept() {
    let body = json!({
        "address": "a:1", "token": "t0p", "nested": [{"controller_secret": "x", "host": "h"}],
        "secrets": [{"secret": "y"}], "old_key": null, "PrivateKey": 7,
    });
    let kept = shown(body.to_string().as_bytes());
    assert_eq!(
        kept,
        json!({
            "address": "a:1", "token": HIDDEN, "nested": [{"controller_secret": HIDDEN, "host": "h"}],
            "secrets": HIDDEN, "old_key": null, "PrivateKey": HIDDEN,
        })
    );
    // What is no JSON may be anything.
    assert_eq!(shown(b"token=t0p"), json!("(9 bytes that are no JSON)"));
    assert_eq!(shown(b""), Value::Null);
}

#[test]
fn what_is_long_is_cut_and_hides_nothing_beside_it() {
    let body = json!({"source": "n2", "name": "ü".repeat(1000), "list": vec![1; 20], "secret": "s".repeat(9000)});
    let spaces = " ".repeat(1 << 20);
    let mut list: Vec<Value> = vec![json!(1); 16];
    list.push(json!("(and 4 more)"));
    let name = format!("{}…", "ü".repeat(MAX_TEXT));
    let kept = json!({"source": "n2", "name": name, "list": list, "secret": HIDDEN});
    assert_eq!(shown(format!("{body}{spaces}").as_bytes()), kept);
    // Nobody needs so many names.
    let many: serde_json::Map<String, Value> =
        (0..1000).map(|n| (format!("name{n}"), json!(n))).collect();
    let many = Value::Object(many).to_string();
    assert_eq!(shown(many.as_bytes()), json!(format!("({} bytes)", many.len())));
    let long = Asked::new(alice(), "POST", &"/x".repeat(30_000), b"");
    assert_eq!(long.path.chars().count(), MAX_PATH + 1);
    let line =
        serde_json::to_string(&Line { time: String::new(), request: String::new(), event: long });
    assert!((line.unwrap().len() + 3 * MAX_BODY) < MAX_LINE as usize);
}

#[test]
fn a_full_file_takes_the_place_of_the_one_before_it() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join(FILE);
    let mut log = LogFile { path: path.clone(), most: 10, open: None };
    for line in ["1234\n", "5678\n", "9\n", "longer than all\n", "a\n"] {
        log.append(line.as_bytes()).unwrap();
    }
    let read = |name: &str| fs::read_to_string(place.path().join(name)).unwrap();
    assert_eq!(read("audit.log"), "a\n");
    assert_eq!(read("audit.log.1"), "longer than all\n");
    let names = fs::read_dir(place.path()).unwrap().count();
    assert_eq!(names, 2);
    // The next daemon goes on where it was.
    let mut log = LogFile { path, most: 10, open: None };
    log.append(b"b\n").unwrap();
    assert_eq!(read("audit.log"), "a\nb\n");
}

#[test]
fn a_line_that_was_cut_off_goes() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join(FILE);
    for (before, after) in [
        ("{\"time\"", "next\n"),
        ("whole\n{\"time\"", "whole\nnext\n"),
        ("whole\n", "whole\nnext\n"),
    ] {
        fs::write(&path, before).unwrap();
        let mut log = LogFile { path: path.clone(), most: 1 << 20, open: None };
        log.append(b"next\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), after);
    }
    // This is no log of ours: nothing of it is taken away.
    let other = "x".repeat(MAX_LINE as usize + 1);
    fs::write(&path, &other).unwrap();
    let mut log = LogFile { path: path.clone(), most: 1 << 20, open: None };
    log.append(b"next\n").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), format!("{other}next\n"));
}

#[tokio::test]
async fn a_log_that_cannot_be_written_is_told_of_and_written_again_later() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join(FILE);
    let elsewhere = place.path().join("elsewhere");
    std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
    let warnings = Warnings::default();
    let audit = Audit::new(path.clone(), 1, warnings.clone());
    let asked = Asked::new(alice(), "POST", "/v1/volumes", b"");
    audit.asked(&asked).await;
    audit.asked(&asked).await;
    let reported = warnings.past(|_| true);
    assert_eq!(reported.len(), 1, "the same warning twice: {reported:?}");
    assert!(reported[0].text.contains("a symbolic link"), "{reported:?}");
    assert!(!elsewhere.exists(), "the link was followed");
    fs::remove_file(&path).unwrap();
    audit.asked(&asked).await;
    assert_eq!(lines(&path).len(), 1);
}
