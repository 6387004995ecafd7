//! What becomes of the use of a volume when it is unmounted, or its mount has failed: what was made
//! for the mount goes, and no more.

use std::sync::Arc;

use evenkeel_api::types::{DetachAnswer, DetachRequest, VERSION};
use evenkeel_api::{ApiError, ErrorCode};
use evenkeel_core::VolumeId;

use super::{detach, unclean};
use crate::coordinator::{ForMount, Made, Shown};
use crate::volumes::Attached;
use crate::volumes::Node;
use crate::volumes::attachment::actor::{Turn, turn};
use crate::volumes::attachment::device::remove_device;
use crate::volumes::attachment::wanted;
use crate::volumes::lookup::find;

/// Ends the use of a volume; after a mount, as much of it as was made for that.
///
/// # Errors
/// If it is not attached, or its device or an export of it is in use.
pub async fn detach(
    node: &Arc<Node>,
    volume: &str,
    request: DetachRequest,
    forwarded: bool,
) -> Result<DetachAnswer, ApiError> {
    let what = format!("cannot detach volume {volume}");
    let mount = match (request.after_mount, request.failed_mount.as_deref()) {
        (false, None) => return detach::detach(node, volume, request, forwarded).await,
        (true, None) => Mount::Unmounted,
        (false, Some(token)) => Mount::Failed(token),
        (true, Some(_)) => return Err(refused(&what, "an unmount and a mount that has failed")),
    };
    if request.node.is_some() {
        return Err(refused(&what, "another node and what is said of a mount on this one"));
    }
    let volumes = &node.volumes;
    let attached = volumes.by_name(volume).map(|attached| attached.id);
    match attached.or_else(|| volumes.awaited_by_name(volume)) {
        Some(id) => after_mount(node, id, mount, &what).await,
        None => left_behind(node, volume, mount, &what).await,
    }
}

/// Nothing of it is attached here, or to be. The view may name a primary of this node still that
/// has ended.
async fn left_behind(
    node: &Arc<Node>,
    volume: &str,
    mount: Mount<'_>,
    what: &str,
) -> Result<DetachAnswer, ApiError> {
    if let Mount::Unmounted = mount {
        let found = find(node, what, volume).await?;
        if unclean::is_left(node, &found.view) {
            return unclean::give_up(node, &found, what).await;
        }
    }
    Err(not_attached(node, what))
}

fn refused(what: &str, both: &str) -> ApiError {
    let why = format!("{both} exclude each other");
    ApiError::new(ErrorCode::BadRequest, what, why, "Leave one of them out")
}

fn not_attached(node: &Node, what: &str) -> ApiError {
    let why = format!("it is not attached on node {}", node.identity.name);
    ApiError::new(ErrorCode::NotAttached, what, why, "See `evenkeel volume status`")
}

/// Which mount is over.
#[derive(Debug, Clone, Copy)]
enum Mount<'a> {
    /// Whichever there was: nothing is mounted any more.
    Unmounted,
    /// The one with this token, which has mounted nothing.
    Failed(&'a str),
}

impl Mount<'_> {
    /// Whether no other one has what was made.
    fn is_last(self, made_for: &ForMount) -> bool {
        match self {
            Self::Unmounted => true,
            Self::Failed(token) => made_for.is_only_for(token),
        }
    }
}

