//! What clients ask: from the request ([`requests`]) to what each mirror does of it ([`parts`]),
//! and what follows when every member has done it.

mod cluster_locking;
pub(super) mod cluster_locks;
mod compare;
mod disk_failures;
pub(super) mod exclusions;
pub(super) mod part;
pub(super) mod parts;
pub(super) mod ranges;
pub(super) mod rebuild_waits;
mod rebuilds;
mod requesting;
pub(super) mod requests;
mod reservations;
pub(super) mod stability;
pub(super) mod writes;
