//! Fewer copies in each mirror: which go, and taking them out.

use std::collections::BTreeSet;
use std::sync::Arc;

use evenkeel_api::types::{Plan, ReplicaReach, ReplicaStatus};
use evenkeel_api::{ApiError, ErrorCode};
use evenkeel_core::primary::Command;
use evenkeel_core::view::Circumstances;
use evenkeel_core::{ReplicaId, ReplicaRecord, Role};

use super::{plan, replica, view_change};
use crate::volumes::Node;
use crate::volumes::lookup::{Found, find, places};
use crate::volumes::status;

/// The copies that go.
#[derive(Debug, Default)]
pub(super) struct Fewer {
    pub victims: Vec<ReplicaId>,
    pub plan: Plan,
}

/// Chooses the copies that go until each mirror has so many: those first whose loss harms least,
/// see [`evenkeel_core::MirrorView::dispensable`].
///
/// # Errors
/// If a mirror would lose its last in-sync replica, or a replica is being replaced.
pub(super) async fn choose(
    node: &Arc<Node>,
    found: &Found,
    copies: usize,
    what: &str,
) -> Result<Fewer, ApiError> {
    if !found.view.mirrors.iter().any(|mirror| mirror.copies().count() > copies) {
        return Ok(Fewer::default());
    }
    refuse_replacing(found, what)?;
    let silent = silent(node, found).await?;
    let circumstances = |record: &ReplicaRecord| Circumstances {
        answers: !silent.contains(&record.id),
        is_attached: found.view.primaries.iter().any(|primary| primary.id.node == record.node),
    };
    let (mut next, mut victims) = (found.view.clone(), Vec::new());
    for index in 0..next.mirrors.len() {
        while next.mirrors[index].copies().count() > copies {
            let Some(id) = next.mirrors[index].dispensable(circumstances) else {
                let why = "the mirror would lose its last in-sync replica";
                let advice = "Wait for a rebuild to end, or re-add another replica";
                return Err(ApiError::new(ErrorCode::LastInSync, what, why, advice));
            };
            next.retire(id).map_err(|error| view_change::not_permitted(error, what))?;
            victims.push(id);
        }
    }
    let mut plan = Plan::default();
    plan::add(&mut plan, node, found, &next);
    Ok(Fewer { victims, plan })
}

fn refuse_replacing(found: &Found, what: &str) -> Result<(), ApiError> {
    let replaces = |(_, record): (usize, &ReplicaRecord)| matches!(record.role, Role::Replaces(_));
    if !found.view.replicas().any(replaces) {
        return Ok(());
    }
    let why = "a replica is being replaced, so it is not clear which one is to go";
    let advice = "Wait for that (`evenkeel volume status NAME --wait in-sync`), or remove the one that is on its way";
    Err(ApiError::new(ErrorCode::WrongState, what, why, advice))
}

/// The replicas whose node or disk does not answer, as the volume's status tells it.
async fn silent(node: &Arc<Node>, found: &Found) -> Result<BTreeSet<ReplicaId>, ApiError> {
    // Whoever carries it out has been found: nobody else is asked.
    let status = status::one(node, &found.stored.record.id, true).await?;
    let is_silent = |replica: &ReplicaStatus| {
        let reach = replica.reach;
        matches!(reach, ReplicaReach::Unreachable | ReplicaReach::FileGone | ReplicaReach::ReadOnly)
            || replica.node_alive == Some(false)
            || replica.unserved.is_some()
    };
    let all = status.mirrors.into_iter().flat_map(|mirror| mirror.replicas);
    Ok(all.filter(is_silent).filter_map(|replica| replica.id.parse().ok()).collect())
}

/// Takes the chosen copies out. Tells their places.
///
/// # Errors
/// If the view has changed meanwhile and does not permit it any more: it says which are gone by
/// then.
pub(super) async fn remove(
    node: &Arc<Node>,
    found: &Found,
    victims: &[ReplicaId],
    what: &str,
) -> Result<Vec<String>, ApiError> {
    let mut removed: Vec<String> = Vec::new();
    for id in victims {
        let found = find(node, what, &found.stored.record.id).await?;
        let record = found.view.replica(*id).map(|(_, record)| *record);
        let done = view_change::carry_out(node, &found, Command::Retire(*id), what).await;
        if let Err(mut error) = done {
            if !removed.is_empty() {
                error.why = format!("{}; removed before: {}", error.why, removed.join(", "));
            }
            return Err(error);
        }
        removed.extend(record.map(|r| places(node, &found, &r)[0].clone()));
        replica::take_out(node, &found, *id).await;
    }
    Ok(removed)
}
