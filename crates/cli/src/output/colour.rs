//! Colours: only on a terminal, never with `NO_COLOR`, and never the only carrier of meaning.

use std::io::IsTerminal as _;
use std::sync::atomic::{AtomicBool, Ordering};

use anstyle::{AnsiColor, Style};

static ENABLED: AtomicBool = AtomicBool::new(false);

/// Decides from standard output and the environment whether colours are used.
pub fn decide() {
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    ENABLED.store(std::io::stdout().is_terminal() && !refused && !dumb, Ordering::Relaxed);
}

/// Text that can be shown in a colour.
pub trait Painted {
    /// Something as it should be.
    fn good(&self) -> String;
    /// Something that needs no hand, but attention.
    fn warning(&self) -> String;
    /// Something that needs a hand.
    fn bad(&self) -> String;
    /// Something that matters.
    fn bold(&self) -> String;
    /// Something that matters less.
    fn dim(&self) -> String;
}

impl<T: AsRef<str> + ?Sized> Painted for T {
    fn good(&self) -> String {
        paint(AnsiColor::Green.on_default(), self.as_ref())
    }

    fn warning(&self) -> String {
        paint(AnsiColor::Yellow.on_default(), self.as_ref())
    }

    fn bad(&self) -> String {
        paint(AnsiColor::Red.on_default().bold(), self.as_ref())
    }

    fn bold(&self) -> String {
        paint(Style::new().bold(), self.as_ref())
    }

    fn dim(&self) -> String {
        paint(Style::new().dimmed(), self.as_ref())
    }
}

fn paint(style: Style, text: &str) -> String {
    if text.is_empty() || !ENABLED.load(Ordering::Relaxed) {
        return text.to_owned();
    }
    format!("{style}{text}{style:#}")
}

/// Columns that the text takes on a terminal, colours left out.
pub fn width(text: &str) -> usize {
    let mut columns = 0;
    let mut in_escape = false;
    for c in text.chars() {
        match (in_escape, c) {
            (false, '\u{1b}') => in_escape = true,
            (true, 'm') => in_escape = false,
            (false, _) => columns += 1,
            (true, _) => {}
        }
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_take_no_columns() {
        assert_eq!(width("in-sync"), 7);
        assert_eq!(width("\u{1b}[32min-sync\u{1b}[0m"), 7);
    }
}
