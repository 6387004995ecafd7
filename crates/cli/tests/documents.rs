//! What the documents say in numbers and lists is what the code does.

use std::collections::BTreeMap;
use std::path::Path;

use evenkeel_core::Settings;
use evenkeel_core::settings::{
    BLOCK, MAX_MIRRORS, MAX_PRIMARIES, MAX_REPLICAS, MAX_REPLICAS_IN_ALL,
};

fn document(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Words with one blank between them: a sentence may be broken anywhere.
fn flowing(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The numbers that stand in a text where a phrase has `{}`.
fn numbers(text: &str, phrase: &str) -> Vec<u64> {
    let (before, after) = phrase.split_once("{}").unwrap();
    let places = text.match_indices(before).map(|(at, _)| &text[at + before.len()..]);
    let number = |rest: &str| {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let is_it = digits > 0 && rest[digits..].starts_with(after);
        is_it.then(|| rest[..digits].parse().unwrap())
    };
    places.filter_map(number).collect()
}

#[test]
fn the_numbers_in_the_readme_and_the_comparison_are_those_of_the_code() {
    let pages = flowing(&(document("README.md") + &document("docs/comparison.md")));
    let deadline = Settings::default().deadline.as_secs();
    let mut found = 0;
    for (phrase, expected) in [
        ("1 to {} mirrors", MAX_MIRRORS as u64),
        ("mirrors with 1 to {} replicas each", MAX_REPLICAS as u64),
        ("at most {} replicas in all", MAX_REPLICAS_IN_ALL as u64),
        ("yes, 1 to {} |", MAX_REPLICAS as u64),
        ("attached on up to {} nodes at once", MAX_PRIMARIES as u64),
        ("| several writers at once | up to {} nodes", MAX_PRIMARIES as u64),
        ("leaves the mirror after {} s", deadline),
        ("{} s if it hangs", deadline),
        ("a CRC-32C per {} KiB", u64::from(BLOCK) / 1024),
        ("on-disk format {}", u64::from(evenkeel_format::FORMAT_VERSION)),
        ("version {},", env!("CARGO_PKG_VERSION_MAJOR").parse().unwrap()),
    ] {
        let said = numbers(&pages, phrase);
        assert!(said.iter().all(|said| *said == expected), "{phrase}: {said:?}, not {expected}");
        found += said.len();
    }
    assert!(found >= 6, "only {found} of them are there: these are the phrases of other pages");
}

#[test]
fn the_pauses_in_the_readme_are_those_that_were_measured() {
    let (readme, care) = (document("README.md"), document("docs/manual/care.md"));
    let said = numbers(&flowing(&readme), "{} ms if a node is killed");
    let measured = numbers(&flowing(&care), "the longest write when a node is killed | {} ms");
    assert_eq!((said.len(), &said), (1, &measured));
}

#[test]
fn a_phrase_finds_its_number() {
    let text = "1 to 16 mirrors with 1 to 8 replicas each";
    assert_eq!(numbers(text, "1 to {} mirrors"), [16]);
    assert_eq!(numbers(text, "with 1 to {} replicas"), [8]);
    assert!(numbers(text, "up to {} nodes").is_empty());
}

#[test]
fn the_layers_are_the_crates() {
    let manifest: toml::Table = document("Cargo.toml").parse().unwrap();
    let members = manifest["workspace"]["members"].as_array().unwrap();
    let member = |value: &toml::Value| value.as_str().unwrap().replace("crates/", "");
    let mut members: Vec<String> = members.iter().map(member).collect();
    let page = document("docs/architecture.md");
    let rows = page.lines().filter(|line| line.starts_with("| ") && line.contains(" | `"));
    let layer = |row: &str| {
        let mut cells = row.split('|').map(str::trim).skip(1);
        let is_number = cells.next().is_some_and(|cell| cell.parse::<u32>().is_ok());
        cells.next().filter(|_| is_number).map(|cell| cell.replace('`', ""))
    };
    let mut layers: Vec<String> = rows.filter_map(layer).collect();
    members.sort();
    layers.sort();
    assert_eq!(layers, members);
}

/// The cells of the rows of all tables in a page, under their headings.
fn rows(page: &str) -> Vec<Vec<String>> {
    let rows = page.lines().filter(|line| line.starts_with("| "));
    // A `\|` is no end of a cell.
    let cells = |line: &str| -> Vec<String> {
        let line = line.trim_matches('|').replace("\\|", "\u{1}");
        line.split('|').map(|cell| cell.trim().replace('\u{1}', "|")).collect()
    };
    rows.map(cells).collect()
}

#[test]
fn the_vocabulary_says_nothing_twice() {
    let mut seen: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for row in rows(&document("docs/manual/vocabulary.md")) {
        assert_eq!(row.len(), 3, "{row:?}");
        // What people know: their own word, once; what we have for it stands beside all that means
        // it.
        for (whose, word) in ["md", "DRBD"].into_iter().zip(&row) {
            if word == "–" || word == whose {
                continue;
            }
            let others = seen.entry(format!("{whose}: {word}")).or_default();
            assert!(!others.contains(&row[2]), "twice: {whose}: {word}: {}", row[2]);
            others.push(row[2].clone());
        }
    }
    assert!(seen.len() > 40, "{}", seen.len());
    let twice: Vec<_> = seen.iter().filter(|(_, ours)| ours.len() > 1).collect();
    // Several of ours for one of theirs have to be told apart in one row.
    assert!(twice.is_empty(), "{twice:#?}");
}
