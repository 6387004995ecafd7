//! `evenkeel mount`, `evenkeel umount`: a filesystem on a volume, in one step.

mod filesystem;
mod points;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use evenkeel_api::routes;
use evenkeel_api::types::{
    AttachAnswer, AttachHow, AttachRequest, DetachAnswer, DetachRequest, VolumeAnswer,
    VolumeStatus, VolumesAnswer,
};

use super::Context;
use crate::args::{MountArgs, UmountArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Painted as _, say};
use crate::system;
pub use filesystem::make;

/// Attaches a volume if need be, makes a filesystem if asked for, mounts it.
///
/// # Errors
/// If any of that fails. A volume that was attached for it is detached again.
pub fn mount(context: &Context, args: &MountArgs) -> Result<(), Failure> {
    refuse_file(args)?;
    let volume = volume(context, &args.name)?;
    points::refuse_covered(&volume.name, &args.directory, &system::mounts(), points::volume_of)?;
    let already = volume.primaries.iter().find(|primary| primary.here);
    let (device, attached_now) = match already.and_then(|primary| primary.device.clone()) {
        Some(device) => (device, false),
        None => (attach(context, &args.name)?, true),
    };
    let result = mount_device(Path::new(&device), args);
    if result.is_err() && attached_now {
        // The first failure is what the person needs to know.
        drop(detach(context, &args.name));
    }
    let kind = result?;
    if context.global.json {
        let shown = serde_json::json!({
            "version": 1, "volume": args.name, "device": device, "filesystem": kind,
            "directory": args.directory,
        });
        say(&format!("{shown}\n"));
    } else if !context.global.quiet {
        say(&format!(
            "Mounted volume {} ({kind}) on {}\n",
            args.name,
            args.directory.display().to_string().bold()
        ));
    }
    Ok(())
}

/// Refuses what is no directory before the volume is attached, and a filesystem made on it.
fn refuse_file(args: &MountArgs) -> Result<(), Failure> {
    match fs::metadata(&args.directory) {
        Ok(found) if !found.is_dir() => {
            let what = format!("cannot mount volume `{}`", args.name);
            let why = format!("{} is not a directory", args.directory.display());
            Err(Failure::new(what, why).exit(Exit::Usage).advise("name a directory"))
        }
        // One that is missing is made.
        _ => Ok(()),
    }
}

fn volume(context: &Context, name: &str) -> Result<VolumeStatus, Failure> {
    let answer: VolumeAnswer = context.client.fetch(&routes::fill(routes::VOLUME, &[name]))?;
    Ok(answer.volume)
}

fn attach(context: &Context, name: &str) -> Result<String, Failure> {
    let request = AttachRequest { how: AttachHow::Device, ..AttachRequest::default() };
    let answer: AttachAnswer =
        context.client.post(&routes::fill(routes::ATTACH, &[name]), &request)?.parse()?;
    answer.device.ok_or_else(|| {
        Failure::new(format!("volume `{name}` has no device"), "the node made none")
            .advise("attach it with --as nbd and use an NBD client instead")
    })
}

fn detach(context: &Context, name: &str) -> Result<DetachAnswer, Failure> {
    let path = routes::fill(routes::DETACH, &[name]);
    context.client.post(&path, &DetachRequest::default())?.parse()
}

