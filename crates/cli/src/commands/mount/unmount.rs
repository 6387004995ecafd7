//! `evenkeel umount`: the filesystem goes, and as much of the volume's use as the mount has begun.

use std::fs;
use std::path::{Path, PathBuf};

use evenkeel_api::routes;
use evenkeel_api::types::{
    DetachAnswer, DetachRequest, NodeStatus, VolumeAnswer, VolumeStatus, VolumesAnswer,
};

use super::{Context, RESTART, SLOW, node, others, points, reason, refuse_older, volume};
use crate::args::UmountArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output::say;
use crate::system::{self, NotRun};

/// How the node ends what it says of a volume of which a mount has made nothing.
const AS_BEFORE: &str = ", as it was before it was mounted";

/// Unmounts a volume's filesystem, and detaches the volume if it was attached to be mounted.
///
/// # Errors
/// If it is not mounted, in use, or the node refuses.
pub fn umount(context: &Context, args: &UmountArgs) -> Result<(), Failure> {
    let own = node(context)?;
    let Mounted { name, device, is_used, elsewhere } = find(context, &args.what, &own)?;
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
    let interrupt = Interrupt::watch()?;
    for (index, point) in points.iter().enumerate() {
        let unmounted = unmount(context, &interrupt, &name, (point, &points[index + 1..]));
        unmounted.map_err(|failure| after_others(failure, &points[..index]))?;
    }
    let before = Before::of(&points, &device, is_used);
    let shown: Vec<_> = points.iter().map(|point| point.display().to_string()).collect();
    let is_reported = !context.global.json && !context.global.quiet;
    if is_reported {
        // Before the rest, which may take long.
        say(&match before {
            Before::Written => being_unmounted(&name, volume(context, &name).ok().as_ref()),
            Before::Mounted | Before::Unmounted => unmounted(&name, &shown),
        });
    }
    let left = match (is_used, args.keep_attached) {
        (false, _) => Left::not_here(&elsewhere),
        (true, true) => Left { is_attached: true, reported: "it is still attached".to_owned() },
        (true, false) => give_back(context, &interrupt, &name, before)?,
    };
    if context.global.json {
        let text = serde_json::json!({
            "version": 1, "volume": name, "unmounted": shown, "attached": left.is_attached,
        });
        say(&format!("{text}\n"));
    } else if is_reported {
        say(&format!("Volume {name}: {}\n", left.reported));
    }
    Ok(())
}

fn unmounted(name: &str, points: &[String]) -> String {
    match points {
        [] => format!("Volume {name} is mounted nowhere on this node, or not any more\n"),
        points => format!("Unmounted volume {name} from {}\n", points.join(", ")),
    }
}

/// The kernel has not ended an earlier unmount.
fn being_unmounted(name: &str, volume: Option<&VolumeStatus>) -> String {
    format!(
        "Volume {name} is being unmounted: the kernel still writes what the volume has not got yet{}\n",
        reason(volume)
    )
}

/// What the volume was when the command began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    Mounted,
    Unmounted,
    /// The kernel still writes to it, for an unmount that was begun before.
    Written,
}

impl Before {
    fn of(points: &[PathBuf], device: &Path, is_used: bool) -> Self {
        match points {
            [] if is_used && others::is_held_by_kernel(device) => Self::Written,
            [] => Self::Unmounted,
            _ => Self::Mounted,
        }
    }
}

/// What the use of a volume is after its unmount.
struct Left {
    is_attached: bool,
    /// As a sentence.
    reported: String,
}

impl Left {
    fn detached() -> Self {
        Self { is_attached: false, reported: "it is detached".to_owned() }
    }

    /// Of a device from which the volume had been taken away before.
    fn not_here(elsewhere: &[String]) -> Self {
        if elsewhere.is_empty() {
            return Self::detached();
        }
        let reported = format!(
            "it is not attached on this node any more; it is attached on node {}",
            elsewhere.join(", ")
        );
        Self { is_attached: false, reported }
    }
}

/// It could not be unmounted from a directory, and was from these.
fn after_others(failure: Failure, before: &[PathBuf]) -> Failure {
    if before.is_empty() {
        return failure;
    }
    let done = format!("it is unmounted from {}", listed(before));
    let why = if failure.why.is_empty() { done } else { format!("{}; {done}", failure.why) };
    Failure { why, ..failure }
}

fn listed(points: &[PathBuf]) -> String {
    let shown: Vec<_> = points.iter().map(|point| point.display().to_string()).collect();
    shown.join(", ")
}

