//! Configurations: how each is set up, and how it is reached and taken apart again.

mod bridge;
mod drbd;
mod evenkeel;
mod gluster;
mod md;
mod nbd;
mod raw;
mod tgt;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::failure::Failure;
use crate::fio::{self, FioJob, Reach};
use crate::interrupt::Interrupt;
use crate::process;
use crate::result::{Configuration, Durable, Family};
use crate::scratch::{Scratch, Undo};
use crate::tools::{self, Tool};

/// How long one server may take until it answers.
pub const START_PATIENCE: Duration = Duration::from_secs(30);

/// What can be set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recipe {
    /// A file of the disk.
    Raw,
    /// A loop device over a file of the disk.
    RawLoop,
    /// N files of the disk at once.
    Limit(u32),
    /// evenkeel, N copies on one node.
    Local(u32),
    /// evenkeel, N copies on one node, attached on three at once.
    Shared(u32),
    /// evenkeel, N copies on N nodes, with this protocol.
    Replicas(u32, Protocol),
    /// The same with protocol C, over TCP with TLS instead of unix sockets.
    Encrypted(u32),
    /// evenkeel, N copies on N nodes, used over NBD on TCP.
    OverNbd(u32),
    /// The same, over NVMe on TCP.
    OverNvme(u32),
    /// evenkeel, a copy on each of N nodes, used from one more.
    Remote(u32),
    /// evenkeel, a stripe of two mirrors of two on one node.
    Stripe,
    /// evenkeel, a stripe of two mirrors of two, on two other nodes.
    RemoteStripe,
    /// qemu-nbd, one file.
    QemuNbd,
    /// QEMU's storage daemon: one file over FUSE, and a loop device over it.
    QemuFuse,
    /// nbdkit, one file through the page cache.
    Nbdkit,
    /// QEMU's quorum of three files.
    QuorumFiles,
    /// QEMU's quorum of three qemu-nbd.
    QuorumNbd,
    /// tgt, one file over iSCSI.
    Tgt,
    /// GlusterFS replica 3 through its FUSE mount, strict O_DIRECT.
    GlusterMount,
    /// GlusterFS replica 3 through its client library.
    GlusterApi,
    /// md RAID1 of two loop devices.
    MdRaid1,
    /// DRBD, both ends in this kernel, with this protocol.
    Drbd(Protocol),
}

/// When evenkeel or DRBD acknowledges a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// When the local replica wrote it.
    A,
    /// When all received it.
    B,
    /// When all wrote it.
    C,
}

impl Protocol {
    /// Its letter.
    pub const fn letter(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::B => "B",
            Self::C => "C",
        }
    }
}

/// Something set up, ready to be measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    /// How it appears in the results.
    pub configuration: Configuration,
    /// The shortest way for fio.
    pub reach: Reach,
    /// A block device, where there is one.
    pub device: Option<PathBuf>,
    /// A mounted filesystem of its own, where there is one.
    pub directory: Option<PathBuf>,
    /// The network namespace in which clients must run.
    pub namespace: Option<String>,
    /// Who serves it.
    pub servers: Servers,
}

impl Target {
    /// A block device that the kernel serves by itself, and that fio reaches as it is.
    fn kernel_device(configuration: Configuration, device: PathBuf) -> Self {
        Self {
            configuration,
            reach: Reach::File(device.clone()),
            device: Some(device),
            directory: None,
            namespace: None,
            servers: Servers::Kernel,
        }
    }
}

/// Which processes serve a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Servers {
    /// None: the kernel alone.
    Kernel,
    /// These, and their descendants.
    Processes(Vec<u32>),
    /// All in this network namespace.
    Namespace(String),
}

/// What setting up needs.
#[derive(Debug)]
pub struct Lab<'a> {
    /// The scratch directories: replica N goes to number N modulo their count.
    pub places: Vec<PathBuf>,
    /// Keeps what must be undone.
    pub scratch: &'a mut Scratch,
    /// Ctrl-C.
    pub interrupt: &'a Interrupt,
    /// The `evenkeel` program.
    pub evenkeel: PathBuf,
    /// Usable bytes of each configuration.
    pub size: u64,
    /// Whether block devices are needed, not only the shortest way.
    pub devices: bool,
    /// Commands that were run for the present configuration.
    pub said: Vec<String>,
}

