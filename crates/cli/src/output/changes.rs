//! What somebody who watches volumes sees: a page that is drawn anew, or a line for each change.

use std::collections::BTreeMap;

use evenkeel_api::types::VolumeStatus;
use jiff::Zoned;
use rustix::termios::tcgetwinsize;

use super::volume::line;

/// What is said of a volume that only the coordinator knows.
const UNLISTED: &str =
    "unknown: the coordinator does not answer, and nothing of this volume is on this node";

/// What was shown last of each volume, to tell what has changed.
#[derive(Debug, Default)]
pub struct Changes {
    shown: BTreeMap<String, String>,
    failed: bool,
}

impl Changes {
    /// A line with the time for each volume that is new, has changed or has gone. `is_complete`:
    /// the coordinator has answered; without it a volume that is not listed is not gone.
    pub fn of(&mut self, volumes: &[VolumeStatus], is_complete: bool) -> String {
        let again = std::mem::take(&mut self.failed)
            .then(|| format!("{} the node answers again\n", timestamp()));
        let mut now: BTreeMap<String, String> =
            volumes.iter().map(|volume| (volume.name.clone(), line(volume))).collect();
        if !is_complete {
            for name in self.shown.keys() {
                now.entry(name.clone()).or_insert_with(|| UNLISTED.to_owned());
            }
        }
        let changed = now.iter().filter(|(name, line)| self.shown.get(*name) != Some(line));
        let gone = self.shown.keys().filter(|name| !now.contains_key(*name));
        let lines: String = changed
            .map(|(name, line)| format!("{name} {line}"))
            .chain(gone.map(|name| format!("{name} is gone")))
            .map(|line| format!("{} {line}\n", timestamp()))
            .collect();
        self.shown = now;
        again.unwrap_or_default() + &lines
    }

    /// A line that the volumes cannot be seen, the first time in a row.
    pub fn failure(&mut self, error: &str) -> String {
        if std::mem::replace(&mut self.failed, true) {
            return String::new();
        }
        // Whatever it is when it can be seen again is worth a line.
        self.shown.clear();
        format!("{} {}\n", timestamp(), error.trim_end().replace('\n', "; "))
    }
}

/// A page in the place of the last one, below the time. Each line overwrites the one that stood
/// there, so that nothing flickers. What the window is too small for is left out at its end.
pub fn redrawn(page: &str) -> String {
    let window = tcgetwinsize(std::io::stdout()).ok();
    let window = window.map(|size| (usize::from(size.ws_row), usize::from(size.ws_col)));
    drawn(page, window.filter(|(rows, columns)| *rows > 0 && *columns > 0))
}

fn drawn(page: &str, window: Option<(usize, usize)>) -> String {
    let time = Zoned::now().strftime("%H:%M:%S").to_string();
    let page =
        window.map_or_else(|| page.to_owned(), |(rows, columns)| fitting(page, rows, columns));
    let lines: String = page.lines().map(|line| format!("{line}\u{1b}[K\n")).collect();
    format!("\u{1b}[H{time}, Ctrl-C ends\u{1b}[K\n\u{1b}[K\n{lines}\u{1b}[J")
}

/// As much of a page as a window of so many rows and columns has room for.
fn fitting(page: &str, rows: usize, columns: usize) -> String {
    // Above are the time and an empty row, below is the cursor's.
    let room = rows.saturating_sub(3);
    let heights: Vec<usize> =
        page.lines().map(|line| columns_of(line).div_ceil(columns).max(1)).collect();
    if heights.iter().sum::<usize>() <= room {
        return page.to_owned();
    }
    let mut used = 1; // For the last line.
    let fits = |height: &&usize| {
        used += **height;
        used <= room
    };
    let shown = heights.iter().take_while(fits).count();
    let mut lines: Vec<String> = page.lines().take(shown).map(str::to_owned).collect();
    let left = heights.len() - shown;
    lines.push(format!("… and {left} more lines, for a larger window"));
    lines.join("\n")
}

/// The columns that a line takes, without the bytes that colour it.
fn columns_of(line: &str) -> usize {
    let mut parts = line.split("\u{1b}[");
    let first = parts.next().unwrap_or_default().chars().count();
    let after = |part: &str| part.split_once('m').map_or(0, |(_, text)| text.chars().count());
    first + parts.map(after).sum::<usize>()
}

/// Local time with its offset, as RFC 3339 has it.
fn timestamp() -> String {
    Zoned::now().strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()
}

#[cfg(test)]
mod tests;
