use std::path::{Path, PathBuf};

use clap::CommandFactory as _;
use clap::error::ErrorKind;
use evenkeel_api::types::RebuildRate;

use super::*;

mod examples;

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn a_rebuild_limit_is_given_as_it_is_shown() {
    let limit = |text: &str| {
        let cli = Cli::try_parse_from(["evenkeel", "volume", "rebuild", "music", "--limit", text]);
        match cli.map(|cli| cli.command) {
            Ok(Command::Volume(VolumeCommand::Rebuild(args))) => args.limit,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(limit("none"), Some(RebuildRate::None));
    assert_eq!(limit("50M"), Some(RebuildRate::Rate { bytes_per_second: 50 << 20 }));
    for wrong in ["0", "fast", "50"] {
        assert!(parses(&format!("evenkeel volume rebuild music --limit {wrong}")).is_err());
    }
}

#[test]
fn a_time_to_wait_is_for_those_who_wait() {
    for command in [
        "volume status music",
        "volume verify music",
        "replica add music",
        "replica re-add music n1",
        "volume change music --replicas 3",
    ] {
        let wait = if command.starts_with("volume status") { "--wait in-sync" } else { "--wait" };
        let parse = |options: &str| {
            let command = format!("evenkeel {command}{options}");
            Cli::try_parse_from(command.split(' ')).map(drop).map_err(|error| error.to_string())
        };
        assert_eq!(parse(""), Ok(()));
        assert_eq!(parse(&format!(" {wait} --timeout 5m")), Ok(()));
        let why = parse(" --timeout 5m").unwrap_err();
        assert!(why.contains("--wait"), "{command}: {why}");
    }
}

#[test]
fn a_wrong_value_is_told_in_words() {
    for (command, words) in [
        ("volume create music --size -5G", "`-5G` is negative, and a size is not"),
        ("volume grow music --size -5G", "`-5G` is negative, and a size is not"),
        ("volume create music --size 4G --replicas zwei", "`zwei` is not a number from 1 to 16"),
    ] {
        let why = parses(&format!("evenkeel {command}")).unwrap_err();
        assert!(why.contains(words), "{command}: {why}");
    }
}

#[test]
fn every_command_in_a_document_or_a_message_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = vec![root.join("README.md")];
    for place in ["docs", "tests", "packaging", "crates/node", "crates/attach", "crates/cli"] {
        collect(&root.join(place), &mut files);
    }
    let mut wrong = Vec::new();
    let mut count = 0;
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let blanks = if file.extension().is_some_and(|e| e == "rs") { 2 } else { 4 };
        for command in commands(&text, blanks) {
            count += 1;
            if let Err(why) = parses(&command) {
                wrong.push(format!("{}: {command}: {why}", file.display()));
            }
        }
    }
    assert!(count > 100, "only {count} commands were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The documents and sources below a directory, but for tests.
fn collect(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
        let is = |endings: &[&str]| {
            entry.extension().is_some_and(|e| endings.iter().any(|ending| e == *ending))
        };
        if entry.is_dir() {
            collect(&entry, files);
        } else if entry.ends_with("protocol.md") || entry.ends_with("tests.rs") {
            // Words between nodes, and words that are wrong on purpose.
        } else if is(&["md", "rs", "toml", "service"]) {
            files.push(entry);
        }
    }
}

/// Commands in backquotes, in scripts, and in examples that are set in by so many blanks; one that
/// goes on in the next line, after a backslash, is one.
fn commands(text: &str, blanks: usize) -> Vec<String> {
    let mut lines = text.split("\\\n");
    let first = lines.next().unwrap_or_default().to_owned();
    let text = lines.fold(first, |text, line| format!("{} {}", text.trim_end(), line.trim_start()));
    let mut found: Vec<String> = text
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|quoted| quoted.starts_with("evenkeel ") && !quoted.contains('\n'))
        .map(str::to_owned)
        .collect();
    let blanks = " ".repeat(blanks);
    let mut in_script = false;
    let examples = text.lines().filter_map(|line| {
        in_script = if line.starts_with("```") { line == "```sh" } else { in_script };
        let script = line.strip_prefix("sudo ").unwrap_or(line);
        line.strip_prefix(&blanks).or(in_script.then_some(script))
    });
    found.extend(examples.filter(|c| c.starts_with("evenkeel ")).map(str::to_owned));
    found
}

/// Whether the command is understood, as far as it is written out.
fn parses(command: &str) -> Result<(), String> {
    // What follows is a comment, another program, or left to the reader.
    let end = ["  ", " #", " | ", " || ", " > ", " && ", "…", ";", "{", "\\n", "\""];
    let end = end.iter().filter_map(|mark| command.find(mark)).min();
    let command = &command[..end.unwrap_or(command.len())];
    let words = command.split_whitespace().map(|word| {
        let word = word.trim_matches(['[', ']', ',', '.', ')', '\'']);
        word.split('|').next().unwrap_or(word)
    });
    match Cli::try_parse_from(words) {
        Ok(_) => Ok(()),
        Err(error) => match error.kind() {
            // A command is named, and not all that it needs.
            ErrorKind::MissingRequiredArgument
            | ErrorKind::MissingSubcommand
            | ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => Ok(()),
            _ => Err(error.to_string().lines().next().unwrap_or_default().to_owned()),
        },
    }
}
