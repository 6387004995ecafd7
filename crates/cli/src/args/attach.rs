//! Arguments of what makes a volume usable: attach, mount, export.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// Arguments of `attach`.
#[derive(Debug, Args)]
pub struct AttachArgs {
    /// The volume
    pub name: String,
    /// What to make of it
    #[arg(long = "as", value_name = "WHAT", value_enum, default_value_t = AttachAs::Auto)]
    pub kind: AttachAs,
    /// The node to attach it to; this one if not given
    #[arg(long)]
    pub node: Option<String>,
    /// Refuse writes: by NBD, as no block device can be read-only yet
    #[arg(long)]
    pub read_only: bool,
}

/// Arguments of `detach`.
#[derive(Debug, Args)]
pub struct DetachArgs {
    /// The volume
    pub name: String,
    /// The node to detach it from; this one if not given
    #[arg(long)]
    pub node: Option<String>,
}

/// What an attached volume looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AttachAs {
    /// A block device where the machine can make one, else NBD.
    Auto,
    /// A block device, /dev/evenkeel/NAME (needs root).
    Device,
    /// An NBD server on a unix socket.
    Nbd,
    /// Nothing yet; export it later.
    None,
}

/// Arguments of `mount`.
#[derive(Debug, Args)]
pub struct MountArgs {
    /// The volume
    pub name: String,
    /// Where; made if it does not exist
    pub directory: PathBuf,
    /// Make this filesystem first, if the volume carries none
    #[arg(long, value_name = "TYPE", value_enum)]
    pub mkfs: Option<Filesystem>,
    /// Options for mount, as in noatime,discard
    #[arg(long, short, value_name = "OPTIONS")]
    pub options: Option<String>,
    /// Mount it though other machines may write to it over an export; none may be connected
    #[arg(long)]
    pub beside_exports: bool,
}

/// A filesystem that `mount --mkfs` can make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Filesystem {
    /// XFS (300 MiB or more).
    Xfs,
    /// ext4.
    Ext4,
}

/// Arguments of `umount`.
#[derive(Debug, Args)]
pub struct UmountArgs {
    /// The volume, or the directory
    pub what: String,
    /// Leave the volume attached, though it was attached to be mounted
    #[arg(long)]
    pub keep_attached: bool,
}

/// `evenkeel export …`
#[derive(Debug, Subcommand)]
pub enum ExportCommand {
    /// Serve an attached volume over NBD
    #[command(after_help = "\
Examples:
  evenkeel export nbd music                            on /run/evenkeel/nbd/music.sock
  evenkeel export nbd music --tcp                      and on the node's NBD address
  evenkeel export nbd music --tcp --client vm1         there for the holder of this certificate
  nbdinfo 'nbd+unix:///music?socket=/run/evenkeel/nbd/music.sock'")]
    Nbd(ExportNbdArgs),
    /// Serve an attached volume to hosts of NVMe over TCP
    #[command(after_help = "\
Examples:
  evenkeel export nvme music --host NQN --generate-key         for a host that proves who it is
  evenkeel export nvme music --host NQN1 --host NQN2           for others; a key that one has is kept
  evenkeel export nvme music --secrets keys                    for the hosts in this file, by its keys
  nvme connect -t tcp -a ADDRESS -s 4420 -n SUBSYSTEM          there; the answer says what

A new key is shown once, in the command for its host. Without a key a host's name is only what it says
of itself: where other machines reach the node, such an export needs `insecure = true` under [nvme].")]
    Nvme(ExportNvmeArgs),
    /// List the exports of this node
    #[command(after_help = "\
Examples:
  evenkeel export list
  evenkeel export list --json | jq -r '.volumes[].exports[].uris[]'")]
    List,
}

/// Arguments of `export nbd`.
#[derive(Debug, Args)]
pub struct ExportNbdArgs {
    /// The volume
    pub name: String,
    /// Also on the node's TCP address for NBD, not only on a unix socket
    #[arg(long)]
    pub tcp: bool,
    /// Who may use it on TCP: a DNS name of its certificate; several times for several clients
    #[arg(long = "client", value_name = "NAME", requires = "tcp")]
    pub clients: Vec<String>,
    /// Refuse writes
    #[arg(long)]
    pub read_only: bool,
}

/// Arguments of `export nvme`.
#[derive(Debug, Args)]
pub struct ExportNvmeArgs {
    /// The volume
    pub name: String,
    /// Who may use it: a host's NQN, which Linux has in /etc/nvme/hostnqn; several times for
    /// several hosts
    #[arg(long = "host", value_name = "NQN", required_unless_present = "secrets")]
    pub hosts: Vec<String>,
    /// Make a new key for each of these hosts, which proves by it who it is
    #[arg(long)]
    pub generate_key: bool,
    /// Make one for the node as well, by which a host that asks for it sees that it is the right
    /// one
    #[arg(long, requires = "generate_key")]
    pub both_ways: bool,
    /// Take keys from a file that only you may read: lines with a host's NQN, its secret
    /// (DHHC-1:…), and perhaps one of the node
    #[arg(long, value_name = "FILE")]
    pub secrets: Option<PathBuf>,
    /// Refuse writes
    #[arg(long)]
    pub read_only: bool,
}

/// Arguments of `unexport`.
#[derive(Debug, Args)]
pub struct UnexportArgs {
    /// The volume
    pub name: String,
    /// Only this export; all if not given
    #[arg(long, value_name = "KIND", value_enum)]
    pub only: Option<ExportKind>,
}

/// A way in which a volume is exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExportKind {
    /// NBD.
    Nbd,
    /// NVMe over TCP.
    Nvme,
}
