//! Looking after a volume: its bitmap, how fast rebuilds go, and whether its replicas are
//! identical.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How closely replicas remember, across a crash, where they may differ from each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum VolumeBitmap {
    /// Not at all: after a crash of a replica all of it is copied.
    None,
    /// By regions, in the intent log of each replica.
    #[default]
    Internal,
    /// The same, in a slot of its own for each of several primaries at once.
    Clustered,
}

/// How fast rebuilds, and a verify, may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", tag = "limit")]
pub enum RebuildRate {
    /// As fast as the requests of clients permit.
    #[default]
    None,
    /// At most so fast, for each rebuilding replica.
    Rate {
        /// The limit in bytes per second; not zero.
        bytes_per_second: u64,
    },
    /// Not at all, until that is changed.
    Paused,
}

/// Begins or ends a verify.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct VerifyRequest {
    /// Rewrite what is wrong. Of the copies that match their checksums, what most hold goes to all.
    /// Where no content has the most, or copies differ and no checksum of them is known, nothing
    /// is rewritten without a `source`.
    pub repair: bool,
    /// Only with `repair`: the replica whose content counts where checksums do not decide, by its
    /// identity, the first digits of it, or `NODE:DISK`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// End a verify that runs, instead of beginning one.
    pub stop: bool,
}

/// The state of a verify.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum VerifyState {
    /// It is still running.
    Running,
    /// It has been through the whole volume.
    Done,
    /// It was ended before.
    Stopped,
}

/// The last verify of the volume: by its primary, or as the coordinator has kept it since that
/// ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Verify {
    /// Whether it is still running.
    pub state: VerifyState,
    /// Whether it rewrites what differs.
    pub repair: bool,
    /// Bytes of the volume that it has been through.
    pub checked: u64,
    /// Bytes in all.
    pub total: u64,
    /// Of the checked bytes, those that had only one in-sync replica: nothing to compare with.
    pub alone: u64,
    /// Bytes that differed between in-sync replicas.
    pub different: u64,
    /// Other bytes that contradicted their checksum on an in-sync replica.
    #[serde(default)]
    pub damaged: u64,
    /// Other bytes that the disk of an in-sync replica could not read.
    pub unreadable: u64,
    /// Of the last two, bytes that no in-sync replica has whole.
    #[serde(default)]
    pub lost: u64,
    /// Of the bytes that differed, those in which checksums do not decide which content is right,
    /// and no source was named that holds any.
    #[serde(default)]
    pub undecided: u64,
    /// Of the bytes that differed, those in which the named source held something else than what
    /// counts: it has no checksum there and another replica matches its own, or more replicas
    /// agree.
    #[serde(default)]
    pub overruled: u64,
    /// Of all these, bytes that were rewritten on all replicas.
    pub repaired: u64,
    /// What each replica had wrong; those that had nothing wrong are left out.
    #[serde(default)]
    pub replicas: Vec<WrongReplica>,
    /// The replicas that were compared with others, and have been in-sync all the time since;
    /// `null` from software that does not say.
    #[serde(default)]
    pub covered: Option<Vec<CoveredReplica>>,
    /// Those that were alone in-sync in their mirrors, and have been in-sync all the time since:
    /// they were read and matched with their checksums, and compared with nothing.
    #[serde(default)]
    pub read: Vec<CoveredReplica>,
    /// The identities of the volume's other replicas: they were added, or rebuilt, since. Nothing
    /// is known of them by this verify.
    #[serde(default)]
    pub not_covered: Vec<String>,
    /// The first ranges in which something was wrong, at most 64; once the volume was detached, at
    /// most 8.
    pub ranges: Vec<WrongRange>,
    /// How long it has taken, in whole seconds.
    pub seconds: u64,
    /// When it began, in seconds since 1970; `null` from software that does not say.
    #[serde(default)]
    pub began: Option<u64>,
    /// When it ended, in seconds since 1970; `null` while it goes on.
    #[serde(default)]
    pub ended: Option<u64>,
}

/// A replica that a verify has compared with others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CoveredReplica {
    /// Its identity.
    pub id: String,
    /// Bytes of it that were compared.
    pub bytes: u64,
    /// The generation of the view in which it had become in-sync.
    pub since: u64,
}

/// The blocks that one replica had wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WrongReplica {
    /// Its identity.
    pub id: String,
    /// Bytes that were something else than on those that count as right, or of which nobody knows
    /// what is.
    pub different: u64,
    /// Bytes that contradicted their checksum.
    pub damaged: u64,
    /// Bytes that its disk could not read.
    pub unreadable: u64,
    /// Of all these, bytes that were rewritten.
    #[serde(default)]
    pub repaired: u64,
}

/// What a verify has found wrong of an in-sync replica, where not all was repaired. A later verify
/// that has been through everything ends it, and so does a rebuild of the replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FoundWrong {
    /// When the verify found it, in seconds since 1970.
    pub at: u64,
    /// Bytes that were something else than on those that count as right, or of which nobody knows
    /// what is.
    pub different: u64,
    /// Bytes that contradicted their checksum.
    pub damaged: u64,
    /// Bytes that its disk could not read.
    pub unreadable: u64,
    /// Of all these, bytes that were rewritten.
    pub repaired: u64,
}

/// A range of blocks of a volume that some in-sync replicas had wrong, all in the same way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WrongRange {
    /// First byte.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
    /// Replicas with something else than those that count as right, by their identities; all that
    /// hold anything if it is undecided.
    #[serde(default)]
    pub different: Vec<String>,
    /// Replicas whose copy contradicted its checksum.
    #[serde(default)]
    pub damaged: Vec<String>,
    /// Replicas whose disk could not read it.
    #[serde(default)]
    pub unreadable: Vec<String>,
    /// Whether no in-sync replica has it whole.
    #[serde(default)]
    pub lost: bool,
    /// Whether checksums do not decide which content is right, and no source was named that holds
    /// any.
    #[serde(default)]
    pub undecided: bool,
    /// Whether it was rewritten on all replicas.
    #[serde(default)]
    pub repaired: bool,
}
