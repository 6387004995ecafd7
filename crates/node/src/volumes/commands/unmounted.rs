//! What becomes of the use of a volume that was mounted, when it is unmounted: what was made to
//! mount it goes, and no more.

use std::sync::Arc;

use evenkeel_api::types::{DetachAnswer, DetachRequest, VERSION};
use evenkeel_api::{ApiError, ErrorCode};

use super::detach;
use crate::coordinator::{ByMount, Shown};
use crate::volumes::Attached;
use crate::volumes::Node;
use crate::volumes::attachment::actor::turn;
use crate::volumes::attachment::device::remove_device;
use crate::volumes::attachment::wanted;

/// Ends the use of a volume; after a mount, as much of it as that has begun.
///
/// # Errors
/// If it is not attached, or its device or an export of it is in use.
pub async fn detach(
    node: &Arc<Node>,
    volume: &str,
    request: DetachRequest,
    forwarded: bool,
) -> Result<DetachAnswer, ApiError> {
    if !request.after_mount {
        return detach::detach(node, volume, request, forwarded).await;
    }
    match node.volumes.by_name(volume) {
        Some(attached) => after_mount(node, &attached).await,
        None => {
            let what = format!("cannot detach volume {volume}");
            let why = format!("it is not attached on node {}", node.identity.name);
            let advice = "See `evenkeel volume status`";
            Err(ApiError::new(ErrorCode::NotAttached, what, why, advice))
        }
    }
}

/// What stays of the use of a volume that is unmounted, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stays {
    /// Nothing: it was attached to be mounted.
    Nothing,
    /// All but its device, which was made to mount it.
    Beside(&'static str),
    /// All of it.
    All,
}

fn stays(meant: &Shown) -> Stays {
    let is_exported = meant.nbd.is_some() || meant.nvme.is_some();
    match meant.by_mount {
        None => Stays::All,
        Some(ByMount::Attachment) if is_exported => Stays::Beside("it is exported"),
        Some(ByMount::Attachment) => Stays::Nothing,
        Some(ByMount::Device) => Stays::Beside("it was before it was mounted"),
    }
}

async fn after_mount(node: &Arc<Node>, attached: &Arc<Attached>) -> Result<DetachAnswer, ApiError> {
    let what = format!("cannot detach volume {}", attached.name());
    let turn = turn(node, attached.id).await;
    // One that is not attached yet, or not any more, has nothing that stays.
    let stays = node.volumes.meant(attached.id).map_or(Stays::Nothing, |meant| stays(&meant));
    let (name, here) = (attached.name(), &node.identity.name);
    let message = match stays {
        Stays::Nothing => {
            drop(turn);
            return detach::detach_unused(node, attached, &what).await;
        }
        Stays::Beside(why) => {
            remove_device(node, &turn, attached, &what).await?;
            turn.save().await;
            wanted::changed(node, &turn).await;
            format!("{name}: it stays attached on node {here}, without a block device: {why}")
        }
        Stays::All => {
            format!("{name}: it stays attached on node {here}, as it was before it was mounted")
        }
    };
    let (given_up, silent) = (false, Vec::new());
    Ok(DetachAnswer { version: VERSION, clean: true, given_up, attached: true, silent, message })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coordinator::{WantedNbd, WantedNvme};

    #[test]
    fn an_unmount_takes_away_what_the_mount_has_made() {
        let shown = |by_mount| Shown { device: true, by_mount, ..Shown::default() };
        assert_eq!(stays(&shown(None)), Stays::All);
        assert_eq!(stays(&shown(Some(ByMount::Attachment))), Stays::Nothing);
        let beside = Stays::Beside("it was before it was mounted");
        assert_eq!(stays(&shown(Some(ByMount::Device))), beside);
        let by_mount = shown(Some(ByMount::Attachment));
        let exported = Stays::Beside("it is exported");
        let by_nbd = Shown { nbd: Some(WantedNbd::default()), ..by_mount.clone() };
        assert_eq!(stays(&by_nbd), exported);
        assert_eq!(stays(&Shown { nvme: Some(WantedNvme::default()), ..by_mount }), exported);
    }
}
