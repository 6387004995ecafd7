//! Mounting the filesystem, and taking it away again, also when its daemon is dead.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags};

/// The name of the one file in the filesystem.
pub const FILE_NAME: &str = "volume";

/// The type that the filesystem has in the table of mounts.
const FILESYSTEM_TYPE: &str = "fuse.evenkeel";

/// Whether this machine can mount a FUSE filesystem for this process at all.
#[must_use]
pub fn is_available() -> bool {
    Path::new("/dev/fuse").exists()
}

/// Mounts the filesystem at `directory`, which is made if need be, and returns the connection.
///
/// The connection does not block; the kernel's first request waits in it. Whoever opens a file in
/// the filesystem before the connection is served waits until it is.
pub fn mount(name: &str, directory: &Path) -> io::Result<File> {
    fs::create_dir_all(directory)?;
    let connection = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open("/dev/fuse")?;
    let data = format!(
        "fd={},rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions",
        connection.as_raw_fd()
    );
    let data = std::ffi::CString::new(data)?;
    rustix::mount::mount(
        format!("evenkeel:{name}"),
        directory,
        FILESYSTEM_TYPE,
        MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::NOATIME,
        data.as_c_str(),
    )?;
    Ok(connection)
}

/// Ends the connection, so that whoever waits for it gets an error, and takes the mount away; what
/// still holds the file keeps a file that gives errors. Nothing mounted there is not an error.
pub fn unmount(directory: &Path) -> io::Result<()> {
    // A daemon that was killed again and again may have left mounts over one another.
    while is_mounted(directory)? {
        let flags = UnmountFlags::FORCE | UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
        rustix::mount::unmount(directory, flags)?;
    }
    match fs::remove_dir(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Whether our filesystem is mounted at `directory`. Asks the table of mounts, never the
/// filesystem, which might not answer.
pub fn is_mounted(directory: &Path) -> io::Result<bool> {
    let table = crate::mounts::own()?;
    Ok(table.iter().any(|m| m.filesystem_type == FILESYSTEM_TYPE && m.directory == directory))
}

/// The path of the file in the filesystem mounted at `directory`.
#[must_use]
pub fn file_in(directory: &Path) -> PathBuf {
    directory.join(FILE_NAME)
}
