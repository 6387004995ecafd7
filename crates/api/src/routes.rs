//! The paths of the API. Names in braces are filled in by [`fill`].
//!
//! | method | path | body | query | answer |
//! |---|---|---|---|---|
//! | GET | [`OPENAPI`] | | | the OpenAPI document |
//! | GET | [`METRICS`] | | | Prometheus text |
//! | GET | [`NODE`] | | | `NodeAnswer` |
//! | POST | [`JOIN`] | `JoinRequest` | | `NodeAnswer` |
//! | POST | [`INVITE`] | `InviteRequest` | | `InviteAnswer` |
//! | POST | [`CLIENT_CERTIFICATE`] | `ClientCertificateRequest` | | `ClientCertificateAnswer` |
//! | POST | [`RENAME_CLUSTER`] | `RenameClusterRequest` | | `DoneAnswer` |
//! | GET | [`NODES`] | | | `NodesAnswer` |
//! | DELETE | [`NODE_OF_CLUSTER`] | | `RemoveNodeQuery` | `RemoveNodeAnswer` |
//! | GET | [`DISKS`] | | `DisksQuery` | `DisksAnswer` |
//! | POST | [`DISKS`] | `AddDiskRequest` | | `DiskAnswer` |
//! | DELETE | [`DISK`] | | | `DoneAnswer` |
//! | GET | [`VOLUMES`] | | | `VolumesAnswer` |
//! | POST | [`VOLUMES`] | `CreateVolumeRequest` | | `CreateVolumeAnswer` |
//! | GET | [`VOLUME`] | | `VolumeQuery` | `VolumeAnswer` |
//! | DELETE | [`VOLUME`] | | `DeleteVolumeQuery` | `DeleteVolumeAnswer` |
//! | POST | [`RENAME_VOLUME`] | `RenameVolumeRequest` | | `ChangeAnswer` |
//! | POST | [`STOP`] | | | `StopAnswer` |
//! | POST | [`ASSEMBLE`] | `AssembleRequest` | | `AssembleAnswer` |
//! | POST | [`ATTACH`] | `AttachRequest` | | `AttachAnswer` |
//! | POST | [`DETACH`] | `DetachRequest` | | `DetachAnswer` |
//! | POST | [`EXPORT_NBD`] | `ExportNbdRequest` | | `ExportAnswer` |
//! | DELETE | [`EXPORT_NBD`] | | | `DoneAnswer` |
//! | POST | [`EXPORT_NVME`] | `ExportNvmeRequest` | | `ExportAnswer` |
//! | DELETE | [`EXPORT_NVME`] | | | `DoneAnswer` |
//! | DELETE | [`EXPORTS`] | | | `DoneAnswer` |
//! | PATCH | [`VOLUME`] | `ChangeVolumeRequest` | | `ChangeAnswer` |
//! | POST | [`VERIFY`] | `VerifyRequest` | | `VolumeAnswer` |
//! | POST | [`REPLICAS`] | `AddReplicaRequest` | | `ChangeAnswer` |
//! | POST | [`REPLICA`] | | | `VolumeAnswer` |
//! | GET | [`NODE_PLAN`] | | | `PlanAnswer` |
//! | GET | [`DISK_PLAN`] | | | `PlanAnswer` |
//! | GET | [`ADD_DISK_PLAN`] | | `AddDiskPlanQuery` | `PlanAnswer` |
//! | GET | [`DELETE_PLAN`] | | `DeleteVolumeQuery` | `PlanAnswer` |
//! | GET | [`STOP_PLAN`] | | | `PlanAnswer` |
//! | GET | [`DROP_PLAN`] | | | `PlanAnswer` |
//! | GET | [`CHANGE_PLAN`] | | `ChangePlanQuery` | `PlanAnswer` |
//! | GET | [`ASSEMBLE_PLAN`] | | `AssemblePlanQuery` | `AssemblePlanAnswer` |
//! | GET | [`REPLICA_PLAN`] | | `ReplicaPlanQuery` | `PlanAnswer` |

