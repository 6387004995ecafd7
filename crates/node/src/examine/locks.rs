//! Who has a file locked, told without locking it.

/// The process that has a lock on this file, by the kernel's list of locks.
pub(super) fn holder(device: u64, inode: u64) -> Option<u32> {
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    find(&locks, &format!("{major:02x}:{minor:02x}:{inode}"))
}

/// Lines look like `1: FLOCK  ADVISORY  WRITE 1234 08:01:131 0 EOF`.
fn find(locks: &str, file: &str) -> Option<u32> {
    let fields = locks.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let mut holders = fields.filter(|f| f.get(5) == Some(&file) && f.get(1) == Some(&"FLOCK"));
    holders.find_map(|f| f.get(4)?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_of_a_lock_is_found() {
        let locks = "1: POSIX  ADVISORY  WRITE 11 08:01:131 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 12 08:01:131 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 13 08:01:132 0 EOF\n";
        assert_eq!(find(locks, "08:01:131"), Some(12));
        assert_eq!(find(locks, "08:01:132"), None, "it only waits");
    }
}
