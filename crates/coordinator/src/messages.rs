//! Requests to a coordinator, and its answers.

use serde::{Deserialize, Serialize};

use crate::names;
use crate::removed::RemovedNode;
use crate::wanted::{Shown, Wish};
use crate::{LostCopy, Maker, NodeLiveness, PlacedReplica, Registration, StoredVolume, ViewText};

/// Why a coordinator did not do it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// No answer, or that its store failed: whether a change was made is unknown.
    #[error("{0}")]
    Unreachable(String),
    /// The answer was no: nothing was changed.
    #[error("{0}")]
    Refused(String),
}

/// A request to the coordinator. Its name and its fields are JSON between nodes.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// Make a node a member, or renew its name and addresses: by a start of its daemon that becomes
    /// the node's present one. Answer: `Registered`, `NameInUse`, `ClusterFull`, `Waits`, `Copy`,
    /// `Superseded`.
    Register(Registration),
    /// The node is alive. Answer: `Heard`.
    Heartbeat {
        /// The node's identity.
        node: String,
    },
    /// A start of a node's daemon ends, and will say nothing more. Answer: `Done`.
    Goodbye {
        /// The node.
        node: String,
        /// The start's incarnation.
        incarnation: u64,
    },
    /// Give the cluster another name. Answer: `Done`, `ClusterNamed`.
    Rename {
        /// The new name.
        #[serde(deserialize_with = "names::read")]
        name: String,
        /// The name that it has: with another one it is not done. `None`: older software asks.
        #[serde(default)]
        replaces: Option<String>,
    },
    /// Strike a node off that no volume uses, for good. Answer: `Done`, `NodeInUse`,
    /// `NotRegistered` if it never was a member.
    RemoveNode {
        /// Its identity.
        node: String,
        /// The incarnation of its daemon that was seen: one that has started since is kept. `None`:
        /// older software asks.
        #[serde(default)]
        incarnation: Option<u64>,
    },
    /// Answer: `RemovedNodes`.
    RemovedNodes,
    /// Who is a member and who was removed, as of one moment. Answer: `Membership`.
    Membership,
    /// Answer: `Nodes`.
    Nodes,
    /// Answer: `Volumes`.
    Volumes,
    /// Read a volume by its name or identity. Answer: `Volume`, `NoVolume`.
    Read {
        /// Name or identity.
        volume: String,
    },
    /// A volume is about to be made: its replicas are, before it is itself. Answer: `Done`,
    /// `NoVolume` if it was given up already.
    Draft {
        /// The node that makes it.
        node: String,
        /// The incarnation of its daemon. When that ends, the draft is given up.
        incarnation: u64,
        /// The volume's identity.
        volume: String,
    },
    /// Make a volume of a draft. Answer: `Done`, `NameInUse`, `NoVolume` if the draft was given up.
    Create(Box<StoredVolume>),
    /// Give up a draft: its replicas may be deleted. A volume stays. Answer: `Done`.
    GiveUp {
        /// The volume's identity.
        volume: String,
    },
    /// Commit a view if its parent is the newest. Answer: `Done`, `Newest`, `NoVolume`,
    /// `NotExpired`, `GivenUp`.
    Swap {
        /// Who asks.
        node: String,
        /// The view.
        view: ViewText,
        /// Its parent: another view may have the same number, if the store is older than what the
        /// requester has learned. `None`: older software asks, and the number decides alone.
        #[serde(default)]
        replaces: Option<ViewText>,
        /// Whether a primary that it adds only has the replicas adopt it, and is not for use.
        #[serde(default)]
        in_passing: bool,
        /// Where the volume is meant to be attached after that. `None`: older software asks, which
        /// does not say.
        #[serde(default)]
        wish: Option<Wish>,
    },
    /// Note how a volume is meant to be shown on a node that has it attached or is meant to attach
    /// it again, or that it is not meant to be attached there any more. Answer: `Done`, `Changed`,
    /// `NoVolume`, `NotRegistered` if there is no such node.
    Want {
        /// The volume's identity.
        volume: String,
        /// The node's: a member.
        #[serde(deserialize_with = "names::read_identity")]
        node: String,
        /// How; `None`: it is not meant to be attached there.
        shown: Option<Shown>,
        /// The revision of the record that this was decided upon: with another one it is not done.
        /// `None`: older software asks, and it is done in any case.
        #[serde(default)]
        revision: Option<u64>,
    },
    /// A replica is about to be made, to join a volume. Answer: `Done`, `Changed`, `NoVolume`,
    /// `PlacedAlready`.
    Place {
        /// The volume's identity.
        volume: String,
        /// The replica, with its maker.
        replica: PlacedReplica,
        /// Whether it may be on the same disk as another one of its mirror.
        same_disk: bool,
        /// Whether it is refused while another one is being made for the same mirror.
        #[serde(default)]
        alone: bool,
        /// The revision of the record that this was decided upon: with another one it is not done.
        /// `None`: older software asks, and it is done in any case.
        #[serde(default)]
        revision: Option<u64>,
    },
    /// Note that a replica was taken out of its volume, or has not come to join it. One that the
    /// newest view holds stays. Answer: `Done`, `NoVolume`.
    Forget {
        /// The volume's identity.
        volume: String,
        /// The replica.
        replica: String,
    },
    /// Keep what a volume has lost with removed nodes in the place of what its record says of that.
    /// Answer: `Done`, `Changed`, `NoVolume`.
    Lost {
        /// The volume's identity.
        volume: String,
        /// All copies that it lacks for that. Of each mirror at most as many as it may have.
        lost: Vec<LostCopy>,
        /// The revision of the record that this was decided upon: with another one it is not done.
        revision: Option<u64>,
    },
    /// Keep the verdict of a volume's verify in the place of the one before. Answer: `Done`,
    /// `Changed`, `NoVolume`.
    Verified {
        /// The volume's identity.
        volume: String,
        /// The verdict: at most 512 KiB as text.
        #[serde(deserialize_with = "names::read_verdict")]
        verdict: serde_json::Value,
        /// The revision of the record that this was decided upon: with another one it is not done.
        /// `None`: older software asks, and it is done in any case.
        #[serde(default)]
        revision: Option<u64>,
    },
    /// Stop a volume that is attached nowhere, or let it be used again. Answer: `Done`, `Changed`,
    /// `Newest` if it is attached, `NoVolume`.
    Stop {
        /// The volume's identity.
        volume: String,
        /// True to stop it, false to let it be used again.
        stopped: bool,
        /// The revision of the record that this was decided upon: with another one it is not done.
        /// `None`: older software asks, and it is done in any case.
        #[serde(default)]
        revision: Option<u64>,
    },
    /// Take a volume over that was put together from its disks. Answer: `Done`, `NameInUse`,
    /// `Newest` if another view is known here than the one that was expected, or it is attached,
    /// `Changed`, `WasDeleted` if that is not what was expected, `NoVolume` if it was deleted since
    /// it was assembled so, `GivenUp` if one of its replicas is being deleted.
    Assemble {
        /// The volume, with the first view of a new epoch. Its revision is that of the record known
        /// here that it replaces.
        volume: Box<StoredVolume>,
        /// The generation known here that it replaces; `None`: the volume is not known here.
        replaces: Option<u64>,
        /// What it is to take the place of. `None`: older software asks, and the number has to do.
        #[serde(default)]
        stands: Option<Standing>,
        /// Who asks. It says that the volume is not attached there.
        node: String,
    },
    /// Delete a volume that is not attached. Answer: `Done`, `Newest`, `Changed`, `NoVolume`.
    Delete {
        /// Who asks. It says that the volume is not attached there.
        node: String,
        /// The volume's identity.
        volume: String,
        /// Its generation; with another one it is not deleted.
        generation: u64,
        /// The view of that generation. `None`: older software asks, and the number has to do.
        #[serde(default)]
        view: Option<ViewText>,
        /// The revision of the record that this was decided upon: with another one it is not done.
        /// `None`: older software asks, and it is done in any case.
        #[serde(default)]
        revision: Option<u64>,
        /// Also if it was attached on a node that has died since: nobody knows whether that node
        /// still serves it.
        #[serde(default)]
        force: bool,
    },
    /// Give a volume another name that is attached nowhere, and is not meant to be. Answer: `Done`,
    /// `NameInUse`, `UsedOn`, `Changed`, `NoVolume`.
    RenameVolume {
        /// The volume's identity.
        volume: String,
        /// The new name.
        #[serde(deserialize_with = "names::read")]
        name: String,
        /// The revision of the record that this was decided upon: with another one it is not done.
        /// `None`: older software asks, and it is done in any case.
        #[serde(default)]
        revision: Option<u64>,
    },
    /// What is to become of replicas that a node found on its disks. Answer: `Fates`.
    Fates(Vec<FoundReplica>),
    /// A replica is about to be deleted on its disk. Answer: `Done`: no volume has it, and none
    /// takes it up until that is `Discarded` or this incarnation of the node's daemon has ended;
    /// else `Fates` with what is to become of it: also `Unknown`, if its disk knows more of it than
    /// the coordinator.
    Discard {
        /// The node that deletes it, with the incarnation of its daemon.
        by: Maker,
        /// The replica.
        replica: FoundReplica,
        /// The newest view on its disk. `None`: older software asks, which does not say. It deletes
        /// nothing.
        #[serde(default)]
        view: Option<ViewText>,
    },
    /// A replica was deleted, or could not be. Answer: `Done`.
    Discarded(FoundReplica),
}

