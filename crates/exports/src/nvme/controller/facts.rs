//! What a controller knows of what lies behind it, at the moment of a command.

use std::net::IpAddr;

use super::identify::Namespace;
use crate::nvme::discovery::Directory;

/// How a host reaches the namespace through this controller (Base 8.1.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum PathState {
    /// As well as through any other.
    Optimized = 0x1,
    /// Better through another one.
    NonOptimized = 0x2,
    /// Not now.
    Inaccessible = 0x3,
    /// Never again.
    PersistentLoss = 0x4,
    /// It is changing.
    Transition = 0xf,
}

/// The path to the namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Path {
    /// Its state.
    pub state: PathState,
    /// How many times the state has changed.
    pub changes: u64,
}

/// What the log page for health says (Base 5.1.12.1.3). All numbers are since the volume was
/// attached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Health {
    /// Whether replicas are missing.
    pub is_degraded: bool,
    /// Whether writes are refused because the volume can't take them.
    pub is_read_only: bool,
    /// Bytes that hosts have read.
    pub read: u64,
    /// Bytes that hosts have written.
    pub written: u64,
    /// Commands that read.
    pub reads: u64,
    /// Commands that wrote.
    pub writes: u64,
    /// Requests that failed because data could be neither read nor restored.
    pub media_errors: u64,
}

/// A volume behind a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Volume {
    /// As a namespace.
    pub namespace: Namespace,
    /// The way to it.
    pub path: Path,
    /// How it is.
    pub health: Health,
    /// Whether its reservations outlast a power loss.
    pub reservations_persist: bool,
}

/// What lies behind a controller.
#[derive(Debug, Clone, Copy)]
pub enum Subject<'a> {
    /// A volume.
    Volume(&'a Volume),
    /// What hosts can discover, and by which address of this node the host asks.
    Discovery(&'a Directory, IpAddr),
}

/// What a controller knows.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// SN: at most 20 printable ASCII characters; the same for all controllers of a subsystem.
    pub serial: &'a str,
    /// FR: at most 8 printable ASCII characters.
    pub firmware: &'a str,
    /// SUBNQN.
    pub subsystem: &'a str,
    /// What lies behind it.
    pub subject: Subject<'a>,
}
