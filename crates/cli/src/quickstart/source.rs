//! The real data that a quickstart copies: files of this machine.

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use crate::failure::Failure;

/// Most files that are copied.
const MAX_FILES: usize = 12_000;
/// Larger files are left out: many small ones are the harder test.
const LARGEST_FILE: u64 = 4 << 20;
/// Trees that any Debian has, those with many small files first.
const USUAL: [&str; 4] = ["/usr/include", "/usr/share", "/usr/lib", "/etc"];

/// A checksum.
pub type Sum = [u8; 32];

/// A file to copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFile {
    /// Where it is.
    pub path: PathBuf,
    /// How long it was when it was found.
    pub size: u64,
}

/// Finds files of at most `limit` bytes together, in the given tree or the usual ones.
///
/// # Errors
/// If there are none.
pub fn find(tree: Option<&Path>, limit: u64) -> Result<Vec<SourceFile>, Failure> {
    let trees: Vec<PathBuf> = match tree {
        Some(tree) => vec![tree.to_owned()],
        None => USUAL.map(PathBuf::from).to_vec(),
    };
    let mut finder = Finder { files: Vec::new(), left: limit };
    for tree in &trees {
        finder.walk(tree);
    }
    if finder.files.is_empty() {
        let names: Vec<_> = trees.iter().map(|tree| tree.display().to_string()).collect();
        return Err(Failure::new(
            "there is no data to copy",
            format!("no readable file in {}", names.join(", ")),
        )
        .advise("name a directory with --data DIR"));
    }
    Ok(finder.files)
}

struct Finder {
    files: Vec<SourceFile>,
    left: u64,
}

impl Finder {
    /// Adds the regular files below a directory, in the order of their names.
    fn walk(&mut self, directory: &Path) {
        let mut waiting = vec![directory.to_owned()];
        while let Some(directory) = waiting.pop() {
            let Ok(entries) = fs::read_dir(&directory) else { continue };
            let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
            paths.sort_unstable();
            for path in paths {
                let Ok(meta) = fs::symlink_metadata(&path) else { continue };
                if meta.is_dir() {
                    waiting.push(path);
                } else if meta.is_file() && !self.add(path, meta.len()) {
                    return;
                }
            }
        }
    }

    /// Whether there is room for more.
    fn add(&mut self, path: PathBuf, size: u64) -> bool {
        if size > 0 && size <= LARGEST_FILE && size <= self.left && fs::File::open(&path).is_ok() {
            self.left -= size;
            self.files.push(SourceFile { path, size });
        }
        self.files.len() < MAX_FILES && self.left > LARGEST_FILE
    }
}

/// The checksum of some content.
pub fn sum(content: &[u8]) -> Sum {
    Sha256::digest(content).into()
}

#[cfg(test)]
mod tests;
