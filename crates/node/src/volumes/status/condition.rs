//! What state a volume is in, from all that is known of it: a pure function of facts, in which
//! letters, states, health and reasons are decided, and nowhere else.
//!
//! A view says what replicas hold, and nothing of whether they are there; the primary knows its
//! sessions, the coordinator the nodes' heartbeats, a replica's node its disk. No conclusion says
//! more than the facts do: `docs/manual/states.md` has them all.

use evenkeel_api::types::{
    self, MirrorStatus, ReplicaReach, ReplicaStatus, StatusSource, VolumeHealth, VolumeState,
    VolumeStatus, WantedStatus,
};
use evenkeel_core::ReplicaState;
use evenkeel_core::view::Cause;

use crate::conversions;
use crate::disks::{Risk, Unserved};
use crate::volumes::messages::{self, Usage};

mod account;
mod failing;
pub(super) mod own;
pub mod together;

pub use account::{Account, Wait};
pub use failing::note_failures;

#[cfg(test)]
mod tests;

/// How many replicas a reason names beside the one that it is about.
const MAX_NAMED: usize = 3;

/// In what a replica is, as far as it matters for what brings it back.
#[derive(Debug, Clone, Copy)]
struct Setting {
    usage: Usage,
    /// Whether an in-sync replica of its mirror answers, or may.
    has_source: bool,
    /// Whether one of these can be written, as far as is known.
    has_writable: bool,
}

/// What is known of one replica.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaFacts {
    /// Its node's name.
    pub node: String,
    /// Its disk's name, where it is known.
    pub disk: Option<String>,
    /// What the view says of it, or will say when the coordinator answers.
    pub state: ReplicaState,
    /// Why it is not in-sync, if it is not.
    pub cause: Cause,
    /// The primary waits for the coordinator to have it leave its mirror. If that is for its
    /// silence, the state is still that of the view: another primary may have gone on with it.
    pub leaves: bool,
    /// It has diverged from the others: it shows that when it is reached, not in the view.
    pub diverged: bool,
    /// Why its node does not serve it, if the node has said so.
    pub unserved: Option<Unserved>,
    /// What is wrong with it although it is served, if the node has said so.
    pub risk: Option<Risk>,
    /// Whether the primary has a session with it; `None` if no primary has said.
    pub connected: Option<bool>,
    /// It answers its primary, and may lack acknowledged writes that another in-sync replica has.
    pub may_be_out_of_sync: bool,
    /// Whether its node sends heartbeats; `None` if the coordinator has not said.
    pub node_alive: Option<bool>,
    /// Whether its node has answered the node that tells the status; `None`: it was not asked.
    pub answered: Option<bool>,
    /// The name of the node that tells the status.
    pub reporter: String,
}

impl ReplicaFacts {
    /// The same of one that is to leave its mirror. What a silent one holds is not known: a primary
    /// that is cut off itself would call the good replicas stale, and its own one the last.
    #[must_use]
    pub fn leaving(self, state: ReplicaState, cause: Cause) -> Self {
        let is_silent = matches!(cause, Cause::Disconnected | Cause::Late | Cause::Unreachable);
        let state = if is_silent { self.state } else { state };
        Self { state, cause, leaves: true, ..self }
    }

    /// Whether it answers, of those that the view counts on: the others are said to be missing
    /// already. Of what two say of its node, the one counts that has spoken to it itself.
    fn reach(&self) -> ReplicaReach {
        let is_wanted = self.state.takes_writes() || self.state == ReplicaState::Spare;
        let risk = self.risk.as_ref().filter(|_| is_wanted && !self.is_node_silent());
        match (self.session(), risk) {
            (
                ReplicaReach::Answers | ReplicaReach::NotNeeded,
                Some(Risk::FileGone(_) | Risk::FileGoneReadOnly(_)),
            ) => ReplicaReach::FileGone,
            (ReplicaReach::Answers | ReplicaReach::NotNeeded, Some(Risk::ReadOnly(_))) => {
                ReplicaReach::ReadOnly
            }
            (reach, _) => reach,
        }
    }

