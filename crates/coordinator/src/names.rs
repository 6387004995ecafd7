//! Names as they come from other nodes, or from a database: none that is not held to the rule.

use evenkeel_format::{NAME_RULE, is_name};
use serde::de::{Deserialize, Deserializer, Error};

/// Reads a name, for `#[serde(deserialize_with)]`.
///
/// # Errors
/// If it is none: it would become part of a path, or reach a terminal.
pub(crate) fn read<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let name = String::deserialize(from)?;
    match is_name(&name) {
        true => Ok(name),
        false => Err(D::Error::custom(format_args!("{name:?} is no name: {NAME_RULE}"))),
    }
}

#[cfg(test)]
mod tests {
    use crate::{NodeRecord, Request};

    #[test]
    fn a_member_names_nothing_that_leads_elsewhere_or_speaks_to_a_terminal() {
        let node = |name: &str| {
            serde_json::from_value::<NodeRecord>(serde_json::json!({
                "id": "1", "name": name, "addresses": [], "software": "x",
            }))
        };
        assert!(node("alpha").is_ok());
        for bad in ["../../x", "", "a\u{1b}[2J"] {
            let why = node(bad).unwrap_err().to_string();
            assert!(why.contains("is no name: a name has 1 to 64"), "{why}");
            let rename = Request::Rename { name: bad.to_owned(), replaces: None };
            let text = serde_json::to_string(&rename).unwrap();
            assert!(serde_json::from_str::<Request>(&text).is_err(), "{text}");
        }
    }
}
