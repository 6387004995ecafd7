use super::*;

#[test]
fn a_line_is_read() {
    let line = b"36 35 7:3 / /mnt/with\\040space rw,noatime shared:1 - xfs /dev/loop3 rw,attr2";
    let mount = parse_line(line).unwrap();
    assert_eq!(mount.device, "7:3");
    assert_eq!(mount.directory, Path::new("/mnt/with space"));
    assert_eq!(mount.filesystem_type, "xfs");
    assert_eq!(mount.source, Path::new("/dev/loop3"));
}

#[test]
fn a_backslash_that_begins_no_escape_stays() {
    assert_eq!(unescape(b"a\\b\\134c\\0"), Path::new("a\\b\\c\\0"));
}

#[test]
fn lines_that_make_no_sense_are_skipped() {
    assert_eq!(parse_line(b""), None);
    assert_eq!(parse_line(b"1 2 3 4"), None);
    assert_eq!(parse_line(b"1 2 3:4 / /x rw - xfs"), None);
}

#[test]
fn this_process_has_a_root() {
    assert!(own().unwrap().iter().any(|mount| mount.directory == Path::new("/")));
}