    fn session(&self) -> ReplicaReach {
        if self.state == ReplicaState::Spare {
            return self.reach_of_spare();
        }
        if !self.state.takes_writes() {
            return ReplicaReach::NotNeeded;
        }
        if self.leaves {
            return ReplicaReach::Unreachable;
        }
        match (self.connected, self.answered, self.node_alive) {
            (Some(true), ..) => ReplicaReach::Answers,
            (Some(false), ..) => ReplicaReach::Unreachable,
            (None, ..) if self.unserved.is_some() => ReplicaReach::Unreachable,
            (None, Some(true), _) | (None, None, Some(true)) => ReplicaReach::Answers,
            (None, Some(false), Some(true)) | (None, _, None) => ReplicaReach::Unknown,
            (None, _, Some(false)) => ReplicaReach::Unreachable,
        }
    }

    /// No primary has a session with an idle spare. One that is known to be away stands in for
    /// nobody.
    const fn reach_of_spare(&self) -> ReplicaReach {
        match (self.answered, self.node_alive) {
            _ if self.unserved.is_some() => ReplicaReach::Unreachable,
            (Some(false), Some(true)) => ReplicaReach::Unknown,
            (Some(true), _) | (_, None | Some(true)) => ReplicaReach::NotNeeded,
            (_, Some(false)) => ReplicaReach::Unreachable,
        }
    }

    /// Whether others may copy from it, as far as is known.
    fn is_source(&self) -> bool {
        self.state == ReplicaState::InSync && self.reach() != ReplicaReach::Unreachable
    }

    fn is_writable_source(&self) -> bool {
        self.is_source() && self.risk.is_none()
    }

    /// What the coordinator and the node that tells the status say of its node, if they disagree.
    fn disagreement(&self) -> Option<String> {
        match (self.answered, self.node_alive) {
            (Some(true), Some(false)) => Some(messages::unseen(&self.node, &self.reporter)),
            (Some(false), Some(true)) => {
                Some(messages::seen_by_coordinator_only(&self.node, &self.reporter))
            }
            _ => None,
        }
    }

    fn cause(&self) -> Cause {
        if self.diverged { Cause::OtherHistory } else { self.cause }
    }

    /// The most particular reason that is known.
    fn reason(&self, setting: Setting) -> Option<String> {
        let Setting { usage, has_source, has_writable } = setting;
        if self.diverged {
            return messages::reason(ReplicaState::Stale, Cause::OtherHistory, usage);
        }
        let unserved = self.unserved.as_ref().filter(|_| self.connected != Some(true));
        if let Some(unserved) = unserved {
            return Some(messages::unserved(self.state, unserved, usage, has_source));
        }
        match &self.risk {
            Some(risk) if self.is_silent() => {
                let before = messages::was_at_risk(&self.node, risk);
                let silent = self.reason_of_session(usage).into_iter();
                Some(silent.chain([before]).collect::<Vec<_>>().join("; "))
            }
            Some(risk) => Some(messages::at_risk(self.state, risk, has_writable)),
            None => self.reason_of_session(usage),
        }
    }

    /// Whether its node does not answer, so that what it has said of the file may be so no more.
    fn is_silent(&self) -> bool {
        let session = self.session();
        self.is_node_silent()
            || matches!(session, ReplicaReach::Unreachable | ReplicaReach::Unknown)
    }

    fn is_node_silent(&self) -> bool {
        self.connected != Some(true) && self.answered.or(self.node_alive) == Some(false)
    }

    /// That its node is away now. The cause in a view is that of the first event: what keeps a
    /// replica away now may be another one.
    fn absence(&self) -> Option<String> {
        match (self.is_node_silent(), self.node_alive) {
            (true, Some(false)) => Some(messages::counts_as_dead(&self.node)),
            (true, Some(true)) => {
                Some(messages::seen_by_coordinator_only(&self.node, &self.reporter))
            }
            _ => None,
        }
    }