/// Describes all others.
pub const OPENAPI: &str = "/v1/openapi.json";
/// Metrics as Prometheus text.
pub const METRICS: &str = "/metrics";
/// This node.
pub const NODE: &str = "/v1/node";
/// Makes this node a member of a cluster.
pub const JOIN: &str = "/v1/node/join";
/// Makes a token by which nodes get their first certificate.
pub const INVITE: &str = "/v1/cluster/invite";
/// Signs the certificate of a client of exports.
pub const CLIENT_CERTIFICATE: &str = "/v1/cluster/client-certificate";
/// Gives the cluster another name.
pub const RENAME_CLUSTER: &str = "/v1/cluster/rename";
/// All nodes of the cluster.
pub const NODES: &str = "/v1/nodes";
/// One node of the cluster.
pub const NODE_OF_CLUSTER: &str = "/v1/nodes/{node}";
/// Disks of this node or of all nodes.
pub const DISKS: &str = "/v1/disks";
/// One disk of this node.
pub const DISK: &str = "/v1/disks/{disk}";
/// All volumes of the cluster.
pub const VOLUMES: &str = "/v1/volumes";
/// One volume.
pub const VOLUME: &str = "/v1/volumes/{volume}";
/// Gives a volume another name.
pub const RENAME_VOLUME: &str = "/v1/volumes/{volume}/rename";
/// Detaches a volume and closes its replicas.
pub const STOP: &str = "/v1/volumes/{volume}/stop";
/// Puts volumes together from their disks.
pub const ASSEMBLE: &str = "/v1/assemble";
/// Begins or ends a comparison of a volume's replicas.
pub const VERIFY: &str = "/v1/volumes/{volume}/verify";
/// Changes which hosts may read and write a volume.
pub const RESERVATION: &str = "/v1/volumes/{volume}/reservation";
/// Begins to use a volume on a node.
pub const ATTACH: &str = "/v1/volumes/{volume}/attach";
/// Ends the use of a volume.
pub const DETACH: &str = "/v1/volumes/{volume}/detach";
/// Serves an attached volume by NBD.
pub const EXPORT_NBD: &str = "/v1/volumes/{volume}/exports/nbd";
/// Serves an attached volume by NVMe over TCP.
pub const EXPORT_NVME: &str = "/v1/volumes/{volume}/exports/nvme";
/// All exports of a volume.
pub const EXPORTS: &str = "/v1/volumes/{volume}/exports";
/// The replicas of a volume.
pub const REPLICAS: &str = "/v1/volumes/{volume}/replicas";
/// Tells a replica something: `action` is `fail`, `remove`, `retire` or `re-add`; `replica` is its
/// identity, at least 4 digits from its start, or `NODE:DISK`.
pub const REPLICA: &str = "/v1/volumes/{volume}/replicas/{replica}/{action}";

/// What the removal of a node would take away.
pub const NODE_PLAN: &str = "/v1/nodes/{node}/plan";
/// What the removal of a disk of this node would take away.
pub const DISK_PLAN: &str = "/v1/disks/{disk}/plan";
/// What giving a disk to this node would take away. Its path is in the query.
pub const ADD_DISK_PLAN: &str = "/v1/plans/disk-add";
/// What deleting a volume would take away.
pub const DELETE_PLAN: &str = "/v1/volumes/{volume}/plans/delete";
/// What stopping a volume would take away.
pub const STOP_PLAN: &str = "/v1/volumes/{volume}/plans/stop";
/// What dropping all reservations of a volume would take away.
pub const DROP_PLAN: &str = "/v1/volumes/{volume}/plans/reservation-drop";
/// What another number of copies would take away.
pub const CHANGE_PLAN: &str = "/v1/volumes/{volume}/plans/change";
/// What putting volumes together would keep and discard.
pub const ASSEMBLE_PLAN: &str = "/v1/assemble/plan";
/// What a command about a replica would take away: `action` is `fail`, `remove`, `retire` or
/// `replace`.
pub const REPLICA_PLAN: &str = "/v1/volumes/{volume}/replicas/{replica}/{action}/plan";

/// Replaces the names in braces, in their order, by `values`, encoded for a URL.
#[must_use]
pub fn fill(path: &str, values: &[&str]) -> String {
    let mut values = values.iter();
    let parts = path.split('/').map(|part| match part.starts_with('{') {
        true => encode(values.next().copied().unwrap_or_default()),
        false => part.to_owned(),
    });
    parts.collect::<Vec<_>>().join("/")
}

/// A value in a path or a query, encoded for a URL.
#[must_use]
pub fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b':' => {
                encoded.push(char::from(byte));
            }
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests;
