//! Agreeing to what a command takes away.

use clap::Args;

/// Whether to ask.
#[derive(Debug, Clone, Copy, Args)]
pub struct AgreeArgs {
    /// Yes, go on without asking; without it a terminal is asked, and anything else is refused
    #[arg(long, conflicts_with = "dry_run")]
    pub yes: bool,
    /// Show what would be removed, and remove nothing
    #[arg(long)]
    pub dry_run: bool,
}