    /// A primary that runs the volume lets a replica return with the coordinator's help only. Where
    /// nobody says whether the replica's node lives, nobody hears the coordinator.
    fn usage(&self, usage: Usage) -> Usage {
        let is_unseen =
            matches!(usage, Usage::Runs | Usage::RunsWithoutSource) && self.node_alive.is_none();
        if is_unseen { Usage::RunsAlone } else { usage }
    }

    fn reason_of_session(&self, usage: Usage) -> Option<String> {
        if self.leaves {
            return Some(messages::leaving(self.cause));
        }
        match self.reach() {
            ReplicaReach::Unreachable if self.may_be_out_of_sync => {
                Some(messages::may_be_out_of_sync())
            }
            ReplicaReach::Unreachable => Some(messages::unreachable(self.state)),
            ReplicaReach::Unknown => Some(self.disagreement().map_or_else(
                || messages::unknown(self.state, &self.node),
                |why| format!("{why}; it was {}", messages::word(self.state)),
            )),
            ReplicaReach::Answers
            | ReplicaReach::FileGone
            | ReplicaReach::ReadOnly
            | ReplicaReach::NotNeeded => {
                // Only a primary says whether it has a session.
                let disagreement = self.disagreement().filter(|_| self.connected.is_none());
                let usage = self.usage(usage);
                let reason = messages::reason(self.state, self.cause, usage);
                match (self.absence().filter(|_| reason.is_some()), reason) {
                    (Some(now), Some(reason)) => Some(format!("{now}; {reason}")),
                    (_, reason) => reason.or(disagreement),
                }
            }
        }
    }

    fn write(&self, setting: Setting, status: &mut ReplicaStatus) {
        status.node_alive = self.node_alive;
        status.connected = self.connected;
        let unserved = self.unserved.as_ref().filter(|_| self.connected != Some(true));
        status.unserved = unserved.map(ToString::to_string);
        status.unwritable = self.risk.as_ref().is_some_and(Risk::is_read_only) && !self.is_silent();
        status.lost = (self.risk.is_some() && !self.is_silent())
            || unserved.is_some_and(|unserved| !unserved.passes());
        status.state = conversions::state(self.state);
        status.cause = conversions::cause(self.cause());
        status.reach = self.reach();
        status.reason = self.reason_of_wait(status).or_else(|| self.reason(setting));
    }

    /// Why a replica that a primary could rebuild now is not being rebuilt.
    fn reason_of_wait(&self, status: &ReplicaStatus) -> Option<String> {
        let is_rebuilding =
            self.state == ReplicaState::Rebuilding && !self.leaves && !self.diverged;
        let waits_for = status.rebuild.as_ref()?.waits_for.as_ref()?;
        let is_there = status.reach == ReplicaReach::Answers;
        (is_rebuilding && is_there).then(|| messages::rebuild_waits(self.cause, waits_for))
    }
}

/// Whether a primary that waits for the coordinator serves all the same: each member answers it, so
/// that only somebody's return waits. A request that is left unanswered for a second is one that
/// waits.
pub(super) fn goes_on(mirrors: &[MirrorStatus], facts: &[Vec<ReplicaFacts>]) -> bool {
    let is_prompt = |replica: &ReplicaStatus| replica.oldest_ms.is_none_or(|age| age < 1000);
    let answers = |facts: &ReplicaFacts| facts.connected == Some(true) && !facts.leaves;
    let replicas = mirrors.iter().flat_map(|mirror| &mirror.replicas);
    let mut members = replicas.zip(facts.iter().flatten());
    members.all(|(replica, facts)| {
        !facts.state.takes_writes() || (answers(facts) && is_prompt(replica))
    })
}

