//! Disks and replicas that cannot be opened when the node starts, and can later.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Place, TestNode};

/// Another process that has the lock of a file.
struct Holder(Child);

impl Holder {
    fn of(path: &Path) -> Self {
        let mut command = Command::new("flock");
        // Without a fork, so that the one that is killed has the lock.
        command.arg("--no-fork").arg(path).args(["sleep", "60"]).stdout(Stdio::null());
        let holder = Self(command.spawn().unwrap());
        let is_free = || {
            let file = File::open(path).unwrap();
            rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_ok()
        };
        for _ in 0..100 {
            if !is_free() {
                return holder;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("the lock of {} was not taken", path.display());
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn disk<'a>(answer: &'a Value, name: &str) -> &'a Value {
    let disks = answer["disks"].as_array().unwrap();
    disks.iter().find(|disk| disk["name"] == name).unwrap()
}

/// Two nodes with a volume that is attached on `a`; `b` has crashed.
async fn without_b(place: &Place) -> Vec<TestNode> {
    let mut nodes = place.cluster(&["a", "b"]).await;
    nodes[0].create("web", 2).await;
    nodes[0].attach("web").await;
    nodes[1].crash().await;
    nodes
}

async fn is_in_sync(nodes: &[TestNode]) {
    let health = |v: &Value| v["volume"]["health"] == "in-sync";
    nodes[0].until("/v1/volumes/web", health).await;
    let answer = nodes[1].get("/v1/disks").await;
    let disk = disk(&answer, "d");
    assert_eq!((&disk["state"], &disk["problem"]), (&json!("serving"), &Value::Null), "{disk:#}");
    assert_eq!(disk["replicas"][0]["problem"], Value::Null, "{disk:#}");
    assert_eq!(nodes[1].get("/v1/node").await["node"]["warnings"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_that_another_process_holds_is_waited_for() {
    let place = Place::new();
    let mut nodes = without_b(&place).await;
    let holder = Holder::of(&nodes[1].disk("d").join(".evenkeel.lock"));
    nodes[1].restart().await;
    let answer = nodes[1].get("/v1/disks").await;
    assert_eq!(disk(&answer, "d")["state"], "held", "{answer:#}");
    let warnings = nodes[1].get("/v1/node").await["node"]["warnings"].to_string();
    assert!(warnings.contains("tried again"), "{warnings}");
    drop(holder);
    is_in_sync(&nodes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_whose_file_is_held_by_a_write_of_the_last_daemon_is_waited_for() {
    let place = Place::new();
    let mut nodes = without_b(&place).await;
    let holder = Holder::of(&nodes[1].replicas("d")[0]);
    nodes[1].restart().await;
    let answer = nodes[1].get("/v1/disks").await;
    let replica = &disk(&answer, "d")["replicas"][0];
    assert!(replica["problem"].as_str().unwrap().contains("tried again"), "{answer:#}");
    // It is known whose it is all the same.
    assert_eq!(replica["volume"], "web", "{answer:#}");
    drop(holder);
    is_in_sync(&nodes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_that_appears_after_the_start_is_taken_up() {
    let place = Place::new();
    let mut nodes = without_b(&place).await;
    let away = nodes[1].directory.join("away");
    std::fs::rename(nodes[1].disk("d"), &away).unwrap();
    nodes[1].restart().await;
    let answer = nodes[1].get("/v1/disks").await;
    assert_eq!(disk(&answer, "d")["state"], "absent", "{answer:#}");
    // What is mounted there meanwhile is another disk.
    std::fs::create_dir(nodes[1].disk("d")).unwrap();
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let answer = nodes[1].get("/v1/disks").await;
    assert_eq!(disk(&answer, "d")["state"], "absent", "{answer:#}");
    let left = std::fs::read_dir(nodes[1].disk("d")).unwrap().count();
    assert_eq!(left, 0, "nothing is written to another disk");
    std::fs::remove_dir(nodes[1].disk("d")).unwrap();
    std::fs::rename(&away, nodes[1].disk("d")).unwrap();
    is_in_sync(&nodes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_is_removed_while_it_is_waited_for_stays_removed() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a"]).await;
    nodes[0].crash().await;
    let away = nodes[0].directory.join("away");
    std::fs::rename(nodes[0].disk("d"), &away).unwrap();
    nodes[0].restart().await;
    nodes[0].ok("DELETE", "/v1/disks/d", Value::Null).await;
    std::fs::rename(&away, nodes[0].disk("d")).unwrap();
    // It can be added at once, and a second probe does not take it away again.
    nodes[0].add_disk("d").await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let answer = nodes[0].get("/v1/disks").await;
    assert_eq!(answer["disks"].as_array().unwrap().len(), 1);
    assert_eq!(disk(&answer, "d")["state"], "serving", "{answer:#}");
}

/// The replica on `b`, as a status tells it.
fn of_b(answer: &Value) -> &Value {
    let replicas = answer["volume"]["mirrors"][0]["replicas"].as_array().unwrap();
    replicas.iter().find(|replica| replica["node"]["name"] == "b").unwrap()
}

/// Ends `b` with its replica made unusable, and starts it again: the status tells why, and so does
/// `re-add`.
async fn is_reported(spoil: impl Fn(&Path), why: &str) {
    let place = Place::new();
    let mut nodes = without_b(&place).await;
    let file = nodes[1].replicas("d").remove(0);
    spoil(&file);
    nodes[1].restart().await;
    let reported = |v: &Value| {
        let reason = &of_b(v)["reason"];
        reason.as_str().is_some_and(|text| text.contains(why) && text.contains("replica replace"))
    };
    let status = nodes[0].until("/v1/volumes/web", reported).await;
    let replica = of_b(&status);
    assert!(!replica["reason"].to_string().contains("by itself"), "{replica:#}");
    assert!(replica["unserved"].as_str().unwrap().contains(why), "{replica:#}");
    let events = status["volume"]["events"].to_string();
    assert!(events.contains("is not served"), "{events}");
    let commands = |action: &str| format!("/v1/volumes/web/replicas/b:d/{action}");
    nodes[0].ok("POST", &commands("fail"), json!({})).await;
    for node in &nodes {
        let path = commands("re-add");
        let error = node.refused("POST", &path, json!({}), "replica-unusable").await;
        assert!(error["why"].as_str().unwrap().contains(why), "{error:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_whose_file_was_deleted_is_told_and_not_brought_back() {
    is_reported(|file| std::fs::remove_file(file).unwrap(), "no such replica").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_whose_superblocks_are_damaged_is_told_and_not_brought_back() {
    let damage = |file: &Path| {
        use std::os::unix::fs::FileExt as _;
        let file = File::options().write(true).open(file).unwrap();
        for slot in [0, 512 << 10] {
            file.write_all_at(&[0xff; 4096], slot + 600).unwrap();
        }
    };
    is_reported(damage, "checksum").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_whose_disk_is_absent_is_told_with_that() {
    let place = Place::new();
    let mut nodes = without_b(&place).await;
    std::fs::rename(nodes[1].disk("d"), nodes[1].directory.join("away")).unwrap();
    nodes[1].restart().await;
    let reason = |v: &Value| of_b(v)["reason"].to_string();
    let reported =
        |v: &Value| reason(v).contains("disk d: No such file") && reason(v).contains("by itself");
    nodes[0].until("/v1/volumes/web", reported).await;
}

/// Whatever the system says of the file, it says nothing of what is in it.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_whose_file_gives_an_error_is_tried_again() {
    let place = Place::new();
    let mut nodes = without_b(&place).await;
    let file = nodes[1].replicas("d").remove(0);
    let away = nodes[1].directory.join("away");
    std::fs::rename(&file, &away).unwrap();
    // It is not followed; an error as EIO or EMFILE would be.
    std::os::unix::fs::symlink(&file, &file).unwrap();
    nodes[1].restart().await;
    let answer = nodes[1].get("/v1/disks").await;
    let problem = disk(&answer, "d")["replicas"][0]["problem"].to_string();
    assert!(problem.contains("symbolic link") && problem.contains("tried again"), "{answer:#}");
    let reported = |v: &Value| of_b(v)["unserved"].to_string().contains("tried again");
    nodes[0].until("/v1/volumes/web", reported).await;
    std::fs::rename(&away, &file).unwrap();
    is_in_sync(&nodes).await;
}

/// A file system in user space that answers nothing, not even how it is to be spoken to.
struct Hung {
    path: std::path::PathBuf,
    connection: Option<std::fs::File>,
}

impl Hung {
    /// Mounts it. `None`: that is not possible here.
    fn mount(path: &std::path::Path) -> Option<Self> {
        let connection =
            std::fs::OpenOptions::new().read(true).write(true).open("/dev/fuse").ok()?;
        // The kernel takes it from the process that mounts.
        rustix::io::fcntl_setfd(&connection, rustix::io::FdFlags::empty()).ok()?;
        let options = format!(
            "fd={},rootmode=40000,user_id=0,group_id=0",
            std::os::fd::AsRawFd::as_raw_fd(&connection)
        );
        let mut mount = Command::new("mount");
        mount.args(["-i", "-t", "fuse", "none"]).arg(path).args(["-o", &options]);
        let is_mounted = mount.status().is_ok_and(|status| status.success());
        rustix::io::fcntl_setfd(&connection, rustix::io::FdFlags::CLOEXEC).ok()?;
        is_mounted.then(|| Self { path: path.to_owned(), connection: Some(connection) })
    }
}

impl Drop for Hung {
    /// Whoever waits gets an error.
    fn drop(&mut self) {
        drop(self.connection.take());
        let _ = Command::new("umount").arg("-l").arg(&self.path).status();
    }
}

/// A disk of which nothing comes at all, not even an error. Needs root; without it, it says so and
/// passes.
#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_hangs_at_the_start_keeps_no_other_one_waiting() {
    let place = Place::new();
    let mut nodes = place.cluster(&["a"]).await;
    nodes[0].create("web", 1).await;
    nodes[0].add_disk("e").await;
    nodes[0].crash().await;
    let Some(hung) = Hung::mount(&nodes[0].disk("e")) else {
        return eprintln!("skipped: nothing can be mounted here");
    };
    nodes[0].restart().await;
    let answer = nodes[0].until("/v1/disks", |v| disk(v, "d")["state"] == "serving").await;
    let opening = disk(&answer, "e");
    assert_eq!(opening["state"], "opening", "{answer:#}");
    assert!(opening["problem"].to_string().contains("does not answer"), "{answer:#}");
    nodes[0].attach("web").await;
    nodes[0].detach("web").await;

    drop(hung);
    nodes[0].until("/v1/disks", |v| disk(v, "e")["state"] == "serving").await;
    nodes[0].stop().await;
}
