//! Changes of a volume's view that an operator asks for: by its primary, or, while it is attached
//! nowhere, at the coordinator.

use std::sync::Arc;

use evenkeel_api::{ApiError, ErrorCode};
use evenkeel_core::primary::{Command, CommandError};
use evenkeel_core::view::{Cause, ViewError};
use evenkeel_core::{ReplicaState, View};

use crate::cluster;
use crate::coordinator::{Answer, Request, ViewText, Wish};
use crate::volumes::Node;
use crate::volumes::lookup::{Found, moved, unexpected};

/// Has a volume's view changed. It is attached here or nowhere.
///
/// # Errors
/// If the view does not permit it, the coordinator does not answer, or the volume has been attached
/// elsewhere meanwhile.
pub(super) async fn carry_out(
    node: &Arc<Node>,
    found: &Found,
    command: Command,
    what: &str,
) -> Result<(), ApiError> {
    match node.volumes.get(found.view.volume) {
        Some(_) => by_primary(node, found, command, what).await,
        None => by_coordinator(node, &found.view, command, what).await,
    }
}

async fn by_primary(
    node: &Node,
    found: &Found,
    command: Command,
    what: &str,
) -> Result<(), ApiError> {
    let done = node.data.command(found.view.volume, command);
    let done = tokio::time::timeout(cluster::COMMAND, done).await;
    match done {
        Ok(Ok(())) => Ok(()),
        Ok(Err(CommandError::View(error))) => Err(not_permitted(error, what)),
        Ok(Err(CommandError::NoCoordinator)) => Err(ApiError::new(
            ErrorCode::NoCoordinator,
            what,
            format!(
                "the view has to change, and the coordinator does not answer node {}",
                node.identity.name
            ),
            format!(
                "Start the coordinator's node, or repair the network between it and node {}",
                node.identity.name
            ),
        )),
        Ok(Err(CommandError::Unfinished)) => Err(ApiError::new(
            ErrorCode::TimedOut,
            what,
            "the change is made, but requests from before it may still be under way: a node or a replica does not answer",
            "See `evenkeel volume status`; ask again, which waits again",
        )),
        Ok(Err(CommandError::GivenUp)) => Err(given_up(what)),
        Ok(Err(CommandError::Ended)) => Err(moved(what)),
        Err(_) => Err(ApiError::new(
            ErrorCode::TimedOut,
            what,
            "it did not end in time",
            "It may still go on: see `evenkeel volume status`",
        )),
    }
}

fn given_up(what: &str) -> ApiError {
    let why = "the coordinator gave the new replica up, because it had received no heartbeat of this node for longer than coordinator.expiry_seconds";
    ApiError::new(ErrorCode::NoCoordinator, what, why, "Try again")
}

pub(super) fn not_permitted(error: ViewError, what: &str) -> ApiError {
    let (code, action) = match error {
        ViewError::UnknownReplica => (ErrorCode::NoSuchReplica, "See `evenkeel volume status`"),
        ViewError::LastInSync => (
            ErrorCode::LastInSync,
            "Wait for the rebuild of another one, bring one back by `evenkeel replica re-add`, or add one by `evenkeel replica add`",
        ),
        ViewError::WrongState(state) if state.takes_writes() => {
            (ErrorCode::ReplicaInUse, "Fail it first, by `evenkeel replica fail`")
        }
        ViewError::TooManyReplicas => {
            (ErrorCode::WrongState, "Remove one first, by `evenkeel replica remove`")
        }
        ViewError::NoCopy => (
            ErrorCode::WrongState,
            "Remove it (`evenkeel replica remove`) and add another one instead",
        ),
        ViewError::ReplacedAlready => (
            ErrorCode::WrongState,
            "Wait for that (`evenkeel volume status NAME --wait in-sync`), or remove the one that is on its way",
        ),
        ViewError::NotAllInSync => (
            ErrorCode::WrongState,
            "Wait for that (`evenkeel volume status NAME --wait in-sync`), or remove the replicas that do not come back",
        ),
        ViewError::Unconfirmed => (
            ErrorCode::Incomplete,
            "Attach the volume first; if the replica is lost: `evenkeel volume assemble NAME --force`",
        ),
        ViewError::SlotHeld(_) | ViewError::SlotOpen(_) => (
            ErrorCode::WrongState,
            "Keep more slots, or wait until what is open there is resynchronised; a primary gives its slot back by `evenkeel detach`",
        ),
        ViewError::NotProtocolC => (
            ErrorCode::WrongState,
            "Use protocol C (`evenkeel volume change NAME --protocol C`), or one slot",
        ),
        ViewError::ReservationConflict | ViewError::WrongReservation => (
            ErrorCode::Reserved,
            "See `evenkeel reservation show`; an administrator ends all of it by `evenkeel reservation drop`",
        ),
        ViewError::TooManyRegistrants => {
            (ErrorCode::WrongState, "Unregister one, or `evenkeel reservation clear`")
        }
        ViewError::WrongSlots => (ErrorCode::BadRequest, "Choose another number of primaries"),
        _ => (ErrorCode::WrongState, "See `evenkeel volume status`"),
    };
    ApiError::new(code, what, error.to_string(), action)
}

/// What a command makes of a view that has no primary.
fn change(next: &mut View, command: Command) -> Result<(), ViewError> {
    match command {
        Command::Fail(id) => next.leave(id, ReplicaState::Faulty, Cause::Operator),
        Command::Remove(id) => next.remove(id),
        Command::ReAdd(id) => next.readmit(id),
        Command::Add(new) => next.add(new),
        Command::Retire(id) => next.retire(id),
        Command::Grow(size) => next.grow(size),
        Command::Change(change) => next.change(change),
        // Only a primary can do these.
        Command::FailDisk(_) | Command::Verify { .. } | Command::StopVerify | Command::Detach => {
            Ok(())
        }
    }
}

/// The next view, as a command makes it.
///
/// # Errors
/// If the view does not permit it.
pub(super) fn applied(view: &View, command: Command, what: &str) -> Result<View, ApiError> {
    let mut next = view.successor();
    change(&mut next, command).map_err(|error| not_permitted(error, what))?;
    Ok(next)
}

/// Changes the view of a volume that is attached nowhere. Its replicas adopt it at the next attach.
async fn by_coordinator(
    node: &Node,
    view: &View,
    command: Command,
    what: &str,
) -> Result<(), ApiError> {
    if !view.primaries.is_empty() {
        let why = "the volume was not detached properly";
        return Err(ApiError::new(ErrorCode::WrongState, what, why, "Attach it first"));
    }
    let next = applied(view, command, what)?;
    let text = |view: &View| {
        ViewText::encode(view).map_err(|e| {
            ApiError::new(ErrorCode::System, what, e.to_string(), "Please report this")
        })
    };
    let request = Request::Swap {
        node: node.identity.node.to_string(),
        view: text(&next)?,
        replaces: Some(text(view)?),
        in_passing: true,
        wish: Some(Wish::AsBefore),
    };
    match node.coordinator.ask(what, request).await? {
        Answer::Done => Ok(()),
        Answer::GivenUp => Err(given_up(what)),
        Answer::Newest(_) | Answer::NotExpired { .. } => Err(moved(what)),
        other => Err(unexpected(what, &other)),
    }
}