/// What a coordinator has of a volume that is put together from its disks.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// The volume, with this view: another one may have the same number, if the store is older than
    /// what the requester has learned.
    Volume(ViewText),
    /// That it was deleted, when this was its view.
    Deleted(ViewText),
    /// The coordinator knows nothing of the volume.
    Nothing,
}

/// A replica that a node found on a disk.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FoundReplica {
    /// The volume's identity.
    pub volume: String,
    /// The replica's.
    pub replica: String,
}

/// What a node is to do with a replica that it found on a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fate {
    /// Its volume has it, or is about to be made.
    Belongs,
    /// Its volume has it and is stopped: the replica is kept closed.
    Stopped,
    /// Its volume was deleted, or it was taken out: its space may be given back.
    Deleted,
    /// It was given up before it or its volume was made: its space may be given back if it has
    /// never been used. One that was used shows that this coordinator was restored from a backup.
    NeverMade,
    /// Nothing is known of it, or less than its disk says: it is left alone.
    Unknown,
}

/// An answer of the coordinator.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// It is done, durably.
    Done,
    /// The node is a member.
    Registered {
        /// The coordinator's identity.
        coordinator: String,
        /// The cluster's name.
        cluster: String,
    },
    /// The coordinator has received the heartbeat.
    Heard {
        /// Counts the changes of nodes and volumes since the coordinator's start.
        revision: u64,
        /// The cluster's name.
        #[serde(default)]
        cluster: Option<String>,
        /// Where a copy of the node spoke within the last minute.
        #[serde(default)]
        other: Option<String>,
    },
    /// The start is not admitted yet: the one before it may live.
    Waits {
        /// In so many seconds it is admitted, if the one before sends nothing meanwhile.
        seconds: u64,
    },
    /// The start is not admitted: the node's present one lives, so one of the two has a copy of the
    /// other's state directory.
    Copy {
        /// The address that the present start connected from.
        at: String,
    },
    /// A later start has taken the place of this one, for good.
    Superseded {
        /// The address that the later start connected from.
        at: String,
    },
    /// Nothing was done: this is not the present start of its node, or the request names another
    /// node as its sender than the connection does. It has to register.
    NotRegistered,
    /// The node is not made a member: there are as many as a cluster may have.
    ClusterFull {
        /// The largest number of nodes in a cluster.
        most: usize,
    },
    /// The node that asks, or one that the request names, was removed from the cluster.
    NodeRemoved {
        /// The name of the node and the time of its removal, as a sentence.
        why: String,
    },
    /// The node is not removed: something is there still.
    NodeInUse {
        /// What names the node still, as a sentence.
        why: String,
    },
    /// Nodes that were removed, the newest last.
    RemovedNodes(Vec<RemovedNode>),
    /// Who is a member and who was removed.
    Membership {
        /// Which state of the membership that is: a later one has a larger number.
        epoch: u64,
        /// All members.
        nodes: Vec<NodeLiveness>,
        /// Nodes that were removed, the newest last.
        removed: Vec<RemovedNode>,
    },
    /// All nodes.
    Nodes(Vec<NodeLiveness>),
    /// All volumes, by name.
    Volumes(Vec<StoredVolume>),
    /// A volume.
    Volume(Box<StoredVolume>),
    /// The newest view: the swap was refused.
    Newest(ViewText),
    /// The volume's record is not the one that the request was decided upon: how the volume is.
    Changed(Box<StoredVolume>),
    /// The volume was deleted, and this was its last view: to bring it back the request has to name
    /// that.
    WasDeleted(ViewText),
    /// The cluster is not called as the request was told.
    ClusterNamed {
        /// Its name.
        name: String,
    },
    /// The volume is attached on these nodes, or meant to be.
    UsedOn {
        /// Their identities.
        nodes: Vec<String>,
    },
    /// There is no such volume.
    NoVolume,
    /// The name belongs to another node or volume.
    NameInUse,
    /// The view drops a primary on another node that is alive, or not yet known to be dead.
    NotExpired {
        /// That node.
        node: String,
    },
    /// The view adds a replica that was given up, or is being deleted.
    GivenUp,
    /// The volume has a replica of this mirror on this disk already, or one is being made for this
    /// mirror and the new one was to be the only one: its identity.
    PlacedAlready {
        /// That replica.
        replica: String,
    },
    /// In the order of the question.
    Fates(Vec<Fate>),
}
