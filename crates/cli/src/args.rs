//! The command line: every command, its arguments and its help.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

mod agree;
mod attach;
mod care;
mod client;
mod members;
mod node;
mod replica;
mod reservation;
mod volume;

pub use agree::AgreeArgs;
pub use attach::{
    AttachArgs, AttachAs, DetachArgs, ExportCommand, ExportKind, ExportNbdArgs, ExportNvmeArgs,
    Filesystem, MountArgs, UmountArgs, UnexportArgs,
};
pub use care::{BitmapName, IntentArgs, RebuildArgs, VerifyArgs};
pub use client::{ClientCertificateArgs, ClientCommand};
pub use members::{
    ChangeArgs, GrowArgs, ReplicaAddArgs, ReplicaMoveArgs, ReplicaReplaceArgs, WaitArgs,
};
pub use node::{
    ClusterCommand, DiskAddArgs, DiskCommand, DiskRemoveArgs, InviteArgs, JoinArgs, NodeCommand,
    NodeRemoveArgs, RenameClusterArgs, RunArgs,
};
pub use replica::{
    ReplicaArgs, ReplicaCommand, ReplicaFailArgs, ReplicaReAddArgs, ReplicaRemoveArgs,
};
pub use reservation::{DropArgs, HostArgs, KeyArgs, KindName, ReservationCommand, ReserveArgs};
pub use volume::{
    AssembleArgs, ChecksumName, CreateArgs, DeleteArgs, ListArgs, ProtocolName, RenameArgs,
    StatusArgs, StopArgs, VolumeCommand, WaitFor,
};

use crate::output::parse_size;

/// Replicated block storage: a volume is a stripe of mirrors of replicas, on disks of several
/// machines.
#[derive(Debug, Parser)]
#[command(name = "evenkeel", version, max_term_width = 100, disable_help_subcommand = true)]
#[command(after_help = "\
Start here:
  evenkeel quickstart                 see it work on this machine, in a scratch directory
  evenkeel volume status              what is the state of my data?

Sizes are written with K, M, G, T (powers of 1024). Exit codes: 0 done, 1 failed, 2 usage,
3 not found, 4 refused as unsafe, 5 node unreachable, 6 degraded, 7 timed out.")]
pub struct Cli {
    /// Options of every command.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Options of every command.
#[derive(Debug, Clone, Args)]
pub struct Global {
    /// The API socket of the node on this machine
    #[arg(
        long,
        global = true,
        value_name = "PATH",
        env = "EVENKEEL_SOCKET",
        default_value = "/run/evenkeel/api.sock",
        help_heading = "Global options"
    )]
    pub socket: PathBuf,
    /// Print the node's JSON as it is, for programs
    #[arg(long, global = true, help_heading = "Global options")]
    pub json: bool,
    /// Print nothing but errors
    #[arg(long, short, global = true, help_heading = "Global options")]
    pub quiet: bool,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a node, join it to a cluster, remove it, show the nodes
    #[command(
        subcommand,
        after_help = "\
Examples:
  evenkeel node run                      on each machine, or the systemd unit
  evenkeel node invite                   on the coordinator's: a token for one more
  evenkeel node join 10.0.0.1:7740 --token TOKEN     once, on all but the coordinator's
  evenkeel node status                   who is there, and is the coordinator?
  evenkeel node remove n3 --dry-run      what goes with a machine that is given up?"
    )]
    Node(NodeCommand),
    /// Make the cluster's authority, rename the cluster
    #[command(
        subcommand,
        after_help = "\
Examples:
  evenkeel cluster init                  before the coordinator's node is started
  evenkeel cluster rename music
  evenkeel node status                   shows the new name, on each node within seconds"
    )]
    Cluster(ClusterCommand),
    /// Give disks to this node, list and remove them
    #[command(
        subcommand,
        after_help = "\
Examples:
  evenkeel disk add /dev/sdb1            a partition: holds one replica
  evenkeel disk add /srv/evenkeel        a directory: one file per replica
  evenkeel disk list                     what is free, and where?
  evenkeel disk remove sdb1              when its replicas have moved away"
    )]
    Disk(DiskCommand),
    /// Create, list, watch and delete volumes
    #[command(
        subcommand,
        after_help = "\
Examples:
  evenkeel volume create music --size 100G --replicas 3
  evenkeel volume status music --watch
  evenkeel volume list --unhealthy       what wants attention?
  evenkeel volume grow music --size 200G
  evenkeel volume delete music --dry-run"
    )]
    Volume(VolumeCommand),
    /// Attach a volume to this node, as a block device
    #[command(after_help = "\
