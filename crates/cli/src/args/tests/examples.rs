//! What documents show of answers and options is what there is.

use std::collections::BTreeSet;

use clap::Command as Clap;

use super::*;

fn document(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(root.join(path)).unwrap()
}

/// The type of the answer that a command prints with `--json`.
fn answer(command: &str) -> &'static str {
    let words: Vec<&str> = command.split_whitespace().take(2).collect();
    match words[..] {
        ["volume" | "export", _] => "VolumesAnswer",
        ["disk", "list"] => "DisksAnswer",
        ["node", "status"] => "NodeAnswer",
        ["examine", _] => "ExamineAnswer",
        ["reservation", "show"] => "VolumeStatus",
        _ => panic!("which answer does `evenkeel {command}` print?"),
    }
}

/// The filters that texts have jq apply to the answer of a command.
fn filters(text: &str) -> Vec<(String, String)> {
    let found = text.lines().filter_map(|line| line.split_once(" --json | jq "));
    let parts = found.map(|(before, filter)| {
        let command = before.rsplit("evenkeel ").next().unwrap().to_owned();
        let filter = filter.trim_start_matches("-r ");
        let filter = match filter.strip_prefix('\'') {
            Some(quoted) => quoted.split('\'').next().unwrap(),
            None => filter.split(['"', ' ', '`']).next().unwrap(),
        };
        (command, filter.to_owned())
    });
    parts.collect()
}

/// The type of what a path leads to from this type, by the lines of the schema.
fn follow(schema: &str, from: &str, path: &str) -> Result<String, String> {
    let mut place = from.to_owned();
    for field in path.split('.').filter(|field| !field.is_empty()) {
        let begin = format!("{place}.{field}: ");
        let types: Vec<&str> =
            schema.lines().filter_map(|line| line.strip_prefix(&begin)).collect();
        let found = types.iter().find(|name| **name != "null");
        place = (*found.ok_or(format!("{place} has no field {field}"))?).to_owned();
    }
    Ok(place)
}

/// Whether all fields are there that a filter takes.
fn check(schema: &str, from: &str, filter: &str) -> Result<(), String> {
    let mut from = from.to_owned();
    for stage in filter.split('|').map(str::trim).filter(|stage| !stage.starts_with('@')) {
        match stage.strip_prefix('[') {
            Some(list) => {
                let paths = list.trim_end_matches(']').split(',').map(str::trim);
                for path in paths {
                    follow(schema, &from, path)?;
                }
            }
            None => from = follow(schema, &from, stage)?,
        }
    }
    Ok(())
}

#[test]
fn the_fields_that_examples_take_are_in_the_answers() {
    let schema = document("docs/manual/json-schema.txt");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = vec![root.join("README.md")];
    for place in ["docs", "packaging", "crates/cli/src/args"] {
        collect(&root.join(place), &mut files);
    }
    files.push(root.join("crates/cli/src/args.rs"));
    files.retain(|file| !file.ends_with("tests/examples.rs"));
    let texts = files.iter().map(|file| std::fs::read_to_string(file).unwrap());
    let all: Vec<_> = texts.flat_map(|text| filters(&text)).collect();
    assert!(all.len() >= 6, "only {all:?} were found");
    for (command, filter) in all {
        let checked = check(&schema, answer(&command), &filter);
        assert_eq!(checked, Ok(()), "evenkeel {command} --json | jq '{filter}'");
    }
}

#[test]
fn a_field_that_no_answer_has_is_found() {
    let schema = "A.volumes[]: V\nV.name: null\nV.name: string\n";
    assert_eq!(check(schema, "A", ".volumes[] | [.name] | @tsv"), Ok(()));
    assert_eq!(check(schema, "A", ".volumes[].name"), Ok(()));
    assert!(check(schema, "A", ".exports[].name").is_err());
    assert!(check(schema, "A", ".volumes[] | [.name, .health] | @tsv").is_err());
}

/// The cells of a row of a table.
fn cells(row: &str) -> Vec<&str> {
    row.trim_matches('|').split('|').map(str::trim).collect()
}

/// The commands that a cell names, as in "`replica replace`, `replica move`": an option belongs to
/// the command before it, and one word is another command of the same group.
fn named(cell: &str) -> Vec<[String; 2]> {
    let mut all: Vec<[String; 2]> = Vec::new();
    for quoted in cell.split('`').skip(1).step_by(2) {
        let words: Vec<&str> = quoted.split(' ').filter(|word| !word.starts_with("--")).collect();
        match (&words[..], all.last().cloned()) {
            ([group, name], _) => all.push([(*group).to_owned(), (*name).to_owned()]),
            ([name], Some([group, _])) if !group.is_empty() => {
                all.push([group, (*name).to_owned()]);
            }
            ([name], _) => all.push([String::new(), (*name).to_owned()]),
            _ => {}
        }
    }
    all
}

fn has(command: &Clap, option: &str) -> bool {
    command.get_arguments().any(|argument| argument.get_long() == Some(option))
}

#[test]
fn who_shows_a_plan_and_who_asks_is_as_decided() {
    let page = document("docs/decisions/0061-destructive-commands-show-a-plan.md");
    let rows = page.lines().skip_while(|line| !line.contains("| asks |")).skip(2);
    let mut command = Cli::command();
    command.build();
    let mut reported = BTreeSet::new();
    for row in rows.take_while(|line| line.starts_with('|')) {
        let [which, asks, plan, _] = cells(row)[..] else { panic!("{row}") };
        for [group, name] in named(which) {
            let of = match &group[..] {
                "" => &command,
                group => command.find_subcommand(group).unwrap(),
            };
            let found = of.find_subcommand(&name).unwrap_or_else(|| panic!("{group} {name}"));
            assert_eq!(has(found, "dry-run"), plan == "yes", "{group} {name} --dry-run: {row}");
            assert_eq!(has(found, "yes"), asks != "no", "{group} {name} --yes: {row}");
            reported.insert([group, name]);
        }
    }
    for group in command.get_subcommands().filter(|group| group.has_subcommands()) {
        for sub in group.get_subcommands().filter(|sub| has(sub, "dry-run") || has(sub, "yes")) {
            let name = [group.get_name().to_owned(), sub.get_name().to_owned()];
            // What only makes or measures something takes nothing away.
            let is_harmless = name == ["volume", "create"] || name[0] == "bench";
            assert!(reported.contains(&name) || is_harmless, "{name:?} is not in the table");
        }
    }
    assert!(reported.len() > 10, "{reported:?}");
}
