use std::os::unix::fs::FileExt as _;

use super::super::replica_file::open_direct;
use super::*;
use rustix::fs::OFlags;

struct Image(tempfile::NamedTempFile);

impl Image {
    fn new() -> Self {
        let file = tempfile::NamedTempFile::new_in("/var/tmp").unwrap();
        file.as_file().set_len(4 << 20).unwrap();
        Self(file)
    }

    fn open(&self) -> File {
        open_direct(self.0.path(), OFlags::empty()).unwrap()
    }

    fn damage(&self, copy: usize) {
        self.0.as_file().write_all_at(&[1; 512], DISK_MARK_OFFSETS[copy] + 1024).unwrap();
    }
}

#[test]
fn a_device_is_known_again_by_either_copy_of_its_mark_and_no_other_is() {
    let (image, other) = (Image::new(), Image::new());
    let path = image.0.path();
    let mut identity = DeviceIdentity::take(&image.open(), path).unwrap();
    for copy in 0..2 {
        image.damage(copy);
        assert!(identity.recognise(&image.open(), path).unwrap(), "copy {copy}");
    }
    assert!(identity.is_at(path), "both were written anew");
    assert!(!identity.recognise(&other.open(), other.0.path()).unwrap());
    DeviceIdentity::take(&other.open(), other.0.path()).unwrap();
    assert!(!identity.is_at(other.0.path()));
    image.damage(0);
    image.damage(1);
    assert!(!identity.recognise(&image.open(), path).unwrap());
}

#[test]
fn a_device_keeps_the_mark_that_it_has() {
    let image = Image::new();
    let first = DeviceIdentity::take(&image.open(), image.0.path()).unwrap();
    image.0.as_file().set_len(8 << 20).unwrap();
    let again = DeviceIdentity::take(&image.open(), image.0.path()).unwrap();
    assert!(first.has_mark_of(&again));
    assert_eq!(again.size, 8 << 20);
}

/// A device of older software has no mark. It gets one only where nothing is overwritten by that.
#[test]
fn what_lies_where_a_mark_would_is_not_overwritten() {
    let (blank, used) = (Image::new(), Image::new());
    assert!(DeviceIdentity::adopt(&blank.open(), blank.0.path()).unwrap().is_some());
    used.damage(1);
    assert_eq!(DeviceIdentity::adopt(&used.open(), used.0.path()).unwrap(), None);
    assert!(Marks::read(&used.open()).unwrap().mark().is_none());
}

#[test]
fn it_is_remembered_as_text() {
    let identity = DeviceIdentity { mark: 7, size: 4096, serial: None };
    let text = serde_json::to_string(&identity).unwrap();
    assert_eq!(text, r#"{"mark":"00000000000000000000000000000007","size":4096}"#);
    assert_eq!(serde_json::from_str::<DeviceIdentity>(&text).unwrap(), identity);
}