/// Writes into a status what follows from the facts, of which it has already where else the volume
/// is wanted. `mirrors` has the facts of each replica, in the order of the status.
pub fn conclude(status: &mut VolumeStatus, account: &Account, mirrors: &[Vec<ReplicaFacts>]) {
    for (index, (mirror, facts)) in status.mirrors.iter_mut().zip(mirrors).enumerate() {
        let facts: Vec<_> =
            facts.iter().map(|facts| account.reconcile(index, facts.clone())).collect();
        let has_source = facts.iter().any(ReplicaFacts::is_source);
        let setting = Setting {
            usage: match account.usage() {
                Usage::Runs if !has_source => Usage::RunsWithoutSource,
                usage => usage,
            },
            has_source,
            has_writable: facts.iter().any(ReplicaFacts::is_writable_source),
        };
        for (replica, facts) in mirror.replicas.iter_mut().zip(facts) {
            facts.write(setting, replica);
        }
    }
    let name = status.name.clone();
    status.mirrors.iter_mut().for_each(|mirror| note_findings(mirror, &name));
    sum_up(&mut status.mirrors);
    status.state = account.state();
    status.not_given_up = matches!(account, Account::Forgotten { .. });
    match account {
        // The view that counts is another one.
        Account::Replica { .. } | Account::Excluded(_) => {
            (status.health, status.lacks_only_spares) = (known_once(&status.mirrors), false);
        }
        _ => judge(status),
    }
    let own = account.reason(&status.mirrors);
    let differ = account.may_differ().then(|| messages::may_differ(status)).flatten();
    let own = own.map(|own| own + &differ.map(|differ| format!("; {differ}")).unwrap_or_default());
    status.reason = reason(own.filter(|_| !is_taken_up_again(account, status)), status);
}

/// Gives each replica that has no other reason the one that a verify has found it wrong.
fn note_findings(mirror: &mut MirrorStatus, volume: &str) {
    let is_in_sync = |replica: &&ReplicaStatus| replica.state == types::ReplicaState::InSync;
    let is_alone = mirror.replicas.iter().filter(is_in_sync).count() < 2;
    for replica in mirror.replicas.iter_mut().filter(|replica| replica.reason.is_none()) {
        let found = replica.found_wrong.as_ref();
        replica.reason = found.map(|found| messages::found_wrong(found, is_alone, volume));
    }
}

/// Whether the node that has not given a volume up waits to attach it: then nobody needs to do
/// anything, and where it is wanted says it all.
fn is_taken_up_again(account: &Account, status: &VolumeStatus) -> bool {
    let Account::Forgotten { node, .. } = account else { return false };
    status.wanted_on.iter().any(|on| on.node.name == *node)
}

/// The letters of each mirror.
fn sum_up(mirrors: &mut [MirrorStatus]) {
    for mirror in mirrors {
        let lost = mirror.lost.iter().map(|_| '-');
        let letters: String = mirror.replicas.iter().map(letter).chain(lost).collect();
        mirror.summary = format!("[{letters}]");
    }
}

fn letter(replica: &ReplicaStatus) -> char {
    match replica.reach {
        ReplicaReach::Unknown | ReplicaReach::Unreachable => '?',
        ReplicaReach::FileGone | ReplicaReach::ReadOnly => '!',
        ReplicaReach::Answers | ReplicaReach::NotNeeded => messages::letter(replica.state),
    }
}