/// Returns the type of the filesystem.
fn mount_device(device: &Path, args: &MountArgs) -> Result<String, Failure> {
    if let Some(point) = system::mount_points(device).first() {
        return Err(Failure::new(
            format!("volume `{}` is not mounted on {}", args.name, args.directory.display()),
            format!("it is mounted on {} already", point.display()),
        )
        .exit(Exit::Unsafe)
        .advise(format!("unmount it first: evenkeel umount {} --keep-attached", args.name)));
    }
    let kind = match (filesystem::signature(device)?, args.mkfs) {
        (Some(kind), None) => kind,
        (Some(kind), Some(wanted)) if kind == wanted.name() => kind,
        (Some(kind), Some(wanted)) => {
            return Err(filesystem::carries_other(&args.name, &kind, wanted));
        }
        (None, Some(wanted)) => {
            make(&args.name, device, wanted)?;
            wanted.name().to_owned()
        }
        (None, None) => return Err(filesystem::carries_nothing(args, device)),
    };
    fs::create_dir_all(&args.directory).map_err(|error| {
        Failure::new(format!("cannot make {}", args.directory.display()), error)
            .advise("name a directory that is there, or that can be made")
    })?;
    let mut words = vec![OsStr::new("-t"), OsStr::new(&kind)];
    if let Some(options) = &args.options {
        words.extend([OsStr::new("-o"), OsStr::new(options)]);
    }
    words.extend([device.as_os_str(), args.directory.as_os_str()]);
    system::run("mount", &words).map_err(|failure| filesystem::not_mounted(failure, &kind))?;
    Ok(kind)
}

/// Unmounts a volume's filesystem, and detaches the volume.
///
/// # Errors
/// If it is not mounted, in use, or the node refuses.
pub fn umount(context: &Context, args: &UmountArgs) -> Result<(), Failure> {
    let Mounted { name, device, is_attached } = find(context, &args.what)?;
    let points = system::mount_points(&device);
    points::refuse_hidden(&name, &device, &system::mounts(), points::volume_of)?;
    for point in &points {
        system::run("umount", &[point.as_os_str()]).map_err(|failure| {
            failure.advise(format!("see who uses it: fuser -vm {}", point.display()))
        })?;
    }
    let mut left = None;
    if is_attached && !args.keep_attached {
        left = Some(detach(context, &name)?).filter(|answer| !answer.given_up);
    }
    if let Some(answer) = left {
        let what = format!("volume `{name}` is unmounted, and is not given up");
        return Err(Failure::new(what, answer.message).exit(Exit::Unreachable));
    }
    let shown: Vec<_> = points.iter().map(|point| point.display().to_string()).collect();
    let is_kept = is_attached && args.keep_attached;
    let state = if is_kept { "still attached" } else { "detached" };
    if context.global.json {
        let text = serde_json::json!({
            "version": 1, "volume": name, "unmounted": shown, "attached": is_kept,
        });
        say(&format!("{text}\n"));
    } else if !context.global.quiet {
        let from = if shown.is_empty() { "nowhere".to_owned() } else { shown.join(", ") };
        say(&format!("Unmounted volume {name} from {from}; it is {state}\n"));
    }
    Ok(())
}

/// A volume that may be mounted on this machine.
struct Mounted {
    name: String,
    device: PathBuf,
    /// Whether the node has it attached: a device that outlived that gives errors.
    is_attached: bool,
}

/// The volume that a person means by its name or by where it is mounted, with its device. One that
/// is dead and is mounted still goes first: nothing takes its place before it is unmounted.
fn find(context: &Context, what: &str) -> Result<Mounted, Failure> {
    let volumes = context.client.fetch::<VolumesAnswer>(routes::VOLUMES)?.volumes;
    let directory = fs::canonicalize(what).ok();
    let mounts = system::mounts();
    for volume in &volumes {
        let here = || volume.primaries.iter().filter(|primary| primary.here);
        let is_attached = here().next().is_some();
        let living = here().filter_map(|primary| primary.device.as_ref());
        for device in volume.dead_devices.iter().chain(living) {
            let device = PathBuf::from(device);
            let mounted_there = directory
                .as_ref()
                .and_then(|path| system::top_mount(&mounts, path))
                .is_some_and(|top| system::is_from(top, &device));
            if volume.name == what || mounted_there {
                return Ok(Mounted { name: volume.name.clone(), device, is_attached });
            }
        }
    }
    Err(not_here(what, &volumes))
}

/// Why nothing of this node is meant by that.
fn not_here(what: &str, volumes: &[VolumeStatus]) -> Failure {
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
