//! The replicas, as their primary sees them: what it knows of each ([`peers`]), its sessions with them
//! ([`sessions`]), and how fast they are ([`lag`]).

mod lag;
pub(super) mod peers;
mod sessions;
