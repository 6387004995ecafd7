use std::path::Path;

use super::super::actor;
use super::*;
use crate::{Config, Daemon};

/// A daemon whose coordinator does not answer: what it remembers waits.
async fn start_alone(directory: &Path) -> Daemon {
    let socket = |name: &str| format!("unix:{}", directory.join(name).display());
    let mut config = Config {
        name: Some("b".into()),
        state: directory.join("state"),
        runtime: directory.join("run"),
        ..Config::default()
    };
    config.peer.listen = vec![socket("peer.sock")];
    config.coordinator.join = Some(socket("nobody.sock"));
    config.data.workers = Some(1);
    Daemon::start(config).await.unwrap()
}

fn state(directory: &Path) -> StateDirectory {
    StateDirectory::open(&directory.join("state")).unwrap()
}

fn load(directory: &Path) -> Vec<Wanted> {
    let text = std::fs::read(directory.join("state").join(ATTACHED)).unwrap();
    serde_json::from_slice(&text).unwrap()
}

async fn until(wanted: impl Fn() -> bool) {
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while !wanted() {
        assert!(std::time::Instant::now() < deadline, "it does not come about");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A daemon that is killed at any moment of its start leaves them all to the next one.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_saved_before_all_is_loaded() {
    const COUNT: u64 = 500;
    let directory = tempfile::tempdir().unwrap();
    let how = |number: u64| {
        let volume = VolumeId(number.into()).to_string();
        Wanted::new(volume, format!("v{number}"), number, Default::default())
    };
    let mut all: Vec<Wanted> = (1..=COUNT).map(how).collect();
    state(directory.path()).save(ATTACHED, &all).unwrap();
    let ended = Arc::new(AtomicBool::new(false));
    let watcher = std::thread::spawn({
        let (path, ended) = (directory.path().to_owned(), ended.clone());
        move || {
            let mut fewest = COUNT as usize;
            while !ended.load(Ordering::Relaxed) {
                fewest = fewest.min(load(&path).len());
            }
            fewest
        }
    });
    let daemon = start_alone(directory.path()).await;
    let node = daemon.node().clone();
    let volumes = &node.volumes;
    until(|| (1..=COUNT).all(|number| volumes.awaited(VolumeId(number.into())).is_some())).await;
    // It waits for all that were begun.
    volumes.save(&node).await;
    ended.store(true, Ordering::Relaxed);
    assert_eq!(watcher.join().unwrap(), COUNT as usize, "volumes were not remembered for a while");
    daemon.abandon().await;
    // Whether the start before has ended is certain here only by the lock.
    let mut saved = load(directory.path());
    all.iter_mut().chain(&mut saved).for_each(|wanted| wanted.incarnation = 0);
    assert_eq!(saved, all);
}

#[tokio::test(flavor = "multi_thread")]
async fn however_many_volumes_change_one_save_waits() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = start_alone(directory.path()).await;
    let node = daemon.node().clone();
    let (node, volumes) = (&node, &node.volumes);
    let (begun, runtime) = (volumes.saves.next.lock().await, Handle::current());
    for number in 1..=100 {
        actor::unreported(node, VolumeId(number));
        volumes.save_soon(node, &runtime);
    }
    assert!(volumes.saves.is_pending.load(Ordering::Relaxed));
    drop(begun);
    until(|| !volumes.saves.is_pending.load(Ordering::Relaxed)).await;
    // The one that has begun is followed by this.
    let _next = volumes.saves.next.lock().await;
    let unreported: Vec<String> = node.state.load(UNREPORTED).unwrap().unwrap();
    assert_eq!(unreported.len(), 100, "all are in that one");
    daemon.abandon().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_saved_is_told_and_tried_again() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = start_alone(directory.path()).await;
    let node = daemon.node().clone();
    let (node, volumes) = (&node, &node.volumes);
    volumes.save(node).await;
    // As a full disk does, it lets no new file take the place of this one.
    let path = node.state.join(ATTACHED);
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    let how = Wanted::new(VolumeId(7).to_string(), "web".into(), 0, Default::default());
    actor::remembered(node, VolumeId(7), how.clone(), "", None);
    actor::unreported(node, VolumeId(8));
    volumes.save(node).await;
    let why = volumes.unsaved().unwrap();
    assert!(why.contains(ATTACHED), "{why}");
    let warnings = crate::status::of(daemon.running()).await.warnings;
    assert!(warnings.contains(&why), "{warnings:?}");
    let unreported: Vec<String> = node.state.load(UNREPORTED).unwrap().unwrap();
    assert_eq!(unreported, [VolumeId(8).to_string()], "the other file can be written");

    std::fs::remove_dir(&path).unwrap();
    until(|| volumes.unsaved().is_none()).await;
    assert_eq!(load(directory.path()), [how]);
    daemon.abandon().await;
}
