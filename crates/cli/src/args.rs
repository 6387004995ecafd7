//! The command line: every command, its arguments and its help.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

mod care;
mod members;
mod replica;
mod reservation;

pub use care::{BitmapName, IntentArgs, RebuildArgs, VerifyArgs};
pub use members::{ChangeArgs, GrowArgs, ReplicaAddArgs, ReplicaReplaceArgs, WaitArgs};
pub use replica::{ReplicaArgs, ReplicaCommand, ReplicaReAddArgs, ReplicaRemoveArgs};
pub use reservation::{HostArgs, KeyArgs, KindName, ReservationCommand, ReserveArgs};

use crate::output::{parse_size, parse_span};

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
    /// Run a node, join it to a cluster, show the nodes
    #[command(subcommand)]
    Node(NodeCommand),
    /// Rename the cluster
    #[command(subcommand)]
    Cluster(ClusterCommand),
    /// Give disks to this node, list and remove them
    #[command(subcommand)]
    Disk(DiskCommand),
    /// Create, list, watch and delete volumes
    #[command(subcommand)]
    Volume(VolumeCommand),
    /// Attach a volume to this node, as a block device
    #[command(after_help = "\
Examples:
  evenkeel attach music              then use /dev/evenkeel/music
  evenkeel attach music --as nbd     without root or FUSE: serve it on an NBD socket")]
    Attach(AttachArgs),
    /// Detach a volume from this node
    #[command(after_help = "\
Examples:
  evenkeel detach music

A mounted or exported volume is not detached: unmount or unexport it first.")]
    Detach(DetachArgs),
    /// Attach a volume if need be, and mount its filesystem
    #[command(after_help = "\
Examples:
  evenkeel mount music /srv/music --mkfs xfs    the first time
  evenkeel mount music /srv/music               from then on

--mkfs makes a filesystem only on a volume that carries none.")]
    Mount(MountArgs),
    /// Unmount a volume's filesystem, and detach the volume
    #[command(after_help = "\
Examples:
  evenkeel umount music
  evenkeel umount /srv/music --keep-attached")]
    Umount(UmountArgs),
    /// Offer an attached volume to other programs and machines
    #[command(subcommand)]
    Export(ExportCommand),
    /// End an export
    #[command(after_help = "\
Examples:
  evenkeel unexport music")]
    Unexport(VolumeName),
    /// Fail, remove and re-add replicas
    #[command(subcommand)]
    Replica(ReplicaCommand),
    /// Choose which hosts may read and write a volume (SCSI's persistent reservations)
    #[command(subcommand)]
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
    #[command(subcommand)]
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
    #[command(subcommand)]
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
    Version,
}

/// `evenkeel cluster …`
#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Give the cluster another name, while its nodes run
    #[command(after_help = "\
Examples:
  evenkeel cluster rename music")]
    Rename(RenameClusterArgs),
}

/// Arguments of `cluster rename`.
#[derive(Debug, Args)]
pub struct RenameClusterArgs {
    /// The new name
    pub name: String,
}

/// `evenkeel node …`
#[derive(Debug, Subcommand)]
pub enum NodeCommand {
    /// Run the node in the foreground (what the systemd unit does)
    #[command(after_help = "\
Examples:
  evenkeel node run
  evenkeel node run --config ./evenkeel.toml")]
    Run(RunArgs),
    /// Join this node to the cluster that a running node belongs to
    #[command(after_help = "\
Examples:
  evenkeel node join 10.0.0.1:7740
  evenkeel node join unix:/run/other/peer.sock")]
    Join(JoinArgs),
    /// Show this node and every other that it knows
    #[command(after_help = "\
Examples:
  evenkeel node status
  evenkeel node status --json | jq .")]
    Status,
}

/// Arguments of `node run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The configuration file; without it /etc/evenkeel/evenkeel.toml, or built-in defaults if
    /// that does not exist
    #[arg(long, value_name = "PATH")]
    pub config: Option<PathBuf>,
}

/// Arguments of `node join`.
#[derive(Debug, Args)]
pub struct JoinArgs {
    /// Where a node of the cluster listens for its peers: HOST:PORT or unix:PATH
    pub address: String,
}

/// `evenkeel disk …`
#[derive(Debug, Subcommand)]
pub enum DiskCommand {
    /// Give a block device or a directory to this node, to hold replicas
    #[command(after_help = "\
Examples:
  evenkeel disk add /dev/sdb1                    a partition: holds one replica
  evenkeel disk add /srv/evenkeel --name fast    a directory: one file per replica

A disk that is mounted, in use or carries a known signature is refused without --force.")]
    Add(DiskAddArgs),
    /// List the disks of all nodes, with what is free on them
    #[command(after_help = "\
Examples:
  evenkeel disk list
  evenkeel disk list --json | jq '.disks[].name'")]
    List,
    /// Take a disk that holds no replica away from this node
    #[command(after_help = "\
Examples:
  evenkeel disk remove fast")]
    Remove(DiskName),
}

