//! Without a thread to be had no worker closes a file that hangs.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::common::hanging::HangingFile;
use crate::common::{Cluster, Shape};
use rustix::process::{Resource, Rlimit, setrlimit};

/// Of whom nothing else runs: the limit does not count for root.
const USER: u32 = 0x4d45_4e44;

/// Makes this thread, and those that it starts, one of that user.
fn leave_root() {
    // SAFETY: the call itself, unlike the library's function, changes this thread alone.
    let left = unsafe { libc::syscall(libc::SYS_setresuid, USER, USER, USER) };
    assert_eq!(left, 0, "{}", std::io::Error::last_os_error());
}

fn in_thread_of_user<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> T {
    let thread = std::thread::spawn(move || {
        leave_root();
        run()
    });
    thread.join().expect("it ends well")
}

#[test]
fn a_file_that_hangs_is_not_closed_by_a_worker_that_gets_no_thread() {
    let _alone = crate::alone();
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: only root can mount FUSE, and become somebody else");
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let everybody = Permissions::from_mode(0o777);
    std::fs::set_permissions(directory.path(), everybody).expect("changed");
    let shape = Shape { mirrors: vec![vec![0], vec![0]], ..Shape::default() };
    let cluster = in_thread_of_user(move || Cluster::start_in(directory, shape));
    cluster.close_replica(0, 1, 0);
    let Some(file) = HangingFile::over(&cluster.path(1, 0)) else {
        return eprintln!("skipped: no FUSE can be mounted here");
    };
    cluster.open_replica(0, 1, 0, 2).expect("opens");
    setrlimit(Resource::Nproc, Rlimit { current: Some(0), maximum: Some(0) }).expect("set");
    let spawned = in_thread_of_user(|| std::thread::Builder::new().spawn(|| ()).is_ok());
    assert!(!spawned, "the limit does not hold: this shows nothing");

    file.hang(true);
    let (sender, closed) = channel();
    cluster.engines[0].close_replica(cluster.volume, cluster.replica(1, 0), move |result| {
        let _ = sender.send(result);
    });
    for _ in 0..3 {
        assert_eq!(cluster.status(0).replicas.len(), 1, "one is open still, one is being closed");
    }
    assert!(closed.try_recv().is_err(), "the file does not hang: this shows nothing");
    file.hang(false);
    let result = closed.recv_timeout(Duration::from_secs(60)).expect("in time");
    assert!(result.is_ok(), "{result:?}");
    cluster.stop();
}
