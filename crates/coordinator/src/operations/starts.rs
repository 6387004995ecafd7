//! The present start of each node, and which requests a caller may send.

use std::time::Duration;

use evenkeel_core::Incarnation;

use super::{Done, nodes, removal};
use crate::memory::{Note, Speaker};
use crate::starts::{Candidate, LastSeen, Present, Verdict};
use crate::store::Space;
use crate::transaction::{Planned, Transaction};
use crate::{Answer, Caller, NodeRecord, Registration, Request, StartId};

/// A heartbeat that comes so much later than another start's first request was sent after it. An
/// earlier one may have been on its way.
const ON_ITS_WAY: Duration = Duration::from_secs(2);

/// Most members of a cluster. Each of them gets the list of all of them, so that many more would be
/// a burden; and a member that invents others fills neither the store nor their memory.
const MAX_NODES: usize = 1024;

/// Why a node's request is not answered. What lets it pass becomes a condition of what it changes:
/// no other start is admitted in between, and the node is not removed.
pub fn refusal(
    transaction: &mut Transaction<'_>,
    caller: &Caller,
    request: &Request,
) -> Planned<Option<Answer>> {
    let node = caller.node.to_string();
    if let Some(refusal) = removal::refusal(transaction, [node.as_str()])? {
        return Ok(Some(refusal));
    }
    if !is_own(request, caller, &node) {
        return Ok(Some(Answer::NotRegistered));
    }
    if let Request::Register(_)
    | Request::Nodes
    | Request::RemovedNodes
    | Request::Membership
    | Request::Volumes
    | Request::Read { .. } = request
    {
        return Ok(None);
    }
    let Some(present) = load(transaction, &node)? else { return Ok(Some(Answer::NotRegistered)) };
    let is_present = match caller.start {
        Some(start) => present.is(start),
        None => present.counter == 0,
    };
    if is_present {
        return Ok(None);
    }
    if caller.start.is_some_and(|start| present.follows(start.incarnation.0)) {
        return Ok(Some(Answer::Superseded { at: note_other(transaction, caller) }));
    }
    Ok(Some(Answer::NotRegistered))
}

/// Whether a request that says who sends it says what its connection does. Else a member could keep
/// a dead one alive, or speak for any number of nodes that nobody has ever seen.
fn is_own(request: &Request, caller: &Caller, node: &str) -> bool {
    match request {
        Request::Register(Registration { node: record, .. }) => {
            let start = (record.counter, record.incarnation);
            let is_start = |id: crate::StartId| (id.counter, id.incarnation.0) == start;
            // Nor does it take another name than it has a certificate for.
            let is_named = record.name == caller.name;
            record.id == node && is_named && caller.start.is_none_or(is_start)
        }
        Request::Heartbeat { node: sender }
        | Request::Goodbye { node: sender, .. }
        | Request::Draft { node: sender, .. }
        | Request::Swap { node: sender, .. }
        | Request::Assemble { node: sender, .. }
        | Request::Delete { node: sender, .. } => sender == node,
        Request::Discard { by, .. } => by.node == node,
        _ => true,
    }
}

/// Notes the address of another start in a node's name; returns that of the present one.
fn note_other(transaction: &mut Transaction<'_>, caller: &Caller) -> String {
    let node = caller.node.to_string();
    let at = transaction.memory.place(&node);
    transaction.note(Note::Other { node, at: caller.at.clone() });
    at
}

