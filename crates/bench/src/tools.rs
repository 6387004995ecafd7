//! Tools that are used, and how to get them.

use std::path::PathBuf;

use crate::failure::{Failure, Kind};
use crate::process;

/// A tool by the name of its program, with the package that has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tool {
    /// The program.
    pub program: &'static str,
    /// Debian's and Ubuntu's package.
    pub debian: &'static str,
    /// Fedora's package.
    pub fedora: &'static str,
    /// The argument that prints its version.
    version: &'static str,
}

const fn tool(
    program: &'static str,
    debian: &'static str,
    fedora: &'static str,
    version: &'static str,
) -> Tool {
    Tool { program, debian, fedora, version }
}

/// fio, the load generator.
pub const FIO: Tool = tool("fio", "fio", "fio", "--version");
/// dd.
pub const DD: Tool = tool("dd", "coreutils", "coreutils", "--version");
/// hdparm.
pub const HDPARM: Tool = tool("hdparm", "hdparm", "hdparm", "-V");
/// bonnie++; it has no argument for its version, but tells it with its usage.
pub const BONNIE: Tool = tool("bonnie++", "bonnie++", "bonnie++", "-h");
/// IOzone.
pub const IOZONE: Tool = tool("iozone", "iozone3 # in its component non-free", "iozone", "-v");
/// qemu-nbd.
pub const QEMU_NBD: Tool = tool("qemu-nbd", "qemu-utils", "qemu-img", "--version");
/// QEMU's storage daemon, which exports a file over FUSE.
pub const QEMU_STORAGE_DAEMON: Tool =
    tool("qemu-storage-daemon", "qemu-system-common", "qemu-img", "--version");
/// nbdkit.
pub const NBDKIT: Tool = tool("nbdkit", "nbdkit", "nbdkit-server", "--version");
/// libnbd's FUSE filesystem of one file.
pub const NBDFUSE: Tool = tool("nbdfuse", "libnbd-bin", "nbdfuse", "--version");
/// tgt's daemon.
pub const TGTD: Tool = tool("tgtd", "tgt", "scsi-target-utils", "--version");
/// tgt's administration.
pub const TGTADM: Tool = tool("tgtadm", "tgt", "scsi-target-utils", "--version");
/// GlusterFS' daemon.
pub const GLUSTERD: Tool = tool("glusterd", "glusterfs-server", "glusterfs-server", "--version");
/// mdadm.
pub const MDADM: Tool = tool("mdadm", "mdadm", "mdadm", "--version");
/// DRBD's administration.
pub const DRBDADM: Tool = tool("drbdadm", "drbd-utils", "drbd-utils", "--version");
/// mkfs.xfs.
pub const MKFS_XFS: Tool = tool("mkfs.xfs", "xfsprogs", "xfsprogs", "-V");
/// mkfs.ext4.
pub const MKFS_EXT4: Tool = tool("mkfs.ext4", "e2fsprogs", "e2fsprogs", "-V");

/// The oldest fio that has what is needed: the nbd engine, io_uring, and this JSON.
pub const OLDEST_FIO: (u32, u32) = (3, 16);

/// All of them.
pub const ALL: [Tool; 16] = [
    FIO,
    DD,
    HDPARM,
    BONNIE,
    IOZONE,
    QEMU_NBD,
    QEMU_STORAGE_DAEMON,
    NBDKIT,
    NBDFUSE,
    TGTD,
    TGTADM,
    GLUSTERD,
    MDADM,
    DRBDADM,
    MKFS_XFS,
    MKFS_EXT4,
];

impl Tool {
    /// Where it lies; `None` if it is not installed.
    pub fn path(self) -> Option<PathBuf> {
        process::find_program(self.program)
    }

    /// The command that installs it on this distribution.
    pub fn install(self) -> String {
        match process::find_program("dnf").is_some() && process::find_program("apt-get").is_none() {
            true => format!("dnf install {}", self.fedora),
            false => format!("apt-get install {}", self.debian),
        }
    }

    /// Its version in its own words; `None` if it is not installed or doesn't tell.
    pub fn version(self) -> Option<String> {
        let path = self.path()?;
        if self.version.is_empty() {
            return None;
        }
        // Some print it on standard error.
        let output = process::command([path.as_os_str(), self.version.as_ref()]).output().ok()?;
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.push_str(&String::from_utf8_lossy(&output.stderr));
        // With it may come complaints, usage, and the dates of builds.
        let numbered = |line: &&str| {
            line.as_bytes()
                .windows(3)
                .any(|sign| sign[0].is_ascii_digit() && sign[1] == b'.' && sign[2].is_ascii_digit())
        };
        let mut lines = text.lines().map(str::trim);
        lines.find(numbered).map(str::to_owned)
    }

    /// That it is installed.
    ///
    /// # Errors
    /// If not, with the command that installs it.
    pub fn require(self) -> Result<PathBuf, Failure> {
        self.path().ok_or_else(|| {
            Failure::new(format!("{} is not installed", self.program), "")
                .advise(format!("{}\nor leave it out with --skip-missing", self.install()))
                .kind(Kind::Missing)
        })
    }
}

/// That fio is there and new enough.
///
/// # Errors
/// If not.
pub fn require_fio() -> Result<(), Failure> {
    FIO.require()?;
    check_fio(&FIO.version().unwrap_or_default())
}

fn check_fio(version: &str) -> Result<(), Failure> {
    let number = version.trim().trim_start_matches("fio-");
    let mut parts = number.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    let found = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    match found >= OLDEST_FIO {
        true => Ok(()),
        false => Err(Failure::new(
            format!("fio is too old: `{}`", version.trim()),
            format!("version {}.{} or later is needed", OLDEST_FIO.0, OLDEST_FIO.1),
        )
        .advise("install a later one from your distribution, or build it from source")),
    }
}

/// The versions of those that are installed.
pub fn versions() -> Vec<(String, String)> {
    ALL.iter().filter_map(|tool| Some((tool.program.to_owned(), tool.version()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_fio_is_named() {
        assert!(check_fio("fio-3.33").is_ok());
        assert!(check_fio("fio-3.16-12-gabc").is_ok());
        for old in ["fio-3.7", "fio-2.2.10", "fio-2.1.10", "", "nonsense"] {
            let failure = check_fio(old).unwrap_err();
            assert!(failure.why.contains("3.16"), "{failure}");
        }
    }

    #[test]
    fn a_missing_tool_comes_with_the_command_to_install_it() {
        let missing = tool("no-such-program-here", "no-such-package", "no-such-package", "");
        let failure = missing.require().unwrap_err();
        assert!(failure.remedy.contains("install no-such-package"), "{failure:?}");
        assert!(failure.remedy.contains("--skip-missing"), "{failure:?}");
    }
}