/// What stays of the use of a volume, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stays {
    /// Nothing: it was attached for the mount.
    Nothing,
    /// All but its device, which was made for the mount.
    Beside(&'static str),
    /// All of it.
    All(&'static str),
}

fn stays(meant: &Shown, mount: Mount<'_>) -> Stays {
    let is_exported = meant.nbd.is_some() || meant.nvme.is_some();
    match &meant.mount {
        None => Stays::All("as it was before it was mounted"),
        Some(made_for) if !mount.is_last(made_for) => Stays::All("for another mount"),
        Some(made_for) => match made_for.made() {
            Made::Attachment if is_exported => Stays::Beside("it is exported"),
            Made::Attachment => Stays::Nothing,
            Made::Device => Stays::Beside("it was before it was mounted"),
        },
    }
}

/// What stays is decided and done in one turn: nothing of it changes in between.
async fn after_mount(
    node: &Arc<Node>,
    volume: VolumeId,
    mount: Mount<'_>,
    what: &str,
) -> Result<DetachAnswer, ApiError> {
    let turn = turn(node, volume).await;
    if let Some(awaited) = node.volumes.awaited(volume) {
        let stays = stays(&awaited.how().shown(), mount);
        forget_failed(&turn, mount, stays);
        return while_awaited(node, &turn, &awaited.how().name, stays).await;
    }
    let Some(attached) = node.volumes.get(volume) else { return Err(not_attached(node, what)) };
    // One that is not attached yet, or not any more, has nothing that stays.
    let meant = node.volumes.meant(volume);
    let stays = meant.map_or(Stays::Nothing, |meant| stays(&meant, mount));
    forget_failed(&turn, mount, stays);
    let (name, here) = (attached.name(), &node.identity.name);
    let message = match stays {
        Stays::Nothing => return detach::detach_in_turn(node, &turn, &attached, what).await,
        Stays::Beside(why) => {
            without_device(node, &turn, &attached, what).await?;
            format!("{name}: it stays attached on node {here}, without a block device: {why}")
        }
        Stays::All(why) => {
            keep(node, &turn).await;
            format!("{name}: it stays attached on node {here}, {why}")
        }
    };
    Ok(stays_attached(message))
}

/// A mount that has failed does not keep another one from taking away what both have.
fn forget_failed(turn: &Turn, mount: Mount<'_>, stays: Stays) {
    if let (Mount::Failed(token), Stays::All(_)) = (mount, stays) {
        turn.remove_mount(token);
    }
}

/// What has changed is kept here, and told to the coordinator.
async fn keep(node: &Arc<Node>, turn: &Turn) {
    turn.save().await;
    wanted::changed(node, turn).await;
}

async fn without_device(
    node: &Arc<Node>,
    turn: &Turn,
    attached: &Arc<Attached>,
    what: &str,
) -> Result<(), ApiError> {
    remove_device(node, turn, attached, what).await?;
    keep(node, turn).await;
    Ok(())
}

/// The same of a volume that is to be attached here again, after an eviction or a restart.
async fn while_awaited(
    node: &Arc<Node>,
    turn: &Turn,
    name: &str,
    stays: Stays,
) -> Result<DetachAnswer, ApiError> {
    let again = format!("{name}: it is attached again on node {} by itself", node.identity.name);
    Ok(match stays {
        Stays::Nothing => return detach::give_up_in_turn(node, turn, name).await,
        Stays::Beside(why) => {
            turn.await_no_device();
            keep(node, turn).await;
            stays_attached(format!("{again}, without a block device: {why}"))
        }
        Stays::All(why) => {
            keep(node, turn).await;
            stays_attached(format!("{again}, {why}"))
        }
    })
}

fn stays_attached(message: String) -> DetachAnswer {
    let (given_up, silent) = (false, Vec::new());
    DetachAnswer { version: VERSION, clean: true, given_up, attached: true, silent, message }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coordinator::{WantedNbd, WantedNvme};

    fn made(made: Made) -> Shown {
        let mount = Some(ForMount::new(made, "one".into()));
        Shown { device: true, mount, ..Shown::default() }
    }

    #[test]
    fn an_unmount_takes_away_what_the_mount_has_made() {
        let stays = |shown: &Shown| stays(shown, Mount::Unmounted);
        let by_hand = Shown { device: true, ..Shown::default() };
        assert_eq!(stays(&by_hand), Stays::All("as it was before it was mounted"));
        assert_eq!(stays(&made(Made::Attachment)), Stays::Nothing);
        let beside = Stays::Beside("it was before it was mounted");
        assert_eq!(stays(&made(Made::Device)), beside);
        let exported = Stays::Beside("it is exported");
        let by_nbd = Shown { nbd: Some(WantedNbd::default()), ..made(Made::Attachment) };
        assert_eq!(stays(&by_nbd), exported);
        let by_nvme = Shown { nvme: Some(WantedNvme::default()), ..made(Made::Attachment) };
        assert_eq!(stays(&by_nvme), exported);
    }

    #[test]
    fn a_mount_that_fails_takes_nothing_that_another_one_has() {
        for what in [Made::Attachment, Made::Device] {
            let other = stays(&made(what), Mount::Failed("two"));
            assert_eq!(other, Stays::All("for another mount"));
        }
        let mut both = made(Made::Attachment);
        assert_eq!(stays(&both, Mount::Failed("one")), Stays::Nothing);
        // It has found what the first one had made.
        both.mount.as_mut().unwrap().add("two".into());
        for failed in ["one", "two"] {
            assert_eq!(stays(&both, Mount::Failed(failed)), Stays::All("for another mount"));
        }
        assert_eq!(stays(&both, Mount::Unmounted), Stays::Nothing);
    }
}
