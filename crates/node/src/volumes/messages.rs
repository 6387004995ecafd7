//! What the core tells, in sentences for people.

use evenkeel_api::ErrorCode;
use evenkeel_api::sizes::size;
use evenkeel_api::types::{
    self, FoundWrong, MirrorStatus, ReplicaRole, ReplicaStatus, VolumeStatus,
};
use evenkeel_core::primary::{EndReason, Mismatch, Note, Waiting};
use evenkeel_core::view::Cause;
use evenkeel_core::{NodeId, ReplicaId, ReplicaState};

use crate::clock::utc;
use crate::disks::{REPLACE, Risk, Unserved};

/// A note as a sentence; `place` names a replica by its node and disk, `name` a node.
pub(super) fn note(
    note: &Note,
    place: impl Fn(ReplicaId) -> String,
    name: impl Fn(NodeId) -> String,
) -> String {
    match note {
        Note::Serving { view, .. } => format!("the volume is served, by view {view}"),
        Note::Left(replica, cause) => {
            format!("the replica on {} left: {cause}", place(*replica))
        }
        Note::Removed(replica, _) => {
            format!("the replica on {} does not belong to the volume any more", place(*replica))
        }
        Note::StandsIn(spare, absent) => format!(
            "the spare on {} stands in for the replica on {}",
            place(*spare),
            place(*absent)
        ),
        Note::Admitted(replica) => format!("the replica on {} rebuilds", place(*replica)),
        Note::Completed { replica, copied } => {
            let place = place(*replica);
            format!("the replica on {place} is in-sync again: {} KiB were copied", copied >> 10)
        }
        Note::Suspended(Waiting::Start) => "requests wait for the attach to finish".into(),
        Note::Suspended(Waiting::Replica(mirror)) => {
            format!("requests wait for an in-sync replica of mirror {mirror}: none answers")
        }
        Note::Suspended(Waiting::Coordinator) => {
            "requests wait for the coordinator: a view has to change".into()
        }
        Note::Rewritten { offset, length } => format!(
            "{} at byte {offset} could not be read from one replica; it was read from another one, and rewritten",
            size(*length)
        ),
        Note::Lagging { replica, took, others } => format!(
            "writes of the replica on {} took {} ms in the median, those of the others {} ms: it leaves for a while",
            place(*replica),
            took.as_millis(),
            others.as_millis().max(1),
        ),
        Note::StaysAway { replica, times, pause } => format!(
            "the replica on {} left {times} times in a row, each time within a minute of its return: it is taken in again in {} s",
            place(*replica),
            pause.as_secs(),
        ),
        Note::Verified { different: 0, damaged: 0, unreadable: 0, alone: 0 } => {
            "a verify found all in-sync replicas identical".into()
        }
        Note::Verified { different: 0, damaged: 0, unreadable: 0, alone } => format!(
            "a verify found nothing wrong; {} have one in-sync replica only: they could be read, contradict no checksum, and were compared with nothing",
            size(*alone)
        ),
        Note::Verified { different, damaged, unreadable, .. } => format!(
            "a verify found {} that differ between replicas, {} that contradict their checksums, and {} that could not be read",
            size(*different),
            size(*damaged),
            size(*unreadable),
        ),
        Note::Evicted(node) => format!(
            "the primary on node {} was evicted: no replica had answered it for longer than its lease, three times over; what it left open is copied anew",
            name(*node)
        ),
        Note::Grown(bytes) => format!("it has {} now", size(*bytes)),
        Note::Resumed => "requests go on".into(),
        Note::ViewRefused(generation, why) => format!(
            "the coordinator has sent a view {generation} {}: the volume goes on by the one before, as if the coordinator were away. Its database is damaged: restore that, or put the volume together from its disks (evenkeel volume assemble)",
            mismatch(*why)
        ),
        Note::OtherHistory(replica) => format!(
            "the replica on {} holds data of another history and is left alone",
            place(*replica)
        ),
    }
}

