//! What each request does: a function of what was read and of the time.
//!
//! All are idempotent: a request may come twice, because its answer was lost, and the second one
//! finds what the first one did.

mod assembly;
mod drafts;
mod dropped;
mod fates;
mod nodes;
mod placements;
mod removal;
mod rename;
mod starts;
mod volumes;

pub use dropped::dropped;

use crate::transaction::{Halt, Transaction, refused};
use crate::{Answer, Caller, RemovedNode, Request, Wish};

/// What a task carries out, and for whom.
#[derive(Debug, Clone)]
pub(crate) enum Asked {
    /// A request of this very daemon.
    Here(Request),
    /// A request of another node.
    From(Caller, Request),
    /// To store how long nodes were silent.
    Tick,
    /// To store that these were removed.
    StayRemoved(Vec<RemovedNode>),
}

impl Asked {
    /// The node that this tells to be alive: nodes send such requests each second.
    pub(crate) fn sign_of_life(&self) -> Option<String> {
        match self {
            Self::From(caller, Request::Heartbeat { .. } | Request::Register(_)) => {
                Some(caller.node.to_string())
            }
            Self::Here(Request::Heartbeat { node }) => Some(node.clone()),
            Self::Here(Request::Register(start)) => Some(start.node.id.clone()),
            _ => None,
        }
    }

    /// Whether it is known who is silent only if this can be committed. Others change what is
    /// larger, and may fail where it can be.
    pub(crate) fn keeps_count(&self) -> bool {
        matches!(self, Self::Tick) || self.sign_of_life().is_some()
    }
}

/// The outcome of an attempt.
#[derive(Debug)]
pub(crate) enum Planned {
    /// This is answered once what it wrote is committed.
    Answer(Answer),
    /// What it wrote is committed, and then there is more to do.
    Again,
}

type Done = Result<Answer, Halt>;

/// Plans a task.
pub(crate) fn plan(
    transaction: &mut Transaction<'_>,
    asked: &Asked,
    changes: u64,
) -> Result<Planned, Halt> {
    let (request, caller) = match asked {
        Asked::Tick => return nodes::tick(transaction).map(Planned::Answer),
        Asked::StayRemoved(nodes) => return removal::stay_removed(transaction, nodes),
        Asked::Here(request) => (request, None),
        Asked::From(caller, request) => (request, Some(caller)),
    };
    if let Some(caller) = caller
        && let Some(refusal) = starts::refusal(transaction, caller, request)?
    {
        return Ok(Planned::Answer(refusal));
    }
    let is_swept = matches!(request, Request::Fates(_) | Request::RemoveNode { .. });
    if is_swept && drafts::sweep(transaction)? {
        return Ok(Planned::Again);
    }
    match request {
        Request::Register(start) => starts::register(transaction, start, caller),
        Request::Heartbeat { node } => nodes::heartbeat(transaction, node, caller, changes),
        Request::RemoveNode { node, incarnation } => {
            return removal::remove_node(transaction, node, *incarnation);
        }
        request => answer(transaction, request),
    }
    .map(Planned::Answer)
}

fn answer(transaction: &mut Transaction<'_>, request: &Request) -> Done {
    match request {
        Request::Goodbye { node, incarnation } => starts::goodbye(transaction, node, *incarnation),
        Request::Rename { name, replaces } => nodes::rename(transaction, name, replaces.as_deref()),
        Request::RemovedNodes => removal::removed_nodes(transaction).map(Answer::RemovedNodes),
        Request::Nodes => nodes::nodes(transaction).map(Answer::Nodes),
        Request::Membership => nodes::membership(transaction),
        Request::Volumes => volumes::volumes(transaction),
        Request::Read { volume } => volumes::read(transaction, volume),
        Request::Draft { node, incarnation, volume } => {
            drafts::draft(transaction, (node, *incarnation), volume)
        }
        Request::Create(volume) => volumes::create(transaction, volume),
        Request::GiveUp { volume } => drafts::give_up(transaction, volume),
        Request::Swap { node, view, replaces, in_passing, wish } => {
            let in_passing = in_passing.then_some(Wish::AsBefore);
            let views = (view, replaces.as_ref());
            volumes::swap(transaction, node, views, wish.clone().or(in_passing))
        }
        Request::Want { volume, node, shown, revision } => {
            placements::want(transaction, volume, node, shown.clone(), *revision)
        }
        Request::Place { volume, replica, same_disk, alone, revision } => {
            placements::place(transaction, volume, replica, (*same_disk, *alone), *revision)
        }
        Request::Forget { volume, replica } => placements::forget(transaction, volume, replica),
        Request::Lost { volume, lost, revision } => {
            placements::lost(transaction, volume, lost, *revision)
        }
        Request::Verified { volume, verdict, revision } => {
            placements::verified(transaction, volume, verdict, *revision)
        }
        Request::Stop { volume, stopped, revision } => {
            assembly::stop(transaction, volume, *stopped, *revision)
        }
        Request::Assemble { volume, replaces, stands, node } => {
            assembly::assemble(transaction, volume, (*replaces, stands.as_ref()), node)
        }
        Request::Delete { node, volume, generation, view, revision, force } => {
            let decided = (*generation, view.as_ref(), *revision);
            volumes::delete(transaction, (node, volume), decided, *force)
        }
        Request::RenameVolume { volume, name, revision } => {
            rename::rename_volume(transaction, volume, name, *revision)
        }
        Request::Fates(found) => fates::fates(transaction, found),
        Request::Discard { by, replica, view } => {
            fates::discard(transaction, by, replica, view.as_ref())
        }
        Request::Discarded(found) => Ok(fates::discarded(transaction, found)),
        // Those that need more than what the store holds: `plan`.
        Request::Register(_) | Request::Heartbeat { .. } | Request::RemoveNode { .. } => {
            Err(refused("it came to the wrong place"))
        }
    }
}
