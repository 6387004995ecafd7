//! Text from nodes and disks, before a terminal sees it.
//!
//! Whoever runs a node or prepares a disk chooses what names and messages say. A terminal takes
//! control characters for commands, which may hide lines, change its title or send back what it was
//! told.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The text without control characters: each is shown as `�`. Lines and tabs stay.
pub fn text(text: &str) -> String {
    let shown = |c: char| if c.is_control() && !matches!(c, '\n' | '\t') { '\u{fffd}' } else { c };
    text.chars().map(shown).collect()
}

/// Reads JSON of which every text is harmless.
///
/// # Errors
/// If it is no JSON, or of another shape.
pub fn read<T: DeserializeOwned>(json: &[u8]) -> Result<T, serde_json::Error> {
    let mut value = serde_json::from_slice(json)?;
    clean(&mut value);
    serde_json::from_value(value)
}

/// The same value with all of its texts harmless.
///
/// # Errors
/// If it can't be written as JSON.
pub fn copy<T: Serialize + DeserializeOwned>(of: &T) -> Result<T, serde_json::Error> {
    let mut value = serde_json::to_value(of)?;
    clean(&mut value);
    serde_json::from_value(value)
}

fn clean(value: &mut Value) {
    match value {
        Value::String(said) if said.contains(char::is_control) => *said = text(said),
        Value::Array(values) => values.iter_mut().for_each(clean),
        Value::Object(fields) => fields.values_mut().for_each(clean),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_api::ApiError;

    use super::*;

    #[test]
    fn what_a_node_says_gives_a_terminal_no_commands() {
        let body = br#"{"code": "system", "what": "a\u001b]0;title\u0007b", "why": "1\n2\t3", "do": "\u009b2J"}"#;
        let read: ApiError = read(body).unwrap();
        assert_eq!(read.what, "a\u{fffd}]0;title\u{fffd}b");
        assert_eq!((read.why.as_str(), read.action.as_str()), ("1\n2\t3", "\u{fffd}2J"));
        assert_eq!(copy(&read).unwrap(), read);
    }
}
