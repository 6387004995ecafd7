//! GlusterFS replica 3, all servers on this machine, in a network namespace of its own: it does
//! not accept a loopback address.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::failure::Failure;
use crate::fio::Reach;
use crate::process::{self, command};
use crate::result::Family;
use crate::scratch::Undo;
use crate::target::{Lab, Servers, Target, configuration, inside};

const VOLUME: &str = "bench";
/// Only seen inside the namespace.
const ADDRESS: &str = "10.99.7.1";
/// What makes O_DIRECT reach the servers' disks before a write is acknowledged.
const OPTIONS: [(&str, &str); 3] = [
    ("performance.strict-o-direct", "on"),
    ("network.remote-dio", "disable"),
    ("performance.write-behind", "off"),
];
const STRICT: &str = "strict O_DIRECT, write-behind off: by default it acknowledges writes early";

/// Through its FUSE mount.
pub fn mounted(lab: &mut Lab<'_>) -> Result<Target, Failure> {
    let namespace = start(lab, "gf")?;
    let root = lab.scratch.directory("gluster-gf")?;
    let point = lab.scratch.directory("gluster-gf/mount")?;
    let mut client = in_namespace(&namespace, ["glusterfs", "--no-daemon", "--volfile-id=bench"]);
    client
        .arg(format!("--volfile-server={ADDRESS}"))
        .arg("-l")
        .arg(root.join("mount.log"))
        .arg(&point);
    lab.scratch.note(Undo::Mount { point: point.clone() })?;
    lab.serve("gluster-mount", client)?;
    lab.interrupt.poll("GlusterFS is mounted", Duration::from_secs(30), || {
        // Until its bricks answer, a mount refuses everything.
        Ok((is_mounted(&point) && point.read_dir().is_ok()).then_some(()))
    })?;
    let reach = Reach::File(point.join("file"));
    lab.fill(&reach, lab.size, Some(&namespace))?;
    let mut configuration = configuration(
        "GlusterFS replica 3, FUSE mount",
        Family::ReplicatedPeer,
        3,
        "FUSE filesystem",
    );
    configuration.cache = "direct I/O, strict".to_owned();
    configuration.note = STRICT.to_owned();
    Ok(Target {
        configuration,
        reach,
        device: None,
        directory: Some(point),
        namespace: Some(namespace.clone()),
        servers: Servers::Namespace(namespace),
    })
}

/// Through its client library, which fio has as an engine.
pub fn library(lab: &mut Lab<'_>) -> Result<Target, Failure> {
    let namespace = start(lab, "ga")?;
    let reach = Reach::Gfapi { volume: VOLUME.to_owned(), host: ADDRESS.to_owned() };
    lab.fill(&reach, lab.size, Some(&namespace))?;
    let mut configuration = configuration(
        "GlusterFS replica 3, gfapi",
        Family::ReplicatedPeer,
        3,
        "client library (gfapi)",
    );
    configuration.cache = "direct I/O, strict".to_owned();
    configuration.note = format!("{STRICT}. The client's processor time is counted as fio's.");
    Ok(Target {
        configuration,
        reach,
        device: None,
        directory: None,
        namespace: Some(namespace.clone()),
        servers: Servers::Namespace(namespace),
    })
}

/// Starts the servers and the volume. Returns the namespace.
fn start(lab: &mut Lab<'_>, tag: &str) -> Result<String, Failure> {
    let namespace = format!("ekbench-{tag}-{}", std::process::id());
    lab.scratch.note(Undo::Namespace { name: namespace.clone() })?;
    lab.helper(["ip", "netns", "add", &namespace])?;
    let net = |words: &str| -> Vec<String> {
        ["ip", "-n", &namespace].into_iter().chain(words.split(' ')).map(str::to_owned).collect()
    };
    for words in [
        "link set lo up".to_owned(),
        "link add ek0 type veth peer name ek1".to_owned(),
        "link set ek1 up".to_owned(),
        format!("addr add {ADDRESS}/24 dev ek0"),
        "link set ek0 up".to_owned(),
    ] {
        lab.helper(net(&words))?;
    }
    let root = lab.scratch.directory(&format!("gluster-{tag}"))?;
    let configuration = write_configuration(lab, &root, tag)?;
    let mut daemon = in_namespace(&namespace, ["glusterd", "--no-daemon", "-f"]);
    daemon.arg(configuration).arg("-p").arg(root.join("glusterd.pid"));
    daemon.arg("-l").arg(root.join("glusterd.log"));
    lab.serve(&format!("glusterd-{tag}"), daemon)?;
    let socket = lab.scratch.sockets().join(format!("gluster-{tag}/glusterd.socket"));
    let socket = socket.display().to_string();
    lab.interrupt.poll("glusterd answers", Duration::from_secs(30), || {
        let words = gluster(&namespace, &socket, "pool list");
        Ok(process::run(lab.interrupt, &mut command(words), Duration::from_secs(20)).ok())
    })?;
    let mut create = format!("volume create {VOLUME} replica 3");
    for index in 0..3 {
        let brick = lab.place(index, &format!("gluster-brick-{tag}-{index}"))?;
        create += &format!(" {ADDRESS}:{}", brick.display());
    }
    lab.helper(gluster(&namespace, &socket, &(create + " force")))?;
    for (key, value) in OPTIONS {
        lab.helper(gluster(&namespace, &socket, &format!("volume set {VOLUME} {key} {value}")))?;
    }
    lab.helper(gluster(&namespace, &socket, &format!("volume start {VOLUME}")))?;
    Ok(namespace)
}

/// Everything of glusterd lies in the scratch directory: an installed one is not touched.
fn write_configuration(lab: &mut Lab<'_>, root: &Path, tag: &str) -> Result<PathBuf, Failure> {
    lab.scratch.directory(&format!("gluster-{tag}/work"))?;
    let sockets = lab.scratch.sockets().join(format!("gluster-{tag}"));
    std::fs::create_dir_all(&sockets)
        .map_err(|error| Failure::new(format!("cannot make {}", sockets.display()), error))?;
    let sockets = sockets.display();
    let path = root.join("glusterd.vol");
    let place = root.display();
    let text = format!(
        "volume management\n    type mgmt/glusterd\n    option working-directory {place}/work\n    \
         option run-directory {sockets}\n    option transport-type socket\n    \
         option transport.socket.listen-port 24007\n    \
         option transport.socket.bind-address {ADDRESS}\n    \
         option glusterd-sockfile {sockets}/glusterd.socket\nend-volume\n"
    );
    lab.said.push(format!("cat > {} << END\n{text}END", path.display()));
    std::fs::write(&path, text)
        .map_err(|error| Failure::new(format!("cannot write {}", path.display()), error))?;
    Ok(path)
}

fn in_namespace<const N: usize>(namespace: &str, words: [&str; N]) -> std::process::Command {
    let mut all = inside(Some(namespace));
    all.extend(words.map(str::to_owned));
    command(all)
}

fn gluster(namespace: &str, socket: &str, words: &str) -> Vec<String> {
    let mut all = inside(Some(namespace));
    all.extend([
        "gluster".to_owned(),
        "--mode=script".to_owned(),
        format!("--glusterd-sock={socket}"),
    ]);
    all.extend(words.split(' ').map(str::to_owned));
    all
}

fn is_mounted(point: &Path) -> bool {
    let table = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let wanted = point.to_string_lossy();
    table.lines().any(|line| line.split(' ').nth(1) == Some(&wanted))
}
