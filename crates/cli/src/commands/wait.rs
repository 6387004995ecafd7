//! Waiting for a volume to be in some state, with a progress bar on a terminal.

use std::time::{Duration, Instant};

use evenkeel_api::routes;
use evenkeel_api::types::{
    ChangeAnswer, MirrorStatus, Rebuild, RebuildRate, ReplicaCause, ReplicaReach, ReplicaRole,
    ReplicaState, ReplicaStatus, VolumeAnswer, VolumeHealth, VolumeState, VolumeStatus,
};
use indicatif::{ProgressBar, ProgressStyle};

use super::Context;
use crate::args::{WaitArgs, WaitFor};
use crate::client::Answer;
use crate::client::waiting::Once;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output::volume::is_measuring;
use crate::output::{self, rate, size, span};

/// Between two looks at a volume.
const PAUSE: Duration = Duration::from_millis(250);

/// What is waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Goal {
    /// The volume is so.
    Volume(WaitFor),
    /// The replica with this identity is in-sync, whatever others are.
    Replica(String),
}

impl Goal {
    /// Whether it matters in what state a replica is.
    fn concerns(&self, replica: &ReplicaStatus) -> bool {
        match self {
            Self::Volume(state) => *state == WaitFor::InSync,
            Self::Replica(id) => replica.id == *id,
        }
    }

    /// Whether rebuilds have to end for it.
    fn is_in_sync(&self) -> bool {
        !matches!(self, Self::Volume(WaitFor::Degraded))
    }
}

/// Waits until the volume, or one replica of it, is so.
///
/// # Errors
/// With [`Exit::TimedOut`] if it is not so in time; with [`Exit::Degraded`] as soon as it can only
/// become so by another command.
pub fn until(context: &Context, name: &str, goal: &Goal, timeout: Duration) -> Result<(), Failure> {
    let path = routes::fill(routes::VOLUME, &[name]);
    let interrupt = Interrupt::watch()?;
    let start = Instant::now();
    let is_silent = context.global.quiet || context.global.json;
    let bar = RebuildBar::new(is_silent);
    let mut reported = Once::default();
    let mut hopeless_since: Option<Instant> = None;
    let mut last = None;
    loop {
        let looked = context.client.fetch_unless::<VolumeAnswer>(&interrupt, &path);
        interrupt.check().map_err(|failure| stopped(failure, name, last.as_ref(), goal))?;
        let volume = looked?.volume;
        bar.show(&volume);
        if holds(&volume, goal) {
            return Ok(());
        }
        match hopeless(&volume, goal) {
            Some(obstacle) => {
                let since = hopeless_since.get_or_insert_with(Instant::now);
                if since.elapsed() >= obstacle.patience() {
                    return Err(obstacle.failure(&volume, goal));
                }
            }
            None => hopeless_since = None,
        }
        if !is_silent {
            reported.say(|| waits(&volume, goal));
        }
        if start.elapsed() >= timeout {
            return Err(timed_out(&volume, goal, timeout));
        }
        last = Some(volume);
        std::thread::sleep(PAUSE);
    }
}

/// Somebody has stopped the wait, and nothing else. `last`: the volume as it was seen last.
fn stopped(failure: Failure, name: &str, last: Option<&VolumeStatus>, goal: &Goal) -> Failure {
    let so_far = last.map(|volume| {
        let (who, wanted, reason) = lacking(volume, goal);
        format!("{who} is not {wanted} yet: {reason}; ")
    });
    let why =
        format!("{}only the wait has ended: what is under way goes on", so_far.unwrap_or_default());
    let again = match goal {
        Goal::Volume(WaitFor::Degraded) => "degraded",
        Goal::Volume(WaitFor::InSync) | Goal::Replica(_) => "in-sync",
    };
    Failure { why, ..failure }.advise(format!(
        "look at it: evenkeel volume status {name}; wait again: evenkeel volume status {name} --wait {again}"
    ))
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
    let goal = Goal::Volume(WaitFor::InSync);
    until(context, name, &goal, wait.timeout).map_err(|failure| after(&message, failure))?;
    let answer = context.client.get(&routes::fill(routes::VOLUME, &[name]))?;
    context.show(&answer, |answer: &VolumeAnswer| {
        format!("{message}\n\n{}", output::volume::status(&answer.volume))
    })
}

