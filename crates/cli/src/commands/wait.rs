//! Waiting for a volume to be in some state, with a progress bar on a terminal.

use std::time::{Duration, Instant};

use evenkeel_node::api::routes;
use evenkeel_node::api::types::{
    ChangeAnswer, Rebuild, ReplicaState, ReplicaStatus, VolumeAnswer, VolumeHealth, VolumeState,
    VolumeStatus,
};
use indicatif::{ProgressBar, ProgressStyle};

use super::Context;
use crate::args::{WaitArgs, WaitFor};
use crate::client::Answer;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::volume::is_measuring;
use crate::output::{self, rate, size, span};

/// Between two looks at a volume.
const PAUSE: Duration = Duration::from_millis(250);

/// Waits until the volume is so.
///
/// # Errors
/// With [`Exit::TimedOut`] if it is not so in time; with [`Exit::Degraded`] as soon as it can only
/// become so by another command.
pub fn until(
    context: &Context,
    name: &str,
    state: WaitFor,
    timeout: Duration,
) -> Result<(), Failure> {
    let path = routes::fill(routes::VOLUME, &[name]);
    let start = Instant::now();
    let bar = RebuildBar::new(context.global.quiet || context.global.json);
    let mut hopeless_since: Option<Instant> = None;
    loop {
        let volume = context.client.fetch::<VolumeAnswer>(&path)?.volume;
        bar.show(&volume);
        if holds(&volume, state) {
            return Ok(());
        }
        match hopeless(&volume).filter(|_| state == WaitFor::InSync) {
            Some(obstacle) => {
                let since = hopeless_since.get_or_insert_with(Instant::now);
                if since.elapsed() >= obstacle.patience() {
                    return Err(obstacle.failure(&volume));
                }
            }
            None => hopeless_since = None,
        }
        if start.elapsed() >= timeout {
            return Err(timed_out(&volume, state, timeout));
        }
        std::thread::sleep(PAUSE);
    }
}

/// Shows what a change has come to, when the volume is in-sync if that is to be awaited.
///
/// # Errors
/// With [`Exit::TimedOut`] if it is not in-sync in time.
pub fn after_change(
    context: &Context,
    answer: Answer,
    name: &str,
    wait: &WaitArgs,
) -> Result<(), Failure> {
    if !wait.wait {
        return context.show(&answer, |answer: &ChangeAnswer| {
            format!("{}\n\n{}", answer.message, output::volume::status(&answer.volume))
        });
    }
    let message = answer.parse::<ChangeAnswer>()?.message;
    until(context, name, WaitFor::InSync, wait.timeout)?;
    let answer = context.client.get(&routes::fill(routes::VOLUME, &[name]))?;
    context.show(&answer, |answer: &VolumeAnswer| {
        format!("{message}\n\n{}", output::volume::status(&answer.volume))
    })
}

fn holds(volume: &VolumeStatus, state: WaitFor) -> bool {
    match state {
        WaitFor::InSync => volume.health == VolumeHealth::InSync,
        WaitFor::Degraded => {
            matches!(volume.health, VolumeHealth::Rebuilding | VolumeHealth::Degraded)
        }
    }
}

/// Why waiting longer would not help.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Obstacle {
    /// Nobody rebuilds a volume that is not attached.
    NotAttached { stopped: bool },
    /// A replica waits for a command, and no other one is made in its place.
    Faulty { place: String, reason: String },
}

impl Obstacle {
    /// How long it has to be seen: a command that takes it away may be on its way, and a node that
    /// restarts attaches its volumes again.
    const fn patience(&self) -> Duration {
        match self {
            Self::NotAttached { stopped: false } => Duration::from_secs(15),
            Self::NotAttached { stopped: true } | Self::Faulty { .. } => Duration::from_secs(2),
        }
    }

    fn failure(self, volume: &VolumeStatus) -> Failure {
        let name = &volume.name;
        let (why, advice) = match self {
            Self::NotAttached { stopped: true } => {
                ("it is stopped".to_owned(), format!("open it: evenkeel volume assemble {name}"))
            }
            Self::NotAttached { stopped: false } => (
                "its replicas are rebuilt while it is attached, and it is not".to_owned(),
                format!("attach it: evenkeel attach {name}"),
            ),
            Self::Faulty { place, reason } => (
                format!("the replica on {place} is faulty: {reason}"),
                format!(
                    "when its disk is good again: evenkeel replica re-add {name} {place}; else: evenkeel replica replace {name} {place}"
                ),
            ),
        };
        Failure::new(format!("volume `{name}` does not become in-sync by itself"), why)
            .exit(Exit::Degraded)
            .advise(advice)
    }
}

