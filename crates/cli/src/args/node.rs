//! Arguments about nodes, their clusters and disks.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::AgreeArgs;
use crate::output::parse_span;

/// `evenkeel cluster …`
#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Make the cluster's authority on this machine, which is to serve the coordinator
    #[command(after_help = "\
Examples:
  evenkeel cluster init
  evenkeel cluster init --config ./evenkeel.toml

The node must not run. Its state directory gets the authority's private key, authority.key, which signs
the certificates of all nodes: back it up where only you can read it. From then on the node uses TLS on
TCP, and serves only nodes that have a certificate. What is there already is not replaced.")]
    Init(RunArgs),
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
  evenkeel node join 10.0.0.1:7740 --token TOKEN      the first time, with a token of `node invite`
  evenkeel node join 10.0.0.1:7740                    with [peer.tls]
  evenkeel node join unix:/run/other/peer.sock

A token gives this node a certificate of the cluster's authority. If the answer was lost, give the same
command again.")]
    Join(JoinArgs),
    /// Make a token with which a new node joins
    #[command(after_help = "\
Examples:
  evenkeel node invite                                for one node, valid for an hour
  evenkeel node invite --name 'rack1-*' --count 20 --for 24h
  evenkeel node invite --member n3                    for a member that has lost its key

Runs on the node where `evenkeel cluster init` was run. Whoever has the token may join until it is used
up or has expired: give it on by a way that only you can read.")]
    Invite(InviteArgs),
    /// Remove a node from the cluster for good: one that is drained, or a dead one with its
    /// replicas
    #[command(after_help = "\
Examples:
  evenkeel node remove n3 --dry-run      what would be lost with it?
  evenkeel node remove n3 --yes

A live node is drained first: `evenkeel replica move`, `evenkeel detach`. The replicas of a dead
one leave their volumes, if each keeps an in-sync replica that answers. From then on its identity is
refused: to use the machine again, remove its state directory and join anew.")]
    Remove(NodeRemoveArgs),
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

/// Arguments of `node remove`.
#[derive(Debug, Args)]
pub struct NodeRemoveArgs {
    /// The node, by its name or identity
    pub node: String,
    /// Whether to ask.
    #[command(flatten)]
    pub agree: AgreeArgs,
}

/// Arguments of `node join`.
#[derive(Debug, Args)]
pub struct JoinArgs {
    /// Where a node of the cluster listens for its peers: HOST:PORT or unix:PATH
    pub address: String,
    /// A token of `evenkeel node invite`; ADDRESS is then that of the node that has made it
    #[arg(long, value_name = "TOKEN")]
    pub token: Option<String>,
}

/// Arguments of `node invite`.
#[derive(Debug, Args)]
pub struct InviteArgs {
    /// How many nodes may use it
    #[arg(long, value_name = "NODES", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub count: u32,
    /// For how long it is valid: 30m, 24h; at most 720h
    #[arg(long = "for", value_name = "TIME", default_value = "1h", value_parser = parse_span)]
    pub lasts: Duration,
    /// Only for nodes of such names; `*` stands for any characters
    #[arg(long = "name", value_name = "PATTERN")]
    pub names: Option<String>,
    /// Only for this node, which is a member already, by its name or identity
    #[arg(long, value_name = "NODE", conflicts_with_all = ["names", "count"])]
    pub member: Option<String>,
}

/// `evenkeel disk …`
#[derive(Debug, Subcommand)]
pub enum DiskCommand {
    /// Give a block device or a directory to this node, to hold replicas
    #[command(after_help = "\
Examples:
  evenkeel disk add /dev/sdb1                    a partition: holds one replica
  evenkeel disk add /srv/evenkeel --name fast    a directory: one file per replica
  evenkeel disk add /dev/sdc --force --dry-run   what would be lost?

A disk that is mounted, in use or carries a known signature is refused without --force. Replicas on it that no
volume has any more are deleted: that is shown, and asked first.")]
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
  evenkeel disk remove fast

A disk that holds replicas is refused. Nothing on it is deleted.")]
    Remove(DiskRemoveArgs),
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
    #[command(flatten)]
    pub agree: AgreeArgs,
}

/// Arguments of `disk remove`.
#[derive(Debug, Args)]
pub struct DiskRemoveArgs {
    /// The disk's name on this node
    pub name: String,
    /// Show whether it would be removed, and remove nothing
    #[arg(long)]
    pub dry_run: bool,
}