/// A request of the very daemon that serves the coordinator has no caller. If nobody else has the
/// store its start is admitted: the store lies in the state directory whose lock it holds.
pub fn register(
    transaction: &mut Transaction<'_>,
    registration: &Registration,
    caller: Option<&Caller>,
) -> Done {
    let node = &registration.node;
    if let Some(refusal) = removal::refusal(transaction, [node.id.as_str()])? {
        return Ok(refusal);
    }
    let members = transaction.names_for_sure(Space::Nodes)?;
    if members.len() >= MAX_NODES && !members.contains(&node.id) {
        return Ok(Answer::ClusterFull { most: MAX_NODES });
    }
    if is_name_taken(transaction, &members, node)? {
        return Ok(Answer::NameInUse);
    }
    let memory = transaction.memory;
    let is_this_daemon = caller.is_none() && node.id == memory.identity.here.to_string();
    let present = load(transaction, &node.id)?;
    let candidate = candidate(registration);
    let verdict = match &present {
        Some(present) if !(is_this_daemon && memory.is_alone()) => {
            let last_seen = last_seen(transaction, &node.id, candidate.incarnation)?;
            present.judge(&candidate, last_seen)
        }
        _ => Verdict::Admitted,
    };
    if verdict != Verdict::Admitted {
        return not_admitted(transaction, verdict, registration, caller);
    }
    let last_seen = match &present {
        Some(present) if present.is(start_of(node)) => Note::Seen(node.id.clone()),
        _ => Note::Began(node.id.clone()),
    };
    let next = present.unwrap_or_default().admit(&candidate);
    transaction.put(Space::Starts, &node.id, &next)?;
    transaction.put(Space::Nodes, &node.id, node)?;
    if !members.contains(&node.id) {
        nodes::next_epoch(transaction)?;
    }
    nodes::clear_silence(transaction, &node.id)?;
    transaction.note(Note::Admitted(candidate.incarnation));
    transaction.note(last_seen);
    if let Some(caller) = caller {
        transaction.note(Note::Speaks { node: node.id.clone(), by: Speaker::of(caller) });
    }
    let name = transaction.look(|t| t.text(Space::Cluster, "name"))?;
    let cluster = name.unwrap_or_else(|| memory.cluster.clone());
    Ok(Answer::Registered { coordinator: memory.identity.id.to_string(), cluster })
}

/// Whether the present start of a node was heard since another one asked first.
fn last_seen(transaction: &mut Transaction<'_>, node: &str, incarnation: u64) -> Planned<LastSeen> {
    let memory = transaction.memory;
    let asked = memory.asked(incarnation).unwrap_or(transaction.now.steady);
    let last = memory.liveness.last_seen(node);
    Ok(match last {
        _ if !transaction.may_speak(node)? => LastSeen::Silent,
        Some(last) if last.steady > asked + ON_ITS_WAY => LastSeen::Since,
        _ => LastSeen::Before,
    })
}

/// The answer to a start that is not admitted.
fn not_admitted(
    transaction: &mut Transaction<'_>,
    verdict: Verdict,
    registration: &Registration,
    caller: Option<&Caller>,
) -> Done {
    let node = &registration.node;
    if verdict == Verdict::Waits {
        let seconds = transaction.memory.liveness.remaining(&node.id).as_secs() + 1;
        return Ok(Answer::Waits { seconds });
    }
    let at = caller.map_or_else(String::new, |caller| note_other(transaction, caller));
    if verdict == Verdict::Superseded {
        return Ok(Answer::Superseded { at });
    }
    if let Some(present) = load(transaction, &node.id)?
        && !present.knows_copy(node.incarnation)
    {
        transaction.put(Space::Starts, &node.id, &present.note_copy(node.incarnation))?;
    }
    Ok(Answer::Copy { at })
}

pub fn goodbye(transaction: &mut Transaction<'_>, node: &str, incarnation: u64) -> Done {
    let present = load(transaction, node)?;
    if let Some(left) = present.and_then(|present| present.leave(incarnation)) {
        transaction.put(Space::Starts, node, &left)?;
    }
    Ok(Answer::Done)
}

/// The present start of a node. Of one that older software has stored, what is in its record.
fn load(transaction: &mut Transaction<'_>, node: &str) -> Planned<Option<Present>> {
    if let Some(stored) = transaction.json(Space::Starts, node)? {
        return Ok(Some(stored));
    }
    let record = transaction.node(node)?;
    Ok(record.map(|record| Present::of_older_software(record.incarnation)))
}

fn start_of(node: &NodeRecord) -> StartId {
    StartId { counter: node.counter, incarnation: Incarnation(node.incarnation) }
}

fn candidate(registration: &Registration) -> Candidate {
    let node = &registration.node;
    Candidate {
        counter: node.counter,
        incarnation: node.incarnation,
        lineage: registration.lineage.clone(),
        is_chosen: registration.is_chosen,
    }
}

fn is_name_taken(
    transaction: &mut Transaction<'_>,
    members: &[String],
    node: &NodeRecord,
) -> Planned<bool> {
    for id in members {
        let other = transaction.look(|t| t.node(id))?.filter(|other| other.id != node.id);
        let Some(other) = other else { continue };
        // Nor may one be called as another one is identified: that one would be meant.
        if other.name == node.name || other.id == node.name || other.name == node.id {
            return Ok(true);
        }
    }
    Ok(false)
}