/// Arguments of `disk add`.
#[derive(Debug, Args)]
pub struct DiskAddArgs {
    /// A block device, a partition or a directory on this machine
    pub path: PathBuf,
    /// Its name on this node; made from the path if not given
    #[arg(long)]
    pub name: Option<String>,
    /// Take it although something else was on it: that data is lost
    #[arg(long)]
    pub force: bool,
}

/// A disk of this node.
#[derive(Debug, Args)]
pub struct DiskName {
    /// The disk's name on this node
    pub name: String,
}

/// `evenkeel volume …`
#[derive(Debug, Subcommand)]
pub enum VolumeCommand {
    /// Create a volume; it reads as zeroes and needs no initial copy
    #[command(after_help = "\
Examples:
  evenkeel volume create music --size 4G --replicas 3
  evenkeel volume create db --size 100G --replicas 2 --on n1:fast --on n2:fast --protocol C
  evenkeel volume create big --size 1T --replicas 2 --stripe 2
  evenkeel volume create music --size 4G --dry-run      where would it go?")]
    Create(CreateArgs),
    /// List the volumes, one line each
    #[command(after_help = "\
Examples:
  evenkeel volume list
  evenkeel volume list --json | jq -r '.volumes[].name'")]
    List,
    /// Show volumes with every replica, its state, and the reason of anything unusual
    #[command(after_help = "\
Examples:
  evenkeel volume status
  evenkeel volume status music --watch
  evenkeel volume status music --wait in-sync --timeout 10m
  evenkeel volume status --check || echo degraded         exit code 6 if degraded")]
    Status(StatusArgs),
    /// Detach a volume and close its replicas, until it is assembled
    #[command(after_help = "\
Examples:
  evenkeel volume stop music

A mounted volume, or one whose export has clients, is not stopped: unmount it first. Afterwards the
disks of its replicas can be taken out; `evenkeel volume assemble music` opens them again.")]
    Stop(VolumeName),
    /// Put a volume together from its disks: a stopped one, one on disks from elsewhere, or one
    /// whose replicas were written apart
    #[command(after_help = "\
Examples:
  evenkeel volume assemble music                   after `volume stop`
  evenkeel volume assemble --scan                  everything that is on the cluster's disks
  evenkeel volume assemble music /dev/sdb1 /mnt/d  with disks that no node has yet
  evenkeel volume assemble music --keep n2:fast --save-differing /root/lost.img

Only with every replica that the newest view found calls in-sync. --force goes on without: what only
the missing ones have is lost. Replicas that were written apart from each other (split brain) are
shown, with all that differs, and refused until --keep chooses one. Exit code 4: refused as unsafe.")]
    Assemble(AssembleArgs),
    /// Make a volume larger, also while it is in use
    #[command(after_help = "\
Examples:
  evenkeel volume grow music --size 200G

What is new reads as zeroes. All replicas have to be in-sync, and their disks need the room. NBD clients
see the new size when they connect again. A volume never becomes smaller.")]
    Grow(GrowArgs),
    /// Compare all in-sync replicas with each other, and repair what differs
    #[command(after_help = "\
Examples:
  evenkeel volume verify music --wait             are they identical? exit code 1 if not
  evenkeel volume verify music --repair --wait    what most of them hold goes to all
  evenkeel volume verify music --stop

The volume stays in use; clients go first. What is found is shown by `volume status`.")]
    Verify(VerifyArgs),
    /// Pause, resume or limit the rebuilds of a volume
    #[command(after_help = "\
Examples:
  evenkeel volume rebuild music --pause
  evenkeel volume rebuild music --resume
  evenkeel volume rebuild music --limit 50M       bytes per second, for each rebuilding replica

Without a limit rebuilds go as fast as clients leave room for.")]
    Rebuild(RebuildArgs),
    /// Change the protocol, the bitmap or the number of replicas, also while the volume is in use
    #[command(after_help = "\
Examples:
  evenkeel volume change music --bitmap none
  evenkeel volume change music --protocol A
  evenkeel volume change music --replicas 3 --wait
  evenkeel volume change music --replicas 2 --yes")]
    Change(ChangeArgs),
    /// Delete a volume and the data on all its replicas
    #[command(after_help = "\
Examples:
  evenkeel volume delete music --yes")]
    Delete(DeleteArgs),
}