const fn mismatch(why: Mismatch) -> &'static str {
    match why {
        Mismatch::OtherVolume => "that is of another volume",
        Mismatch::Invalid => "that contradicts itself",
        Mismatch::OtherLayout => "with another layout than the volume has",
    }
}

/// The replica of the volume that a note is about.
pub(super) const fn named(note: &Note) -> Option<ReplicaId> {
    match note {
        Note::Left(replica, _)
        | Note::StandsIn(replica, _)
        | Note::Admitted(replica)
        | Note::Completed { replica, .. }
        | Note::OtherHistory(replica)
        | Note::Lagging { replica, .. }
        | Note::StaysAway { replica, .. } => Some(*replica),
        Note::Serving { .. }
        | Note::Removed(..)
        | Note::Evicted(_)
        | Note::Grown(_)
        | Note::ViewRefused(..)
        | Note::Suspended(_)
        | Note::Resumed
        | Note::Rewritten { .. }
        | Note::Verified { .. } => None,
    }
}

/// That a volume has fewer copies than it is meant to have, and what ends that.
pub(super) fn lost(volume: &str, mirrors: &[MirrorStatus]) -> Option<String> {
    let mut nodes: Vec<&str> = Vec::new();
    let mut count = 0;
    for lost in mirrors.iter().flat_map(|mirror| &mirror.lost) {
        count += 1;
        if !nodes.contains(&lost.node.as_str()) {
            nodes.push(&lost.node);
        }
    }
    let copies = match count {
        0 => return None,
        1 => "a copy".to_owned(),
        _ => format!("{count} copies"),
    };
    let nodes = match nodes[..] {
        [node] => format!("node {node}, which was"),
        _ => format!("nodes {}, which were", nodes.join(", ")),
    };
    let is_copy = |replica: &&ReplicaStatus| replica.role == ReplicaRole::Copy;
    let left = |mirror: &MirrorStatus| mirror.replicas.iter().filter(is_copy).count();
    let wanted = mirrors.iter().map(|mirror| left(mirror) + mirror.lost.len()).max()?;
    let fewest = mirrors.iter().map(left).min()?;
    // Where another mirror has more copies, it would lose one.
    let leave = match mirrors.iter().all(|mirror| left(mirror) == fewest) {
        true => format!("; `--replicas {fewest}` leaves it so"),
        false => String::new(),
    };
    let has_room = |mirror: &MirrorStatus| {
        let missing = wanted.saturating_sub(left(mirror));
        mirror.other_nodes.is_none_or(|others| others >= missing)
    };
    let change = format!("`evenkeel volume change {volume} --replicas {wanted}`");
    let new = match mirrors.iter().all(has_room) {
        true => format!("{change} makes new ones if other nodes have disks with room"),
        // It would be refused.
        false => format!(
            "no other nodes are left for new ones: join some, with a disk each, then {change}"
        ),
    };
    Some(format!("it lost {copies} with {nodes} removed from the cluster: {new}{leave}"))
}

/// Why a primary ended, as a sentence; `place` names a replica by its node and disk.
pub(super) fn ended(reason: EndReason, place: impl Fn(ReplicaId) -> String) -> String {
    let text = match reason {
        EndReason::Detached => "the volume was detached",
        EndReason::DetachedUnclean => {
            "the volume was detached while not all replicas answered: it is resynchronised at the next attach"
        }
        EndReason::Fenced => "another primary took over: the volume is not attached here any more",
        EndReason::Evicted => {
            "evicted: the other nodes that share the volume went on without this one, which no replica had answered for longer than its lease, three times over (it was paused or cut off)"
        }
        EndReason::NoCoordinator => "the coordinator did not answer",
        EndReason::NoData => "a mirror has no in-sync replica that answers",
        EndReason::NoVolume => "the volume does not exist any more",
        EndReason::CoordinatorBehind => {
            "a replica knows a newer view than the coordinator, which was restored from an old backup"
        }
        EndReason::StaleClone(replica) => {
            return format!(
                "only the replica on {} answers of a mirror's in-sync ones, and its disk is a stale clone (its superblock does not record the current incarnation)",
                place(replica)
            );
        }
        EndReason::Unconfirmed(replica) => {
            return format!(
                "the volume was put together from its disks, and the replica on {}, which counted, has not confirmed that: it does not answer, or has gone on elsewhere meanwhile",
                place(replica)
            );
        }
        EndReason::NotReached(replica) => {
            return format!(
                "the volume is attached elsewhere, and the replica on {}, which is in-sync, does not answer here",
                place(replica)
            );
        }
        EndReason::TooManyPrimaries => "the volume is attached on as many nodes as it may be",
        EndReason::PredecessorAlive => {
            "an earlier daemon with this node's identity runs the volume still: replicas go on answering it. One of the two has a copy of the other's state directory, or was cut off from the coordinator"
        }
        EndReason::LostWrites => {
            "the last in-sync replica has lost writes that were not flushed: its machine restarted, or its disk was pulled out, or let go of because its file system failed"
        }
    };
    text.to_owned()
}