impl Recipe {
    /// Its identity.
    pub fn id(self) -> String {
        match self {
            Self::Raw => "raw".to_owned(),
            Self::RawLoop => "raw-loop".to_owned(),
            Self::Limit(copies) => format!("limit-{copies}"),
            Self::Local(copies) => format!("mirror-{copies}"),
            Self::Replicas(copies, protocol) => {
                format!("replica-{copies}-{}", protocol.letter().to_lowercase())
            }
            Self::Encrypted(copies) => format!("replica-{copies}-c-tls"),
            Self::OverNbd(copies) => format!("nbd-tcp-{copies}"),
            Self::OverNvme(copies) => format!("nvme-tcp-{copies}"),
            Self::Remote(copies) => format!("remote-{copies}"),
            Self::Shared(copies) => format!("shared-{copies}"),
            Self::Stripe => "stripe-2x2".to_owned(),
            Self::RemoteStripe => "remote-stripe-2x2".to_owned(),
            Self::QemuNbd => "qemu-nbd".to_owned(),
            Self::QemuFuse => "qemu-fuse".to_owned(),
            Self::Nbdkit => "nbdkit".to_owned(),
            Self::QuorumFiles => "quorum-files".to_owned(),
            Self::QuorumNbd => "quorum-nbd".to_owned(),
            Self::Tgt => "tgt".to_owned(),
            Self::GlusterMount => "gluster-fuse".to_owned(),
            Self::GlusterApi => "gluster-gfapi".to_owned(),
            Self::MdRaid1 => "md-raid1".to_owned(),
            Self::Drbd(protocol) => format!("drbd-{}", protocol.letter().to_lowercase()),
        }
    }

    /// The tools without which it cannot be set up.
    pub const fn tools(self) -> &'static [Tool] {
        match self {
            Self::QemuNbd | Self::QuorumFiles | Self::QuorumNbd => &[tools::QEMU_NBD],
            Self::QemuFuse => &[tools::QEMU_STORAGE_DAEMON],
            Self::Nbdkit => &[tools::NBDKIT],
            Self::Tgt => &[tools::TGTD, tools::TGTADM, tools::QEMU_NBD],
            Self::GlusterMount | Self::GlusterApi => &[tools::GLUSTERD],
            Self::MdRaid1 => &[tools::MDADM],
            Self::Drbd(_) => &[tools::DRBDADM],
            _ => &[],
        }
    }

    /// How many copies of each block it keeps.
    pub const fn copies(self) -> u32 {
        match self {
            Self::Limit(copies)
            | Self::Local(copies)
            | Self::Shared(copies)
            | Self::Remote(copies)
            | Self::Encrypted(copies)
            | Self::OverNbd(copies)
            | Self::OverNvme(copies)
            | Self::Replicas(copies, _) => copies,
            Self::Stripe | Self::RemoteStripe | Self::MdRaid1 | Self::Drbd(_) => 2,
            Self::QuorumFiles | Self::QuorumNbd | Self::GlusterMount | Self::GlusterApi => 3,
            Self::Raw
            | Self::RawLoop
            | Self::QemuNbd
            | Self::QemuFuse
            | Self::Nbdkit
            | Self::Tgt => 1,
        }
    }

    /// Whether nobody but root can set it up, also where no block devices are wanted.
    pub const fn needs_root(self) -> bool {
        matches!(
            self,
            Self::QemuFuse | Self::GlusterMount | Self::GlusterApi | Self::MdRaid1 | Self::Drbd(_)
        )
    }

    /// Whether it is a peer: left out where it is not installed.
    pub const fn is_peer(self) -> bool {
        !self.tools().is_empty()
    }

    /// Sets it up. What it needs to be undone is noted in the scratch.
    ///
    /// # Errors
    /// If it cannot be; what was set up by then is undone by the caller.
    pub fn set_up(self, lab: &mut Lab<'_>) -> Result<Target, Failure> {
        lab.said.clear();
        for tool in self.tools() {
            tool.require()?;
        }
        if self.needs_root() && !rustix::process::geteuid().is_root() {
            let why = "it needs network namespaces, mounts or devices of the kernel";
            return Err(
                Failure::new(format!("{} needs root", self.id()), why).advise("run it with sudo")
            );
        }
        let mut target = match self {
            Self::Raw => raw::file(lab),
            Self::RawLoop => raw::loop_device(lab),
            Self::Limit(copies) => raw::limit(lab, copies),
            Self::Local(copies) => evenkeel::local(lab, &self.id(), copies as usize),
            Self::Replicas(copies, protocol) => {
                evenkeel::nodes(lab, &self.id(), copies as usize, protocol)
            }
            Self::Encrypted(copies) => evenkeel::encrypted(lab, &self.id(), copies as usize),
            Self::OverNbd(copies) => evenkeel::over_nbd(lab, &self.id(), copies as usize),
            Self::OverNvme(copies) => evenkeel::over_nvme(lab, &self.id(), copies as usize),
            Self::Shared(copies) => evenkeel::shared(lab, &self.id(), copies as usize),
            Self::Remote(copies) => evenkeel::remote(lab, &self.id(), copies as usize),
            Self::Stripe => evenkeel::local_stripe(lab, &self.id()),
            Self::RemoteStripe => evenkeel::remote_stripe(lab, &self.id()),
            Self::QemuNbd => nbd::qemu(lab),
            Self::QemuFuse => bridge::qemu_fuse(lab),
            Self::Nbdkit => nbd::nbdkit(lab),
            Self::QuorumFiles => nbd::quorum_of_files(lab),
            Self::QuorumNbd => nbd::quorum_of_servers(lab),
            Self::Tgt => tgt::set_up(lab),
            Self::GlusterMount => gluster::mounted(lab),
            Self::GlusterApi => gluster::library(lab),
            Self::MdRaid1 => md::raid1(lab),
            Self::Drbd(protocol) => drbd::set_up(lab, protocol),
        }?;
        target.configuration.id = self.id();
        bridge::give_device(lab, &mut target)?;
        target.configuration.setup = std::mem::take(&mut lab.said);
        Ok(target)
    }
}

