//! Volumes: how a node begins and ends to use one, and how it is served.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{NodeRef, VolumeStatus};

/// How a volume becomes usable on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AttachHow {
    /// A block device if this machine can make one, else an NBD socket.
    #[default]
    Auto,
    /// A block device; an error if this machine can not make one.
    Device,
    /// An NBD export on a unix socket.
    Nbd,
    /// Nothing: the primary runs; exports are made later.
    None,
}

/// Begins to use a volume on a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AttachRequest {
    /// The node, by name or identity; `null`: this one.
    pub node: Option<String>,
    /// The kind of device or export to make.
    pub how: AttachHow,
    /// Refuse writes.
    pub read_only: bool,
    /// As `mount`, by a command that names its mount by no token.
    #[serde(skip_serializing_if = "is_false")]
    pub for_mount: bool,
    /// It is attached, or given a block device, for the mount that is named by this token: 1 to 64
    /// printable ASCII characters, of which no other mount has the same. A detach `after_mount`, or
    /// of this `failed_mount`, takes away what was made for it, and no more. What was asked for
    /// before without a mount does not become one's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mount: Option<String>,
}

impl AttachRequest {
    /// The token of the mount that it is for; empty if the command names none.
    #[must_use]
    pub fn mount(&self) -> Option<String> {
        self.mount.clone().or_else(|| self.for_mount.then(String::new))
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes it so")]
const fn is_false(flag: &bool) -> bool {
    !*flag
}

/// Answer to an attach.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct AttachAnswer {
    /// Version of the API's JSON: 1.
    pub version: u32,
    /// The block device on that node.
    pub device: Option<String>,
    /// How the device is made: `ublk` or `loop` (over FUSE).
    pub device_kind: Option<String>,
    /// The NBD export, if one was made.
    pub export: Option<Export>,
    /// The volume's status after it.
    pub volume: VolumeStatus,
    /// What to know before one relies on it, a sentence each.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// Ends the use of a volume.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DetachRequest {
    /// The node, by name or identity; `null`: this one.
    pub node: Option<String>,
    /// It was unmounted on this node: take away only what was made for a mount. A volume that was
    /// attached before, or is exported, stays attached. Not with `node`.
    #[serde(skip_serializing_if = "is_false")]
    pub after_mount: bool,
    /// The mount on this node that was named by this token has failed: take away what was made for
    /// it, and nothing that another one has. Not with `node` or `after_mount`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_mount: Option<String>,
}

/// Answer to a detach.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct DetachAnswer {
    /// Version of the API's JSON: 1.
    pub version: u32,
    /// Whether every replica answered to the end. If not, the next attach resynchronises.
    pub clean: bool,
    /// Whether the volume was given up. If not, nothing uses it on that node any more, and the node
    /// still counts as the one that has it: no other one can attach it until it is detached once
    /// more.
    #[serde(default = "yes")]
    pub given_up: bool,
    /// Whether it stays attached, or is to be attached again by itself: the detach was one after a
    /// mount.
    #[serde(default)]
    pub attached: bool,
    /// The in-sync replicas that did not answer, as `NODE:DISK`, if it was not given up.
    #[serde(default)]
    pub silent: Vec<String>,
    /// What was done, in a sentence.
    pub message: String,
}

const fn yes() -> bool {
    true
}

/// Serves an attached volume by NBD, on the node where it is attached.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ExportNbdRequest {
    /// On the node's TCP address for NBD as well as on a unix socket.
    pub tcp: bool,
    /// Refuse writes.
    pub read_only: bool,
    /// Who may use it on TCP: DNS names of which a client's certificate has to have one. Needed on
    /// an address that other machines reach, if `nbd.insecure` does not permit all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<String>,
}

/// Serves an attached volume by NVMe over TCP, on the node where it is attached.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ExportNvmeRequest {
    /// NQNs of the hosts that may use it, at least one. Hosts that are connected and are not among
    /// them are disconnected.
    pub hosts: Vec<String>,
    /// Refuse writes.
    pub read_only: bool,
    /// Secrets of hosts among these, which have to prove who they are from now on. A host that has
    /// one and gets none here keeps it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<NvmeSecrets>,
    /// Make new secrets for the other hosts. The answer has them, and no later one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generate: Option<NvmeGenerate>,
}

/// The secrets by which a host and the controllers of an export prove who they are (DH-HMAC-CHAP).
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NvmeSecrets {
    /// The host's NQN.
    pub host: String,
    /// Proves the host, as in `DHHC-1:01:…:`.
    pub secret: String,
    /// Proves the controllers, if the host asks for that; another one than the host's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller_secret: Option<String>,
}

impl fmt::Debug for NvmeSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NvmeSecrets").field("host", &self.host).finish_non_exhaustive()
    }
}

/// Which secrets are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NvmeGenerate {
    /// One for the host.
    Host,
    /// One for the host, and one for the controllers.
    Both,
}

/// Answer to an export.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ExportAnswer {
    /// Version of the API's JSON: 1.
    pub version: u32,
    /// The export.
    pub export: Export,
    /// The secrets that were made for hosts of NVMe: they are told this once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nvme_secrets: Vec<NvmeSecrets>,
}

/// An export of a volume to clients.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Export {
    /// `nbd` or `nvme`.
    pub kind: String,
    /// The node that serves it.
    pub node: NodeRef,
    /// The unix socket on that node.
    pub socket: Option<String>,
    /// The TCP addresses.
    pub tcp: Vec<String>,
    /// Whether TLS is required on TCP.
    pub tls: bool,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Ready to use: an NBD URI each. None of an NVMe export.
    pub uris: Vec<String>,
    /// Clients connected at present: connections of NBD, hosts of NVMe.
    pub clients: usize,
    /// Who may use it on TCP, by the DNS names of their certificates; empty: all who are let in
    /// there.
    #[serde(default)]
    pub client_names: Vec<String>,
    /// What else there is to say of an NVMe export.
    #[serde(default)]
    pub nvme: Option<NvmeExport>,
}

/// A volume as a subsystem of NVMe over TCP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NvmeExport {
    /// The subsystem's NQN. It has the volume's identity, so that it stays when the volume is
    /// renamed or attached on another node.
    pub subsystem: String,
    /// NQNs of the hosts that may use it.
    pub hosts: Vec<String>,
    /// Those of them that have to prove who they are.
    #[serde(default)]
    pub authenticated: Vec<NvmeAuthenticated>,
    /// The hosts that are connected, each connection of an admin queue for itself.
    pub connected: Vec<NvmeHost>,
}

/// A host that has to prove who it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NvmeAuthenticated {
    /// Its NQN.
    pub nqn: String,
    /// Whether the controllers prove who they are too, if it asks them.
    pub both_ways: bool,
}

/// A host that is connected to a subsystem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NvmeHost {
    /// The NQN by which it calls itself.
    pub nqn: String,
    /// The address that its admin queue connected from.
    pub address: String,
    /// The controller's identifier (CNTLID).
    pub controller: u16,
    /// Its queues for I/O that are connected.
    pub queues: usize,
}
