//! Directories on which more than one filesystem is mounted: the newest hides those below it, and
//! is the one that `umount` takes away.

use std::fs;
use std::path::Path;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::system::{self, Mount};

/// Where the devices of volumes have their stable names.
const LINKS: &str = "/dev/evenkeel";

/// The volume whose device this is on this node.
pub fn volume_of(device: &Path) -> Option<String> {
    let device = fs::canonicalize(device).ok()?;
    fs::read_dir(LINKS)
        .ok()?
        .flatten()
        .find(|link| fs::canonicalize(link.path()).is_ok_and(|target| target == device))
        .map(|link| link.file_name().to_string_lossy().into_owned())
}

/// Refuses to mount a volume where a device of its own is mounted that gives errors: the volume was
/// taken away from it, as by a takeover.
///
/// # Errors
/// Says so.
pub fn refuse_dead(
    volume: &str,
    directory: &Path,
    dead: &[String],
    mounts: &[Mount],
) -> Result<(), Failure> {
    let directory = fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
    let Some(top) = system::top_mount(mounts, &directory) else { return Ok(()) };
    if !dead.iter().any(|device| system::is_from(top, Path::new(device))) {
        return Ok(());
    }
    let why = format!(
        "an earlier device of it ({}) is mounted there, and gives errors: the volume was taken away \
         from it",
        top.source.display()
    );
    Err(Failure::new(format!("volume `{volume}` is not mounted on {}", directory.display()), why)
        .exit(Exit::Unsafe)
        .advise(format!("unmount that: evenkeel umount {volume}; then mount it again")))
}

/// Refuses to mount a volume over something else.
///
/// # Errors
/// Names what is mounted on the directory.
pub fn refuse_covered(
    volume: &str,
    directory: &Path,
    mounts: &[Mount],
    volume_of: impl Fn(&Path) -> Option<String>,
) -> Result<(), Failure> {
    let directory = fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
    let Some(there) = system::top_mount(mounts, &directory) else { return Ok(()) };
    let other = volume_of(&there.source);
    if other.as_deref() == Some(volume) {
        // What mounts it says so.
        return Ok(());
    }
    Err(Failure::new(
        format!("volume `{volume}` is not mounted on {}", directory.display()),
        format!("{} is mounted there", described(there, other.as_deref())),
    )
    .exit(Exit::Unsafe)
    .advise(match other.is_none() && is_of_system(there) {
        true => "choose another directory".to_owned(),
        false => format!("choose another directory, or {}", unmounting(there, other.as_deref())),
    }))
}

/// What the system needs there: nobody is advised to unmount it.
fn is_of_system(mount: &Mount) -> bool {
    const POINTS: [&str; 9] =
        ["/", "/boot", "/dev", "/home", "/proc", "/run", "/sys", "/usr", "/var"];
    const BELOW: [&str; 5] = ["/boot", "/dev", "/proc", "/run", "/sys"];
    POINTS.iter().any(|point| mount.point == Path::new(point))
        || BELOW.iter().any(|point| mount.point.starts_with(point))
}

/// Refuses to unmount a volume where something else is mounted over it: that would be taken away
/// instead.
///
/// # Errors
/// Names what is mounted over it.
pub fn refuse_hidden(
    volume: &str,
    device: &Path,
    mounts: &[Mount],
    volume_of: impl Fn(&Path) -> Option<String>,
) -> Result<(), Failure> {
    let own = mounts.iter().filter(|mount| system::is_from(mount, device));
    let hiding = own
        .filter_map(|mount| system::top_mount(mounts, &mount.point))
        .find(|top| !system::is_from(top, device));
    let Some(top) = hiding else { return Ok(()) };
    let other = volume_of(&top.source);
    Err(Failure::new(
        format!("volume `{volume}` is not unmounted from {}", top.point.display()),
        format!("{} is mounted over it", described(top, other.as_deref())),
    )
    .exit(Exit::Unsafe)
    .advise(format!("first {}", unmounting(top, other.as_deref()))))
}

fn described(mount: &Mount, volume: Option<&str>) -> String {
    match volume {
        Some(volume) => format!("volume `{volume}` ({})", mount.kind),
        None if mount.source == Path::new(&mount.kind) => format!("a {}", mount.kind),
        None => format!("{} ({})", mount.source.display(), mount.kind),
    }
}

fn unmounting(mount: &Mount, volume: Option<&str>) -> String {
    match volume {
        Some(volume) => format!("unmount that: evenkeel umount {volume}"),
        None => format!("unmount that: umount {}", mount.point.display()),
    }
}

#[cfg(test)]
mod tests;
