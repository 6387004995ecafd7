//! Block devices as disks. Needs root and loop devices; without them these tests say so and pass.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{Place, TestNode};

/// A loop device over a file.
struct Loop(String);

impl Loop {
    fn new(file: &Path, bytes: u64) -> Option<Self> {
        std::fs::File::create(file).unwrap().set_len(bytes).unwrap();
        Self::over(file)
    }

    /// Over a file that is there. A second one is to the kernel what a disk is that was pulled out
    /// and put back: another device of the same content.
    fn over(file: &Path) -> Option<Self> {
        let output = Command::new("losetup").args(["--find", "--show"]).arg(file).output().ok()?;
        let device = String::from_utf8(output.stdout).ok()?.trim().to_owned();
        if !output.status.success() || device.is_empty() {
            eprintln!("skipped: no loop devices here");
            return None;
        }
        Some(Self(device))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

fn run(program: &str, arguments: &[&str]) -> bool {
    Command::new(program).args(arguments).status().is_ok_and(|status| status.success())
}

/// A node with this device as its one disk, `disk`.
async fn node_with(place: &Place, device: impl AsRef<Path>) -> TestNode {
    let mut node = TestNode::new(place, "a");
    node.start().await.unwrap();
    add(&node, "disk", device).await;
    node
}

async fn add(node: &TestNode, name: &str, device: impl AsRef<Path>) -> Value {
    node.ok("POST", "/v1/disks", json!({"path": device.as_ref(), "name": name})).await
}

/// That the node's only disk is in this state.
fn is(state: &'static str) -> impl Fn(&Value) -> bool {
    move |answer| answer["disks"][0]["state"] == state
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_with_data_is_taken_by_force_only() {
    let place = Place::new();
    let Some(device) = Loop::new(&place.path().join("image"), 64 << 20) else { return };
    let mut node = TestNode::new(&place, "a");
    node.start().await.unwrap();
    assert!(run("mkfs.ext4", &["-q", "-F", &device.0]));
    let add = |force: bool| json!({"path": device.0, "name": "disk", "force": force});
    let error = node.refused("POST", "/v1/disks", add(false), "disk-has-data").await;
    assert!(error["why"].as_str().unwrap().contains("ext4"), "{error}");

    let mount = place.path().join("mnt");
    std::fs::create_dir(&mount).unwrap();
    if run("mount", &[&device.0, mount.to_str().unwrap()]) {
        let error = node.refused("POST", "/v1/disks", add(true), "disk-in-use").await;
        assert!(error["why"].as_str().unwrap().contains("mounted at"), "{error}");
        assert!(run("umount", &[mount.to_str().unwrap()]));
    }

    let added = node.ok("POST", "/v1/disks", add(true)).await;
    assert_eq!(added["disk"]["kind"], "device");
    node.create("web", 1).await;
    let second = json!({"name": "shop", "size": 4096, "replicas": 1});
    node.refused("POST", "/v1/volumes", second, "disk-too-small").await;
    // Nobody else takes it meanwhile.
    assert!(!run("mkfs.ext4", &["-q", &device.0]));
    node.refused("DELETE", "/v1/disks/disk", Value::Null, "disk-has-replicas").await;
    node.attach("web").await;
    node.detach("web").await;

    node.stop().await;
    node.restart().await;
    let disks = node.get("/v1/disks").await;
    assert_eq!(disks["disks"][0]["replicas"][0]["volume"], "web", "{disks:#}");
    node.ok("DELETE", "/v1/volumes/web", Value::Null).await;
    node.ok("DELETE", "/v1/disks/disk", Value::Null).await;
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_that_is_too_small_is_refused() {
    let place = Place::new();
    let Some(device) = Loop::new(&place.path().join("image"), 1 << 20) else { return };
    let mut node = TestNode::new(&place, "a");
    node.start().await.unwrap();
    let add = json!({"path": device.0, "name": "disk"});
    node.refused("POST", "/v1/disks", add, "disk-too-small").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_that_is_held_or_absent_at_the_start_is_waited_for() {
    let place = Place::new();
    let Some(device) = Loop::new(&place.path().join("image"), 64 << 20) else { return };
    let Some(other) = Loop::new(&place.path().join("other"), 64 << 20) else { return };
    assert!(run("mkfs.ext4", &["-q", "-F", &other.0]));
    let path = place.path().join("device");
    name(&device, &path);
    let mut node = node_with(&place, &path).await;
    node.create("web", 1).await;
    node.attach("web").await;
    let serving = |v: &Value| v["volume"]["state"] == "serving";

    node.crash().await;
    // As long as a write of a killed daemon is under way its exclusive open lasts.
    let holder = until_held(&device.0).await;
    node.restart().await;
    node.until("/v1/disks", is("held")).await;
    drop(holder);
    node.until("/v1/disks", is("serving")).await;
    node.until("/v1/volumes/web", serving).await;

    node.crash().await;
    std::fs::remove_file(&path).unwrap();
    node.restart().await;
    node.until("/v1/disks", is("absent")).await;
    // Another disk gets its name first: it is not touched.
    name(&other, &path);
    node.until("/v1/disks", |v| {
        v["disks"][0]["problem"].as_str().is_some_and(|why| why.contains("ext4"))
    })
    .await;
    std::fs::remove_file(&path).unwrap();
    name(&device, &path);
    node.until("/v1/disks", is("serving")).await;
    node.until("/v1/volumes/web", serving).await;
}

/// The device, opened so that nobody else can.
async fn until_held(device: &str) -> std::fs::File {
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut held = None;
    let taken = until_true(|| {
        let flags = rustix::fs::OFlags::EXCL.bits().cast_signed();
        held = std::fs::File::options().read(true).custom_flags(flags).open(device).ok();
        held.is_some()
    });
    assert!(taken.await);
    held.unwrap()
}

async fn until_true(mut holds: impl FnMut() -> bool) -> bool {
    for _ in 0..600 {
        if holds() {
            return true;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    false
}

/// A device of a stopped volume is let go; it is opened again with its volume, or to be erased.
#[tokio::test(flavor = "multi_thread")]
async fn a_device_of_a_stopped_volume_is_opened_again_or_erased() {
    let place = Place::new();
    let Some(device) = Loop::new(&place.path().join("image"), 64 << 20) else { return };
    let mut node = node_with(&place, &device.0).await;
    node.create("web", 1).await;
    for _ in 0..2 {
        node.ok("POST", "/v1/volumes/web/stop", json!({})).await;
        node.until("/v1/disks", is("stopped")).await;
        drop(until_held(&device.0).await);
        let assemble = json!({"volume": "web"});
        node.ok("POST", "/v1/assemble", assemble).await;
        node.until("/v1/disks", is("serving")).await;
    }
    node.attach("web").await;
    node.detach("web").await;
    node.ok("POST", "/v1/volumes/web/stop", json!({})).await;
    node.ok("DELETE", "/v1/volumes/web", Value::Null).await;
    let empty = |v: &Value| v["disks"][0]["replicas"] == json!([]);
    node.until("/v1/disks", empty).await;
    node.until("/v1/disks", is("serving")).await;
    node.create("shop", 1).await;
    node.stop().await;
}

/// A link in /dev/evenkeel that goes in the end.
struct Link(std::path::PathBuf);

impl Link {
    fn new(name: &str, device: &str) -> Self {
        let link = Path::new("/dev/evenkeel").join(name);
        std::fs::create_dir_all("/dev/evenkeel").unwrap();
        std::os::unix::fs::symlink(device, &link).unwrap();
        Self(link)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_whose_name_is_taken_is_refused_before_anything_changes() {
    let place = Place::new();
    let Some(device) = Loop::new(&place.path().join("image"), 1 << 20) else { return };
    let mut node = TestNode::new(&place, "a");
    node.start().await.unwrap();
    node.add_disk("d").await;
    let name = format!("taken-{}", std::process::id());
    node.create(&name, 1).await;
    let _link = Link::new(&name, &device.0);
    let path = format!("/v1/volumes/{name}");
    let before = node.get(&path).await["volume"]["generation"].clone();
    for how in ["device", "auto"] {
        let attach = json!({"how": how});
        let refused = node.refused("POST", &format!("{path}/attach"), attach, "name-in-use").await;
        let why = refused["why"].as_str().unwrap();
        assert!(why.contains(&format!("/dev/evenkeel/{name} exists and points to")), "{why}");
    }
    let after = node.get(&path).await;
    assert_eq!(after["volume"]["generation"], before, "it was attached for that: {after:#}");
    node.attach(&name).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_that_was_pulled_and_put_back_is_opened_anew() {
    let place = Place::new();
    let image = place.path().join("image");
    let Some(first) = Loop::new(&image, 64 << 20) else { return };
    let path = place.path().join("device");
    name(&first, &path);
    let mut node = node_with(&place, &path).await;
    node.create("web", 1).await;
    node.attach("web").await;

    std::fs::remove_file(&path).unwrap();
    let gone = node.until("/v1/disks", is("absent")).await;
    assert!(gone["disks"][0]["problem"].to_string().contains("pulled out"), "{gone:#}");
    let second = Loop::over(&image).unwrap();
    name(&second, &path);
    node.until("/v1/disks", is("serving")).await;
    let is_served = |v: &Value| v["volume"]["mirrors"][0]["summary"] == "[U]";
    node.until("/v1/volumes/web", is_served).await;
    // What is open is this one: nobody else gets it exclusively.
    assert!(!run("mkfs.ext4", &["-q", &second.0]));
    node.detach("web").await;
    node.stop().await;
}

/// Two devices whose paths can be exchanged, as those of `/dev/sdb` and `/dev/sdc` are by a restart
/// of the machine.
struct Swapped {
    _devices: [Loop; 2],
    images: [std::path::PathBuf; 2],
    paths: [std::path::PathBuf; 2],
}

impl Swapped {
    fn new(place: &Place) -> Option<Self> {
        let images = ["image-1", "image-2"].map(|name| place.path().join(name));
        let paths = ["sdb", "sdc"].map(|name| place.path().join(name));
        let devices = [Loop::new(&images[0], 64 << 20)?, Loop::new(&images[1], 64 << 20)?];
        for (device, path) in devices.iter().zip(&paths) {
            name(device, path);
        }
        Some(Self { _devices: devices, images, paths })
    }

    fn swap(&self) {
        let [one, two] = &self.paths;
        let aside = one.with_extension("aside");
        std::fs::rename(one, &aside).unwrap();
        std::fs::rename(two, one).unwrap();
        std::fs::rename(&aside, two).unwrap();
    }

    /// A node with the first one as its disk `first`, and a volume on that.
    async fn node(&self, place: &Place) -> TestNode {
        let mut node = TestNode::new(place, "a");
        node.start().await.unwrap();
        add(&node, "first", &self.paths[0]).await;
        node.create("web", 1).await;
        node
    }
}

/// Makes this path one at which the device is.
fn name(of: &Loop, path: &Path) {
    let number = std::os::unix::fs::MetadataExt::rdev(&std::fs::metadata(&of.0).unwrap());
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let made = run("mknod", &[path.to_str().unwrap(), "b", &major.to_string(), &minor.to_string()]);
    assert!(made, "mknod {}", path.display());
}

fn disk<'a>(answer: &'a Value, name: &str) -> &'a Value {
    let disks = answer["disks"].as_array().unwrap();
    disks.iter().find(|disk| disk["name"] == name).unwrap()
}

/// One of them holds a replica, the other one is empty: each is known by what evenkeel wrote on it.
#[tokio::test(flavor = "multi_thread")]
async fn a_disk_whose_path_another_one_got_is_absent_and_the_other_one_is_not_touched() {
    let place = Place::new();
    let Some(swapped) = Swapped::new(&place) else { return };
    let mut node = swapped.node(&place).await;
    node.attach("web").await;
    add(&node, "second", &swapped.paths[1]).await;
    node.stop().await;

    swapped.swap();
    let before = swapped.images.clone().map(|image| std::fs::read(image).unwrap());
    node.restart().await;
    let are = |state: &'static str| {
        move |v: &Value| ["first", "second"].iter().all(|name| disk(v, name)["state"] == state)
    };
    let answer = node.until("/v1/disks", are("absent")).await;
    for name in ["first", "second"] {
        let disk = disk(&answer, name);
        assert_eq!(disk["replicas"], json!([]), "{answer:#}");
        let problem = disk["problem"].as_str().unwrap();
        assert!(problem.starts_with("another disk is at its path: expected the one"), "{problem}");
        assert!(problem.contains("tried again"), "{problem}");
    }
    let holds_web = disk(&answer, "second")["problem"].as_str().unwrap().contains("volume web");
    assert!(holds_web, "{answer:#}");
    for name in ["first", "second"] {
        let new =
            json!({"name": "shop", "size": 4 << 20, "replicas": 1, "on": [format!("a:{name}")]});
        let (status, answer) = node.call("POST", "/v1/volumes", new).await;
        assert_ne!(status, 200, "{answer:#}");
    }
    let after = swapped.images.clone().map(|image| std::fs::read(image).unwrap());
    assert!(before == after, "a disk that was not meant was written to");

    swapped.swap();
    node.until("/v1/disks", are("serving")).await;
    node.until("/v1/volumes/web", |v| v["volume"]["state"] == "serving").await;
    node.detach("web").await;
    let new = json!({"name": "shop", "size": 4 << 20, "replicas": 1, "on": ["a:second"]});
    node.ok("POST", "/v1/volumes", new).await;
    node.stop().await;
}

/// What is added anew is the disk at its new path; it cannot be two disks.
#[tokio::test(flavor = "multi_thread")]
async fn a_disk_is_removed_and_added_anew_by_its_new_path() {
    let place = Place::new();
    let Some(swapped) = Swapped::new(&place) else { return };
    let mut node = swapped.node(&place).await;
    node.stop().await;
    swapped.swap();
    node.restart().await;
    let again = json!({"path": swapped.paths[1], "name": "again"});
    let refused = node.refused("POST", "/v1/disks", again.clone(), "name-in-use").await;
    assert!(refused["why"].as_str().unwrap().contains("mark of disk first"), "{refused:#}");
    node.ok("DELETE", "/v1/disks/first", Value::Null).await;
    let added = node.ok("POST", "/v1/disks", again).await;
    assert_eq!(added["disk"]["replicas"][0]["volume"], "web", "{added:#}");
    node.attach("web").await;
    node.detach("web").await;
    node.stop().await;
}

/// A disk that software of before has added is marked when it is opened.
#[tokio::test(flavor = "multi_thread")]
async fn a_disk_of_older_software_is_marked_when_it_is_opened() {
    let place = Place::new();
    let Some(swapped) = Swapped::new(&place) else { return };
    let mut node = swapped.node(&place).await;
    node.stop().await;
    let list = node.config.state.join("disks.json");
    let remembered =
        || -> Value { serde_json::from_slice(&std::fs::read(&list).unwrap()).unwrap() };
    let mut old = remembered();
    old[0].as_object_mut().unwrap().remove("device").unwrap();
    std::fs::write(&list, old.to_string()).unwrap();
    let image = std::fs::File::options().write(true).open(&swapped.images[0]).unwrap();
    for offset in evenkeel_format::DISK_MARK_OFFSETS {
        std::os::unix::fs::FileExt::write_all_at(&image, &[0; 4096], offset).unwrap();
    }
    node.restart().await;
    node.until("/v1/disks", is("serving")).await;
    node.stop().await;
    assert!(remembered()[0]["device"]["mark"].is_string());
    swapped.swap();
    node.restart().await;
    node.until("/v1/disks", is("absent")).await;
    node.stop().await;
}

/// What somebody wrote to an empty disk since it was added is not overwritten by a new replica.
#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_was_written_to_since_it_was_added_gets_no_replica() {
    let place = Place::new();
    let Some(device) = Loop::new(&place.path().join("image"), 64 << 20) else { return };
    let mut node = node_with(&place, &device.0).await;
    let other = place.path().join("other");
    std::fs::File::create(&other).unwrap().set_len(64 << 20).unwrap();
    assert!(run("mkfs.ext4", &["-q", "-F", other.to_str().unwrap()]));
    let copy = format!("of={}", device.0);
    let from = format!("if={}", other.display());
    assert!(run("dd", &[&from, &copy, "bs=64k", "count=1", "conv=fsync,notrunc", "status=none"]));
    let new = json!({"name": "shop", "size": 4 << 20, "replicas": 1, "on": ["a:disk"]});
    let error = node.refused("POST", "/v1/volumes", new, "disk-has-data").await;
    assert!(error["why"].as_str().unwrap().contains("ext4"), "{error:#}");
    node.stop().await;
}

/// A device without a replica that was pulled out, and put back as another one for the kernel.
#[tokio::test(flavor = "multi_thread")]
async fn an_empty_device_that_was_pulled_and_put_back_is_opened_anew() {
    let place = Place::new();
    let image = place.path().join("image");
    let Some(first) = Loop::new(&image, 64 << 20) else { return };
    let path = place.path().join("device");
    name(&first, &path);
    let mut node = node_with(&place, &path).await;
    std::fs::remove_file(&path).unwrap();
    node.until("/v1/disks", is("absent")).await;
    let second = Loop::over(&image).unwrap();
    name(&second, &path);
    node.until("/v1/disks", is("serving")).await;
    assert!(!run("mkfs.ext4", &["-q", &second.0]), "it is held");
    node.stop().await;
}
