//! `evenkeel mount`: a filesystem on a volume, in one step.

mod filesystem;
mod others;
mod points;
mod unmount;

use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use evenkeel_api::error::ErrorAnswer;
use evenkeel_api::types::{
    AttachAnswer, AttachHow, AttachRequest, DetachAnswer, DetachRequest, VolumeAnswer, VolumeStatus,
};
use evenkeel_api::{ErrorCode, routes};

use super::Context;
use crate::args::MountArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output::{Painted as _, say};
use crate::system;
pub use filesystem::make;
pub use unmount::umount;

/// Attaches a volume if need be, makes a filesystem if asked for, mounts it.
///
/// # Errors
/// If any of that fails, or somebody wants an end. What was attached for it is detached again, and
/// nothing else.
pub fn mount(context: &Context, args: &MountArgs) -> Result<(), Failure> {
    refuse_file(args)?;
    refuse_without_right(&args.name, system::may_mount())?;
    let volume = volume(context, &args.name)?;
    points::refuse_covered(&volume.name, &args.directory, &system::mounts(), points::volume_of)?;
    others::refuse_clients(&volume, &args.directory)?;
    let interrupt = Interrupt::watch()?;
    let already = volume.primaries.iter().find(|primary| primary.here);
    let had = already.and_then(|primary| primary.device.clone());
    let device = had.clone().map_or_else(|| attach(context, &interrupt, &args.name), Ok);
    let result = device.and_then(|device| {
        let kind = mount_device(context, &interrupt, Path::new(&device), args)?;
        Ok((device, kind))
    });
    if had.is_none() && result.as_ref().is_err_and(may_have_attached) {
        // The first failure is what the person needs to know.
        drop(detach(context, &args.name));
    }
    let (device, kind) = result.map_err(|failure| interrupt.check().err().unwrap_or(failure))?;
    told(context, args, &device, &kind);
    Ok(())
}

/// Whether something may be attached for a mount that has failed: not if somebody else has attached
/// the volume meanwhile, whose it is.
fn may_have_attached(failure: &Failure) -> bool {
    let told = failure.json.as_deref().and_then(|json| serde_json::from_str(json).ok());
    let code = told.map(|answer: ErrorAnswer| answer.error.code);
    code != Some(ErrorCode::Attached)
}

fn told(context: &Context, args: &MountArgs, device: &str, kind: &str) {
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

fn volume(context: &Context, name: &str) -> Result<VolumeStatus, Failure> {
    let answer: VolumeAnswer = context.client.fetch(&routes::fill(routes::VOLUME, &[name]))?;
    Ok(answer.volume)
}

fn attach(context: &Context, interrupt: &Interrupt, name: &str) -> Result<String, Failure> {
    let how = AttachHow::Device;
    let request = AttachRequest { how, for_mount: true, ..AttachRequest::default() };
    let path = routes::fill(routes::ATTACH, &[name]);
    let answer: AttachAnswer = context.client.post_unless(interrupt, &path, &request)?.parse()?;
    answer.device.ok_or_else(|| {
        Failure::new(format!("volume `{name}` has no device"), "the node made none")
            .advise("attach it with --as nbd and use an NBD client instead")
    })
}

/// Takes away what was attached to mount the volume, and no more.
fn detach(context: &Context, name: &str) -> Result<DetachAnswer, Failure> {
    let path = routes::fill(routes::DETACH, &[name]);
    let request = DetachRequest { after_mount: true, ..DetachRequest::default() };
    context.client.post(&path, &request)?.parse()
}

/// Returns the type of the filesystem.
fn mount_device(
    context: &Context,
    interrupt: &Interrupt,
    device: &Path,
    args: &MountArgs,
) -> Result<String, Failure> {
    if let Some(point) = system::mount_points(device).first() {
        return Err(Failure::new(
            format!("volume `{}` is not mounted on {}", args.name, args.directory.display()),
            format!("it is mounted on {} already", point.display()),
        )
        .exit(Exit::Unsafe)
        .advise(format!("unmount it first: evenkeel umount {} --keep-attached", args.name)));
    }
    // Before a filesystem is made that can't be mounted there.
    fs::create_dir_all(&args.directory).map_err(|error| {
        Failure::new(format!("cannot make {}", args.directory.display()), error)
            .advise("name a directory that is there, or that can be made")
    })?;
    let kind = kind(context, device, args)?;
    interrupt.check()?;
    let mut words = vec![OsStr::new("-t"), OsStr::new(&kind)];
    if let Some(options) = &args.options {
        words.extend([OsStr::new("-o"), OsStr::new(options)]);
    }
    words.extend([device.as_os_str(), args.directory.as_os_str()]);
    system::run("mount", &words).map_err(|failure| filesystem::not_mounted(failure, &kind))?;
    Ok(kind)
}

/// The type of the filesystem that the volume carries, or that is made on it.
fn kind(context: &Context, device: &Path, args: &MountArgs) -> Result<String, Failure> {
    let found = filesystem::signature(device)?;
    // Somebody may have begun to use it since.
    let volume = volume(context, &args.name)?;
    others::refuse_clients(&volume, &args.directory)?;
    let found = match (found, args.mkfs) {
        (None, Some(wanted)) => {
            others::refuse_mkfs(&volume, device, wanted)?;
            // Whoever has it no longer open may have written.
            filesystem::signature(device)?
        }
        (found, _) => found,
    };
    match (found, args.mkfs) {
        (Some(kind), Some(wanted)) if kind != wanted.name() => {
            Err(filesystem::carries_other(&args.name, &kind, wanted))
        }
        (Some(kind), _) => {
            others::refuse_second_mount(&volume, &args.directory, &kind)?;
            Ok(kind)
        }
        (None, Some(wanted)) => {
            make(&args.name, device, wanted)?;
            Ok(wanted.name().to_owned())
        }
        (None, None) => match others::of(&volume, device) {
            others if others.is_empty() => Err(filesystem::carries_nothing(args, device)),
            others => Err(others::carries_nothing_known(&volume, &others)),
        },
    }
}

#[cfg(test)]
mod tests;
