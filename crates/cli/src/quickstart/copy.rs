//! Copying files onto the volume and reading them back, with progress.

use std::fs;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::source::{SourceFile, Sum, sum};
use super::store::{Place, Store};
use crate::failure::Failure;
use crate::interrupt::Interrupt;

/// A file that was copied.
#[derive(Debug, Clone)]
pub struct Copied {
    /// Where it came from.
    pub file: SourceFile,
    /// Where it went.
    pub place: Place,
    /// What it held.
    pub sum: Sum,
}

/// What a copy did.
#[derive(Debug, Default)]
pub struct CopyTally {
    /// The files.
    pub copied: Vec<Copied>,
    /// Their bytes.
    pub bytes: u64,
    /// The longest time that one file took.
    pub longest: Duration,
}

/// Copies files, then makes them durable. `before` is called before each, with its index.
///
/// # Errors
/// If the volume does not take one, or by Ctrl-C. A source file that has vanished is left out.
pub fn copy(
    store: &mut dyn Store,
    files: &[SourceFile],
    interrupt: &Interrupt,
    mut before: impl FnMut(usize) -> Result<(), Failure>,
) -> Result<CopyTally, Failure> {
    let bar = bar(files);
    let mut tally = CopyTally::default();
    for (index, file) in files.iter().enumerate() {
        interrupt.check()?;
        before(index)?;
        let Ok(content) = fs::read(&file.path) else { continue };
        let start = Instant::now();
        let place = store.put(file, &content).map_err(|error| failed(file, "copy", &error))?;
        tally.longest = tally.longest.max(start.elapsed());
        tally.bytes += content.len() as u64;
        tally.copied.push(Copied { file: file.clone(), place, sum: sum(&content) });
        bar.inc(file.size);
        bar.set_message(format!("{} files", index + 1));
    }
    bar.set_message("making it durable");
    let start = Instant::now();
    store.flush().map_err(|error| Failure::new("cannot make the data durable", error))?;
    tally.longest = tally.longest.max(start.elapsed());
    bar.finish_and_clear();
    Ok(tally)
}

/// Reads files back and compares their checksums. Returns those that differ.
///
/// # Errors
/// If one cannot be read, or by Ctrl-C.
pub fn check<'a>(
    store: &mut dyn Store,
    copied: &'a [Copied],
    interrupt: &Interrupt,
) -> Result<Vec<&'a Copied>, Failure> {
    let files: Vec<_> = copied.iter().map(|copied| copied.file.clone()).collect();
    let bar = bar(&files);
    let mut wrong = Vec::new();
    for copied in copied {
        interrupt.check()?;
        let found =
            store.get(&copied.place).map_err(|error| failed(&copied.file, "read back", &error))?;
        if sum(&found) != copied.sum {
            wrong.push(copied);
        }
        bar.inc(copied.file.size);
    }
    bar.finish_and_clear();
    Ok(wrong)
}

fn failed(file: &SourceFile, what: &str, error: &std::io::Error) -> Failure {
    Failure::new(format!("cannot {what} {}", file.path.display()), error)
}

/// A progress bar over bytes; hidden off a terminal.
fn bar(files: &[SourceFile]) -> ProgressBar {
    let bar = ProgressBar::new(files.iter().map(|file| file.size).sum());
    let template = "       [{bar:30}] {percent:>3}%  {binary_bytes} of {binary_total_bytes}, \
                    {binary_bytes_per_sec}, {eta} left  {msg}";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}
