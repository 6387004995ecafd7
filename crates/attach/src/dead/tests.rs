use std::fs::File;

use super::*;
use crate::fuse::mount::FILE_NAME;

fn text(device: &DeadDevice) -> String {
    serde_json::to_string(device).unwrap()
}

fn quoted(path: &Path) -> String {
    format!("\"{}\"", path.display())
}

/// A loop device over a file with this name; freed at the end.
struct Loop {
    _directory: tempfile::TempDir,
    path: PathBuf,
}

impl Loop {
    /// `None`: this needs root and loop devices.
    fn over(name: &str) -> Option<Self> {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let file = directory.path().join(name);
        File::create_new(&file).unwrap().set_len(1 << 20).unwrap();
        match loop_device::configure(&file, 512) {
            Ok(number) => {
                Some(Self { _directory: directory, path: loop_device::device_path(number) })
            }
            Err(error) => {
                eprintln!("skipped: no loop device can be made: {error}");
                None
            }
        }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        loop_device::clear_open(&File::open(&self.path).unwrap()).unwrap();
    }
}

/// Whether a device that was noted so keeps others from being made.
fn is_refused(noted: &str) -> bool {
    let directory = tempfile::tempdir().unwrap();
    let place =
        Place { runtime: directory.path().join("run"), devices: directory.path().join("dev") };
    std::fs::create_dir(&place.runtime).unwrap();
    std::fs::write(place.runtime.join("v1.dead"), format!("[{noted}]")).unwrap();
    let refused = refuse_now(&place, "v1");
    assert_eq!(place.dead("v1").is_empty(), refused.is_ok(), "what is another's is forgotten");
    refused.is_err()
}

#[test]
fn a_device_that_another_program_has_got_is_not_the_dead_one() {
    let Some(others) = Loop::over("image") else { return };
    let by_path = quoted(&others.path);
    assert!(!is_refused(&by_path), "its file is no volume's");
    assert!(!is_refused(&text(&DeadDevice::now(&others.path))));
}

#[test]
fn a_device_that_has_its_volumes_file_is_the_dead_one_if_nothing_was_counted_since() {
    let Some(dead) = Loop::over(FILE_NAME) else { return };
    assert!(is_refused(&quoted(&dead.path)), "as older software has noted it");
    let known = DeadDevice::now(&dead.path);
    assert!(is_refused(&text(&known)));
    let Some(sequence) = loop_device::shown_sequence(loop_device::number_of(&dead.path).unwrap())
    else {
        return;
    };
    let before = DeadDevice::counted(&dead.path, Some(sequence - 1));
    assert!(!is_refused(&text(&before)), "another one had its name then");
    let last_boot = format!("\"{}@{sequence}@of-another-boot\"", dead.path.display());
    assert!(!is_refused(&last_boot));
}