/// What keeps a volume from being in-sync that no time will take away.
fn hopeless(volume: &VolumeStatus) -> Option<Obstacle> {
    match volume.state {
        VolumeState::Stopped => return Some(Obstacle::NotAttached { stopped: true }),
        // A node that comes back may be all that it lacks.
        VolumeState::Detached if !is_out_of_reach(volume) => {
            return Some(Obstacle::NotAttached { stopped: false });
        }
        _ => {}
    }
    let replicas = || volume.mirrors.iter().flat_map(|mirror| &mirror.replicas);
    let has_successor = |faulty: &ReplicaStatus| {
        replicas().any(|other| other.instead_of.as_ref() == Some(&faulty.id))
    };
    let faulty = replicas()
        .find(|replica| replica.state == ReplicaState::Faulty && !has_successor(replica))?;
    let reason = faulty.reason.clone().unwrap_or_else(|| "it waits for a command".into());
    Some(Obstacle::Faulty { place: output::volume::place(faulty), reason })
}

const fn is_out_of_reach(volume: &VolumeStatus) -> bool {
    matches!(volume.health, VolumeHealth::Unknown | VolumeHealth::Unreachable)
}

fn timed_out(volume: &VolumeStatus, state: WaitFor, timeout: Duration) -> Failure {
    let wanted = match state {
        WaitFor::InSync => "in-sync",
        WaitFor::Degraded => "degraded",
    };
    let reason = volume.reason.clone().unwrap_or_else(|| {
        format!(
            "it is {} {}",
            output::volume::summary(volume),
            output::volume::health(volume.health)
        )
    });
    Failure::new(
        format!("volume `{}` is not {wanted} after {}", volume.name, span(timeout)),
        reason,
    )
    .exit(Exit::TimedOut)
    .advise("look at it with `evenkeel volume status`, or wait longer with --timeout")
}

/// The progress of all rebuilds of a volume together.
#[derive(Debug)]
pub struct RebuildBar {
    bar: ProgressBar,
}

impl RebuildBar {
    /// A bar, hidden off a terminal or on demand.
    pub fn new(hidden: bool) -> Self {
        Self::of(if hidden { ProgressBar::hidden() } else { ProgressBar::new(0) }, 2)
    }

    /// A bar that stands below other text; hidden off a terminal.
    pub fn indented(columns: usize) -> Self {
        Self::of(ProgressBar::new(0), columns)
    }

    fn of(bar: ProgressBar, indent: usize) -> Self {
        let template = format!("{:indent$}{{prefix}} [{{bar:30}}] {{percent:>3}}%  {{msg}}", "");
        let style = ProgressStyle::with_template(&template);
        if let Ok(style) = style {
            bar.set_style(style.progress_chars("=> "));
        }
        Self { bar }
    }

    /// Shows the volume as it is now.
    pub fn show(&self, volume: &VolumeStatus) {
        let rebuilds: Vec<&Rebuild> = volume
            .mirrors
            .iter()
            .flat_map(|mirror| &mirror.replicas)
            .filter_map(|replica| replica.rebuild.as_ref())
            .collect();
        let sum = |part: fn(&Rebuild) -> u64| rebuilds.iter().map(|rebuild| part(rebuild)).sum();
        let (done, total, speed): (u64, u64, u64) =
            (sum(|r| r.done), sum(|r| r.total), sum(|r| r.rate));
        self.bar.set_prefix(output::volume::summary(volume));
        self.bar.set_length(total);
        self.bar.set_position(done);
        let left = rebuilds.iter().filter_map(|rebuild| rebuild.eta_seconds).max();
        let pace = match speed == 0 && rebuilds.iter().any(|rebuild| is_measuring(rebuild)) {
            true => "measuring the rate".to_owned(),
            false => rate(speed),
        };
        self.bar.set_message(match (rebuilds.is_empty(), left) {
            (true, _) => volume.reason.clone().unwrap_or_default(),
            (_, None) => format!("{} of {}, {pace}", size(done), size(total)),
            (_, Some(left)) => format!(
                "{} of {}, {pace}, {} left",
                size(done),
                size(total),
                span(Duration::from_secs(left)),
            ),
        });
    }
}

impl Drop for RebuildBar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests;