/// What to do when an attach of this volume ended so, and its code.
pub(super) fn attach_failed(reason: EndReason, volume: &str) -> (ErrorCode, String) {
    let (code, advice) = advice(reason);
    (code, advice.replace("NAME", volume))
}

const fn advice(reason: EndReason) -> (ErrorCode, &'static str) {
    match reason {
        EndReason::NoCoordinator => {
            (ErrorCode::NoCoordinator, "Start the coordinator's node, or repair the network")
        }
        EndReason::NoData => (
            ErrorCode::NoData,
            "Start the nodes that hold the volume's in-sync replicas; see `evenkeel volume status`",
        ),
        EndReason::StaleClone(_) => (
            ErrorCode::StaleClone,
            "Put its newest disk back, or start the nodes of the others; to go on from the stale clone: `evenkeel volume assemble NAME --force`",
        ),
        EndReason::NoVolume => (ErrorCode::NoSuchVolume, "See `evenkeel volume list`"),
        EndReason::Fenced => {
            (ErrorCode::AttachedElsewhere, "Detach it there first; see `evenkeel volume status`")
        }
        EndReason::CoordinatorBehind => (
            ErrorCode::WrongState,
            "Put the coordinator's newest database back, or go on from what the disks say: `evenkeel volume assemble NAME`",
        ),
        EndReason::Unconfirmed(_) => (
            ErrorCode::Incomplete,
            "Start its node and attach again; if it has gone on elsewhere, or its disk is lost: `evenkeel volume assemble NAME`, with `--keep` or `--force`",
        ),
        EndReason::NotReached(_) => (
            ErrorCode::NoData,
            "Repair the network between that node and this one, or have the replica leave: `evenkeel replica fail NAME NODE:DISK`",
        ),
        EndReason::PredecessorAlive => (
            ErrorCode::TimedOut,
            "Stop that daemon, or repair its network, so that it learns that it was replaced; see `evenkeel node status`",
        ),
        EndReason::TooManyPrimaries => (
            ErrorCode::AttachedElsewhere,
            "Detach it on another node, or permit more: `evenkeel volume change NAME --primaries 8`",
        ),
        EndReason::LostWrites => {
            (ErrorCode::WrongState, "Attach it again, and check the filesystem on it")
        }
        EndReason::Evicted => {
            (ErrorCode::NoData, "Repair the network between the nodes, and attach it again")
        }
        EndReason::Detached | EndReason::DetachedUnclean => {
            (ErrorCode::WrongState, "It was detached meanwhile: attach it again")
        }
    }
}

/// One character for a replica's state, as in `[UU_]`.
pub(super) const fn letter(state: types::ReplicaState) -> char {
    match state {
        types::ReplicaState::InSync => 'U',
        types::ReplicaState::Rebuilding => 'R',
        types::ReplicaState::Stale => '_',
        types::ReplicaState::Faulty => 'F',
        types::ReplicaState::Spare => 'S',
    }
}

