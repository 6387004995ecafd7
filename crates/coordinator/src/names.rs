//! Names, identities and texts that come from other nodes or from a database: deserialising checks
//! each against its rule.

use evenkeel_core::NodeId;
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

/// Reads an identity, of whatever it is.
///
/// # Errors
/// If it is none, or not written as all are: they are compared as texts.
pub(crate) fn read_identity<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let text = String::deserialize(from)?;
    match text.parse().is_ok_and(|id: NodeId| id.to_string() == text) {
        true => Ok(text),
        false => {
            Err(D::Error::custom("an identity was expected: 32 hexadecimal digits, with dashes"))
        }
    }
}

/// Most bytes of a verdict. One of the largest volume, with as many ranges as a primary remembers,
/// has less than half of that.
const MAX_VERDICT: usize = 512 << 10;

/// Reads the verdict of a verify, which is stored with the volume's record.
///
/// # Errors
/// If it is longer than 512 KiB.
pub(crate) fn read_verdict<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<serde_json::Value, D::Error> {
    let verdict = serde_json::Value::deserialize(from)?;
    match verdict.to_string().len() <= MAX_VERDICT {
        true => Ok(verdict),
        false => Err(D::Error::custom("the verdict is too long")),
    }
}

/// Most starts that a start says that it follows: more than a daemon names.
const MAX_BEFORE: usize = 256;

/// Reads the starts that a start follows, the newest first.
///
/// # Errors
/// If there are more than 256.
pub(crate) fn read_before<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u64>, D::Error> {
    let before = Vec::<u64>::deserialize(from)?;
    match before.len() <= MAX_BEFORE {
        true => Ok(before),
        false => Err(D::Error::custom(format_args!("a start follows at most {MAX_BEFORE}"))),
    }
}

/// Most addresses of a node.
const MAX_ADDRESSES: usize = 64;
/// Most bytes of an address: the longest name of a host has 253.
const MAX_ADDRESS: usize = 300;
/// Most bytes of what a node says of its software.
const MAX_SOFTWARE: usize = 64;

fn is_text(text: &str, most: usize) -> bool {
    text.len() <= most && !text.contains(char::is_control)
}

/// Reads the addresses of a node.
///
/// # Errors
/// If there are more than 64, or one is longer than 300 bytes or has control characters.
pub(crate) fn read_addresses<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let addresses = Vec::<String>::deserialize(from)?;
    if addresses.len() > MAX_ADDRESSES {
        return Err(D::Error::custom(format_args!("a node has at most {MAX_ADDRESSES} addresses")));
    }
    match addresses.iter().find(|address| !is_text(address, MAX_ADDRESS)) {
        Some(bad) => Err(D::Error::custom(format_args!("{bad:.80?} is no address of a node"))),
        None => Ok(addresses),
    }
}

/// Reads which software a node says that it has.
///
/// # Errors
/// If that is longer than 64 bytes or has control characters.
pub(crate) fn read_software<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let software = String::deserialize(from)?;
    match is_text(&software, MAX_SOFTWARE) {
        true => Ok(software),
        false => Err(D::Error::custom(format_args!("{software:.80?} is no version of software"))),
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

    #[test]
    fn replicas_and_their_nodes_are_told_by_identities() {
        let good = "00000000-0000-0000-0000-0000000000ab";
        let place = |id: &str, node: &str| {
            let replica = serde_json::json!({"id": id, "mirror": 0, "node": node, "disk": "d"});
            let place = serde_json::json!({"volume": good, "replica": replica, "same_disk": false});
            serde_json::from_value::<Request>(serde_json::json!({"place": place})).map(drop)
        };
        let lost = |id: &str| {
            let copy = serde_json::json!({"id": id, "mirror": 0, "node": "n1", "at": 1});
            let lost = serde_json::json!({"volume": good, "lost": [copy], "revision": 1});
            serde_json::from_value::<Request>(serde_json::json!({"lost": lost})).map(drop)
        };
        place(good, good).unwrap();
        lost(good).unwrap();
        let long = format!("{good}{}", "-".repeat(1 << 20));
        for bad in ["", "ab", &good.replace('-', ""), &good.replace('a', "A"), &long] {
            for refused in [place(bad, good), place(good, bad), lost(bad)] {
                let why = refused.unwrap_err().to_string();
                assert!(why.starts_with("an identity was expected"), "{why}");
            }
        }
    }

    #[test]
    fn a_member_says_of_itself_only_so_much() {
        let node = |addresses: Vec<String>, software: &str| {
            serde_json::from_value::<NodeRecord>(serde_json::json!({
                "id": "1", "name": "alpha", "addresses": addresses, "software": software,
            }))
        };
        let one = |text: &str| vec![text.to_owned()];
        assert!(node(vec!["10.0.0.1:7740".into(); 64], "0.1.0").is_ok());
        for (addresses, software) in [
            (vec!["10.0.0.1:7740".into(); 65], "0.1.0"),
            (one(&"x".repeat(301)), "0.1.0"),
            (one("10.0.0.1:7740\u{1b}[2J"), "0.1.0"),
            (one("10.0.0.1:7740"), "\n"),
            (one("10.0.0.1:7740"), &"x".repeat(65)),
        ] {
            assert!(node(addresses.clone(), software).is_err(), "{addresses:?} {software:?}");
        }
    }
}
