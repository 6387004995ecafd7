//! What a name of a volume, node, disk or cluster may be.

use evenkeel_core::VolumeId;

/// The rule that names follow, as error messages state it.
pub const NAME_RULE: &str =
    "a name has 1 to 64 letters, digits, '-', '_' and '.', and begins with a letter or digit";
/// The same as [`is_new_name`] has it, for people.
pub const NEW_NAME_RULE: &str = "a name has 1 to 64 letters, digits, '-', '_' and '.', begins with a letter or digit, and is no identity (32 hexadecimal digits)";

/// Whether a text is a name as [`NAME_RULE`] says. Such names are safe in paths, URLs, shells and
/// on terminals; one that comes from a disk or another node is none before this was asked.
#[must_use]
pub fn is_name(text: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    (1..=64).contains(&text.len())
        && text.bytes().all(fits)
        && text.as_bytes()[0].is_ascii_alphanumeric()
}

/// Whether a volume or a node may be given this name: one that is written as an identity could be
/// that of another one, and would be asked for in its place.
#[must_use]
pub fn is_new_name(text: &str) -> bool {
    is_name(text) && text.parse::<VolumeId>().is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_nowhere_and_says_nothing_to_a_terminal() {
        for good in ["a", "7", "web-1.example_x", &"x".repeat(64)] {
            assert!(is_name(good), "{good}");
        }
        for bad in [
            "",
            ".",
            "..",
            "../../x",
            "a/b",
            ".hidden",
            "-x",
            "a b",
            "a\u{1b}[2J",
            "ä",
            "a\0",
            &"x".repeat(65),
        ] {
            assert!(!is_name(bad), "{bad:?}");
        }
    }

    #[test]
    fn no_new_name_is_written_as_an_identity() {
        for good in ["web", &"a".repeat(31), &"a".repeat(33), &"g".repeat(32)] {
            assert!(is_new_name(good), "{good}");
        }
        let id = VolumeId(0x1234_5678_9abc).to_string();
        for bad in [&id, &id.replace('-', ""), &id.to_uppercase(), "-x"] {
            assert!(!is_new_name(bad), "{bad}");
        }
    }
}
