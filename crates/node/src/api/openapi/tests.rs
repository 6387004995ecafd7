use std::collections::BTreeSet;
use std::path::Path;

use super::*;

/// Names of the API's fields that no word of the language, and no key of the configuration, is.
fn field_names() -> BTreeSet<String> {
    let document: serde_json::Value = serde_json::from_str(&json().unwrap()).unwrap();
    let schemas = document["components"]["schemas"].as_object().unwrap().values();
    let properties = schemas.filter_map(|schema| schema["properties"].as_object());
    properties.flat_map(|p| p.keys().cloned()).filter(|name| name.contains('_')).collect()
}

/// What stands between quotation marks in a line and is a sentence.
fn sentences(line: &str) -> impl Iterator<Item = &str> {
    line.split('"').skip(1).step_by(2).filter(|text| text.contains(' '))
}

fn look(directory: &Path, names: &BTreeSet<String>, found: &mut Vec<String>) -> usize {
    let mut sources = 0;
    for path in std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            sources += look(&path, names, found);
        } else if path.extension().is_some_and(|e| e == "rs") && !path.ends_with("tests.rs") {
            sources += 1;
            let text = std::fs::read_to_string(&path).unwrap();
            for sentence in text.lines().flat_map(sentences) {
                // What stands in braces is put in by the program.
                let plain = sentence.split('{').map(|p| p.rsplit('}').next().unwrap_or_default());
                let words =
                    plain.flat_map(|part| part.split(|c: char| !c.is_alphanumeric() && c != '_'));
                let named = words.filter(|word| names.contains(*word));
                found.extend(named.map(|word| format!("{}: {word}: {sentence}", path.display())));
            }
        }
    }
    sources
}

#[test]
fn what_people_read_names_options_of_the_command_and_not_fields_of_the_api() {
    let names = field_names();
    assert!(names.contains("allow_same_node") && names.len() > 20, "{names:?}");
    let mut found = Vec::new();
    let sources = look(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &names, &mut found);
    assert!(sources > 80, "only {sources} files were looked at");
    assert!(found.is_empty(), "{}", found.join("\n"));
}
