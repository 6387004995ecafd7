//! Text from nodes and disks, before a terminal sees it.
//!
//! Whoever runs a node or prepares a disk chooses what names and messages say. A terminal takes
//! control characters for commands, which may hide lines, change its title or send back what it was
//! told. Characters that nobody sees turn the order of others around, or make two names look alike.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The text without characters that a terminal obeys or does not show: each is shown as `�`. Lines
/// and tabs stay.
pub fn text(text: &str) -> String {
    let is_kept = |c: char| matches!(c, '\n' | '\t') || !is_harmful(c);
    text.chars().map(|c| if is_kept(c) { c } else { '\u{fffd}' }).collect()
}

/// Whether it is a control character, or one that has no width or turns the direction of writing.
fn is_harmful(c: char) -> bool {
    let is_unseen = matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}');
    is_unseen || c.is_control()
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
        Value::String(said) if said.contains(is_harmful) => *said = text(said),
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

    #[test]
    fn nothing_is_turned_around_or_unseen() {
        let body = serde_json::json!({
            "code": "system", "what": "n1\u{200b}", "why": "a\u{202e}b", "do": "é 漢 עברית",
        });
        let read: ApiError = read(body.to_string().as_bytes()).unwrap();
        assert_eq!((read.what.as_str(), read.why.as_str()), ("n1\u{fffd}", "a\u{fffd}b"));
        assert_eq!(read.action, "é 漢 עברית");
    }
}
