//! The heartbeats of a member.

use std::sync::Arc;
use std::time::Duration;

use super::{Member, cluster_full, registration};
use crate::coordinator::{Answer, CallError, NodeLiveness, Request};

/// The pause between heartbeats.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// The nodes are read anew after so many heartbeats, even if nothing seems to have changed: who is
/// alive changes without a revision.
const REFRESH: u32 = 5;
/// While of one nobody knows whether it is alive, as after the coordinator stood still, a heartbeat
/// earlier for so many nodes fewer: what the coordinator sends grows with the square of their
/// number.
const NODES_FOR_A_BEAT: usize = 64;

/// Tells the coordinator every second that this node is alive, and keeps what it says of others.
pub async fn heartbeats(member: Arc<Member>) {
    let mut beats = Heartbeats::default();
    loop {
        let done = member.own.stopping.unless_begun(beats.beat(&member)).await;
        if done.is_none() || !member.own.stopping.pause(HEARTBEAT).await {
            return;
        }
    }
}

/// What the heartbeats know of the last ones.
#[derive(Default)]
struct Heartbeats {
    registered: bool,
    revision: u64,
    beats: u32,
}

impl Heartbeats {
    async fn beat(&mut self, member: &Arc<Member>) {
        if !member.cluster.coordinator().is_joined() {
            if let Some(address) = &member.own.config.coordinator.join
                && let Err(error) = member.join(address, false).await
            {
                tracing::warn!(%error, "cannot join yet; trying again");
            }
            return;
        }
        if !self.registered {
            return self.register(member).await;
        }
        let request = Request::Heartbeat { node: member.own.identity.node.to_string() };
        match member.cluster.coordinator().call_once(request).await {
            Ok(Answer::Heard { revision, cluster, other }) => {
                other.iter().for_each(|at| member.admission.warn_of_copy(at));
                if let Some(name) = cluster {
                    member.is_called(name).await;
                }
                self.acknowledged(member, revision).await;
            }
            Ok(refusal @ Answer::Superseded { .. }) => member.note_refusal(refusal).await,
            Ok(Answer::NotRegistered) => self.registered = false,
            Ok(refusal @ Answer::NodeRemoved { .. }) => {
                member.note_refusal(refusal).await;
                self.registered = false;
            }
            Ok(_) | Err(CallError::Refused(_)) => {}
            // Its node may have been restarted from another database: introduce ourselves anew.
            Err(CallError::Unreachable(_)) => self.registered = false,
        }
    }

    async fn register(&mut self, member: &Arc<Member>) {
        let request =
            Request::Register(registration(&member.own.identity, &member.addresses, false));
        match member.cluster.coordinator().call_once(request).await {
            Ok(Answer::Registered { coordinator, cluster }) => {
                member.is_called(cluster).await;
                let known = member.cluster.coordinator().membership().coordinator;
                if known.as_ref().is_some_and(|known| *known != coordinator) {
                    member.own.warnings.warn(format!(
                        "the coordinator is another one ({coordinator}) than this node joined: its volumes are not this node's"
                    ));
                }
                member.cluster.coordinator().set_id(coordinator);
                member.admit().await;
                self.registered = true;
                self.revision = 0;
            }
            Ok(Answer::NameInUse) => {
                member.own.warnings.warn(member.name_in_use("cannot join the cluster").to_string())
            }
            Ok(Answer::ClusterFull { most }) => {
                member.own.warnings.warn(cluster_full("cannot join the cluster", most).to_string())
            }
            Ok(answer) => member.note_refusal(answer).await,
            Err(_) => {}
        }
    }

    async fn acknowledged(&mut self, member: &Arc<Member>, revision: u64) {
        self.beats += 1;
        let is_news = revision != self.revision || member.credentials.epoch.is_behind();
        let pause = refresh_pause(&member.cluster.coordinator().nodes());
        if (is_news || self.beats.is_multiple_of(pause)) && member.refresh().await {
            self.revision = revision;
            // The coordinator was restarted with another database, within a heartbeat.
            self.registered = member.cluster.coordinator().node(member.own.identity.node).is_some();
        }
    }
}

/// After how many heartbeats these nodes are read anew.
fn refresh_pause(nodes: &[NodeLiveness]) -> u32 {
    let is_undecided = nodes.iter().any(|member| member.may_live && !member.alive);
    let hurried = u32::try_from(nodes.len() / NODES_FOR_A_BEAT + 1).unwrap_or(REFRESH);
    if is_undecided { hurried.min(REFRESH) } else { REFRESH }
}

#[cfg(test)]
mod tests;
