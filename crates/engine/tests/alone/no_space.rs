//! A full disk, by a limit on the size of files.

use crate::common::client::{Answer, Request};
use crate::common::{Cluster, Shape, pattern};
use evenkeel_core::{NoDataPolicy, RequestError, Settings};
use evenkeel_engine::EngineEvent;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

#[test]
fn a_full_disk_is_reported_as_such_and_hurts_nothing_else() {
    let _alone = crate::alone();
    let settings = Settings { no_data: NoDataPolicy::Error, ..Settings::default() };
    let mut cluster = Cluster::start(Shape { settings, ..Shape::default() });
    cluster.attach();
    let client = cluster.client();
    client.write(0, pattern(1, 4096));
    // SAFETY: ignoring a signal has no preconditions.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    let maximum = getrlimit(Resource::Fsize).maximum;
    let set = |current| setrlimit(Resource::Fsize, Rlimit { current, maximum }).expect("set");
    set(Some(8 << 20));
    // Beyond the limit, which the system reports as it does a file that is too large.
    let refused = client.call(Request::Write(12 << 20, pattern(2, 4096), false));
    assert_eq!(refused, Err(RequestError::NoSpace));
    let event = cluster.wait_for("error", |e| matches!(e, EngineEvent::DiskError { .. }));
    // Before anything is judged: the limit is the whole process's.
    set(None.or(maximum));
    assert!(format!("{event:?}").contains("writing 4096 bytes"), "{event:?}");
    assert_eq!(client.read(0, 4096), pattern(1, 4096));
    assert_eq!(client.call(Request::Write(12 << 20, pattern(2, 4096), false)), Ok(Answer::Done));
    assert_eq!(cluster.status(0).replicas[0].disk.kinds[1].errors, 1);
}
