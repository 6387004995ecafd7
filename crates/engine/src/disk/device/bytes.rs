//! Bytes of a file or device, read and written whole by calls that block.

use std::io;

use super::cut_short;
use super::io::Access;
use crate::memory::Pool;

/// What lies beyond the end of the file reads as zeroes.
pub(in crate::disk) fn read_at(
    file: &impl Access,
    offset: u64,
    length: usize,
) -> io::Result<Vec<u8>> {
    let mut memory = Pool::new(0).take(length);
    memory.fill(0);
    let mut done = 0;
    while done < length {
        match file.read_some(&mut memory[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(memory.to_vec())
}

/// Writes bytes, from memory that the disk takes. A flush has to follow.
pub(in crate::disk) fn write_at(file: &impl Access, bytes: &[u8], offset: u64) -> io::Result<()> {
    let mut memory = Pool::new(0).take(bytes.len());
    memory.copy_from_slice(bytes);
    let mut done = 0;
    while done < bytes.len() {
        match file.write_some(&memory[done..], offset + done as u64) {
            Ok(0) => return Err(cut_short()),
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
