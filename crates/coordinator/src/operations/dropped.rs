//! Primaries that a view takes out.

use evenkeel_core::{NodeId, PrimaryRecord, View};

/// The nodes whose primaries `next` drops, other than `by` itself: a node may always replace an
/// earlier primary of its own, because its present start was admitted only when the one before had
/// ended or had been silent for the expiry time ([`crate::starts`]). Of a shared volume none: its
/// primaries are told apart from dead ones by its replicas, which answer them.
pub fn dropped<'a>(
    next: &'a View,
    newest: &'a View,
    by: NodeId,
) -> impl Iterator<Item = NodeId> + 'a {
    let is_gone = |primary: &&PrimaryRecord| !next.has_primary(primary.id) && !newest.is_shared();
    let gone = newest.primaries.iter().filter(is_gone);
    gone.map(|primary| primary.id.node).filter(move |node| *node != by)
}
