//! `evenkeel mount`: a filesystem on a volume, in one step.

mod attempt;
mod filesystem;
mod others;
mod points;
mod unmount;

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use evenkeel_api::routes;
use evenkeel_api::types::{NodeAnswer, NodeStatus, VolumeAnswer, VolumeState, VolumeStatus};

use super::Context;
use crate::args::MountArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Painted as _, say};
use crate::system::{self, Mount};
use attempt::Attempt;
pub use filesystem::make;
pub use unmount::umount;

/// How long a program may take before anything is said of it: a primary has noticed by then that a
/// replica does not answer.
const SLOW: Duration = Duration::from_secs(6);
/// What a node has to know of the API to take back what it made for one mount.
const NEEDED: u32 = 1;

/// Attaches a volume if need be, makes a filesystem if asked for, mounts it.
///
/// One that is mounted there already stays so: that is no error.
///
/// # Errors
/// If any of that fails, or somebody wants an end. What was made for it is taken away again, and
/// nothing else; or the failure says what stays.
pub fn mount(context: &Context, args: &MountArgs) -> Result<(), Failure> {
    refuse_file(args)?;
    refuse_without_right(&args.name, system::may_mount())?;
    let what = format!("volume `{}` is not mounted", args.name);
    let own = node(context)?;
    refuse_older(&own, &what, &format!("{RESTART}, and try again"))?;
    let volume = volume(context, &args.name)?;
    let mounts = system::mounts();
    points::refuse_dead(&volume.name, &args.directory, &volume.dead_devices, &mounts)?;
    points::refuse_covered(&volume.name, &args.directory, &mounts, points::volume_of)?;
    let here = volume.primaries.iter().find(|primary| primary.here);
    if let Some(device) = here.and_then(|primary| primary.device.as_deref())
        && let Some(kind) = mounted_there(args, Path::new(device), &mounts)?
    {
        mounted(context, args, device, &kind);
        return Ok(());
    }
    others::refuse_clients(&volume, args, &own.id)?;
    let (device, kind) = Attempt::new(context, args, &own.id)?.mount()?;
    mounted(context, args, &device, &kind);
    Ok(())
}

/// The type of the filesystem if the volume's device is mounted where it is to be.
///
/// # Errors
/// If it is mounted elsewhere.
fn mounted_there(
    args: &MountArgs,
    device: &Path,
    mounts: &[Mount],
) -> Result<Option<String>, Failure> {
    let directory = fs::canonicalize(&args.directory).unwrap_or_else(|_| args.directory.clone());
    let mut own = mounts.iter().filter(|mount| system::is_from(mount, device)).peekable();
    let Some(first) = own.peek().copied() else { return Ok(None) };
    if let Some(there) = own.find(|mount| mount.point == directory) {
        return Ok(Some(there.kind.clone()));
    }
    let (name, point) = (&args.name, first.point.display());
    Err(Failure::new(
        format!("volume `{name}` is not mounted on {}", args.directory.display()),
        format!("it is mounted on {point} already"),
    )
    .exit(Exit::Unsafe)
    .advise(format!("unmount it first: evenkeel umount {name} --keep-attached")))
}

fn mounted(context: &Context, args: &MountArgs, device: &str, kind: &str) {
    if context.global.json {
        let shown = serde_json::json!({
            "version": 1, "volume": args.name, "device": device, "filesystem": kind,
            "directory": args.directory,
        });
        say(&format!("{shown}\n"));
    } else if !context.global.quiet {
        let directory = args.directory.display().to_string();
        say(&format!("Mounted volume {} ({kind}) on {}\n", args.name, directory.bold()));
    }
}

/// The node that is asked.
fn node(context: &Context) -> Result<NodeStatus, Failure> {
    Ok(context.client.fetch::<NodeAnswer>(routes::NODE)?.node)
}

/// After it the daemon is what this command is.
const RESTART: &str = "restart the daemon (systemctl restart evenkeel)";

/// Refuses to begin with a daemon that could not end it, as after an update without a restart.
fn refuse_older(node: &NodeStatus, what: &str, advice: &str) -> Result<(), Failure> {
    if node.revision >= NEEDED {
        return Ok(());
    }
    let why = format!(
        "the daemon of node {} ({}) is older than this command, and does not know what was made for \
         a mount; nothing was done",
        node.name, node.software
    );
    Err(Failure::new(what, why).advise(advice))
}

/// Refuses what is no directory, and can't be made one, before the volume is attached and a
/// filesystem made on it.
fn refuse_file(args: &MountArgs) -> Result<(), Failure> {
    let why = match fs::metadata(&args.directory) {
        Ok(found) if found.is_dir() => return Ok(()),
        Ok(_) => format!("{} is not a directory", args.directory.display()),
        // One that is missing is made.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => format!("{}: {error}", args.directory.display()),
    };
    let what = format!("cannot mount volume `{}`", args.name);
    Err(Failure::new(what, why).exit(Exit::Usage).advise("name a directory"))
}

/// The right to ask the node is not the right to mount: that is the system's to give.
fn refuse_without_right(name: &str, may_mount: bool) -> Result<(), Failure> {
    if may_mount {
        return Ok(());
    }
    Err(Failure::new(
        format!("cannot mount volume `{name}`"),
        "this user may not mount filesystems on this machine (it has not CAP_SYS_ADMIN), whatever it may ask of the node",
    )
    .advise(format!(
        "run it as root: sudo evenkeel mount {name} DIRECTORY; or use the volume without a mount: \
         evenkeel attach {name} --as nbd"
    )))
}

/// Why a volume does not answer, as an addition to a sentence; nothing if it does.
fn reason(volume: Option<&VolumeStatus>) -> String {
    let suspended = volume.and_then(|volume| volume.suspended.as_ref());
    let other = |volume: &&VolumeStatus| volume.state != VolumeState::Serving;
    let reason = suspended
        .map(|suspended| suspended.why.clone())
        .or_else(|| volume.filter(other).and_then(|volume| volume.reason.clone()));
    reason.map(|reason| format!(" ({reason})")).unwrap_or_default()
}

fn volume(context: &Context, name: &str) -> Result<VolumeStatus, Failure> {
    let answer: VolumeAnswer = context.client.fetch(&routes::fill(routes::VOLUME, &[name]))?;
    Ok(answer.volume)
}

#[cfg(test)]
mod tests;