/// What use a volume is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Usage {
    /// A primary runs it.
    Runs,
    /// The same, while nobody hears the coordinator, which lets replicas return.
    RunsAlone,
    /// A primary runs it, and no in-sync replica of the mirror answers: there is nothing to copy
    /// from.
    RunsWithoutSource,
    /// No primary does.
    Rests,
    /// Nobody has said.
    Unknown,
}

impl Usage {
    const fn runs(self) -> bool {
        matches!(self, Self::Runs | Self::RunsAlone | Self::RunsWithoutSource)
    }
}

/// The same of a replica that its node does not serve.
/// `has_source`: another one of its mirror is in-sync, and may answer.
pub(super) fn unserved(
    state: ReplicaState,
    unserved: &Unserved,
    usage: Usage,
    has_source: bool,
) -> String {
    let what = match state {
        ReplicaState::InSync | ReplicaState::Spare => "it does not answer",
        ReplicaState::Rebuilding | ReplicaState::Stale => "it lacks writes",
        ReplicaState::Faulty => "it failed",
    };
    let then = match (unserved, state) {
        (Unserved::Gone(_) | Unserved::Unusable(_), _) if !has_source => {
            "put its disk in order; no other in-sync replica answers from which a new one could be copied"
        }
        (Unserved::Gone(_) | Unserved::Unusable(_), _) => {
            &format!("put its disk in order, or take another one by {REPLACE}")
        }
        (Unserved::Away(_), ReplicaState::Faulty) => {
            "then bring it back by `evenkeel replica re-add`, or remove it"
        }
        (Unserved::Stopped(_), _) => {
            "it is opened when the volume is assembled: `evenkeel volume assemble`"
        }
        (Unserved::Away(_), ReplicaState::Rebuilding | ReplicaState::Stale) if !usage.runs() => {
            "it returns by itself when it is served and the volume is attached"
        }
        (Unserved::Away(_), _) => "it returns by itself when it is served",
    };
    format!("{what}: {unserved}; {then}")
}

/// The same of one that is served, and with which something is wrong.
/// `has_writable`: one of its mirror is in-sync, may answer, and can be written.
pub(super) fn at_risk(state: ReplicaState, risk: &Risk, has_writable: bool) -> String {
    let word = word(state);
    match risk {
        Risk::FileGone(why) => format!(
            "it is {word}, and gone when its node's daemon ends: {why}; move the same file or directory back, never a copy, which lacks what was written since; else, before the daemon ends, take another disk by {REPLACE}"
        ),
        // It has left its mirror, or was never in it.
        Risk::ReadOnly(why) | Risk::FileGoneReadOnly(why) if !state.takes_writes() => {
            format!("it is {word}, and can't be written: {why}")
        }
        Risk::ReadOnly(why) if has_writable => format!(
            "it is {word}, and can't be written: {why}; it leaves the mirror by itself, with the next write at the latest, and then its disk can be unmounted"
        ),
        Risk::ReadOnly(why) => format!(
            "it is {word}, and can't be written: {why}; no other in-sync replica of its mirror can be: copy what it holds while it can be read, then detach the volume, which lets go of its disk"
        ),
        Risk::FileGoneReadOnly(why) if has_writable => format!(
            "it is {word}, gone when its node's daemon ends or lets go of its disk, and can't be written: {why}; it leaves the mirror by itself, with the next write at the latest: take another disk by {REPLACE}"
        ),
        Risk::FileGoneReadOnly(why) => format!(
            "it is {word}, gone when its node's daemon ends or lets go of its disk, and can't be written: {why}; no other in-sync replica of its mirror can be: copy what it holds while it can be read, before the volume is detached or the daemon ends"
        ),
    }
}

/// Of a silent one: what its node had said of it before that.
pub(super) fn was_at_risk(node: &str, risk: &Risk) -> String {
    let what = match risk {
        Risk::FileGone(_) => "its file was gone",
        Risk::ReadOnly(_) => "it could not be written",
        Risk::FileGoneReadOnly(_) => "its file was gone, and it could not be written",
    };
    format!("when node {node} last answered, {what}: {}", risk.why())
}

