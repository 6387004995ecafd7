//! A text to be searched, and where in it something stands.

use std::sync::LazyLock;

use regex::Regex;

/// Longest line that can be a title.
const MAX_TITLE_LENGTH: usize = 100;

/// A text, cleaned of what a PDF's conversion strews into it, byte for byte in place.
#[derive(Debug)]
pub struct Document {
    text: String,
    /// Where each line begins.
    lines: Vec<usize>,
}

static MARKDOWN: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^#{1,6} +\S").ok());
static NUMBERED: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^\d{1,2}(\.\d{1,2}){1,3}\.?\s+[A-Za-z0-9]").ok());
static ITEM: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\d+\)\.?\s*\S").ok());
static NOISE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?x) = | ^\s*[|\#>~\[\]{}()<*+-] | : \s*\# | records\ (in|out) | ^\s*(real|user|sys|SVS)\b
          | copied, | ^\S+\s\d | \d:\d\d | MB/sec | K/sec | ^Timing | Performance\ Test\ of | ^Jobs?: | ^Starting | ^fio | ^/dev/
          | ^Version | ^Latency | ^Machine | ^Concurrency | ^(Writing|Rewriting|Reading|Using)\b | ^start\ 'em
          | ^(Commands?|Output):?$ | ^done | ^(for|do|dd|sudo|hdparm|bonnie|mkfs)\b | ^Run\ status | ^Disk\ stats
          | [;\\$@] | ^\.\.\. | ^\W*$ | ^Personalities | ^unused | ^bitmap | \#\s | Laying\ out | ^time\b | \#$ | ^\s*\d",
    )
    .ok()
});

fn matches(pattern: &LazyLock<Option<Regex>>, text: &str) -> bool {
    pattern.as_ref().is_some_and(|pattern| pattern.is_match(text))
}

impl Document {
    /// Takes a text. Dollar signs, backslashes and backquotes, which conversions to Markdown add,
    /// become blanks; all else keeps its place.
    pub fn new(text: &str) -> Self {
        let mut before = '\n';
        let mut clean = String::with_capacity(text.len());
        for c in text.chars() {
            // A dollar sign within a word is one of the shell's.
            let strewn = match c {
                '$' => before.is_whitespace() || !before.is_ascii_punctuation(),
                other => matches!(other, '\\' | '`' | '\r' | '\u{c}'),
            };
            clean.push(if strewn { ' ' } else { c });
            before = c;
        }
        let text = clean;
        let starts = text.match_indices('\n').map(|(at, _)| at + 1);
        let lines = std::iter::once(0).chain(starts).collect();
        Self { text, lines }
    }

    /// The cleaned text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The line of a position, counted from 1.
    pub fn line(&self, at: usize) -> usize {
        self.lines.partition_point(|start| *start <= at)
    }

    /// The text of a line, counted from 1; empty if there is none.
    pub fn line_text(&self, line: usize) -> &str {
        let Some(start) = line.checked_sub(1).and_then(|index| self.lines.get(index)) else {
            return "";
        };
        let end = self.lines.get(line).map_or(self.text.len(), |next| next - 1);
        &self.text[*start..end]
    }

    /// Number of lines.
    pub fn line_count(&self) -> usize {
        self.lines.len()
    }

    /// What stands above a position as its title: headings of up to three levels.
    pub fn title_before(&self, at: usize) -> String {
        let (mut chapter, mut item, mut near) = (None, None, None);
        for line in (1..=self.line(at)).rev() {
            let text = self.line_text(line).trim();
            let heading =
                matches(&MARKDOWN, text) && !text.starts_with("# ") && !text.ends_with('#');
            if heading || matches(&NUMBERED, text) {
                chapter = Some(text.trim_start_matches('#').trim());
                break;
            }
            // A single `#` is also the prompt of root: only without anything like a command.
            if let Some(heading) = text.strip_prefix("# ")
                && !matches(&NOISE, heading)
                && heading.split_whitespace().count() < 8
            {
                chapter = Some(heading.trim());
                break;
            }
            if item.is_none() && matches(&ITEM, text) && text.len() < MAX_TITLE_LENGTH {
                item = Some(text);
            } else if near.is_none() && item.is_none() && is_title(text) {
                near = Some(text);
            }
        }
        let parts = [chapter, item, near].into_iter().flatten();
        parts.map(|part| part.trim_end_matches(':').trim()).collect::<Vec<_>>().join(" › ")
    }
}

/// Whether a line looks like something that a person wrote above a result.
fn is_title(line: &str) -> bool {
    line.len() > 2
        && line.len() < MAX_TITLE_LENGTH
        && line.chars().any(char::is_alphabetic)
        && !line.ends_with('.')
        && !matches(&NOISE, line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_have_lines_and_titles() {
        let text = "# Results\n\n## Local disk\n\nRead:\n# dd if=/x of=/y\n100 bytes\n";
        let document = Document::new(text);
        let at = text.find("100").unwrap();
        assert_eq!(document.line(at), 7);
        assert_eq!(document.line_text(7), "100 bytes");
        assert_eq!(document.title_before(at), "Local disk › Read");
        assert_eq!(document.line_text(99), "");
    }

    #[test]
    fn a_conversions_signs_become_blanks() {
        assert_eq!(Document::new(r"$|\ 99.00th = [\ 1]").text(), r" |  99.00th = [  1]");
        assert_eq!(Document::new("of=$DEVICE").text(), "of=$DEVICE");
    }
}
