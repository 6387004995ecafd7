//! The block device of an attached volume.

use std::sync::Arc;

use evenkeel_api::{ApiError, ErrorCode};
use evenkeel_attach::{AttachError, DeadDevice, Filesystems, Options, Place, StillUsed};

use super::actor::Turn;
use super::lifecycle::AskedBy;
use crate::volumes::Node;
use crate::volumes::{Attached, Device};

/// What front ends are called that serve block devices.
const FRONTEND: &str = "device";

pub(in crate::volumes) fn place(node: &Node) -> Place {
    Place::new(&node.config.runtime)
}

/// Makes the block device. `resume`: the one of a killed daemon may be taken up again.
pub(in crate::volumes) async fn make_device(
    node: &Arc<Node>,
    turn: &Turn,
    attached: &Arc<Attached>,
    resume: bool,
    asked_by: AskedBy,
    what: &str,
) -> Result<(), ApiError> {
    let options = Options {
        name: attached.name().to_owned(),
        size: attached.shared_size(),
        block_size: attached.block_size,
        kind: None,
        resume,
    };
    let (data, volume) = (node.data.clone(), attached.id);
    let (frontend, runtime) = (node.data.next_frontend(), tokio::runtime::Handle::current());
    let what = what.to_owned();
    // Until the device is made, or not, it is this one's turn, whoever waits for that.
    let (turn, shown_of) = (turn.clone(), attached.clone());
    let made = node.blocking(move |node| {
        let serve = |maker| {
            let added = data.add_frontend(volume, frontend, FRONTEND.into(), maker);
            runtime.block_on(added).map_err(|e| e.to_string())
        };
        let made = evenkeel_attach::attach(&place(node), &options, serve);
        let made = made.map_err(|error| {
            // It is one of a daemon or an attachment that has ended: it gives errors until then.
            if let AttachError::InUse { device, users } = &error {
                let used = StillUsed { device: DeadDevice::now(device), users: users.clone() };
                node.volumes.leftovers.note(shown_of.name(), &[used]);
            }
            device_error(&what, &error)
        })?;
        let device = Device { path: made.link.clone(), kind: made.kind.to_string() };
        node.volumes.leftovers.made(&made.device);
        turn.device(&shown_of, device, asked_by);
        Ok(made)
    });
    let made = made.await?;
    tracing::info!(volume = attached.name(), device = %made.device.display(), kind = %made.kind, "a block device was made");
    Ok(())
}

/// Takes the block device of a volume away that stays attached.
pub(in crate::volumes) async fn remove_device(
    node: &Arc<Node>,
    turn: &Turn,
    attached: &Arc<Attached>,
    what: &str,
) -> Result<(), ApiError> {
    // Until it is gone, or not, it is this one's turn, whoever waits for that.
    let (turn, attached, what) = (turn.clone(), attached.clone(), what.to_owned());
    let (at, of) = (node.clone(), attached.clone());
    let gone = node.blocking(move |node| {
        match evenkeel_attach::detach(&place(node), attached.name()) {
            Ok(()) | Err(AttachError::NotAttached(_)) => turn.no_device(&attached),
            Err(e) => return Err(device_error(&what, &e)),
        }
        Ok(())
    });
    gone.await?;
    let status = at.data.volume_status(of.id).await;
    for (frontend, name) in status.map(|status| status.frontends).unwrap_or_default() {
        if name == FRONTEND {
            // It ends by itself, too, when its device is gone.
            let _ = at.data.remove_frontend(of.id, frontend).await;
        }
    }
    Ok(())
}

/// Refuses to give up a volume of which somebody uses a device that an earlier daemon has left, and
/// that waits for this one: what is written to it would be lost.
///
/// # Errors
/// Says who uses it.
pub(in crate::volumes) async fn refuse_waiting(
    node: &Arc<Node>,
    name: &str,
    what: &str,
) -> Result<(), ApiError> {
    let (name, what) = (name.to_owned(), what.to_owned());
    let check = move |node: &Node| {
        let checked = evenkeel_attach::refuse_waiting(&place(node), &name);
        checked.map_err(|error| of_waiting(device_error(&what, &error), &name))
    };
    node.blocking(check).await
}

/// What is used can't be unmounted before it is served.
fn of_waiting(error: ApiError, name: &str) -> ApiError {
    if error.code != ErrorCode::DeviceBusy {
        return error;
    }
    let action = format!(
        "Its requests wait until the volume is attached here again, which the node tries by itself: `evenkeel volume status {name}` says why it is not. Then unmount it (`evenkeel umount {name}`), or close what has it open"
    );
    ApiError { action, ..error }
}

/// Takes away what an earlier daemon has left of a volume's block device.
///
/// # Errors
/// If somebody uses a device of it, which waits for this daemon or gives errors: what that has not
/// written yet would be lost to whoever attaches the volume.
pub(in crate::volumes) async fn take_stale(
    node: &Arc<Node>,
    name: &str,
    what: &str,
) -> Result<(), ApiError> {
    refuse_waiting(node, name, what).await?;
    let (name, what) = (name.to_owned(), what.to_owned());
    let taken = move |node: &Node| {
        let place = place(node);
        let records = evenkeel_attach::list(&place).unwrap_or_default();
        if records.iter().any(|record| record.name == name && !record.is_own()) {
            let cleaned = evenkeel_attach::clean_up_stale(&place, &name, Filesystems::Leave);
            let cleaned = cleaned.map_err(|error| device_error(&what, &error))?;
            node.volumes.leftovers.note(&name, &cleaned.still_used);
        }
        match evenkeel_attach::refuse(&place, &name) {
            Err(error @ AttachError::InUse { .. }) => Err(device_error(&what, &error)),
            _ => Ok(()),
        }
    };
    node.blocking(taken).await
}

/// Shows on the block device that the volume has grown; tells how.
pub(in crate::volumes) async fn grow_device(
    node: &Arc<Node>,
    attached: &Attached,
    what: &str,
) -> Result<&'static str, ApiError> {
    let (name, size, what) = (attached.name().to_owned(), attached.size(), what.to_owned());
    let grown = move |node: &Node| match evenkeel_attach::grow(&place(node), &name, size) {
        Ok(()) => Ok("; so has its block device"),
        Err(AttachError::KeepsSize(_)) => {
            Ok("; its block device shows it after a detach and an attach")
        }
        Err(error) => Err(device_error(&what, &error)),
    };
    node.blocking(move |node| grown(node)).await
}

pub(in crate::volumes) fn device_error(what: &str, error: &AttachError) -> ApiError {
    let (code, action) = match error {
        AttachError::Unavailable(_) => (ErrorCode::NotSupported, "Attach it by nbd instead"),
        AttachError::InUse { .. } => (
            ErrorCode::DeviceBusy,
            "Unmount it there (`evenkeel umount`, or `umount DIRECTORY`), or close what has it open",
        ),
        AttachError::NameTaken { .. } => {
            (ErrorCode::NameInUse, "Detach it where it is served, or remove the link")
        }
        AttachError::NotDurable { .. } => (ErrorCode::System, "See `evenkeel volume status`"),
        _ => (ErrorCode::System, "See the node's log and the kernel's"),
    };
    ApiError::new(code, what, error.to_string(), action)
}

#[cfg(test)]
mod tests;
