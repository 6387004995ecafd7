//! What primaries here note: for the log, for their volumes' events, and what follows from it.

use std::sync::Arc;

use evenkeel_core::primary::{EndReason, Note, Waiting};
use evenkeel_core::{PrimaryId, ReplicaId, VolumeId};
use evenkeel_engine::FrontendId;

use super::attachment::{actor, start};
use super::commands::grow;
use super::replicas::make;
use super::{Attached, Node, Volumes, lookup, messages, verdict};
use crate::clock::core_now;

impl Volumes {
    /// Something for the log, and for the volume's events.
    pub fn note(&self, node: &Arc<Node>, volume: VolumeId, note: Note) {
        // It was detached meanwhile, and its primary's end is told.
        let Some(attached) = self.get(volume) else { return };
        let is_placed = |id: ReplicaId| {
            attached.record().replicas.iter().any(|placed| placed.id == id.to_string())
        };
        // Who joins and who leaves changes what the record says.
        let changes = matches!(note, Note::Admitted(_) | Note::Removed(..));
        if !changes && messages::named(&note).is_none_or(is_placed) {
            return self.report(node, &attached, note);
        }
        // Another primary's node may have made it: the coordinator knows where.
        let node = node.clone();
        tokio::spawn(async move {
            if let Ok(found) = lookup::find(&node, "", &volume.to_string()).await {
                attached.renew(found.stored.record);
            }
            node.volumes.report(&node, &attached, note);
        });
    }

    fn report(&self, node: &Arc<Node>, attached: &Arc<Attached>, note: Note) {
        match note {
            // It is tried again and again, and told once.
            Note::OtherHistory(replica) if !attached.note_diverged(replica) => return,
            Note::Admitted(replica) => attached.note_admitted(replica),
            _ => {}
        }
        let place = |replica| lookup::place_of(node, attached, replica);
        let message = messages::note(&note, place, |id| node.coordinator.node_ref(id).name);
        match is_unusual(&note) {
            true => tracing::warn!(volume = attached.name(), "{message}"),
            false => tracing::info!(volume = attached.name(), "{message}"),
        }
        // The wait for the start is told by the state; it is no event.
        let is_event = !matches!(note, Note::Suspended(Waiting::Start));
        follow(node, attached, note);
        if is_event {
            attached.event(message);
        }
    }

    /// The primary has ended: for whoever waits for it, and if nobody does, to take away what
    /// served it.
    pub fn ended(&self, node: &Arc<Node>, volume: VolumeId, primary: PrimaryId, reason: EndReason) {
        // Another one is there by now, or none: whoever ended this one did not wait.
        let Some(attached) = self.of(volume, primary) else { return };
        let message = start::why_ended(node, &attached, reason);
        tracing::info!(volume = attached.name(), "{message}");
        attached.event(message.clone());
        let was_used = attached.phase().is_used();
        let comes_back = actor::ended(node, &attached, reason, &message);
        if was_used && !matches!(reason, EndReason::Detached | EndReason::DetachedUnclean) {
            let text =
                format!("volume {} is not attached here any more: {message}", attached.name());
            match comes_back {
                true => node
                    .warnings
                    .warn_until_shown(volume, format!("{text}; it attaches again by itself")),
                false => node.warnings.warn_until_attached(volume, text),
            }
        }
    }

    /// A client has gone, or the kernel has closed a device.
    pub fn frontend_ended(&self, volume: VolumeId, frontend: FrontendId, reason: &str) {
        let name = self.get(volume).map(|attached| attached.name().to_owned());
        tracing::info!(volume = name, frontend = frontend.0, %reason, "a client's connection ended");
    }
}

fn is_unusual(note: &Note) -> bool {
    matches!(
        note,
        Note::Left(..)
            | Note::StandsIn(..)
            | Note::StaysAway { .. }
            | Note::Suspended(_)
            | Note::OtherHistory(_)
            | Note::ViewRefused(..)
            | Note::Evicted(_)
    )
}

/// Does what follows from a note; what takes time, as a task.
fn follow(node: &Arc<Node>, attached: &Arc<Attached>, note: Note) {
    match note {
        Note::Serving { follows, .. } => {
            attached.note_serves(core_now());
            actor::serves(node, attached, follows);
            node.warnings.attached(attached.id);
        }
        Note::Verified { .. } => verdict::keep_soon(node, attached),
        Note::Grown(size) => {
            // By another primary, perhaps.
            let (node, attached) = (node.clone(), attached.clone());
            tokio::spawn(async move { grow::follow(&node, &attached, size).await });
        }
        Note::Removed(replica, home) => {
            let (node, volume) = (node.clone(), attached.id);
            tokio::spawn(async move { make::delete_removed(&node, home, volume, replica).await });
        }
        _ => {}
    }
}
