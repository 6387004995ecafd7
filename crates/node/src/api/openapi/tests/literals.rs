//! The string literals of a source, as far as this project writes them.

/// All of them, also those that go over several lines; not those in comments and attributes.
pub(super) fn literals(source: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = source;
    while let Some(at) = rest.find(['"', '/', '\'', '#']) {
        let before = rest[..at].chars().next_back();
        let token = &rest[at..];
        rest = match token.as_bytes() {
            [b'/', b'/', ..] => after(token, "\n"),
            [b'#', b'[', ..] | [b'#', b'!', b'[', ..] => after_attribute(token),
            [b'"', ..] if before == Some('r') => {
                let (literal, rest) = token[1..].split_once('"').unwrap_or((&token[1..], ""));
                found.push(literal.to_owned());
                rest
            }
            [b'"', ..] => {
                let (literal, rest) = escaped(&token[1..]);
                found.push(literal);
                rest
            }
            [b'\'', b'\\', ..] => token.get(3..).unwrap_or_default(),
            [b'\'', b'"', b'\'', ..] => &token[3..],
            _ => &token[1..],
        };
    }
    found
}

fn after<'a>(text: &'a str, end: &str) -> &'a str {
    text.split_once(end).map_or("", |(_, rest)| rest)
}

/// An attribute ends where as many brackets are closed as were opened; in a literal they do not
/// count.
fn after_attribute(text: &str) -> &str {
    let (mut depth, mut rest) = (0, text);
    while let Some(at) = rest.find(['[', ']', '"']) {
        let token = rest.as_bytes()[at];
        rest = &rest[at + 1..];
        match token {
            b'"' => rest = escaped(rest).1,
            b'[' => depth += 1,
            _ if depth == 1 => return rest,
            _ => depth -= 1,
        }
    }
    ""
}

/// What stands up to the end of a literal, with its lines joined, and what follows that.
fn escaped(text: &str) -> (String, &str) {
    let (mut literal, mut rest) = (String::new(), text);
    loop {
        let Some(at) = rest.find(['"', '\\']) else { return (literal + rest, "") };
        literal.push_str(&rest[..at]);
        let is_end = rest.as_bytes()[at] == b'"';
        rest = &rest[at + 1..];
        if is_end {
            return (literal, rest);
        }
        let Some(escape) = rest.chars().next() else { return (literal, "") };
        rest = &rest[escape.len_utf8()..];
        match escape {
            // The line goes on in the next one, after its blanks.
            '\n' => rest = rest.trim_start(),
            'n' => literal.push('\n'),
            other => literal.push(other),
        }
    }
}

#[test]
fn literals_are_found_and_their_lines_joined() {
    let source = r##"
        //! a "comment"
        #[serde(rename = "x", default = "y[")] // another
        let (a, b): (&'static str, char) = ("one \"two\"", '"');
        let c = ['\'', '\n', 'x'];
        let d = "three \
            four"; let e = r"five";
    "##;
    assert_eq!(literals(source), ["one \"two\"", "three four", "five"]);
}
