use super::*;

/// Nothing is known of what cannot be read: it is neither damaged nor empty.
#[test]
fn a_superblock_that_cannot_be_read_is_no_damaged_one() {
    // Nothing is mapped at the beginning of any process's memory: it reads as EIO.
    let file = File::open("/proc/self/mem").unwrap();
    assert!(try_read_copy(&file, COPY_A_OFFSET).unwrap_err().raw_os_error().is_some());
    let inspected = inspect(file, Path::new("replica"), false, 512);
    assert!(matches!(inspected, Err(Unreadable::System(_))), "{inspected:?}");
}

#[test]
fn a_file_that_ends_before_its_superblock_is_damaged() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("short");
    std::fs::write(&path, [1; 4096]).unwrap();
    let inspected = inspect(File::open(&path).unwrap(), &path, false, 512);
    assert!(matches!(inspected, Err(Unreadable::Content(_))), "{inspected:?}");
}
