//! Who else uses a volume that is to be mounted. Two that write to it and don't know of each other
//! destroy what is on it; and what one of them has written need not be a filesystem that is known
//! here.

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use evenkeel_api::types::{
    Export, PrimaryStatus, VolumeBitmap, VolumeStatus, WantedExport, WantedStatus,
};

use crate::args::{Filesystem, MountArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::system;

/// The filesystems that several nodes may have mounted at once.
const SHARED: [&str; 2] = ["gfs2", "ocfs2"];
/// How often, and how long apart, it is looked who has a device open: device managers look at a new
/// one for a moment.
const LOOKS: u32 = 10;
const PAUSE: Duration = Duration::from_millis(100);

/// Refuses to mount what a client uses that may write, or may use at any time from another machine:
/// hosts connect again by themselves, as after a restart. `own`: the node's identity.
///
/// # Errors
/// Says who uses it, and where.
pub fn refuse_clients(volume: &VolumeStatus, args: &MountArgs, own: &str) -> Result<(), Failure> {
    let what = format!("volume `{}` is not mounted on {}", volume.name, args.directory.display());
    let writable: Vec<&Export> = volume.exports.iter().filter(|it| !it.read_only).collect();
    let used: Vec<&Export> = writable.iter().filter(|it| it.clients > 0).copied().collect();
    if let Some(first) = used.first() {
        let users: Vec<String> = used.iter().map(|export| use_by(export)).collect();
        let failure = Failure::new(what, users.join(", and ")).exit(Exit::Unsafe);
        return Err(failure.advise(ending_client(volume, first)));
    }
    let reached = writable.into_iter().find(|export| is_reached(export));
    let reached = reached.map(|it| (use_by(it), end(volume, &it.kind, &it.node.name)));
    let meant = || {
        let mut meant = meant(volume, own).into_iter();
        let (node, it) = meant.find(|(_, export)| export.tcp && !export.read_only)?;
        Some((use_to_come(node, &it), end(volume, &it.kind, node)))
    };
    let Some((by, end)) = reached.or_else(meant).filter(|_| !args.beside_exports) else {
        return Ok(());
    };
    let why = format!(
        "{by}, and whoever may use that can write at any time: what two write that don't know of each \
         other is lost"
    );
    let advice = format!(
        "{end}; or, if nobody uses it while the volume is mounted here: evenkeel mount {} {} \
         --beside-exports",
        volume.name,
        args.directory.display()
    );
    Err(Failure::new(what, why).exit(Exit::Unsafe).advise(advice))
}

/// Whether other machines reach it.
fn is_reached(export: &Export) -> bool {
    export.kind == "nvme" || !export.tcp.is_empty()
}

/// The exports that are not there, and come by themselves: as soon as the node is ready on which
/// they are meant to be. A volume that is not shared is taken from any other node.
fn meant<'a>(volume: &'a VolumeStatus, own: &str) -> Vec<(&'a str, WantedExport)> {
    let is_shared = volume.bitmap == VolumeBitmap::Clustered;
    let wanted = volume.wanted_on.iter().filter(|on| is_shared || on.node.id == own);
    wanted.flat_map(|on| to_come(on).into_iter().map(|export| (&*on.node.name, export))).collect()
}

/// What is to be exported there. A daemon that does not say how may mean anything by it.
fn to_come(on: &WantedStatus) -> Vec<WantedExport> {
    let mut all = on.exports.clone();
    for (kind, _) in [("nbd", on.nbd), ("nvme", on.nvme)].into_iter().filter(|(_, is)| *is) {
        if on.exports.iter().all(|export| export.kind != kind) {
            all.push(WantedExport { kind: kind.to_owned(), tcp: true, read_only: false });
        }
    }
    all
}

/// What to do about a client, which may be the disk of a virtual machine: another node's export
/// can't be ended from here without its attachment.
fn ending_client(volume: &VolumeStatus, export: &Export) -> String {
    let end = end(volume, &export.kind, &export.node.name);
    format!("have what uses it end its connection, or {end}; then try again")
}

/// How an export of this kind on this node is ended.
fn end(volume: &VolumeStatus, kind: &str, node: &str) -> String {
    let name = &volume.name;
    let is_here = |primary: &PrimaryStatus| primary.here && primary.node.name == node;
    match volume.primaries.iter().any(is_here) {
        true => format!(
            "end the export and the connection with it: evenkeel unexport {name} --only {kind}"
        ),
        false => {
            format!("if nobody needs it there, detach it: evenkeel detach {name} --node {node}")
        }
    }
}

