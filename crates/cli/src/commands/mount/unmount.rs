//! `evenkeel umount`: the filesystem goes, and as much of the volume's use as the mount has begun.

use std::fs;
use std::path::{Path, PathBuf};

use evenkeel_api::routes;
use evenkeel_api::types::{DetachAnswer, DetachRequest, NodeStatus, VolumeStatus, VolumesAnswer};

use super::{Context, RESTART, SLOW, node, points, reason, refuse_older, volume};
use crate::args::UmountArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::say;
use crate::system;

/// How the node ends what it says of a volume of which a mount has made nothing.
const AS_BEFORE: &str = ", as it was before it was mounted";

/// Unmounts a volume's filesystem, and detaches the volume if it was attached to be mounted.
///
/// # Errors
/// If it is not mounted, in use, or the node refuses.
pub fn umount(context: &Context, args: &UmountArgs) -> Result<(), Failure> {
    let own = node(context)?;
    let Mounted { name, device, is_used } = find(context, &args.what, &own)?;
    if is_used && !args.keep_attached {
        // Before anything is unmounted. A restart takes the device from under a filesystem.
        let advice = format!(
            "unmount it with `evenkeel umount {name} --keep-attached`, {RESTART}, and then give it \
             up with `evenkeel detach {name}`"
        );
        refuse_older(&own, &format!("volume `{name}` is not unmounted"), &advice)?;
    }
    let points = system::mount_points(&device);
    points::refuse_hidden(&name, &device, &system::mounts(), points::volume_of)?;
    for point in &points {
        unmount(context, &name, point)?;
    }
    let shown: Vec<_> = points.iter().map(|point| point.display().to_string()).collect();
    let is_told = !context.global.json && !context.global.quiet;
    if is_told {
        // Before the rest, which may take long.
        say(&unmounted(&name, &shown));
    }
    let left = match (is_used, args.keep_attached) {
        (false, _) => Left::detached(),
        (true, true) => Left { is_attached: true, told: "it is still attached".to_owned() },
        (true, false) => give_back(context, &name, points.is_empty())?,
    };
    if context.global.json {
        let text = serde_json::json!({
            "version": 1, "volume": name, "unmounted": shown, "attached": left.is_attached,
        });
        say(&format!("{text}\n"));
    } else if is_told {
        say(&format!("Volume {name}: {}\n", left.told));
    }
    Ok(())
}

fn unmounted(name: &str, points: &[String]) -> String {
    match points {
        [] => format!("Volume {name} is mounted nowhere on this node, or not any more\n"),
        points => format!("Unmounted volume {name} from {}\n", points.join(", ")),
    }
}

/// What the use of a volume is after its unmount.
struct Left {
    is_attached: bool,
    /// As a sentence.
    told: String,
}

impl Left {
    fn detached() -> Self {
        Self { is_attached: false, told: "it is detached".to_owned() }
    }
}

/// Takes away what was attached to mount it. `was_unmounted`: nothing was mounted by now.
fn give_back(context: &Context, name: &str, was_unmounted: bool) -> Result<Left, Failure> {
    let path = routes::fill(routes::DETACH, &[name]);
    let request = DetachRequest { after_mount: true, ..DetachRequest::default() };
    let answer = context.client.post(&path, &request).and_then(|answer| answer.parse());
    let answer: DetachAnswer =
        answer.map_err(|failure| not_detached(failure, name, was_unmounted))?;
    if answer.attached {
        // As a detach tells it, which names the volume first.
        let told = answer.message.strip_prefix(&format!("{name}: ")).unwrap_or(&answer.message);
        return match was_unmounted && told.ends_with(AS_BEFORE) {
            true => Err(not_mounted(name, told)),
            false => Ok(Left { is_attached: true, told: told.to_owned() }),
        };
    }
    if answer.given_up {
        return Ok(Left::detached());
    }
    let what = format!("volume `{name}` is unmounted, and is not given up");
    Err(Failure::new(what, answer.message)
        .exit(Exit::Unreachable)
        .advise(format!("see it: evenkeel volume status {name}")))
}

/// It is unmounted, and the node could not detach it. `was_unmounted`: by an earlier command, whose
/// unmount the kernel may not have ended.
fn not_detached(failure: Failure, name: &str, was_unmounted: bool) -> Failure {
    let remedy = match was_unmounted && failure.exit == Exit::Unsafe {
        true => format!(
            "if an unmount was begun before, the kernel still writes what the volume has not got yet: \
             see why it does not serve, by `evenkeel volume status {name}`, and try again when it does"
        ),
        false => failure.remedy.clone(),
    };
    Failure {
        remedy,
        what: format!("volume `{name}` is unmounted, and stays attached"),
        why: failure.to_string(),
        json: None,
        ..failure
    }
}