impl Lab<'_> {
    /// Where replica `index` goes, as a directory of a configuration.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn place(&self, index: usize, name: &str) -> Result<PathBuf, Failure> {
        let path = self.places[index % self.places.len()].join(name);
        std::fs::create_dir_all(&path)
            .map_err(|error| Failure::new(format!("cannot make {}", path.display()), error))?;
        Ok(path)
    }

    /// Makes a file on a scratch directory and fills it, so that writes meet written extents.
    ///
    /// # Errors
    /// If there is no room.
    pub fn filled_file(&mut self, index: usize, name: &str) -> Result<PathBuf, Failure> {
        self.filled_file_of(self.size, index, name)
    }

    /// Makes a file for something that keeps its own notes beside the data, and fills it.
    ///
    /// # Errors
    /// If there is no room.
    pub fn filled_leg(&mut self, index: usize, name: &str) -> Result<PathBuf, Failure> {
        self.filled_file_of(self.size + beside(self.size), index, name)
    }

    fn filled_file_of(&mut self, size: u64, index: usize, name: &str) -> Result<PathBuf, Failure> {
        let path = self.place(index, "files")?.join(name);
        let reach = Reach::File(path.clone());
        self.fill(&reach, size, None)?;
        Ok(path)
    }

    /// Writes all of a target once, with data that is not zero.
    ///
    /// # Errors
    /// If that fails.
    pub fn fill(
        &mut self,
        reach: &Reach,
        size: u64,
        namespace: Option<&str>,
    ) -> Result<(), Failure> {
        let job = FioJob {
            milliseconds: None,
            time_based: false,
            flush_at_end: true,
            ..FioJob::timed("write", 1 << 20, 8, size, 0)
        };
        let mut words = inside(namespace);
        words.extend(fio::arguments("fill", &job, reach, None));
        let output =
            process::run(self.interrupt, &mut process::command(&words), Duration::from_secs(1800))?;
        fio::parse(&output.stdout, 0).map(drop).map_err(|why| {
            Failure::new("cannot fill it with data", format!("{why}\n{}", output.stderr))
        })
    }

    /// Runs a short command of the set-up and remembers it.
    ///
    /// # Errors
    /// If it fails.
    pub fn helper<I: IntoIterator<Item = S>, S: AsRef<std::ffi::OsStr>>(
        &mut self,
        words: I,
    ) -> Result<String, Failure> {
        let mut command = process::command(words);
        self.said.push(process::shown(&command));
        process::run(self.interrupt, &mut command, Duration::from_secs(120))
            .map(|output| output.stdout)
    }

    /// Starts a server and remembers the command.
    ///
    /// # Errors
    /// If it does not start.
    pub fn serve(&mut self, name: &str, mut command: Command) -> Result<u32, Failure> {
        self.said.push(process::shown(&command));
        self.scratch.serve(name, &mut command)
    }

    /// Waits until a path exists, as a socket does when its server is ready.
    ///
    /// # Errors
    /// If the server has ended or takes too long; with the end of its log.
    pub fn await_path(&self, name: &str, pid: u32, path: &Path) -> Result<(), Failure> {
        let started = process::started(pid).unwrap_or_default();
        let waited = self.interrupt.poll(&format!("{name} is ready"), START_PATIENCE, || {
            match (path.exists(), process::alive(pid, started)) {
                (true, _) => Ok(Some(())),
                (false, true) => Ok(None),
                (false, false) => Err(Failure::new(format!("{name} ended at its start"), "")),
            }
        });
        waited.map_err(|mut failure| {
            failure.why =
                format!("{}\n{}", failure.why, self.scratch.log_end(name)).trim().to_owned();
            failure
        })
    }

    /// Puts a loop device over a file, past the page cache.
    ///
    /// # Errors
    /// If there is none, as without root.
    pub fn loop_over(&mut self, file: &Path) -> Result<PathBuf, Failure> {
        self.scratch.note(Undo::Loop { file: file.to_owned() })?;
        let path = file.to_string_lossy().into_owned();
        let device = self.helper(["losetup", "-f", "--show", "--direct-io=on", &path])?;
        Ok(PathBuf::from(device.trim()))
    }
}

