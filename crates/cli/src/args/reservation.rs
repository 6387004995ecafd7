//! `evenkeel reservation …` and its arguments.

use clap::{Args, Subcommand, ValueEnum};

use super::AgreeArgs;

/// `evenkeel reservation …`
#[derive(Debug, Subcommand)]
pub enum ReservationCommand {
    /// Show which hosts are registered, and who has reserved the volume
    #[command(after_help = "\
Examples:
  evenkeel reservation show music
  evenkeel reservation show music --json | jq .reservation")]
    Show(ReservationVolume),
    /// Register a host with a key, or give it another one
    #[command(after_help = "\
Examples:
  evenkeel reservation register music --key 1                    this node
  evenkeel reservation register music --key 2 --host n2 --persistent yes")]
    Register(RegisterArgs),
    /// Take a host's registration back
    #[command(after_help = "\
Examples:
  evenkeel reservation unregister music                          this node
  evenkeel reservation unregister music --host n2 --old-key 2")]
    Unregister(UnregisterArgs),
    /// Reserve the volume for a registered host
    #[command(after_help = "\
Examples:
  evenkeel reservation reserve music --key 1                     only registered hosts write
  evenkeel reservation reserve music --key 1 --kind exclusive-access")]
    Reserve(ReserveArgs),
    /// End a host's reservation
    #[command(after_help = "\
Examples:
  evenkeel reservation release music --key 1                     its registration stays
  evenkeel reservation release music --key 1 --kind exclusive-access")]
    Release(ReserveArgs),
    /// Take other hosts' registrations away, and with them the reservation
    #[command(after_help = "\
Examples:
  evenkeel reservation preempt music --key 1 --victim 2          fence the host with the key 2

When the command has ended, nothing that the victim had under way can reach the volume any more.")]
    Preempt(PreemptArgs),
    /// End the reservation and all registrations
    #[command(after_help = "\
Examples:
  evenkeel reservation clear music --key 1                       by a registered host")]
    Clear(KeyArgs),
    /// The same, by an administrator: nobody asks for a key
    #[command(after_help = "\
Examples:
  evenkeel reservation drop music --dry-run                      who is registered?
  evenkeel reservation drop music --yes

A node that was fenced by a preempt can write again then.")]
    Drop(DropArgs),
}

/// A volume.
#[derive(Debug, Args)]
pub struct ReservationVolume {
    /// The volume
    pub volume: String,
}

/// Arguments of `reservation drop`.
#[derive(Debug, Args)]
pub struct DropArgs {
    /// The volume
    pub volume: String,
    /// Whether to ask.
    #[command(flatten)]
    pub agree: AgreeArgs,
}

/// A host of a volume.
#[derive(Debug, Args)]
pub struct HostArgs {
    /// The volume
    pub volume: String,
    /// The host: a node, or a 128-bit identity [default: the node that is asked]
    #[arg(long, value_name = "HOST")]
    pub host: Option<String>,
}

/// A host, and its key.
#[derive(Debug, Args)]
pub struct KeyArgs {
    #[command(flatten)]
    pub host: HostArgs,
    /// The host's key: a number, as in 17 or 0x11
    #[arg(long, value_name = "KEY")]
    pub key: String,
}

/// Arguments of `reservation register`.
#[derive(Debug, Args)]
pub struct RegisterArgs {
    #[command(flatten)]
    pub key: KeyArgs,
    /// The key that it has: fail if that is another one, 0 if it is not registered
    #[arg(long, value_name = "KEY")]
    pub old_key: Option<String>,
    /// Whether registrations and reservation outlast the last node that has the volume attached
    #[arg(long, value_name = "YES/NO", value_parser = clap::builder::BoolishValueParser::new())]
    pub persistent: Option<bool>,
}

/// Arguments of `reservation unregister`.
#[derive(Debug, Args)]
pub struct UnregisterArgs {
    #[command(flatten)]
    pub host: HostArgs,
    /// The key that it has: fail if that is another one
    #[arg(long, value_name = "KEY")]
    pub old_key: Option<String>,
}

/// Arguments of `reservation reserve` and `reservation release`.
#[derive(Debug, Args)]
pub struct ReserveArgs {
    #[command(flatten)]
    pub key: KeyArgs,
    /// What others are kept from
    #[arg(long, value_enum, default_value_t = KindName::WriteExclusiveRegistrants)]
    pub kind: KindName,
}

/// Arguments of `reservation preempt`.
#[derive(Debug, Args)]
pub struct PreemptArgs {
    #[command(flatten)]
    pub reserve: ReserveArgs,
    /// The key of the hosts that lose their registration
    #[arg(long, value_name = "KEY")]
    pub victim: String,
}

/// What a reservation keeps other hosts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum KindName {
    /// Only the holder writes
    WriteExclusive,
    /// Only the holder reads and writes
    ExclusiveAccess,
    /// Only registered hosts write
    WriteExclusiveRegistrants,
    /// Only registered hosts read and write
    ExclusiveAccessRegistrants,
    /// Only registered hosts write, and each of them holds it
    WriteExclusiveAll,
    /// Only registered hosts read and write, and each of them holds it
    ExclusiveAccessAll,
}
