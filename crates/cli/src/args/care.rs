//! Arguments of the commands that look after a volume.

use std::time::Duration;

use clap::{ArgGroup, Args, ValueEnum};
use evenkeel_api::types::RebuildRate;

use crate::output::{parse_number, parse_size, parse_span, parse_volume_size};

/// How closely replicas remember where they may differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BitmapName {
    /// Not at all: after a crash of a replica all of it is copied.
    None,
    /// By regions, in the intent log of each replica.
    Internal,
    /// The same, with a slot for each of several primaries at once.
    Clustered,
}

/// The size of the intent logs.
#[derive(Debug, Args)]
pub struct IntentArgs {
    /// Bytes of one region of the intent log, as in 4M: a power of two, 128K to 1G
    #[arg(long, value_name = "SIZE", value_parser = parse_size, allow_hyphen_values = true)]
    pub region_size: Option<u64>,
    /// Regions that may be open at once, so that writing there costs no metadata I/O: up to 2032
    #[arg(long, value_name = "REGIONS", value_parser = parse_number::<u16>(1, 2032))]
    pub open_regions: Option<u16>,
    /// On how many nodes the volume may be attached at once: each has a slot of the intent logs.
    /// More than one only by protocol C
    #[arg(long, value_name = "NODES", value_parser = parse_number::<u8>(1, 32))]
    pub primaries: Option<u8>,
}

/// Arguments of `volume verify`.
#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// The volume
    pub name: String,
    /// Rewrite what differs: of copies that match their checksums, what most hold goes to all
    #[arg(long)]
    pub repair: bool,
    /// With --repair: where checksums do not decide, this replica's content goes to all
    #[arg(long, value_name = "REPLICA", requires = "repair")]
    pub source: Option<String>,
    /// End a verify that runs
    #[arg(long, conflicts_with_all = ["repair", "wait"])]
    pub stop: bool,
    /// Wait for its end; exit code 1 if replicas differ and were not repaired
    #[arg(long)]
    pub wait: bool,
    /// How long to wait: 30s, 5m, 2h
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = parse_span, requires = "wait")]
    pub timeout: Duration,
}

/// Arguments of `volume rebuild`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("pace").required(true).args(["pause", "resume", "limit"])))]
pub struct RebuildArgs {
    /// The volume
    pub name: String,
    /// Copy nothing until that is changed
    #[arg(long)]
    pub pause: bool,
    /// Copy as fast as clients leave room for
    #[arg(long)]
    pub resume: bool,
    /// Copy at most so many bytes per second; `none`: as with --resume
    #[arg(long, value_name = "SIZE|none", value_parser = parse_limit)]
    pub limit: Option<RebuildRate>,
}

/// Reads a limit as the status shows it.
fn parse_limit(text: &str) -> Result<RebuildRate, String> {
    if text == "none" {
        return Ok(RebuildRate::None);
    }
    let bytes_per_second = parse_volume_size(text).map_err(|why| format!("{why}; or `none`"))?;
    Ok(RebuildRate::Rate { bytes_per_second })
}