/// After the end of a primary that did not detach: what it wrote last may have reached some
/// replicas only. `None`: no mirror has two that could differ.
pub(super) fn may_differ(volume: &VolumeStatus) -> Option<String> {
    let in_sync = |mirror: &MirrorStatus| {
        let replicas = mirror.replicas.iter();
        replicas.filter(|replica| replica.state == types::ReplicaState::InSync).count()
    };
    if volume.mirrors.iter().all(|mirror| in_sync(mirror) < 2) {
        return None;
    }
    let size = size(volume.region_size);
    let places = match (volume.bitmap, volume.open_regions) {
        (types::VolumeBitmap::None, _) => "anywhere".to_owned(),
        (_, many) => format!("in up to {many} regions of {size}"),
    };
    Some(format!(
        "until it is attached, which makes them equal, in-sync replicas may differ {places}, where it wrote last"
    ))
}

/// What a verify has found wrong of an in-sync replica, and what to do.
/// `is_alone`: its mirror has no other one.
pub(super) fn found_wrong(found: &FoundWrong, is_alone: bool, volume: &str) -> String {
    let counts = [
        (found.different, "differ from those of other replicas"),
        (found.damaged, "contradict their checksums"),
        (found.unreadable, "could not be read"),
        (found.repaired, "are repaired"),
    ];
    let counts = counts.iter().filter(|(bytes, _)| *bytes > 0);
    let parts: Vec<_> = counts.map(|(bytes, what)| format!("{} {what}", size(*bytes))).collect();
    let then = match is_alone {
        true => format!(
            "write these blocks again, as from a backup (`evenkeel volume verify {volume}` lists them), then verify again"
        ),
        false => format!("repair them by `evenkeel volume verify {volume} --repair`"),
    };
    format!("a verify found at {} that of its bytes {}: {then}", utc(found.at), parts.join(", "))
}

/// Why a replica is about to leave its mirror, as a sentence.
pub(super) fn leaving(cause: Cause) -> String {
    format!("{cause}; it leaves the mirror as soon as the coordinator answers the primary's node")
}

/// That the rebuild of a replica stands still.
pub(super) fn rebuild_waits(cause: Cause, waits_for: &str) -> String {
    let why = cause.to_string();
    let because = if why.is_empty() { why } else { format!(": {why}") };
    format!("it lacks writes{because}; its rebuild waits: {waits_for}")
}

/// That a replica on which the view counts does not answer.
pub(super) fn unreachable(state: ReplicaState) -> String {
    format!("it does not answer; it was {} when it last did", word(state))
}

/// That a replica answers, and nobody may rely on it.
pub(super) fn may_be_out_of_sync() -> String {
    "it answers, and may lack the last writes, because its node restarted: it is used again when another in-sync replica of its mirror answers".into()
}

/// That nobody has said whether a replica's node is there.
pub(super) fn unknown(state: ReplicaState, node: &str) -> String {
    format!("whether node {node} is there is not known; it was {}", word(state))
}

/// That an attach has ended somebody's use of the volume who was not asked.
pub(super) fn taken_over(from: &str) -> String {
    format!(
        "the volume was taken over from node {from}, which counts as dead and had not detached it: what its programs had not flushed may be missing, and if that node runs, they get errors from now on"
    )
}

/// That the coordinator takes a node for dead that the node which tells the status speaks to.
pub(super) fn unseen(node: &str, reporter: &str) -> String {
    format!(
        "the coordinator does not hear node {node}, and node {reporter} does: repair the network between that node and the coordinator's"
    )
}

/// That a replica's node is away now.
pub(super) fn counts_as_dead(node: &str) -> String {
    format!("node {node} counts as dead now")
}

/// The same of the node that tells it, which knows better.
pub(super) fn unreached_here(primary: &str) -> String {
    format!("node {primary}, on which it is attached, does not reach this node")
}

