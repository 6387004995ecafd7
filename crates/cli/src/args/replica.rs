//! `evenkeel replica …` and its arguments.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::{AgreeArgs, ReplicaAddArgs, ReplicaMoveArgs, ReplicaReplaceArgs};
use crate::output::parse_span;

/// `evenkeel replica …`
#[derive(Debug, Subcommand)]
pub enum ReplicaCommand {
    /// Take a replica out of use; it waits for `re-add` or `remove`
    #[command(after_help = "\
Examples:
  evenkeel replica fail music n3
  evenkeel replica fail music n3 --dry-run              what would be left?

The last in-sync replica of a mirror is never failed.")]
    Fail(ReplicaFailArgs),
    /// Remove a failed replica from the volume for good
    #[command(after_help = "\
Examples:
  evenkeel replica remove music n3 --dry-run            what would be lost, and left?
  evenkeel replica remove music n3 --yes")]
    Remove(ReplicaRemoveArgs),
    /// Add a replica, or a spare that stands in for one that fails
    #[command(after_help = "\
Examples:
  evenkeel replica add music                           where there is most room
  evenkeel replica add music n4:fast --wait
  evenkeel replica add music n5:fast --spare

Naming a place that holds a replica of the volume already changes nothing.")]
    Add(ReplicaAddArgs),
    /// Copy a replica to another disk, then remove the old one
    #[command(after_help = "\
Examples:
  evenkeel replica replace music n3 n4:fast --wait
  evenkeel replica replace music n3                     where there is most room

The old replica stays in use until the new one is in-sync. A failed one can be replaced, too.")]
    Replace(ReplicaReplaceArgs),
    /// Move a replica to a disk of another node, as before that node is retired
    #[command(after_help = "\
Examples:
  evenkeel replica move music n3 --to n4 --wait         the disk of n4 with the most free space
  evenkeel replica move music n3:slow --to n3:fast

A new replica is made there and copied; only when it is in-sync the old one is removed. Whatever is
cut off meanwhile, the volume has as many good copies as before, and the same command goes on.")]
    Move(ReplicaMoveArgs),
    /// Let a failed replica return: it rebuilds, then is in-sync
    #[command(
        name = "re-add",
        after_help = "\
Examples:
  evenkeel replica re-add music n3 --wait

It gets what has changed meanwhile. If its disk had reported errors, it is copied whole: nobody
knows what else that disk has damaged."
    )]
    ReAdd(ReplicaReAddArgs),
}

/// One replica of a volume.
#[derive(Debug, Clone, Args)]
pub struct ReplicaArgs {
    /// The volume
    pub volume: String,
    /// The replica: NODE, NODE:DISK, or the first digits of its identity, as `volume status` shows
    /// them
    pub replica: String,
}

/// Arguments of `replica fail`.
#[derive(Debug, Args)]
pub struct ReplicaFailArgs {
    /// The volume, and which of its replicas.
    #[command(flatten)]
    pub replica: ReplicaArgs,
    /// Show what would be left, and fail nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// Arguments of `replica remove`.
#[derive(Debug, Args)]
pub struct ReplicaRemoveArgs {
    /// The volume, and which of its replicas.
    #[command(flatten)]
    pub replica: ReplicaArgs,
    /// Whether to ask.
    #[command(flatten)]
    pub agree: AgreeArgs,
}

/// Arguments of `replica re-add`.
#[derive(Debug, Args)]
pub struct ReplicaReAddArgs {
    /// The volume, and which of its replicas.
    #[command(flatten)]
    pub replica: ReplicaArgs,
    /// Wait until that replica is in-sync, whatever others are
    #[arg(long)]
    pub wait: bool,
    /// How long to wait: 30s, 5m, 2h
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = parse_span, requires = "wait")]
    pub timeout: Duration,
}