/// Why a volume is not as it should be: what it lacks itself, where it is wanted, what a replica
/// lacks.
fn reason(own: Option<String>, status: &VolumeStatus) -> Option<String> {
    let of_replica = match status.state {
        // That nobody knows whether a replica is there is said of the volume.
        VolumeState::Unknown => first_reason(&status.mirrors, is_known_bad),
        // What requests wait for does not say which replica keeps them waiting.
        _ => first_reason(&status.mirrors, |_| true),
    };
    // Where it is attached, though nobody answers there, has a reason of its own.
    let is_elsewhere = |on: &&WantedStatus| {
        on.why.is_some() || status.primaries.iter().all(|primary| primary.node.id != on.node.id)
    };
    let wanted = status.wanted_on.iter().filter(is_elsewhere).map(|on| wanted(on, status));
    let lost = messages::lost(&status.name, &status.mirrors);
    let reasons: Vec<String> =
        own.into_iter().chain(wanted).chain(of_replica).chain(lost).collect();
    (!reasons.is_empty()).then(|| reasons.join("; "))
}

/// That a volume is not attached where it is meant to be, or not shown there, and why.
fn wanted(on: &WantedStatus, status: &VolumeStatus) -> String {
    let node = &on.node.name;
    let serves = matches!(status.state, VolumeState::Serving | VolumeState::Suspended)
        && status.source == StatusSource::Primary
        && status.primaries.iter().any(|primary| primary.node.id == on.node.id);
    match (&on.why, on.alive) {
        (Some(why), _) if serves => {
            let all =
                [(on.device, "block device"), (on.nbd, "NBD export"), (on.nvme, "NVMe export")];
            let lacks: Vec<_> = all.iter().filter(|(lacks, _)| *lacks).map(|(_, it)| *it).collect();
            let lacks = lacks.join(" and its ");
            format!("on node {node} its {lacks} could not be made yet: {why}")
        }
        (Some(why), _) => format!("it is wanted on node {node}, which has not attached it: {why}"),
        (None, Some(true)) => format!("it is wanted on node {node}, which has not attached it yet"),
        (None, Some(false)) => format!("it is wanted on node {node}, which does not answer"),
        (None, None) => {
            format!("it is wanted on node {node}; whether that node is there is not known")
        }
    }
}

/// Writes down the worst that a replica is, or may be, and whether only a spare is that bad.
fn judge(status: &mut VolumeStatus) {
    status.health = health(&status.mirrors, |_| true);
    let of_data = health(&status.mirrors, |one| one.state != types::ReplicaState::Spare);
    status.lacks_only_spares =
        status.health == VolumeHealth::Degraded && of_data == VolumeHealth::InSync;
}

/// The worst that a replica is, or may be, of those that count.
fn health(mirrors: &[MirrorStatus], counts: impl Fn(&ReplicaStatus) -> bool) -> VolumeHealth {
    let replicas = with_sources(mirrors).filter(|(replica, _)| counts(replica));
    let replicas = replicas.map(|(replica, has_source)| health_within(replica, has_source));
    let lost = mirrors.iter().flat_map(|mirror| &mirror.lost).map(|_| VolumeHealth::Degraded);
    replicas.chain(lost).max_by_key(rank).unwrap_or(VolumeHealth::InSync)
}

/// The same from a view that may have been replaced since. What was good then need not be so any
/// more, and what was being copied may be done, or have failed: only what is known to be bad
/// counts.
fn known_once(mirrors: &[MirrorStatus]) -> VolumeHealth {
    let replicas =
        with_sources(mirrors).map(|(replica, has_source)| health_within(replica, has_source));
    let bad = replicas
        .filter(|health| matches!(health, VolumeHealth::Degraded | VolumeHealth::Unreachable));
    bad.max_by_key(rank).unwrap_or(VolumeHealth::Unknown)
}

/// Each replica, with whether one of its mirror has the data, as far as is known.
fn with_sources(mirrors: &[MirrorStatus]) -> impl Iterator<Item = (&ReplicaStatus, bool)> {
    mirrors.iter().flat_map(|mirror| {
        let has_source = mirror.has_source();
        mirror.replicas.iter().map(move |replica| (replica, has_source))
    })
}

