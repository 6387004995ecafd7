use std::collections::BTreeSet;
use std::path::Path;

use super::*;

mod literals;
mod schema;

use literals::literals;

/// Names of the API's fields: of requests and queries, and of the rest.
struct Fields {
    asked: BTreeSet<String>,
    all: BTreeSet<String>,
}

fn fields() -> Fields {
    let document: serde_json::Value = serde_json::from_str(&json().unwrap()).unwrap();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let of = |is_wanted: &dyn Fn(&str) -> bool| -> BTreeSet<String> {
        let wanted = schemas.iter().filter(|(name, _)| is_wanted(name));
        let properties = wanted.filter_map(|(_, schema)| schema["properties"].as_object());
        properties.flat_map(|p| p.keys().cloned()).collect()
    };
    let mut asked = of(&|name| name.ends_with("Request"));
    let parameters = document["paths"].as_object().unwrap().values();
    let parameters = parameters.flat_map(|path| path.as_object().unwrap().values());
    let parameters = parameters.filter_map(|method| method["parameters"].as_array()).flatten();
    let in_query = parameters.filter(|parameter| parameter["in"] == "query");
    asked.extend(in_query.filter_map(|p| p["name"].as_str().map(str::to_owned)));
    Fields { all: of(&|_| true).union(&asked).cloned().collect(), asked }
}

impl Fields {
    /// The fields that a text names to whoever reads it.
    ///
    /// Those with `_` are no words of the language. What has none is one, too; it is meant as the
    /// field where it is quoted, where a part follows it after a dot, and where the text is about
    /// it: "force does not help".
    fn named_in<'a>(&self, text: &'a str) -> Vec<&'a str> {
        let words = || text.split(|c: char| !c.is_alphanumeric() && c != '_');
        let is_field = |word: &&str| word.contains('_') && self.all.contains(*word);
        let mut named: Vec<&str> = words().filter(is_field).collect();
        let dotted = |part: &str| {
            let (field, rest) = part.trim_end_matches('.').split_once('.')?;
            let is_one = self.asked.contains(field) && self.all.contains(rest);
            is_one.then_some(())
        };
        named.extend(text.split_whitespace().filter(|part| dotted(part).is_some()));
        let quoted = text.split('`').skip(1).step_by(2);
        named.extend(quoted.filter(|quoted| self.asked.contains(*quoted)));
        if let Some((first, rest)) = text.split_once(' ')
            && self.asked.contains(first)
            && SAYS.iter().any(|says| rest.starts_with(says))
        {
            named.push(first);
        }
        named
    }
}

/// What follows the name of an option if a text is about that, and not about what it is named
/// after.
const SAYS: [&str; 6] = ["does ", "do ", "and ", "needs ", "cannot ", "is for "];

fn look(directory: &Path, fields: &Fields, found: &mut Vec<String>) -> usize {
    let mut sources = 0;
    for path in std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            // Keys of the configuration are what people write there.
            let is_left_out = path.ends_with("tests") || path.ends_with("config");
            sources += if is_left_out { 0 } else { look(&path, fields, found) };
        } else if path.extension().is_some_and(|e| e == "rs") && !path.ends_with("tests.rs") {
            sources += 1;
            let text = std::fs::read_to_string(&path).unwrap();
            // A query is for a node, and not for people.
            for literal in literals(&text).into_iter().filter(|text| !text.starts_with('?')) {
                // What stands in braces is put in by the program.
                let plain = literal.split('{').map(|p| p.rsplit('}').next().unwrap_or_default());
                let plain = plain.collect::<Vec<_>>().join("?");
                let named = fields.named_in(&plain);
                found.extend(named.iter().map(|w| format!("{}: {w}: {literal}", path.display())));
            }
        }
    }
    sources
}

#[test]
fn a_field_is_found_wherever_a_text_names_it() {
    let fields = fields();
    let named = |text| fields.named_in(text);
    assert_eq!(named("give allow_same_node"), ["allow_same_node"]);
    assert_eq!(named("lease_ms"), ["lease_ms"]);
    assert_eq!(named("no_data.seconds"), ["no_data", "no_data.seconds"]);
    assert_eq!(named("no_data.seconds is 0"), ["no_data", "no_data.seconds"]);
    assert_eq!(named("force does not help"), ["force"]);
    assert_eq!(named("what is saved is what `keep` overwrites"), ["keep"]);
    for right in ["--force does not help", "volume is gone", "size of a disk"] {
        assert!(named(right).is_empty(), "{right}: {:?}", named(right));
    }
}

#[test]
fn what_people_read_names_options_of_the_command_and_not_fields_of_the_api() {
    let fields = fields();
    assert!(fields.all.contains("allow_same_node") && fields.all.len() > 100, "{:?}", fields.all);
    let (mut found, mut sources) = (Vec::new(), 0);
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for part in ["api", "node", "attach", "exports", "engine"] {
        sources += look(&crates.join(part).join("src"), &fields, &mut found);
    }
    assert!(sources > 150, "only {sources} files were looked at");
    assert!(found.is_empty(), "{}", found.join("\n"));
}
