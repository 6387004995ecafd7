//! `evenkeel examine`: the one command about replicas that needs no node. It reads through the
//! node's library, because a disk may have to be understood where no node can be started.

use std::path::PathBuf;

use evenkeel_api::routes;
use evenkeel_api::types::{DisksAnswer, ExamineAnswer, ReplicaVerdict, VERSION};
use evenkeel_node::{disks, examine};

use super::{Context, config};
use crate::args::ExamineArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{self, say};

/// Reads what is at the paths, and shows it.
///
/// # Errors
/// With `--scan`, if neither the node nor its configuration tells its disks.
pub fn run(context: &Context, args: &ExamineArgs) -> Result<Exit, Failure> {
    let mut paths = if args.scan { disks_here(context, args)? } else { Vec::new() };
    let mut warnings = Vec::new();
    if args.scan && paths.is_empty() {
        warnings.push("no disk was given to this node".to_owned());
    }
    paths.extend(args.paths.iter().cloned());
    let found = paths.iter().flat_map(|path| examine::examine(path));
    let replicas = found.map(|found| found.examined).collect();
    let answer = ExamineAnswer { version: VERSION, replicas, warnings };
    if context.global.json {
        let text = serde_json::to_string(&answer)
            .map_err(|error| Failure::new("cannot write the answer", error))?;
        say(&format!("{text}\n"));
    } else if !context.global.quiet {
        let shown = output::harmless::copy(&answer)
            .map_err(|error| Failure::new("cannot show what was found", error))?;
        say(&output::examine::page(&shown));
    }
    Ok(verdict(&answer))
}

/// The disks of the node on this machine: from itself, else from its state directory.
fn disks_here(context: &Context, args: &ExamineArgs) -> Result<Vec<PathBuf>, Failure> {
    if args.config.is_none()
        && let Ok(answer) = context.client.fetch::<DisksAnswer>(routes::DISKS)
    {
        return Ok(answer.disks.into_iter().map(|disk| PathBuf::from(disk.path)).collect());
    }
    let (config, _) = config::load(args.config.as_deref())?;
    disks::remembered(&config.state).map_err(|error| {
        Failure::new(format!("cannot tell the disks of the node of {}", config.state.display()), error)
            .advise("run this as root, name the node's configuration by --config, or name the disks instead of --scan")
    })
}

/// The worst of all decides.
fn verdict(answer: &ExamineAnswer) -> Exit {
    let any = |wanted| answer.replicas.iter().any(|replica| replica.verdict == wanted);
    if any(ReplicaVerdict::Unusable) {
        Exit::Failed
    } else if any(ReplicaVerdict::NoReplica) {
        Exit::NotFound
    } else if any(ReplicaVerdict::Impaired) {
        Exit::Degraded
    } else {
        Exit::Done
    }
}
