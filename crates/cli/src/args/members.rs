//! Arguments of the commands that change a volume's members and shape.

use std::time::Duration;

use clap::{ArgGroup, Args};
use evenkeel_api::types::{NoCoordinator, NoData};

use super::{AgreeArgs, BitmapName, IntentArgs, ProtocolName, ReplicaArgs};
use crate::output::{
    parse_no_coordinator, parse_no_data, parse_number, parse_span, parse_volume_size,
};

/// Waiting for the end of what a command has begun.
#[derive(Debug, Clone, Args)]
pub struct WaitArgs {
    /// Wait until the whole volume is in-sync
    #[arg(long)]
    pub wait: bool,
    /// How long to wait: 30s, 5m, 2h
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = parse_span, requires = "wait")]
    pub timeout: Duration,
}

/// Arguments of `replica add`.
#[derive(Debug, Args)]
pub struct ReplicaAddArgs {
    /// The volume
    pub volume: String,
    /// Where; chosen by free space, on a node without another replica of the mirror, if not given
    #[arg(value_name = "NODE[:DISK]")]
    pub on: Option<String>,
    /// As a spare, which stands in for a replica that fails
    #[arg(long)]
    pub spare: bool,
    /// The mirror, by its number; needed if the volume has several
    #[arg(long)]
    pub mirror: Option<usize>,
    /// Permit a node, even a disk, that holds another replica of the mirror (for trials)
    #[arg(long)]
    pub same_node: bool,
    /// Promise more than a directory has free: one that is full later fails its replica
    #[arg(long)]
    pub thin: bool,
    /// Whether to wait.
    #[command(flatten)]
    pub wait: WaitArgs,
}

/// Arguments of what takes another replica in place of one.
#[derive(Debug, Clone, Args)]
pub struct ReplacingArgs {
    /// Permit a node, even a disk, that holds another replica of the mirror (for trials)
    #[arg(long)]
    pub same_node: bool,
    /// Show where it would go and what would be removed then, and do nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Promise more than a directory has free: one that is full later fails its replica
    #[arg(long)]
    pub thin: bool,
    /// Whether to wait.
    #[command(flatten)]
    pub wait: WaitArgs,
}

/// Arguments of `replica replace`.
#[derive(Debug, Args)]
pub struct ReplicaReplaceArgs {
    /// The volume, and which of its replicas.
    #[command(flatten)]
    pub replica: ReplicaArgs,
    /// Where to; chosen by free space if not given
    #[arg(value_name = "NODE[:DISK]")]
    pub on: Option<String>,
    /// What else.
    #[command(flatten)]
    pub how: ReplacingArgs,
}

/// Arguments of `replica move`.
#[derive(Debug, Args)]
pub struct ReplicaMoveArgs {
    /// The volume, and which of its replicas.
    #[command(flatten)]
    pub replica: ReplicaArgs,
    /// Where to: a disk, or a node, of which the disk with the most free space is taken
    #[arg(long, value_name = "NODE[:DISK]")]
    pub to: String,
    /// What else.
    #[command(flatten)]
    pub how: ReplacingArgs,
}

/// Arguments of `volume grow`.
#[derive(Debug, Args)]
pub struct GrowArgs {
    /// The volume
    pub name: String,
    /// The new usable size, as in 200G
    #[arg(long, value_parser = parse_volume_size, allow_hyphen_values = true)]
    pub size: u64,
}

/// Arguments of `volume change`.
#[derive(Debug, Args)]
#[command(group(
    ArgGroup::new("what")
        .required(true)
        .multiple(true)
        .args(["protocol", "bitmap", "replicas", "region_size", "open_regions", "primaries", "lease", "lease_margin", "on_no_coordinator", "on_no_data"])
))]
pub struct ChangeArgs {
    /// The volume
    pub name: String,
    /// When a write is acknowledged: A when the local replica wrote it, B when all received it, C
    /// when all wrote it
    #[arg(long, value_enum, ignore_case = true)]
    pub protocol: Option<ProtocolName>,
    /// Where replicas may differ after a crash: known by regions, or nowhere (then all is copied)
    #[arg(long, value_enum)]
    pub bitmap: Option<BitmapName>,
    /// The intent log's size.
    #[command(flatten)]
    pub intents: IntentArgs,
    /// Copies of each block. More are added where there is most room; of fewer, those go first that
    /// are not in-sync, then those that do not answer, then those where the volume is not attached
    #[arg(long, value_parser = parse_number::<u16>(1, 16))]
    pub replicas: Option<u16>,
    /// How long one confirmation of a replica permits a primary to answer reads, as in 6s or 500ms:
    /// others take over from one that is cut off after that time
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    pub lease: Option<Duration>,
    /// What replicas add to it, for clocks that drift apart
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    pub lease_margin: Option<Duration>,
    /// What requests do while a view has to change and the coordinator does not answer: `suspend`
    /// (wait until it answers), or a time as in 60s after which they fail
    #[arg(long, value_name = "suspend|TIME", value_parser = parse_no_coordinator)]
    pub on_no_coordinator: Option<NoCoordinator>,
    /// What requests do while no in-sync replica of a mirror answers: a time as in 2m for which
    /// they wait before they fail, or `error` (they fail at once)
    #[arg(long, value_name = "error|TIME", value_parser = parse_no_data)]
    pub on_no_data: Option<NoData>,
    /// Permit a node, even a disk, that holds another replica of the mirror (for trials)
    #[arg(long)]
    pub same_node: bool,
    /// Promise more than a directory has free: one that is full later fails its replica
    #[arg(long)]
    pub thin: bool,
    /// Whether to ask, before copies are removed.
    #[command(flatten)]
    pub agree: AgreeArgs,
    /// Whether to wait.
    #[command(flatten)]
    pub wait: WaitArgs,
}