Examples:
  evenkeel attach music              then use /dev/evenkeel/music
  evenkeel attach music --as nbd     without root or FUSE: serve it on an NBD socket")]
    Attach(AttachArgs),
    /// Detach a volume from this node, or from the one that is named
    #[command(after_help = "\
Examples:
  evenkeel detach music
  evenkeel detach music --node n3    from node n3, whatever node is asked

A volume that is mounted, or that a client uses over an export, is not detached: unmount it, or
end the export by `evenkeel unexport`, first. One that is attached on another node stays so: the
refusal says where that is.")]
    Detach(DetachArgs),
    /// Attach a volume if need be, and mount its filesystem
    #[command(after_help = "\
Examples:
  evenkeel mount music /srv/music --mkfs xfs    the first time
  evenkeel mount music /srv/music               from then on

--mkfs makes a filesystem only on a volume that carries none, and that nobody else has attached,
exported or open. A volume to which a client of an export is connected that may write is not
mounted.")]
    Mount(MountArgs),
    /// Unmount a volume's filesystem, and take away what was attached for it
    #[command(after_help = "\
Examples:
  evenkeel umount music
  evenkeel umount /srv/music --keep-attached

The volume is detached if `evenkeel mount` has attached it and it is not exported. One that was
attached before it was mounted stays attached.")]
    Umount(UmountArgs),
    /// Offer an attached volume to other programs and machines
    #[command(
        subcommand,
        after_help = "\
Examples:
  evenkeel attach music --as none
  evenkeel export nbd music --tcp --client vm1        for a client on another machine
  evenkeel export nvme music --host NQN               for a host of NVMe over TCP
  evenkeel export list
  evenkeel unexport music"
    )]
    Export(ExportCommand),
    /// Make certificates for clients of exports on other machines
    #[command(
        subcommand,
        after_help = "\
Examples:
  evenkeel client certificate vm1 /root/vm1     on the coordinator's node
  evenkeel export nbd music --tcp --client vm1  where it is attached"
    )]
    Client(ClientCommand),
    /// End the exports of a volume, or one of them
    #[command(after_help = "\
Examples:
  evenkeel unexport music
  evenkeel unexport music --only nvme")]
    Unexport(UnexportArgs),
    /// Fail, remove and re-add replicas
    #[command(
        subcommand,
        after_help = "\
Examples:
  evenkeel replica add music n4:fast --wait
  evenkeel replica replace music n3 n4:fast --wait     a disk that fails: copied before it goes
  evenkeel replica move music n3 --to n4 --wait        before n3 is retired
  evenkeel replica re-add music n3 --wait              its disk is good again"
    )]
    Replica(ReplicaCommand),
    /// Choose which hosts may read and write a volume (SCSI's persistent reservations)
    #[command(
        subcommand,
        after_help = "\
Examples:
  evenkeel reservation register music --key 1
  evenkeel reservation register music --key 2 --host n2
  evenkeel reservation reserve music --key 1
  evenkeel reservation preempt music --key 1 --victim 2     fence n2
  evenkeel reservation show music"
    )]
    Reservation(ReservationCommand),
    /// Show what superblocks, intent logs and bitmaps on disks say, without a running node
    #[command(after_help = "\
Examples:
  evenkeel examine /dev/sdb1                     a device or partition
  evenkeel examine /srv/evenkeel                 a directory of replica files
  evenkeel examine --scan                        every disk that was given to this node
  evenkeel examine --scan --json | jq '.replicas[].replica.view.generation'

Only reads: a node may run meanwhile. Exit codes: 0 all is whole, 6 something is damaged and the
replica can be used all the same, 1 a replica cannot be used, 3 there is no replica at a path.")]
    Examine(ExamineArgs),
    /// Check and show a node's configuration
    #[command(
        subcommand,
        after_help = "\
Examples:
  evenkeel config check ./evenkeel.toml  before the node is restarted with it
  evenkeel config show                   what would it run with?"
    )]
    Config(ConfigCommand),
    /// Show the whole thing at work on this machine: three nodes, one killed, one rebuilt
    #[command(after_help = "\
