use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use rustix::process::{Uid, geteuid};
use rustix::thread::set_thread_uid;
use tokio::net::UnixListener;

use super::*;

/// A user other than the one that runs this.
const OTHER: u32 = 12_345;

/// A path for a socket that any user may make and reach.
fn open_place() -> (tempfile::TempDir, PathBuf) {
    let place = tempfile::tempdir().unwrap();
    std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let path = place.path().join("socket");
    (place, path)
}

/// Does something as another user, on a thread of its own.
fn as_other<T: Send + 'static>(act: impl FnOnce() -> T + Send + 'static) -> T {
    let act = move || {
        set_thread_uid(Uid::from_raw(OTHER)).unwrap();
        act()
    };
    std::thread::spawn(act).join().unwrap()
}

#[tokio::test]
async fn whoever_connects_to_a_unix_socket_is_of_this_node_s_user() {
    let (_place, path) = open_place();
    let listener = UnixListener::bind(&path).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
    let _own = UnixStream::connect(&path).await.unwrap();
    assert!(refuse_other_users(&listener.accept().await.unwrap().0).is_ok());
    if !geteuid().is_root() {
        return;
    }
    let _other = as_other(move || std::os::unix::net::UnixStream::connect(path).unwrap());
    let refused = refuse_other_users(&listener.accept().await.unwrap().0).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
    assert!(refused.to_string().contains("user 12345"), "{refused}");
}

#[tokio::test]
async fn whoever_listens_on_a_unix_socket_is_of_this_node_s_user() {
    let (_place, path) = open_place();
    let own = UnixListener::bind(&path).unwrap();
    assert!(connect(&Address::Unix(path.clone()), None).await.is_ok());
    drop(own);
    if !geteuid().is_root() {
        return;
    }
    std::fs::remove_file(&path).unwrap();
    let at = path.clone();
    let _other = as_other(move || std::os::unix::net::UnixListener::bind(at).unwrap());
    let refused = connect(&Address::Unix(path), None).await.unwrap_err();
    assert!(refused.to_string().contains("user 12345"), "{refused}");
}
