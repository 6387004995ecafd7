//! Volumes on this node: the actor of each, its primary, and the devices and exports that serve it.

pub mod actor;
pub mod again;
pub(super) mod device;
pub(super) mod end;
pub mod export;
mod exporting;
pub mod exports;
pub mod leftovers;
pub(super) mod lifecycle;
pub mod nvme;
mod nvme_secrets;
pub(super) mod saving;
pub(super) mod start;
pub(super) mod wanted;
