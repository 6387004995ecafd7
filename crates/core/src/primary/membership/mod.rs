//! The replicas, as their primary sees them: what it knows of each ([`peer`]) and of all
//! ([`peers`]), in which sets each mirror counts them ([`mirror`]), how fast they are ([`lag`]),
//! and whether they stay when they return ([`returns`]).
//!
//! The lowest of a primary's rooms: it uses none of the others. It never asks what a view says, nor
//! what was written: whoever asks it something that depends on these brings them.

mod lag;
pub(super) mod mirror;
pub(super) mod peer;
mod peers;
mod returns;

use std::collections::BTreeMap;

pub(super) use self::lag::LateWrite;
use self::mirror::MirrorPeers;
use self::peer::Peer;
use crate::ids::*;
use crate::policy::ReplicaSet;
use crate::time::Instant;

/// The replicas of the volume, and the links to them.
#[derive(Debug)]
pub(super) struct Membership {
    known: BTreeMap<ReplicaId, Peer>,
    /// Whose each link is.
    links: BTreeMap<LinkId, ReplicaId>,
    mirrors: Vec<MirrorPeers>,
    /// When the replicas' speed was compared last.
    speed_judged_at: Instant,
}

/// Tells which replicas of a mirror have failed a write that is acknowledged and under way still.
/// Only who knows the writes can.
pub(super) type OutOfSync<'a> = &'a dyn Fn(usize) -> ReplicaSet;
