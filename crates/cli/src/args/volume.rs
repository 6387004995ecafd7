//! `evenkeel volume …` and its arguments.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use evenkeel_api::types::{NoCoordinator, NoData};

use super::{AgreeArgs, BitmapName, ChangeArgs, GrowArgs, IntentArgs, RebuildArgs, VerifyArgs};
use crate::output::{
    parse_no_coordinator, parse_no_data, parse_number, parse_span, parse_volume_size,
};

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
  evenkeel volume list --unhealthy                        what wants attention
  evenkeel volume list 'vm*'
  evenkeel volume list --json | jq -r '.volumes[].name'")]
    List(ListArgs),
    /// Show volumes with every replica, its state, and the reason of anything unusual
    #[command(after_help = "\
Examples:
  evenkeel volume status
  evenkeel volume status music --watch
  evenkeel volume status --watch > changes.log            a line for each change, with the time
  evenkeel volume status music --wait in-sync --timeout 10m
  evenkeel volume status --check || echo degraded         exit code 6 if degraded")]
    Status(StatusArgs),
    /// Give a volume another name, while it is attached nowhere
    #[command(after_help = "\
Examples:
  evenkeel volume rename music records

Its device, its exports and what programs remember of them have its name: unmount and detach it before.
Entries in /etc/fstab and scripts are to be changed by hand.")]
    Rename(RenameArgs),
    /// Detach a volume and close its replicas, until it is assembled
    #[command(after_help = "\
Examples:
  evenkeel volume stop music
  evenkeel volume stop music --dry-run             from which nodes it would be detached

It asks if the volume is attached anywhere. A mounted volume, or one whose export has clients, is not stopped: unmount it first. Afterwards the
disks of its replicas can be taken out; `evenkeel volume assemble music` opens them again.")]
    Stop(StopArgs),
    /// Put a volume together from its disks: a stopped one, one on disks from elsewhere, or one
    /// whose replicas have diverged
    #[command(after_help = "\
Examples:
  evenkeel volume assemble music                   after `volume stop`
  evenkeel volume assemble --scan                  everything that is on the cluster's disks
  evenkeel volume assemble music /dev/sdb1 /mnt/d  with disks that no node has yet
  evenkeel volume assemble music --keep n2:fast --dry-run       what that would discard
  evenkeel volume assemble music --keep n2:fast --save-differing /root/lost.img

Only with every replica that the newest view found calls in-sync. --force goes on without: what only
the missing ones have is lost. Replicas that have diverged from each other (split brain) are
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
  evenkeel volume verify music --repair --source n1 --wait   where none has the most, what n1 holds
  evenkeel volume verify music --stop

A replica is named by NODE, NODE:DISK, or the first digits of its identity.
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
  evenkeel volume change music --replicas 2 --yes
  evenkeel volume change music --on-no-coordinator 60s      fail requests then, instead of waiting")]
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
    #[arg(long, value_parser = parse_volume_size, allow_hyphen_values = true)]
    pub size: u64,
    /// Copies of each block
    #[arg(long, default_value_t = 3, value_parser = parse_number::<u16>(1, 16))]
    pub replicas: u16,
    /// Where to put a replica; once for each, mirror by mirror. Chosen by free space if not given
    #[arg(long = "on", value_name = "NODE:DISK")]
    pub on: Vec<String>,
    /// Mirrors to stripe over
    #[arg(long, value_name = "MIRRORS", default_value_t = 1, value_parser = parse_number::<u16>(1, 16))]
    pub stripe: u16,
    /// When a write is acknowledged: A when the local replica wrote it, B when all received it, C
    /// when all wrote it
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
    /// What requests do while a view has to change and the coordinator does not answer: `suspend`
    /// (wait until it answers), or a time as in 60s after which they fail
    #[arg(long, value_name = "suspend|TIME", default_value = "suspend", value_parser = parse_no_coordinator)]
    pub on_no_coordinator: NoCoordinator,
    /// How long requests wait while no in-sync replica of a mirror answers, before they fail, as in
    /// 2m; `error`: not at all. It stays so
    #[arg(long, value_name = "error|TIME", default_value = "2m", value_parser = parse_no_data)]
    pub on_no_data: NoData,
    /// Let replicas of a mirror share a node, even a disk, if there is no other room (for trials)
    #[arg(long)]
    pub same_node: bool,
    /// Promise more than directories have free: one that is full later fails its replica
    #[arg(long)]
    pub thin: bool,
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

/// Arguments of `volume rename`.
#[derive(Debug, Args)]
pub struct RenameArgs {
    /// The volume
    #[arg(value_name = "OLD")]
    pub name: String,
    /// Its new name
    #[arg(value_name = "NEW")]
    pub new: String,
}

/// Arguments of `volume list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Volumes, or patterns of their names with * and ?; all of them if not given
    #[arg(value_name = "NAME|PATTERN")]
    pub names: Vec<String>,
    /// Only volumes with a replica that is not in-sync, suspended ones and unreachable ones
    #[arg(long)]
    pub unhealthy: bool,
}

/// Arguments of `volume status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// One volume, or a pattern of names with * and ?; all of them if not given
    #[arg(value_name = "NAME|PATTERN")]
    pub name: Option<String>,
    /// Look again every second until Ctrl-C: in place on a terminal, else a line for each change
    #[arg(long)]
    pub watch: bool,
    /// Wait until the volume is so, with a progress bar on a terminal
    #[arg(long, value_name = "STATE", value_enum, conflicts_with = "watch")]
    pub wait: Option<WaitFor>,
    /// How long to wait: 30s, 5m, 2h
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = parse_span, requires = "wait")]
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
    /// After a split brain: keep the branch of this replica, and rebuild the others from it
    #[arg(long, value_name = "REPLICA", conflicts_with = "scan")]
    pub keep: Option<String>,
    /// Save the blocks of the other branch that differ in this file, before they are overwritten
    #[arg(long, value_name = "FILE", requires = "keep")]
    pub save_differing: Option<PathBuf>,
    /// Tell what would be kept, what discarded with how much that loses, or why it is refused, and
    /// do nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// Arguments of `volume delete`.
#[derive(Debug, Args)]
pub struct DeleteArgs {
    /// The volume
    pub name: String,
    /// Whether to ask.
    #[command(flatten)]
    pub agree: AgreeArgs,
    /// Also if it was attached on a node that is dead, and too little of it is left to take it over
    #[arg(long)]
    pub force: bool,
}

/// Arguments of `volume stop`.
#[derive(Debug, Args)]
pub struct StopArgs {
    /// The volume
    pub name: String,
    /// Whether to ask.
    #[command(flatten)]
    pub agree: AgreeArgs,
}