/// What was waited for has not come; what was done before is done, and said.
pub fn after(message: &str, failure: Failure) -> Failure {
    let what = match failure.exit {
        Exit::Interrupted => format!("{message}; the wait was {}", failure.what),
        _ => format!("{message}; but {}", failure.what),
    };
    Failure { what, ..failure }
}

/// The same if only the wait was stopped; what ends it otherwise says more than what was done.
pub fn after_if_stopped(message: &str, failure: Failure) -> Failure {
    match failure.exit {
        Exit::Interrupted if !message.is_empty() => after(message, failure),
        _ => failure,
    }
}

fn holds(volume: &VolumeStatus, goal: &Goal) -> bool {
    match goal {
        Goal::Volume(WaitFor::InSync) => volume.is_in_sync(),
        Goal::Volume(WaitFor::Degraded) => {
            matches!(volume.health, VolumeHealth::Rebuilding | VolumeHealth::Degraded)
        }
        Goal::Replica(_) => {
            replicas(volume).filter(|replica| goal.concerns(replica)).any(|replica| {
                replica.state == ReplicaState::InSync && replica.reach == ReplicaReach::Answers
            })
        }
    }
}

fn replicas(volume: &VolumeStatus) -> impl Iterator<Item = &ReplicaStatus> {
    volume.mirrors.iter().flat_map(|mirror| &mirror.replicas)
}

/// How another replica may come to stand in a bad one's place.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Instead {
    /// There is nothing to copy from.
    Nothing,
    /// It is replaced itself.
    Replaced,
    /// It was to replace the one at this place, if that is there still: it is removed, and that one
    /// replaced by yet another.
    Anew(Option<String>),
    /// It is a spare.
    Spare,
}

/// Why waiting longer would not help.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Obstacle {
    /// Nobody rebuilds a volume that is not attached.
    NotAttached { stopped: bool },
    /// A replica waits for a command, and no other one is made in its place.
    Faulty { place: String, reason: String, has_bad_disk: bool, instead: Instead },
    /// What a replica held is lost, or is when its node's daemon ends, and no other one is made in
    /// its place.
    Lost { place: String, reason: String, instead: Instead },
    /// A replica has diverged from the others: somebody has to choose.
    Diverged { place: String, reason: String },
    /// The replica itself is no part of the volume any more.
    Removed,
    /// Rebuilds are paused.
    Paused,
    /// All replicas are there, and the volume is degraded nevertheless: the last in-sync one of a
    /// mirror is on a disk that fails, a verify found one wrong, or a copy was lost with its node.
    Failing { reason: String },
}

impl Obstacle {
    /// How long it has to be seen: a command that takes it away may be on its way.
    const fn patience(&self) -> Duration {
        match self {
            Self::NotAttached { stopped: false } | Self::Removed => Duration::ZERO,
            _ => Duration::from_secs(2),
        }
    }

    /// A replica that was to be brought back onto a disk that can't take it is refused, as it is
    /// without `--wait`.
    const fn exit(&self, goal: &Goal) -> Exit {
        match (self, goal) {
            (Self::Faulty { has_bad_disk: true, .. } | Self::Lost { .. }, Goal::Replica(_)) => {
                Exit::Unsafe
            }
            _ => Exit::Degraded,
        }
    }

