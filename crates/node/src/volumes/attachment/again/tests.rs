use std::path::{Path, PathBuf};
use std::process::Command;

use super::*;
use crate::volumes::replicas::sweep::tests::start_in;

/// A loop device over a file. `None`: there are none here.
fn loop_device(file: &Path) -> Option<PathBuf> {
    std::fs::File::create(file).unwrap().set_len(1 << 20).unwrap();
    let output = Command::new("losetup").args(["--find", "--show"]).arg(file).output().ok()?;
    let device = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !device.is_empty()).then(|| device.into())
}

/// Whoever has a device open that gave errors would take a new one of that name for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_device_that_gave_errors_is_not_replaced_while_somebody_uses_it() {
    let directory = tempfile::tempdir().unwrap();
    let Some(device) = loop_device(&directory.path().join("volume")) else {
        return eprintln!("skipped: no loop devices here");
    };
    let daemon = start_in(directory.path()).await;
    let node = daemon.node();
    let opened = std::fs::File::open(&device);
    let dead = DeadDevice::now(&device);
    let used = refuse_dead(node, vec![dead.clone()], "it cannot").await;
    // The kernel frees it when it is closed here.
    let detached = Command::new("losetup").arg("--detach").arg(&device).status();
    let used_still = refuse_dead(node, vec![dead.clone()], "it cannot").await;
    drop(opened.unwrap());
    assert!(detached.unwrap().success());
    for used in [used, used_still] {
        let error = used.unwrap_err();
        assert_eq!(error.code, ErrorCode::DeviceBusy, "{error}");
        assert!(matches!(error.into(), Failed::Waits(_)), "it is tried again");
    }
    for _ in 0..1200 {
        if refuse_dead(node, vec![dead.clone()], "it cannot").await.is_ok() {
            return daemon.stop().await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("nobody uses it any more, and it is refused");
}

/// What only this moment knows is no word on whether a volume is wanted here.
#[test]
fn only_what_is_gone_is_given_up() {
    let all = [
        (ErrorCode::NoSuchVolume, true),
        // The coordinator's database is an old one, which somebody may exchange.
        (ErrorCode::WrongState, false),
        // A replica that counted is on a node that starts a minute later.
        (ErrorCode::Incomplete, false),
        // No descriptor was free; another node has it attached in passing; all slots are taken.
        (ErrorCode::System, false),
        (ErrorCode::AttachedElsewhere, false),
        (ErrorCode::NoCoordinator, false),
        (ErrorCode::TimedOut, false),
    ];
    for (code, is_given_up) in all {
        let failed = ApiError::new(code, "it cannot", "why", "do").into();
        assert_eq!(matches!(failed, Failed::Unwanted(_)), is_given_up, "{code:?}");
    }
}
