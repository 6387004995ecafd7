//! What programs read of the JSON that users see stays: each name and type of it stands in a file.

use std::collections::BTreeSet;
use std::path::PathBuf;

use evenkeel_api::types::ExamineAnswer;
use serde_json::Value;
use utoipa::OpenApi;

/// What `examine --json` prints, which no path of the API answers.
#[derive(OpenApi)]
#[openapi(components(schemas(ExamineAnswer)))]
struct Examined;

const RENEW: &str = "EVENKEEL_RENEW_SCHEMA=1 cargo test -p evenkeel-node --lib schema";

fn file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/manual/json-schema.txt")
}

/// Whether a place is of what programs send.
fn is_sent(place: &str) -> bool {
    let root = place.split(['.', '[', ' ']).next().unwrap_or_default();
    root.ends_with("Request") || place.contains(" asks")
}

/// All that a schema says of names and types, a line for each.
fn describe(place: &str, schema: &Value, lines: &mut BTreeSet<String>) {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        lines.insert(format!("{place}: {name}"));
    }
    for word in schema["enum"].as_array().into_iter().flatten() {
        lines.insert(format!("{place} = {word}"));
    }
    for part in ["oneOf", "anyOf", "allOf"] {
        let parts = schema[part].as_array().into_iter().flatten();
        parts.for_each(|schema| describe(place, schema, lines));
    }
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        describe(&format!("{place}.{name}"), schema, lines);
    }
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        lines.insert(format!("{place}.{name} is always there"));
    }
    for (key, mark) in [("items", "[]"), ("additionalProperties", "{}")] {
        if schema[key].is_object() {
            describe(&format!("{place}{mark}"), &schema[key], lines);
        }
    }
    let types = match &schema["type"] {
        Value::Array(types) => types.iter().filter_map(Value::as_str).collect(),
        one => Vec::from_iter(one.as_str()),
    };
    let is_plain = |kind: &&str| !["object", "array"].contains(kind);
    for kind in types.into_iter().filter(is_plain) {
        lines.insert(format!("{place}: {kind}"));
    }
}

fn describe_path(path: &str, method: &str, operation: &Value, lines: &mut BTreeSet<String>) {
    let place = format!("{} {path}", method.to_uppercase());
    lines.insert(place.clone());
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        let name = parameter["name"].as_str().unwrap_or_default();
        let asked = format!("{place} asks {name}");
        describe(&asked, &parameter["schema"], lines);
        if parameter["required"] == true {
            lines.insert(format!("{asked} is always there"));
        }
    }
    let content = |value: &Value| value["content"]["application/json"]["schema"].clone();
    describe(&format!("{place} asks with"), &content(&operation["requestBody"]), lines);
    for (status, answer) in operation["responses"].as_object().into_iter().flatten() {
        lines.insert(format!("{place} answers {status}"));
        describe(&format!("{place} answers {status}"), &content(answer), lines);
    }
}

fn now() -> BTreeSet<String> {
    let mut lines = BTreeSet::new();
    let document: Value = serde_json::from_str(&super::json().unwrap()).unwrap();
    let examined = serde_json::to_value(Examined::openapi()).unwrap();
    for document in [&document, &examined] {
        for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
            describe(name, schema, &mut lines);
        }
    }
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            describe_path(path, method, operation, &mut lines);
        }
    }
    lines
}

/// What a program that was written for the schema before would trip over.
fn breaks<'a>(before: &'a BTreeSet<String>, now: &'a BTreeSet<String>) -> Vec<&'a String> {
    let is_demanded = |line: &&String| {
        let demanded = line.strip_suffix(" is always there").filter(|place| is_sent(place));
        // A demand of a new request is nobody's trouble.
        // Of a path the method with it, else the name of a type.
        let root = |line: &str| match line.split_once(" asks ") {
            Some((path, _)) => path.to_owned(),
            None if line.contains(" /") => line.to_owned(),
            None => line.split(['.', ' ']).next().unwrap_or_default().to_owned(),
        };
        demanded.is_some_and(|place| before.iter().any(|line| root(line) == root(place)))
    };
    let is_relaxed = |line: &&String| line.strip_suffix(" is always there").is_some_and(is_sent);
    let gone = before.difference(now).filter(|line| !is_relaxed(line));
    gone.chain(now.difference(before).filter(is_demanded)).collect()
}

#[test]
fn what_programs_read_of_the_json_stays() {
    let now = now();
    let text: String = now.iter().map(|line| format!("{line}\n")).collect();
    let stored = std::fs::read_to_string(file()).unwrap_or_default();
    let before: BTreeSet<String> = stored.lines().map(str::to_owned).collect();
    let broken = breaks(&before, &now);
    assert!(
        broken.is_empty(),
        "the JSON that users see is stable: keep what is gone, and add the new beside it (a field \
         that requests must have cannot be added). Lines of docs/manual/json-schema.txt that do \
         not hold any more, or that demand what was not demanded: {broken:#?}"
    );
    if std::env::var_os("EVENKEEL_RENEW_SCHEMA").is_some() {
        std::fs::write(file(), text).unwrap();
        return;
    }
    let new: Vec<_> = now.difference(&before).collect();
    assert!(new.is_empty(), "the JSON has something new. If that is meant: {RENEW}\n{new:#?}");
}

#[test]
fn what_is_renamed_removed_or_demanded_is_seen() {
    let lines = |all: &[&str]| all.iter().map(|line| (*line).to_owned()).collect::<BTreeSet<_>>();
    let before = lines(&["A.x: string", "A = \"w\"", "GET /a", "BRequest.y: string"]);
    let with = |line: &str| {
        let mut with = before.clone();
        with.insert(line.to_owned());
        with
    };
    let without = |line: &str| {
        let mut without = before.clone();
        without.remove(line);
        without
    };
    for gone in ["A.x: string", "A = \"w\"", "GET /a"] {
        assert_eq!(breaks(&before, &without(gone)), [gone]);
    }
    assert_eq!(breaks(&before, &with("A.z: string")), Vec::<&String>::new());
    assert_eq!(breaks(&before, &with("A.x is always there")), Vec::<&String>::new());
    let demand = "BRequest.y is always there";
    assert_eq!(breaks(&before, &with(demand)), [demand]);
    assert_eq!(breaks(&with(demand), &before), Vec::<&String>::new(), "it is demanded no more");
    assert_eq!(breaks(&before, &with("CRequest.y is always there")), Vec::<&String>::new());
    assert_eq!(breaks(&before, &with("GET /b asks n is always there")), Vec::<&String>::new());
    let asked = "GET /a asks n is always there";
    assert_eq!(breaks(&before, &with(asked)), [asked]);
}