    fn failure(self, volume: &VolumeStatus, goal: &Goal) -> Failure {
        let (name, exit) = (&volume.name, self.exit(goal));
        let (why, advice) = match self {
            Self::NotAttached { stopped: true } => {
                ("it is stopped".to_owned(), format!("open it: evenkeel volume assemble {name}"))
            }
            Self::NotAttached { stopped: false } => (
                "its replicas are rebuilt while it is attached, and it is not".to_owned(),
                format!("attach it: evenkeel attach {name}"),
            ),
            Self::Removed => (
                "the replica that is waited for was removed from it".to_owned(),
                format!("see what it has now: evenkeel volume status {name}"),
            ),
            Self::Paused => (
                "its rebuilds are paused".to_owned(),
                format!("let them go on: evenkeel volume rebuild {name} --resume"),
            ),
            Self::Failing { reason } => {
                (reason, format!("see its replicas: evenkeel volume status {name}"))
            }
            Self::Diverged { place, reason } => (
                format!("the replica on {place} does not come back by itself: {reason}"),
                format!("see which branch to keep: evenkeel volume assemble {name} --dry-run"),
            ),
            Self::Lost { place, reason, instead } => (
                format!("the replica on {place} does not come back: {reason}"),
                format!(
                    "put its disk in order, and mount it again if it was unmounted; {}",
                    instead.command(name, &place, "else take another one in its place: ")
                ),
            ),
            Self::Faulty { place, reason, instead, .. } => (
                format!("the replica on {place} is faulty: {reason}"),
                format!(
                    "when its disk is good again: evenkeel replica re-add {name} {place}; {}",
                    instead.command(name, &place, "else: ")
                ),
            ),
        };
        Failure::new(format!("volume `{name}` does not become in-sync by itself"), why)
            .exit(exit)
            .advise(advice)
    }
}

impl Instead {
    fn of(volume: &VolumeStatus, bad: &ReplicaStatus) -> Self {
        let old = || replicas(volume).find(|old| Some(&old.id) == bad.instead_of.as_ref());
        match bad.role {
            _ if !has_source(volume, bad) => Self::Nothing,
            ReplicaRole::Copy => Self::Replaced,
            ReplicaRole::Replacement => Self::Anew(old().map(|old| named(volume, old))),
            ReplicaRole::Spare => Self::Spare,
        }
    }

    /// The command for that, if there is a replica to copy from.
    fn command(&self, name: &str, place: &str, how: &str) -> String {
        let remove = format!("{how}evenkeel replica remove {name} {place}, and then");
        match self {
            Self::Nothing => {
                "no other in-sync replica answers from which a new one could be copied".to_owned()
            }
            Self::Replaced => format!(
                "{how}evenkeel replica replace {name} {place} (if no other disk has space for it, first: evenkeel disk add)"
            ),
            Self::Anew(Some(old)) => {
                format!(
                    "{remove}, with another disk: evenkeel replica replace {name} {old} --on NODE:DISK"
                )
            }
            Self::Anew(None) => {
                format!("{remove}, with another disk: evenkeel replica add {name} --on NODE:DISK")
            }
            Self::Spare => {
                format!(
                    "{remove}, with another disk: evenkeel replica add {name} --spare --on NODE:DISK"
                )
            }
        }
    }
}

/// Whether another replica of its mirror has the data that one in its place needs.
fn has_source(volume: &VolumeStatus, bad: &ReplicaStatus) -> bool {
    let is_its = |mirror: &&MirrorStatus| mirror.replicas.iter().any(|r| r.id == bad.id);
    let is_source = |other: &ReplicaStatus| {
        let answers = other.reach != ReplicaReach::Unreachable && !other.lost;
        other.id != bad.id && other.state == ReplicaState::InSync && answers
    };
    volume.mirrors.iter().find(is_its).is_some_and(|mirror| mirror.replicas.iter().any(is_source))
}

/// What keeps a volume from being in-sync that no time will take away.
fn hopeless(volume: &VolumeStatus, goal: &Goal) -> Option<Obstacle> {
    if !goal.is_in_sync() {
        return None;
    }
    match volume.state {
        VolumeState::Stopped => return Some(Obstacle::NotAttached { stopped: true }),
        VolumeState::Detached if needs_attach(volume, goal) => {
            return Some(Obstacle::NotAttached { stopped: false });
        }
        _ => {}
    }
    if matches!(goal, Goal::Replica(_)) && !replicas(volume).any(|replica| goal.concerns(replica)) {
        return Some(Obstacle::Removed);
    }
    of_replicas(volume, goal).or_else(|| of_volume(volume, goal))
}

