use super::*;

#[test]
fn users_are_named() {
    let users = vec![
        User::Mount { directory: PathBuf::from("/srv"), process: None },
        User::Process { process: 9, name: "tail".to_owned() },
    ];
    let error = AttachError::InUse { device: PathBuf::from("/dev/loop3"), users };
    assert_eq!(
        error.to_string(),
        "/dev/loop3 is in use (mounted at /srv, open in process 9 (tail)): unmount or close it first"
    );
}
