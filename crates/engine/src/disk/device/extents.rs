//! Which parts of a file hold data, as its filesystem tells.

use std::io;

use evenkeel_core::Extent;
use evenkeel_core::settings::MAX_EXTENTS;

use super::io::Access;

/// The extents of this range of the file, the first [`MAX_EXTENTS`] of them.
pub(in crate::disk) fn extents_of(
    file: &impl Access,
    start: u64,
    length: u64,
) -> io::Result<Vec<Extent>> {
    let end = start + length;
    let mut extents = Vec::new();
    let mut at = start;
    while at < end && extents.len() < MAX_EXTENTS {
        let data = file.next_data(at)?.unwrap_or(end).clamp(at, end);
        let allocated = data == at;
        let until =
            if allocated { file.next_hole(at)?.unwrap_or(end).clamp(at, end) } else { data };
        if until == at {
            // The file changed between the two questions: call the rest data, which is never wrong.
            extents.push(Extent { length: end - at, allocated: true });
            break;
        }
        extents.push(Extent { length: until - at, allocated });
        at = until;
    }
    Ok(extents)
}

/// Where data may begin, at this byte or later; `u64::MAX`: there are none up to the end of the
/// file. Of a file or device that can't tell, all may be data.
pub(in crate::disk) fn next_data(file: &impl Access, from: u64) -> u64 {
    file.next_data(from).map_or(from, |data| data.unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;

    use super::*;

    /// A replica that was just made has nothing behind its data: none of that need be read.
    #[test]
    fn a_hole_up_to_the_end_of_a_file_is_no_data() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(64 << 20).unwrap();
        assert_eq!(next_data(&file, 0), u64::MAX);
        file.write_all_at(&[1; 4096], 32 << 20).unwrap();
        assert!((4096..=32 << 20).contains(&next_data(&file, 4096)));
        assert_eq!(next_data(&file, 33 << 20), u64::MAX);
        assert_eq!(next_data(&file, 65 << 20), u64::MAX);
    }
}
