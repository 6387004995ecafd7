//! What a coordinator needs of whatever stores its state.
//!
//! A store holds values under [keys](Key). It reads them as they were at one moment, and it
//! [commits](Commit) writes under guards: all of them, if what the guards name is still as it was
//! read, else none. That is little enough for etcd: a guard of a key is a comparison of its
//! revision, a guard of a space is one comparison over the space's prefix, and a commit is one
//! transaction of at most [`MAX_OPERATIONS`].

use std::collections::BTreeMap;
use std::fmt;
use std::sync::RwLock;

/// Most guards, and most writes, of one commit: etcd takes 128 of each.
pub const MAX_OPERATIONS: usize = 128;
/// Most bytes that one commit writes: etcd takes 1.5 MiB in a request, and JSON makes four of
/// three.
pub const MAX_BYTES: usize = 1 << 20;

/// A kind of keys. Its values are JSON texts, if nothing else is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Space {
    /// What the cluster is: `id`, `name`, and `configured`, the name in the configuration. Plain
    /// texts. And `epoch`, which grows when a node is admitted or removed: a decimal number.
    Cluster,
    /// Members, by identity.
    Nodes,
    /// The present start of each node, by the node's identity.
    Starts,
    /// For how many milliseconds a node was silent, by its identity: decimal numbers.
    Silent,
    /// Nodes that were removed, by identity.
    Removed,
    /// Volumes, by identity.
    Volumes,
    /// The identity of a volume, by its name: plain texts.
    Names,
    /// The newest view of a volume, by its identity: the bytes that
    /// [`evenkeel_format::encode_view`] makes.
    Views,
    /// Volumes that are being made, by identity.
    Drafts,
    /// When a draft was given up, in seconds since 1970, by the volume's identity: decimal numbers.
    GivenUp,
    /// The last view of a volume that was deleted, by its identity: bytes as of `Views`.
    Deleted,
    /// Who is deleting a replica, by its identity.
    Discarded,
}

impl Space {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Cluster,
        Self::Nodes,
        Self::Starts,
        Self::Silent,
        Self::Removed,
        Self::Volumes,
        Self::Names,
        Self::Views,
        Self::Drafts,
        Self::GivenUp,
        Self::Deleted,
        Self::Discarded,
    ];

    /// The prefix of the keys of this space.
    #[must_use]
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Cluster => "cluster",
            Self::Nodes => "nodes",
            Self::Starts => "starts",
            Self::Silent => "silent",
            Self::Removed => "removed-nodes",
            Self::Volumes => "volumes",
            Self::Names => "names",
            Self::Views => "views",
            Self::Drafts => "drafts",
            Self::GivenUp => "given-up",
            Self::Deleted => "deleted-volumes",
            Self::Discarded => "discarded",
        }
    }

    /// Whether nodes are notified of changes in it. How long others are silent they ask for
    /// now and then.
    #[must_use]
    pub const fn is_reported(self) -> bool {
        !matches!(self, Self::Silent)
    }
}

/// Where a value is. As text: the space's prefix, a slash, the name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The space, which says what kind of value it is.
    pub space: Space,
    /// The name within the space.
    pub name: String,
}

impl Key {
    /// A key.
    #[must_use]
    pub fn new(space: Space, name: &str) -> Self {
        Self { space, name: name.to_owned() }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.space.prefix(), self.name)
    }
}

/// The keys of one read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Range {
    /// One key.
    Key(Key),
    /// All keys of a space.
    Space(Space),
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(key) => key.fmt(f),
            Self::Space(space) => write!(f, "{}/*", space.prefix()),
        }
    }
}

/// A value that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The value.
    pub value: Vec<u8>,
    /// A number that no other value of this key has had, above that of each earlier one; a store
    /// that compares values needs none.
    pub revision: u64,
}

/// The entries of a read, by their names within the space.
pub type Entries = BTreeMap<String, Entry>;

/// A condition of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Guard {
    /// This key has the value that was read, or still none.
    Key(Key, Option<Entry>),
    /// No key of this space has come or got another value since these were read. Some may have
    /// gone: etcd cannot tell that by one comparison.
    Space(Space, Entries),
}

impl Guard {
    /// The keys that the condition is about.
    #[must_use]
    pub fn range(&self) -> Range {
        match self {
            Self::Key(key, _) => Range::Key(key.clone()),
            Self::Space(space, _) => Range::Space(*space),
        }
    }
}

/// A change of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// The key to change.
    pub key: Key,
    /// The new value; `None` deletes the key.
    pub value: Option<Vec<u8>>,
}

/// Writes, and what must be so for them to happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// All of these must hold.
    pub guards: Vec<Guard>,
    /// All of these happen then.
    pub writes: Vec<Write>,
}

impl Commit {
    /// Whether nodes are to be notified of it: it changes what they are [told](Space::is_told) of.
    /// What a guard names, and is written again as it was, is no news.
    #[must_use]
    pub fn is_news(&self) -> bool {
        let is_as_it_was = |write: &Write| {
            self.guards.iter().any(|guard| match guard {
                Guard::Key(key, Some(was)) => {
                    *key == write.key && write.value.as_ref() == Some(&was.value)
                }
                _ => false,
            })
        };
        self.writes.iter().any(|write| write.key.space.is_reported() && !is_as_it_was(write))
    }
}

/// The outcome of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It happened, and is durable.
    Committed,
    /// It did not: this has changed.
    Conflict(Range),
}

/// Why a read or a commit failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// It cannot be used: why, and what to do.
    #[error("{0}")]
    Unusable(String),
    /// The commit may have happened, or may yet happen.
    #[error("{0}; whether the change was made is not known: ask again")]
    InDoubt(String),
    /// It does not know any more how things were at the moment of the snapshot.
    #[error("the snapshot is too old")]
    TooOld,
    /// It holds what this software cannot read. Whether what was asked for can be is not known.
    #[error(
        "the coordinator's database holds {0}: it was written by other software, or is damaged"
    )]
    Content(String),
    /// The request asks for what cannot be, however often it does.
    #[error("the coordinator refuses the request: {0}")]
    Refused(String),
    /// Others change the same all the time.
    #[error("{0} was changed by others each time; try again")]
    Busy(String),
}

impl StoreError {
    /// Whether it is a no, which stays so however often the same is asked.
    #[must_use]
    pub const fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused(_))
    }
}

/// A store. All calls may block.
pub trait Store {
    /// A moment at which things are read.
    type Snapshot;

    /// A moment not before this call.
    ///
    /// # Errors
    /// If the store cannot be used.
    fn snapshot(&self) -> Result<Self::Snapshot, StoreError>;

    /// Reads what was there at that moment.
    ///
    /// # Errors
    /// If the store cannot be used, or has forgotten that moment.
    fn read(&self, snapshot: &mut Self::Snapshot, range: &Range) -> Result<Entries, StoreError>;

    /// Commits, durably.
    ///
    /// # Errors
    /// If the store cannot be used, or it is not known what became of the commit.
    fn commit(&self, commit: &Commit) -> Result<Outcome, StoreError>;

    /// A number that changes with each change that [nodes are told of](Space::is_told).
    fn changes(&self) -> u64;

    /// Taken by one task alone that others overtake all the time, and else by each for a commit.
    /// `None`: others commit whom this would not stop.
    fn turns(&self) -> Option<&RwLock<()>> {
        None
    }
}
