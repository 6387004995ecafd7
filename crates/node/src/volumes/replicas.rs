//! Replicas on disks: where those of a volume go, how they are made and deleted, and what is found
//! when nobody knows of them.

pub(super) mod draft;
pub(crate) mod found;
pub mod local;
pub(super) mod make;
pub mod open;
pub(super) mod place;
pub mod sweep;