/// The other way round. The coordinator counts on a node for some seconds after it has heard it.
pub(super) fn seen_by_coordinator_only(node: &str, reporter: &str) -> String {
    format!(
        "node {node} does not answer node {reporter}; the coordinator has heard it within the last seconds"
    )
}

/// That the primary on this node is one no more by all that is known, as one that stood still while
/// another node took the volume over.
pub(super) fn excluded(node: &str) -> String {
    format!(
        "a replica says that another node has taken the volume over, or that node {node} was evicted, and refuses what node {node} asks; only the coordinator can confirm it"
    )
}

/// That one of those on which a volume is attached says nothing of it to the node that tells the
/// status. Another one may hear it.
pub(super) fn silent_primary(node: &str, reporter: &str) -> String {
    format!("node {node}, on which it is attached, does not answer node {reporter}")
}

pub(super) const fn word(state: ReplicaState) -> &'static str {
    match state {
        ReplicaState::InSync => "in-sync",
        ReplicaState::Rebuilding => "rebuilding",
        ReplicaState::Stale => "stale",
        ReplicaState::Faulty => "faulty",
        ReplicaState::Spare => "a spare",
    }
}

/// Why a replica is not in-sync, and what brings it back: while a primary runs the volume, or when
/// one does.
pub(super) fn reason(state: ReplicaState, cause: Cause, usage: Usage) -> Option<String> {
    let why = cause.to_string();
    let then = match usage {
        Usage::Runs => "as soon as it can be reached",
        Usage::RunsAlone => "as soon as it and the coordinator can be reached",
        Usage::RunsWithoutSource => {
            "as soon as it and an in-sync replica of its mirror can be reached"
        }
        Usage::Rests | Usage::Unknown => "when the volume is attached and it can be reached",
    };
    let because = if why.is_empty() { String::new() } else { format!(": {why}") };
    Some(match state {
        ReplicaState::InSync if cause == Cause::Unconfirmed => {
            format!("{why}; it does when the volume is attached")
        }
        ReplicaState::InSync | ReplicaState::Spare => return None,
        ReplicaState::Stale if because.is_empty() => {
            format!("it holds nothing yet; it rebuilds {then}")
        }
        ReplicaState::Rebuilding if because.is_empty() => match usage {
            Usage::Runs | Usage::RunsAlone => "it is new, and copies what the others hold".into(),
            Usage::RunsWithoutSource => {
                "it is new, and copies what the others hold as soon as one that is in-sync answers".into()
            }
            Usage::Rests => {
                "it is new; its rebuild goes on when the volume is attached".into()
            }
            Usage::Unknown => {
                "it is new, and copies what the others hold while the volume is attached".into()
            }
        },
        ReplicaState::Rebuilding => match usage {
            Usage::Runs | Usage::RunsAlone => format!("it copies what it lacks{because}"),
            Usage::RunsWithoutSource => format!(
                "it lacks writes{because}; it copies them as soon as an in-sync replica of its mirror answers"
            ),
            Usage::Rests => {
                format!("it lacks writes{because}; its rebuild goes on when the volume is attached")
            }
            Usage::Unknown => format!("it copies what it lacks while the volume is attached{because}"),
        },
        ReplicaState::Stale if cause == Cause::OtherHistory => {
            "it has diverged from the others (split brain): detach the volume, then see `evenkeel volume assemble`".into()
        }
        ReplicaState::Stale => {
            format!("it lacks writes{because}; it returns by itself {then}")
        }
        ReplicaState::Faulty if cause == Cause::TooLarge => {
            format!("{why}: remove it, and add another one in its place")
        }
        ReplicaState::Faulty if cause == Cause::NoSpace => {
            format!("{why}: make room on it, then bring it back by `evenkeel replica re-add`, or take another one by {REPLACE}")
        }
        ReplicaState::Faulty if cause == Cause::Medium => {
            format!("{why}: when the disk is in order, bring it back by `evenkeel replica re-add`, else take another one by {REPLACE}")
        }
        ReplicaState::Faulty => {
            format!("it failed{because}; bring it back by `evenkeel replica re-add`, or remove it")
        }
    })
}