/// Room that superblocks, bitmaps and logs take beside the data, in bytes.
pub fn beside(size: u64) -> u64 {
    (16 << 20) + ((size / 512) >> 20 << 20)
}

/// The words before a command that must run in a network namespace. The mounts stay those of the
/// machine, which `ip netns exec` would hide.
pub fn inside(namespace: Option<&str>) -> Vec<String> {
    match namespace {
        Some(name) => {
            vec!["nsenter".to_owned(), format!("--net=/run/netns/{name}"), "--".to_owned()]
        }
        None => Vec::new(),
    }
}

impl Servers {
    /// Their processor time so far, in seconds; `None` if nothing but the kernel serves.
    pub fn cpu_seconds(&self) -> Option<f64> {
        match self {
            Self::Kernel => None,
            Self::Processes(pids) => Some(process::cpu_seconds(pids)),
            Self::Namespace(name) => {
                let pids = process::quiet(["ip", "netns", "pids", name]).unwrap_or_default();
                let pids: Vec<u32> =
                    pids.lines().filter_map(|line| line.trim().parse().ok()).collect();
                Some(process::cpu_seconds(&pids))
            }
        }
    }
}

/// A configuration with the usual answers; the caller adds what is special.
fn configuration(name: &str, family: Family, copies: u32, access: &str) -> Configuration {
    Configuration {
        id: String::new(),
        name: name.to_owned(),
        family,
        copies,
        access: access.to_owned(),
        cache: "direct I/O".to_owned(),
        durable_flush: Durable::Yes,
        note: String::new(),
        setup: Vec::new(),
        verified: None,
    }
}

/// A target that is reached over NBD on a unix socket.
fn over_nbd(configuration: Configuration, socket: &Path, export: &str, pids: Vec<u32>) -> Target {
    Target {
        configuration,
        reach: Reach::Nbd { socket: socket.to_owned(), export: export.to_owned() },
        device: None,
        directory: None,
        namespace: None,
        servers: Servers::Processes(pids),
    }
}
