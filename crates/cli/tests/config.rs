//! `config check FILE` refuses what `node run` would, in the same words, and starts nothing.

use std::path::Path;
use std::process::{Command, Output};

fn evenkeel(words: &[&str], file: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    command.args(words).arg(file).output().unwrap()
}

/// What a command says after `why:`.
fn why(output: &Output) -> String {
    let text = String::from_utf8(output.stderr.clone()).unwrap();
    let (_, rest) = text.split_once("why: ").unwrap_or_else(|| panic!("{text}"));
    rest.split("\n  do:").next().unwrap().to_owned()
}

#[test]
fn a_file_is_refused_as_the_node_would_refuse_it() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("node.toml");
    let of = |lines: &str| {
        let (state, run) = (place.path().join("state"), place.path().join("run"));
        std::fs::write(&file, format!("state = {state:?}\nruntime = {run:?}\n{lines}")).unwrap();
        evenkeel(&["config", "check"], &file)
    };
    let good = of("");
    assert_eq!(good.status.code(), Some(0), "{good:?}");
    assert_eq!(String::from_utf8_lossy(&good.stdout), format!("{}: good\n", file.display()));
    assert!(!place.path().join("state").exists(), "nothing is made");
    assert_eq!(evenkeel(&["config", "check", "--config"], &file).status.code(), Some(0));
    for (lines, words) in [
        ("[peer]\nlistne = []\n", "listne"),
        ("[peer]\nlisten = [\"0.0.0.0:1\"]\n", "peer.advertise"),
        ("[nbd]\nmax_clients = 0\n", "nbd.max_clients"),
        ("[api]\ngroup = \"staff\"\n", "administer"),
    ] {
        let checked = of(lines);
        let run = evenkeel(&["node", "run", "--config"], &file);
        assert_eq!((checked.status.code(), run.status.code()), (Some(1), Some(1)), "{lines}");
        assert!(why(&checked).contains(words), "{lines}: {checked:?}");
        assert!(why(&run).contains(words), "{lines}: {run:?}");
    }
}

#[test]
fn what_keeps_no_node_from_starting_is_a_warning() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("node.toml");
    let (state, run) = (place.path().join("state"), place.path().join("run"));
    let api = "[api]\noperate = [\"@no-such-group\"]\n";
    std::fs::write(&file, format!("state = {state:?}\nruntime = {run:?}\n{api}")).unwrap();
    let checked = evenkeel(&["config", "check"], &file);
    let text = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert_eq!(checked.status.code(), Some(0), "{checked:?}");
    assert!(text.starts_with(&format!("{}: good\n", file.display())), "{text}");
    assert!(text.contains("api.operate: \"@no-such-group\" gives nobody that right"), "{text}");
}