/// Arguments of `volume create`.
#[derive(Debug, Args)]
pub struct CreateArgs {
    /// Its name: letters, digits, `.`, `_` and `-`
    pub name: String,
    /// Usable size, as in 4G
    #[arg(long, value_parser = parse_size)]
    pub size: u64,
    /// Copies of each block
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=16))]
    pub replicas: u16,
    /// Where to put a replica; once for each, mirror by mirror. Chosen by free space if not given
    #[arg(long = "on", value_name = "NODE:DISK")]
    pub on: Vec<String>,
    /// Mirrors to stripe over
    #[arg(long, value_name = "MIRRORS", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=16))]
    pub stripe: u16,
    /// When a write is acknowledged: A when the local replica wrote it, B when all received it, C when all wrote it
    #[arg(long, value_enum, default_value_t = ProtocolName::C, ignore_case = true)]
    pub protocol: ProtocolName,
    /// Where replicas may differ after a crash: known by regions, or nowhere (then all is copied)
    #[arg(long, value_enum, default_value_t = BitmapName::Internal)]
    pub bitmap: BitmapName,
    /// Whether each 4 KiB has a checksum, so that what a disk has damaged is never returned
    #[arg(long, value_enum, default_value_t = ChecksumName::Crc32c)]
    pub checksums: ChecksumName,
    /// The intent log's size.
    #[command(flatten)]
    pub intents: IntentArgs,
    /// Logical block size: 512 where every disk allows it, else 4096
    #[arg(long, value_name = "BYTES", value_parser = ["512", "4096"])]
    pub block_size: Option<String>,
    /// Let replicas of a mirror share a node, even a disk, if there is no other room (for trials)
    #[arg(long)]
    pub same_node: bool,
    /// Show where the replicas would go, and create nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// How a replica knows what its disk has damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ChecksumName {
    /// By what the disk says.
    None,
    /// By a CRC-32C of each 4 KiB.
    Crc32c,
}

/// When a write is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ProtocolName {
    /// When the local replica wrote it.
    #[value(name = "A")]
    A,
    /// When all replicas received it.
    #[value(name = "B")]
    B,
    /// When all replicas wrote it.
    #[value(name = "C")]
    C,
}

/// Arguments of `volume status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// One volume; all of them if not given
    pub name: Option<String>,
    /// Show it again every second until Ctrl-C
    #[arg(long)]
    pub watch: bool,
    /// Wait until the volume is so, with a progress bar on a terminal
    #[arg(long, value_name = "STATE", value_enum, conflicts_with = "watch")]
    pub wait: Option<WaitFor>,
    /// How long to wait: 30s, 5m, 2h
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = parse_span)]
    pub timeout: Duration,
    /// End with code 6 if any replica is not in-sync
    #[arg(long)]
    pub check: bool,
}

/// What `--wait` waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum WaitFor {
    /// Every replica is in-sync.
    InSync,
    /// Some replica is not in-sync.
    Degraded,
}

/// Arguments of `volume assemble`.
#[derive(Debug, Args)]
pub struct AssembleArgs {
    /// The volume, then devices, directories or replica files to look at besides the disks of all
    /// nodes; with --scan only those
    #[arg(value_name = "NAME|PATH", required_unless_present = "scan")]
    pub names: Vec<String>,
    /// All volumes that are found
    #[arg(long)]
    pub scan: bool,
    /// Go on without in-sync replicas that are not found: what only they have is lost
    #[arg(long, conflicts_with = "scan")]
    pub force: bool,
    /// After a split brain: keep the side of this replica, and rebuild the others from it
    #[arg(long, value_name = "REPLICA", conflicts_with = "scan")]
    pub keep: Option<String>,
    /// Save the blocks of the other side that differ in this file, before they are overwritten
    #[arg(long, value_name = "FILE", requires = "keep")]
    pub save_differing: Option<PathBuf>,
}

/// Arguments of `volume delete`.
#[derive(Debug, Args)]
pub struct DeleteArgs {
    /// The volume
    pub name: String,
    /// Yes, delete the data
    #[arg(long)]
    pub yes: bool,
    /// Show what would be deleted, and delete nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// A volume.
#[derive(Debug, Args)]
pub struct VolumeName {
    /// The volume
    pub name: String,
}

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
    /// Refuse writes
    #[arg(long)]
    pub read_only: bool,
}

/// Arguments of `detach`.
#[derive(Debug, Args)]
pub struct DetachArgs {
    /// The volume
    pub name: String,
    /// The node to detach it from; if not given, this one, or where it is attached
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
    /// Leave the volume attached
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
  nbdinfo 'nbd+unix:///music?socket=/run/evenkeel/nbd/music.sock'")]
    Nbd(ExportNbdArgs),
    /// List the exports of this node
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
    /// Refuse writes
    #[arg(long)]
    pub read_only: bool,
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
  evenkeel config check --config ./evenkeel.toml")]
    Check(RunArgs),
    /// Show every setting with its value, defaults included
    #[command(after_help = "\
Examples:
  evenkeel config show
  evenkeel config show --config ./evenkeel.toml --json")]
    Show(RunArgs),
}

/// Arguments of `quickstart`.
#[derive(Debug, Args)]
pub struct QuickstartArgs {
    /// Clean up and end after the last step, instead of waiting for Ctrl-C
    #[arg(long)]
    pub once: bool,
    /// The volume's size
    #[arg(long, default_value = "4G", value_parser = parse_size)]
    pub size: u64,
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