/// Refuses to mount a filesystem that another node may have mounted too, if it is none for that. A
/// node that does not answer may go on, as long as it is in the view.
///
/// # Errors
/// Says where else the volume is attached.
pub fn refuse_second_mount(
    volume: &VolumeStatus,
    directory: &Path,
    kind: &str,
) -> Result<(), Failure> {
    let mut others = volume.primaries.iter().filter(|primary| !primary.here);
    let Some(other) = others.next() else { return Ok(()) };
    if SHARED.contains(&kind) {
        return Ok(());
    }
    let (name, node) = (&volume.name, &other.node.name);
    Err(Failure::new(
        format!("volume `{name}` is not mounted on {}", directory.display()),
        format!(
            "it is attached on node {node} too, and {kind} may be mounted on one node at a time"
        ),
    )
    .exit(Exit::Unsafe)
    .advise(format!("unmount it there, and detach it: evenkeel detach {name} --node {node}")))
}

/// Refuses to make a filesystem on what somebody else uses or may use at any time.
///
/// # Errors
/// Says who that is.
pub fn refuse_mkfs(
    volume: &VolumeStatus,
    device: &Path,
    wanted: Filesystem,
    own: &str,
) -> Result<(), Failure> {
    let others = of(volume, device, own);
    if others.is_empty() {
        return Ok(());
    }
    let (name, kind) = (&volume.name, wanted.name());
    Err(Failure::new(
        format!("no {kind} filesystem was made on volume `{name}`"),
        format!("{}: what they have written would be lost", others.join(", and ")),
    )
    .exit(Exit::Unsafe)
    .advise(ending(name)))
}

/// A volume carries nothing that is known here, and somebody else uses it: it is not advised to
/// make something.
pub fn carries_nothing_known(volume: &VolumeStatus, others: &[String]) -> Failure {
    let name = &volume.name;
    let others = others.join(", and ");
    Failure::new(
        format!("volume `{name}` cannot be mounted"),
        format!("it carries no filesystem that is known here, and {others}"),
    )
    .exit(Exit::Unsafe)
    .advise(ending(name))
}

fn ending(name: &str) -> String {
    format!(
        "see who uses it, by `evenkeel volume status {name}`, and what is on it; if nobody needs \
         that, end this use (evenkeel unexport, evenkeel detach --node NODE), and try again"
    )
}

/// Who else has the volume attached, exported or its device open, each as a sentence. `own`: the
/// node's identity.
pub fn of(volume: &VolumeStatus, device: &Path, own: &str) -> Vec<String> {
    let mut others = elsewhere(volume, own);
    others.extend(users(device));
    others
}

/// Those that the nodes know of.
fn elsewhere(volume: &VolumeStatus, own: &str) -> Vec<String> {
    let attached = volume.primaries.iter().filter(|primary| !primary.here);
    let attached = attached.map(|primary| format!("it is attached on node {}", primary.node.name));
    let meant = meant(volume, own).into_iter();
    let meant = meant.map(|(node, export)| use_to_come(node, &export));
    volume.exports.iter().map(use_by).chain(meant).chain(attached).collect()
}

/// `an NBD client uses it (n2)`.
fn use_by(export: &Export) -> String {
    let (protocol, client) = protocol(&export.kind);
    let node = &export.node.name;
    match export.clients {
        0 => format!("it is exported by {protocol} ({node})"),
        1 => format!("an {protocol} {client} uses it ({node})"),
        clients => format!("{clients} {protocol} {client}s use it ({node})"),
    }
}

/// `it is to be exported by NVMe (n1)`.
fn use_to_come(node: &str, export: &WantedExport) -> String {
    format!("it is to be exported by {} ({node})", protocol(&export.kind).0)
}

/// A protocol, and what uses an export by it.
fn protocol(kind: &str) -> (&'static str, &'static str) {
    match kind {
        "nvme" => ("NVMe", "host"),
        _ => ("NBD", "client"),
    }
}

/// Who has the device open on this machine, after a moment for those that only look at it.
fn users(device: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for look in 0..LOOKS {
        if look > 0 {
            std::thread::sleep(PAUSE);
        }
        found = users_now(device);
        if found.is_empty() {
            break;
        }
    }
    found
}

fn users_now(device: &Path) -> Vec<String> {
    let real = std::fs::canonicalize(device).unwrap_or_else(|_| device.to_owned());
    let processes = system::users_of(&real).into_iter();
    let mut found: Vec<String> = processes.map(|user| format!("{user} has it open")).collect();
    if found.is_empty() && is_held(&real) {
        found.push("its block device is mounted, or a part of another device".to_owned());
    }
    found
}

/// Whether the kernel holds a device that is mounted nowhere in sight, and no process has it open
/// in sight: as while it writes what an unmount has left.
pub fn is_held_by_kernel(device: &Path) -> bool {
    let real = std::fs::canonicalize(device).unwrap_or_else(|_| device.to_owned());
    is_held(&real) && system::users_of(&real).is_empty() && !system::has_holder(&real)
}

/// Whether somebody has it for himself: a mount in any namespace, a device that is built on it.
fn is_held(device: &Path) -> bool {
    let flags = rustix::fs::OFlags::EXCL.bits().cast_signed();
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(device);
    opened.is_err_and(|error| error.kind() == ErrorKind::ResourceBusy)
}

#[cfg(test)]
mod tests;