/// Takes away what was attached to mount it.
fn give_back(
    context: &Context,
    interrupt: &Interrupt,
    name: &str,
    before: Before,
) -> Result<Left, Failure> {
    let path = routes::fill(routes::DETACH, &[name]);
    let request = DetachRequest { after_mount: true, ..DetachRequest::default() };
    let answer = context.client.post_unless(interrupt, &path, &request);
    let answer: DetachAnswer = answer
        .and_then(|answer| answer.parse())
        .map_err(|failure| not_detached(failure, name, before))?;
    if answer.attached {
        // As a detach tells it, which names the volume first.
        let reported = answer.message.strip_prefix(&format!("{name}: ")).unwrap_or(&answer.message);
        return match before != Before::Mounted && reported.ends_with(AS_BEFORE) {
            true => Err(not_mounted(name, reported)),
            false => Ok(Left { is_attached: true, reported: reported.to_owned() }),
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

/// It is unmounted, or about to be, and the node could not detach it.
fn not_detached(failure: Failure, name: &str, before: Before) -> Failure {
    let (state, remedy) = match before {
        Before::Written if failure.exit == Exit::Interrupted => (
            "is being unmounted, and may be attached still",
            format!("when it answers, end that: evenkeel umount {name}"),
        ),
        _ if failure.exit == Exit::Interrupted => {
            ("is unmounted, and may be attached still", format!("end that: evenkeel umount {name}"))
        }
        Before::Written => (
            "is being unmounted, and stays attached",
            format!(
                "see why it does not serve, by `evenkeel volume status {name}`, and try again when it \
                 does: then the kernel ends the unmount"
            ),
        ),
        Before::Mounted | Before::Unmounted => {
            ("is unmounted, and stays attached", failure.remedy.clone())
        }
    };
    let (what, why) = (format!("volume `{name}` {state}"), failure.to_string());
    Failure { remedy, what, why, json: None, ..failure }
}

/// Nothing of this node's is mounted, and nothing was attached for that.
fn not_mounted(name: &str, why: &str) -> Failure {
    Failure::new(format!("volume `{name}` is not mounted on this node"), why)
        .advise(format!("to end its use: evenkeel detach {name}"))
}

/// `rest`: where else it is mounted.
fn unmount(
    context: &Context,
    interrupt: &Interrupt,
    name: &str,
    (point, rest): (&Path, &[PathBuf]),
) -> Result<(), Failure> {
    let is_silent = context.global.json || context.global.quiet;
    let report = || {
        if !is_silent {
            let path = routes::fill(routes::VOLUME, &[name]);
            let answer = context.client.fetch_unless::<VolumeAnswer>(interrupt, &path).ok();
            let volume = answer.map(|answer| answer.volume);
            eprintln!("{}", waits(name, point, volume.as_ref()));
        }
    };
    let ran = system::run_unless(interrupt, "umount", &[point.as_os_str()], SLOW, report);
    match ran {
        // It had done its work when it was stopped.
        Ok(_) => interrupt.check().map_err(|stopped| unmounted_only(stopped, name, (point, rest))),
        Err(NotRun::GoesOn) => {
            Err(goes_on(interrupt.check().err().unwrap_or_else(|| still_runs(point)), name, point))
        }
        Err(NotRun::Failed(failure)) if interrupt.wanted() => {
            let stopped = interrupt.check().err().unwrap_or(failure);
            match system::mounts().iter().any(|mount| mount.point == point) {
                true => Err(still_mounted(stopped, name, point)),
                false => Err(unmounted_only(stopped, name, (point, rest))),
            }
        }
        Err(NotRun::Failed(failure)) => {
            Err(failure.advise(format!("see who uses it: fuser -vm {}", point.display())))
        }
    }
}

/// It was stopped, and is unmounted there.
fn unmounted_only(stopped: Failure, name: &str, (point, rest): (&Path, &[PathBuf])) -> Failure {
    let why = match rest {
        [] => format!("volume {name} is unmounted, and stays attached"),
        _ => format!(
            "volume {name} is unmounted from {}, and mounted on {} still",
            point.display(),
            listed(rest)
        ),
    };
    Failure { why, ..stopped }.advise(format!("end that: evenkeel umount {name}"))
}

/// It was stopped before anything was done.
fn still_mounted(stopped: Failure, name: &str, point: &Path) -> Failure {
    Failure { why: format!("volume {name} is mounted on {} still", point.display()), ..stopped }
}

fn still_runs(point: &Path) -> Failure {
    Failure::new(format!("`umount {}` has not ended", point.display()), "").exit(Exit::Interrupted)
}

/// It was stopped, and the kernel goes on with the unmount.
fn goes_on(stopped: Failure, name: &str, point: &Path) -> Failure {
    let why = format!(
        "`umount {}` goes on in the kernel until the volume answers; volume {name} stays attached",
        point.display()
    );
    Failure { why, ..stopped }.advise(format!(
        "see what the volume waits for: evenkeel volume status {name}; when it answers, end this: \
         evenkeel umount {name}"
    ))
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
    /// The nodes that have it attached, if this one is none of them.
    elsewhere: Vec<String>,
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
                let others = volume.primaries.iter().filter(|primary| !primary.here);
                let elsewhere = others.map(|primary| primary.node.name.clone()).collect();
                return Ok(Mounted { name: volume.name.clone(), device, is_used, elsewhere });
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
