//! Whether files are the same, byte for byte, over a range. Holes are read as zeroes, and passed
//! over where all files have one.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{SeekFrom, seek};

/// Bytes compared at once.
const PIECE: u64 = 1 << 20;

/// What a comparison found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Bytes that at least one file really holds, and that were read from all.
    pub read: u64,
    /// Where the first difference is, counted from the start of the range, and in which file.
    pub difference: Option<(u64, PathBuf)>,
}

/// Compares `length` bytes from `start` in all files with the first one.
///
/// # Errors
/// If one cannot be read.
pub fn compare(paths: &[PathBuf], start: u64, length: u64) -> io::Result<Verdict> {
    let files: Vec<File> = paths.iter().map(File::open).collect::<io::Result<_>>()?;
    let end = start + length;
    let mut verdict = Verdict { read: 0, difference: None };
    let mut at = next_data(&files, start)?;
    while at < end {
        let piece = PIECE.min(end - at);
        if let Some((offset, index)) = differ(&files, at, piece)? {
            verdict.difference = Some((at + offset - start, paths[index].clone()));
            return Ok(verdict);
        }
        verdict.read += piece;
        at = next_data(&files, at + piece)?;
    }
    Ok(verdict)
}

/// The first place at or after `at` where any file holds data.
fn next_data(files: &[File], at: u64) -> io::Result<u64> {
    let mut first = u64::MAX;
    for file in files {
        match seek(file, SeekFrom::Data(at)) {
            Ok(data) => first = first.min(data),
            Err(rustix::io::Errno::NXIO) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(first)
}

/// The place of the first difference in a piece, and the file that differs from the first.
fn differ(files: &[File], at: u64, length: u64) -> io::Result<Option<(u64, usize)>> {
    let expected = read(&files[0], at, length)?;
    for (index, file) in files.iter().enumerate().skip(1) {
        let found = read(file, at, length)?;
        if found != expected {
            let offset = expected.iter().zip(&found).take_while(|(a, b)| a == b).count();
            return Ok(Some((offset as u64, index)));
        }
    }
    Ok(None)
}

/// What lies beyond the end of a file reads as zeroes too.
fn read(file: &File, at: u64, length: u64) -> io::Result<Vec<u8>> {
    let mut content = vec![0; usize::try_from(length).unwrap_or(0)];
    let mut filled = 0;
    while filled < content.len() {
        match file.read_at(&mut content[filled..], at + filled as u64)? {
            0 => break,
            count => filled += count,
        }
    }
    Ok(content)
}

/// Bytes that a file takes on its disk.
pub fn allocated(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(path).map_or(0, |meta| meta.blocks() * 512)
}

#[cfg(test)]
mod tests;
