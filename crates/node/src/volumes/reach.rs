//! Whether the replicas that a view counts on can be reached: the view tells what they hold, and nothing
//! of whether they are there.

use crate::api::types::{ReplicaState, ReplicaStatus, VolumeHealth, VolumeStatus};

#[cfg(test)]
mod tests;

/// What is known of a replica's node and session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reach {
    /// It answers, or its node did a moment ago.
    Answers,
    /// Nobody has said, such as right after the coordinator's start.
    Unknown,
    /// It does not answer.
    Away,
}

/// Makes the summary, the health and the reasons tell of replicas that do not answer, or of which
/// nobody knows. What a replica held when it was last heard of stays its state.
pub(super) fn tell(status: &mut VolumeStatus) {
    let mut worst = Reach::Answers;
    for mirror in &mut status.mirrors {
        let mut letters: Vec<char> = mirror.summary.trim_matches(['[', ']']).chars().collect();
        for (letter, replica) in letters.iter_mut().zip(&mut mirror.replicas) {
            let reach = reach(replica);
            if reach != Reach::Answers {
                *letter = '?';
                replica.reason.get_or_insert_with(|| why(&replica.node.name, replica.state, reach));
            }
            worst = worst.max(reach);
        }
        mirror.summary = format!("[{}]", letters.iter().collect::<String>());
    }
    status.health = match (worst, status.health) {
        (Reach::Away, _) => VolumeHealth::Unreachable,
        (Reach::Unknown, VolumeHealth::InSync | VolumeHealth::Rebuilding) => VolumeHealth::Unknown,
        (_, known) => known,
    };
    if worst != Reach::Answers && status.reason.is_none() {
        status.reason = super::status::unhealthy(&status.mirrors);
    }
}

/// Only those count that the view counts on: the others are said to be missing already.
fn reach(replica: &ReplicaStatus) -> Reach {
    if !matches!(replica.state, ReplicaState::InSync | ReplicaState::Rebuilding) {
        return Reach::Answers;
    }
    match (replica.connected, replica.node_alive) {
        (Some(true), _) | (None, Some(true)) => Reach::Answers,
        (None, None) => Reach::Unknown,
        (Some(false), _) | (None, Some(false)) => Reach::Away,
    }
}

fn why(node: &str, state: ReplicaState, reach: Reach) -> String {
    let was = match state {
        ReplicaState::Rebuilding => "rebuilding",
        _ => "in-sync",
    };
    match reach {
        Reach::Unknown => format!("whether node {node} is there is not known; it was {was}"),
        _ => format!("it does not answer; it was {was} when it last did"),
    }
}