/// One that is new has never held anything: where another one has the data, it is all there without
/// it.
fn health_within(replica: &ReplicaStatus, has_source: bool) -> VolumeHealth {
    let is_new = replica.state == types::ReplicaState::Rebuilding && replica.cause.is_none();
    match replica.reach {
        ReplicaReach::Unreachable if is_new && has_source => VolumeHealth::Degraded,
        _ => health_of(replica),
    }
}

fn health_of(replica: &ReplicaStatus) -> VolumeHealth {
    match (replica.reach, replica.state) {
        // The data is all there without it.
        (ReplicaReach::Unreachable | ReplicaReach::Unknown, types::ReplicaState::Spare) => {
            VolumeHealth::Degraded
        }
        (ReplicaReach::Unreachable, _) => VolumeHealth::Unreachable,
        (ReplicaReach::Unknown, _) => VolumeHealth::Unknown,
        (ReplicaReach::FileGone | ReplicaReach::ReadOnly, _) => VolumeHealth::Degraded,
        (_, types::ReplicaState::InSync) if replica.found_wrong.is_some() => VolumeHealth::Degraded,
        (_, types::ReplicaState::InSync | types::ReplicaState::Spare) => VolumeHealth::InSync,
        (_, types::ReplicaState::Rebuilding) => VolumeHealth::Rebuilding,
        (_, types::ReplicaState::Stale | types::ReplicaState::Faulty) => VolumeHealth::Degraded,
    }
}

/// From good to bad. A replica of which nobody knows whether it is there may be gone, whatever else
/// is known of the others: only one that is known to be gone is worse.
const fn rank(health: &VolumeHealth) -> u8 {
    match health {
        VolumeHealth::InSync => 0,
        VolumeHealth::Rebuilding => 1,
        VolumeHealth::Degraded => 2,
        VolumeHealth::Unknown => 3,
        VolumeHealth::Unreachable => 4,
    }
}

/// Whether it did not hold everything when that was last known, or its node says that something is
/// wrong with it.
const fn is_known_bad(replica: &ReplicaStatus) -> bool {
    let is_bad = matches!(
        replica.reach,
        ReplicaReach::Unreachable | ReplicaReach::FileGone | ReplicaReach::ReadOnly
    );
    is_bad || !matches!(replica.state, types::ReplicaState::InSync | types::ReplicaState::Spare)
}

/// The first replica that has a reason, with it; one whose file is gone or can't be written before
/// others, as nothing brings it back.
fn first_reason(
    mirrors: &[MirrorStatus],
    counts: impl Fn(&ReplicaStatus) -> bool,
) -> Option<String> {
    let replicas = mirrors.iter().flat_map(|mirror| &mirror.replicas).filter(|it| counts(it));
    let unusual = || replicas.clone().filter_map(|r| r.reason.as_ref().map(|why| (r, why)));
    let is_at_risk = |replica: &ReplicaStatus| {
        matches!(replica.reach, ReplicaReach::FileGone | ReplicaReach::ReadOnly)
    };
    let mut gone = unusual().filter(|(replica, _)| is_at_risk(replica));
    let (first, why) = gone.next().or_else(|| unusual().next())?;
    let place = first.place();
    let others = unusual().map(|(other, _)| other).filter(|other| !std::ptr::eq(*other, first));
    Some(format!("replica {place}: {why}{}", more(&place, others)))
}

/// How many other replicas have a reason, and which, as far as a line has space for them.
fn more<'a>(first: &str, others: impl Iterator<Item = &'a ReplicaStatus>) -> String {
    let (mut count, mut places) = (0, Vec::new());
    for place in others.map(ReplicaStatus::place) {
        count += 1;
        if place != first && !places.contains(&place) {
            places.push(place);
        }
    }
    let rest = if places.len() > MAX_NAMED { ", …" } else { "" };
    places.truncate(MAX_NAMED);
    match (count, places.join(", ")) {
        (0, _) => String::new(),
        (_, named) if named.is_empty() => format!(" (and {count} more)"),
        (_, named) => format!(" (and {count} more: {named}{rest})"),
    }
}