/// Nothing of this node's is mounted, and nothing was attached for that.
fn not_mounted(name: &str, why: &str) -> Failure {
    Failure::new(format!("volume `{name}` is not mounted on this node"), why)
        .advise(format!("to end its use: evenkeel detach {name}"))
}

fn unmount(context: &Context, name: &str, point: &Path) -> Result<(), Failure> {
    let is_silent = context.global.json || context.global.quiet;
    let tell = || {
        if !is_silent {
            let volume = volume(context, name).ok();
            eprintln!("{}", waits(name, point, volume.as_ref()));
        }
    };
    system::run_telling("umount", &[point.as_os_str()], SLOW, tell).map(drop).map_err(|failure| {
        failure.advise(format!("see who uses it: fuser -vm {}", point.display()))
    })
}

/// What an unmount waits for, and what becomes of it if nobody waits.
fn waits(name: &str, point: &Path, volume: Option<&VolumeStatus>) -> String {
    let reason = reason(volume);
    format!(
        "waiting for `umount {}`, which writes what volume {name} has not got yet{reason}; Ctrl-C ends \
         the wait, not the unmount: it goes on as soon as the volume answers, and the volume stays attached",
        point.display()
    )
}

/// A volume that may be mounted on this machine.
struct Mounted {
    name: String,
    device: PathBuf,
    /// Whether the node has it attached, or is to attach it again by itself: a device that outlived
    /// that gives errors.
    is_used: bool,
}

/// The volume that a person means by its name or by where it is mounted, with its device. One that
/// is dead and is mounted still goes first: nothing takes its place before it is unmounted.
fn find(context: &Context, what: &str, own: &NodeStatus) -> Result<Mounted, Failure> {
    let volumes = context.client.fetch::<VolumesAnswer>(routes::VOLUMES)?.volumes;
    let directory = fs::canonicalize(what).ok();
    let mounts = system::mounts();
    for volume in &volumes {
        let here = || volume.primaries.iter().filter(|primary| primary.here);
        let is_used = here().next().is_some() || is_wanted(volume, own);
        let living = here().filter_map(|primary| primary.device.as_ref());
        for device in volume.dead_devices.iter().chain(living) {
            let device = PathBuf::from(device);
            let mounted_there = directory
                .as_ref()
                .and_then(|path| system::top_mount(&mounts, path))
                .is_some_and(|top| system::is_from(top, &device));
            if volume.name == what || mounted_there {
                return Ok(Mounted { name: volume.name.clone(), device, is_used });
            }
        }
    }
    Err(not_here(what, &volumes, own))
}

/// Whether this node is to attach it again by itself.
fn is_wanted(volume: &VolumeStatus, own: &NodeStatus) -> bool {
    volume.wanted_on.iter().any(|wanted| wanted.node.id == own.id)
}

/// Why nothing of this node is meant by that.
fn not_here(what: &str, volumes: &[VolumeStatus], own: &NodeStatus) -> Failure {
    let Some(volume) = volumes.iter().find(|volume| volume.name == what) else {
        return Failure::new(
            format!("`{what}` is neither a volume attached here nor the directory of one"),
            "no device of this node matches",
        )
        .exit(Exit::NotFound)
        .advise("see what is attached: evenkeel volume status");
    };
    let failure = |why: String| Failure::new(format!("cannot unmount volume `{what}`"), why);
    let nodes: Vec<_> = volume.primaries.iter().map(|primary| &*primary.node.name).collect();
    if volume.primaries.iter().any(|primary| primary.here) {
        return failure("it has no block device on this node, so it is not mounted here".into())
            .advise(format!("to end its use: evenkeel detach {what}"));
    }
    if is_wanted(volume, own) {
        return failure("it is not attached on this node at present, and is attached again".into())
            .advise(format!("to end that: evenkeel detach {what}"));
    }
    match nodes.first() {
        Some(first) => {
            failure(format!("it is attached on node {}, not on this one", nodes.join(", ")))
                .exit(Exit::Unsafe)
                .advise(format!("unmount it on node {first}: evenkeel umount {what}"))
        }
        None => failure("it is not attached".into())
            .advise(format!("see it: evenkeel volume status {what}")),
    }
}

#[cfg(test)]
mod tests;
