//! The kernel's table of mounts.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// One mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Major and minor number of the device, as `major:minor`.
    pub device: String,
    /// The mount point.
    pub directory: PathBuf,
    /// The type of the filesystem.
    pub filesystem_type: String,
    /// What is mounted: mostly the path of a device.
    pub source: PathBuf,
}

/// The mounts that this process sees.
pub fn own() -> io::Result<Vec<Mount>> {
    read(Path::new("/proc/self/mountinfo"))
}

/// The mounts in a file of the form of `/proc/PID/mountinfo`.
pub fn read(file: &Path) -> io::Result<Vec<Mount>> {
    let text = fs::read(file)?;
    Ok(text.split(|byte| *byte == b'\n').filter_map(parse_line).collect())
}

/// Reads one line: `36 35 98:0 /root /directory options - type source options`.
fn parse_line(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ');
    let device = fields.nth(2)?;
    let directory = fields.nth(1)?;
    let mut rest = fields.skip_while(|field| *field != b"-").skip(1);
    Some(Mount {
        device: String::from_utf8_lossy(device).into_owned(),
        directory: unescape(directory),
        filesystem_type: String::from_utf8_lossy(rest.next()?).into_owned(),
        source: unescape(rest.next()?),
    })
}

/// Undoes the kernel's escapes of space, tab, newline and backslash: `\040` and the like.
fn unescape(text: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, tail @ ..] = rest {
        let escape = tail.get(..3).filter(|_| *first == b'\\');
        let value =
            escape.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        bytes.push(value.unwrap_or(*first));
        rest = if value.is_some() { &tail[3..] } else { tail };
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests;