/// What a replica needs somebody for.
fn of_replicas(volume: &VolumeStatus, goal: &Goal) -> Option<Obstacle> {
    // A spare that has taken its place already brings it back no more than nobody does; what was
    // to be replaced is removed then.
    let is_to_come = |other: &ReplicaStatus| {
        other.role == ReplicaRole::Replacement || other.state != ReplicaState::InSync
    };
    let has_successor = |bad: &ReplicaStatus| {
        let mut instead = replicas(volume).filter(|r| r.instead_of.as_ref() == Some(&bad.id));
        instead.any(is_to_come)
    };
    // A spare has nothing to lose.
    let is_lost = |replica: &ReplicaStatus| replica.lost && replica.state != ReplicaState::Spare;
    let is_bad = |replica: &&ReplicaStatus| {
        replica.state == ReplicaState::Faulty || is_lost(replica) || is_diverged(replica)
    };
    let concerned = replicas(volume).filter(|replica| goal.concerns(replica));
    let bad = concerned.filter(is_bad).find(|replica| !has_successor(replica))?;
    let (place, instead) = (named(volume, bad), Instead::of(volume, bad));
    let reported = bad.unserved.clone().or_else(|| bad.reason.clone());
    let reason = bad.reason.clone().unwrap_or_else(|| "it waits for a command".into());
    Some(match reported {
        Some(reason) if bad.lost => Obstacle::Lost { place, reason, instead },
        _ if is_diverged(bad) => Obstacle::Diverged { place, reason },
        _ => Obstacle::Faulty { place, reason, has_bad_disk: has_bad_disk(bad), instead },
    })
}

/// A replica as commands take it: by its node and disk, or by its identity if another one is on the
/// same disk, or may be.
fn named(volume: &VolumeStatus, replica: &ReplicaStatus) -> String {
    let place = replica.place();
    let is_other = |other: &ReplicaStatus| {
        let may_be = replica.disk.is_none() || other.disk.is_none();
        other.id != replica.id && (other.place() == place || (may_be && other.node == replica.node))
    };
    match replicas(volume).any(is_other) {
        true => output::phrases::short(&replica.id).to_owned(),
        false => place,
    }
}

fn has_bad_disk(replica: &ReplicaStatus) -> bool {
    matches!(replica.cause, Some(ReplicaCause::NoSpace | ReplicaCause::Medium))
}

fn is_diverged(replica: &ReplicaStatus) -> bool {
    replica.cause == Some(ReplicaCause::OtherHistory)
}

/// What the volume needs somebody for.
fn of_volume(volume: &VolumeStatus, goal: &Goal) -> Option<Obstacle> {
    let is_behind = |replica: &ReplicaStatus| {
        matches!(replica.state, ReplicaState::Rebuilding | ReplicaState::Stale)
    };
    let mut concerned = replicas(volume).filter(|replica| goal.concerns(replica));
    if volume.rebuild == RebuildRate::Paused && concerned.any(is_behind) {
        return Some(Obstacle::Paused);
    }
    // Nothing is to be awaited of a spare.
    let is_there = |replica: &ReplicaStatus| {
        replica.state == ReplicaState::Spare
            || (replica.state == ReplicaState::InSync && replica.reach == ReplicaReach::Answers)
    };
    let is_failing = volume.health == VolumeHealth::Degraded
        && !volume.lacks_only_spares
        && replicas(volume).all(is_there);
    let reason =
        volume.reason.clone().filter(|_| is_failing && !matches!(goal, Goal::Replica(_)))?;
    Some(Obstacle::Failing { reason })
}

