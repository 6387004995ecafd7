//! The replicas, as their primary sees them: what it knows of each ([`peer`]) and of all
//! ([`peers`]), its sessions with them ([`sessions`]), and how fast they are ([`lag`]).

mod lag;
pub(super) mod peer;
pub(super) mod peers;
mod sessions;
mod status;