Examples:
  evenkeel quickstart               leaves the volume mounted until Ctrl-C
  evenkeel quickstart --once        cleans up and ends; exit code 0 if everything was right

Everything lives in one scratch directory, and nothing is left of it at the end. Needs root and
FUSE for a mounted filesystem; without them the volume is served over NBD.")]
    Quickstart(QuickstartArgs),
    /// Measure evenkeel beside the raw disk and other replicated storage, and read old reports
    #[command(
        subcommand,
        after_help = "\
Examples:
  evenkeel bench quick                   is a mirror fast enough for me?
  evenkeel bench quick --with peers      beside all peers that are installed
  evenkeel bench drbd --dry-run          what would a published report's run be here?"
    )]
    Bench(evenkeel_bench::BenchCommand),
    /// Print the completion script of a shell
    #[command(after_help = "\
Examples:
  evenkeel completion bash > /usr/share/bash-completion/completions/evenkeel
  evenkeel completion zsh  > /usr/share/zsh/site-functions/_evenkeel
  evenkeel completion fish > /usr/share/fish/vendor_completions.d/evenkeel.fish")]
    Completion(CompletionArgs),
    /// Write the manual pages
    #[command(after_help = "\
Examples:
  evenkeel man --to /usr/share/man/man8       one page per command
  evenkeel man | man -l -                     read the main page")]
    Man(ManArgs),
    /// Show the version of this command, and of the node if it runs
    #[command(after_help = "\
Examples:
  evenkeel version
  evenkeel version --socket /run/other/api.sock    the node behind another socket")]
    Version,
}

/// Arguments of `examine`.
#[derive(Debug, Args)]
pub struct ExamineArgs {
    /// Devices, partitions, replica files, or directories of replica files
    #[arg(required_unless_present = "scan")]
    pub paths: Vec<PathBuf>,
    /// Every disk that was given to this node, whether it runs or not, and the paths
    #[arg(long)]
    pub scan: bool,
    /// Where a node that does not run has its state: its configuration file
    #[arg(long, value_name = "PATH", requires = "scan")]
    pub config: Option<PathBuf>,
}

/// `evenkeel config …`
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Check a configuration file, without starting anything
    #[command(after_help = "\
Examples:
  evenkeel config check
  evenkeel config check ./evenkeel.toml")]
    Check(CheckArgs),
    /// Show every setting with its value, defaults included
    #[command(after_help = "\
Examples:
  evenkeel config show
  evenkeel config show --config ./evenkeel.toml --json")]
    Show(RunArgs),
}

/// Arguments of `config check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The file; without it /etc/evenkeel/evenkeel.toml, or built-in defaults if that does not
    /// exist
    #[arg(value_name = "FILE", conflicts_with = "config")]
    pub file: Option<PathBuf>,
    /// The same
    #[arg(long, value_name = "PATH")]
    pub config: Option<PathBuf>,
}

/// Arguments of `quickstart`.
#[derive(Debug, Default, Args)]
pub struct QuickstartArgs {
    /// Clean up and end after the last step, instead of waiting for Ctrl-C
    #[arg(long)]
    pub once: bool,
    /// The volume's size; without it 4G, or less where the disk has less room
    #[arg(long, value_parser = parse_size)]
    pub size: Option<u64>,
    /// Where to put the scratch directory
    #[arg(long, value_name = "DIR")]
    pub scratch: Option<PathBuf>,
    /// What to copy onto the volume; /usr/share or /usr/include if not given
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Serve the volume over NBD even if it could be mounted
    #[arg(long)]
    pub nbd: bool,
}

/// Arguments of `completion`.
#[derive(Debug, Args)]
pub struct CompletionArgs {
    /// For which shell
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

/// Arguments of `man`.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Write one file per command into this directory, instead of the main page to standard output
    #[arg(long, value_name = "DIR")]
    pub to: Option<PathBuf>,
}

#[cfg(test)]
mod tests;