/// Whether a replica of a volume that is attached nowhere has to be rebuilt, and no node is to
/// attach it by itself. Those that are in-sync and do not answer may: their nodes come back.
fn needs_attach(volume: &VolumeStatus, goal: &Goal) -> bool {
    let is_behind = |replica: &ReplicaStatus| {
        !matches!(replica.state, ReplicaState::InSync | ReplicaState::Spare)
    };
    volume.wanted_on.is_empty()
        && replicas(volume).filter(|replica| goal.concerns(replica)).any(is_behind)
}

/// Who is not yet as is wanted, as which, and why not.
fn lacking(volume: &VolumeStatus, goal: &Goal) -> (String, &'static str, String) {
    let one = replicas(volume).find(|replica| *goal == Goal::Replica(replica.id.clone()));
    let (whose, reason) = match one {
        Some(one) => (format!("the replica on {} of ", one.place()), &one.reason),
        None => (String::new(), &volume.reason),
    };
    let wanted = if goal.is_in_sync() { "in-sync" } else { "degraded" };
    let reason = reason.clone().unwrap_or_else(|| {
        format!(
            "it is {} {}",
            output::volume::summary(volume),
            output::volume::health(volume.health)
        )
    });
    (format!("{whose}volume `{}`", volume.name), wanted, reason)
}

/// `waiting for volume `music` to be in-sync: …`.
fn waits(volume: &VolumeStatus, goal: &Goal) -> String {
    let (who, wanted, reason) = lacking(volume, goal);
    format!("waiting for {who} to be {wanted}: {reason}")
}

fn timed_out(volume: &VolumeStatus, goal: &Goal, timeout: Duration) -> Failure {
    let (who, wanted, reason) = lacking(volume, goal);
    Failure::new(format!("{who} is not {wanted} after {}", span(timeout)), reason)
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
        let Progress { done, total, reported } = Progress::of(volume);
        self.bar.set_prefix(output::volume::summary(volume));
        self.bar.set_length(total);
        self.bar.set_position(done);
        self.bar.set_message(reported);
    }
}

/// How far all rebuilds of a volume are together.
#[derive(Debug, PartialEq, Eq)]
struct Progress {
    done: u64,
    /// Never 0, of which a bar makes all.
    total: u64,
    reported: String,
}

impl Progress {
    fn of(volume: &VolumeStatus) -> Self {
        let rebuilds: Vec<&Rebuild> =
            replicas(volume).filter_map(|replica| replica.rebuild.as_ref()).collect();
        let sum = |part: fn(&Rebuild) -> u64| rebuilds.iter().map(|rebuild| part(rebuild)).sum();
        let (done, total, copied): (u64, u64, u64) =
            (sum(|r| r.done), sum(|r| r.total), sum(|r| r.copied));
        if rebuilds.is_empty() {
            return Self { done: 0, total: 1, reported: volume.reason.clone().unwrap_or_default() };
        }
        // As long as one of them counts, nobody knows what part of all this is.
        if rebuilds.iter().any(|rebuild| rebuild.counting || rebuild.total == 0) {
            let reported = match copied {
                0 => "counting what is to be copied".to_owned(),
                some => format!("counting what is to be copied, {} copied", size(some)),
            };
            return Self { done: 0, total: 1, reported };
        }
        let left = rebuilds.iter().filter_map(|rebuild| rebuild.eta_seconds).max();
        let left = left.map(|left| format!(", {} left", span(Duration::from_secs(left))));
        let (done_of, pace) = (format!("{} of {}", size(done), size(total)), pace(&rebuilds));
        Self { done, total, reported: format!("{done_of}, {pace}{}", left.unwrap_or_default()) }
    }
}

fn pace(rebuilds: &[&Rebuild]) -> String {
    let speed: u64 = rebuilds.iter().map(|rebuild| rebuild.rate).sum();
    match speed == 0 && rebuilds.iter().any(|rebuild| is_measuring(rebuild)) {
        true => "measuring the rate".to_owned(),
        false => rate(speed),
    }
}

impl Drop for RebuildBar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests;
