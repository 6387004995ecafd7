//! The types through which a driver and a primary talk.

use core::time::Duration;

use super::scrub::verify::VerifyStatus;
use crate::ids::*;
use crate::message::{Message, RebuildProgress};
use crate::operation::{Operation, Reply, RequestError};
use crate::settings::Settings;
use crate::time::Instant;
use crate::view::{Cause, Change, Newcomer, ReplicaState, View, ViewError};

/// What happens to a primary.
#[derive(Debug)]
pub enum PrimaryEvent<P> {
    /// Begin: read the view, reach the replicas, become primary.
    Start,
    /// A client asks for something. Answered by exactly one [`PrimaryEffect::Reply`].
    Request {
        /// Numbered by the driver; not used again before the reply.
        request: RequestId,
        /// Who asks, by the name under which it may reserve the volume.
        host: HostId,
        /// Over which path it asks.
        path: PathNumber,
        /// What is asked.
        operation: Operation<P>,
    },
    /// Whoever asked gives a request up. If no replica was sent anything of it but reads to
    /// compare, it is answered by [`RequestError::Cancelled`] now and has no effect. Otherwise it
    /// runs, and has its own answer. One that is answered is of no interest.
    Cancel {
        /// As it was given to [`PrimaryEvent::Request`].
        request: RequestId,
    },
    /// Tell by one [`PrimaryEffect::Drained`] when nothing is under way any more that was asked
    /// over this path: not only answered, but carried out by every member, or by none. Whatever is
    /// asked over it meanwhile counts too. If the primary ends before, nothing is told: what it has
    /// sent ends when the members adopt the next view.
    Drain {
        /// As requests name it in [`PrimaryEvent::Request`].
        path: PathNumber,
    },
    /// The connection asked for by [`PrimaryEffect::Connect`] is there.
    LinkUp {
        /// To which replica.
        replica: ReplicaId,
        /// Names the connection from now on; never used again.
        link: LinkId,
    },
    /// A connection ended, or an attempt to make one failed.
    LinkDown {
        /// To which replica.
        replica: ReplicaId,
        /// As `LinkUp` named it; `None` if it never came to be.
        link: Option<LinkId>,
    },
    /// A replica says something.
    Message {
        /// Over which link.
        link: LinkId,
        /// What is said; fields from a peer may hold anything.
        message: Message,
        /// The data that belong to it; `None` if its kind has none.
        payload: Option<P>,
    },
    /// The coordinator answered, or the driver gave up waiting for it.
    Coordinator {
        /// Which call.
        call: CoordinatorCall,
        /// The answer.
        answer: CoordinatorAnswer,
    },
    /// An operator wants something. Answered by exactly one [`PrimaryEffect::CommandDone`].
    Command {
        /// Numbered by the driver.
        id: CommandId,
        /// What is wanted.
        command: Command,
    },
    /// The moment named by [`super::Primary::next_wakeup`] has come.
    Tick,
}

/// What the coordinator answers.
#[derive(Debug, Clone)]
pub enum CoordinatorAnswer {
    /// To a read, and to a swap that was refused: the newest view.
    Newest(Box<View>),
    /// To a swap: committed.
    Committed,
    /// To a swap: refused for good, because a replica that it adds has been given up.
    GivenUp,
    /// The volume is not known to the coordinator (it was deleted).
    NoVolume,
    /// No answer; whether a swap was committed is unknown (V1).
    Unknown,
}

/// What an operator can tell an attached volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Take a replica out of use; it waits for a command to return.
    Fail(ReplicaId),
    /// The same of one whose disk can't be written any more, as its next write would.
    FailDisk(ReplicaId),
    /// Take a replica that is out of use out of the volume.
    Remove(ReplicaId),
    /// Bring a replica back that is out of use.
    ReAdd(ReplicaId),
    /// Change something of the volume as a whole.
    Change(Change),
    /// Compare all in-sync replicas with each other, and rewrite what differs if that is wanted.
    /// Done when it has begun.
    Verify {
        /// Whether to rewrite what differs.
        repair: bool,
        /// Whose content counts where checksums do not decide. `None`: nobody's, such blocks stay
        /// as they are.
        source: Option<ReplicaId>,
    },
    /// End a verify.
    StopVerify,
    /// Add a replica, as a copy more, a spare, or instead of another one.
    Add(Newcomer),
    /// Take a replica out of the volume, whatever its state.
    Retire(ReplicaId),
    /// Make the volume larger: so many bytes. The replicas have made room.
    Grow(u64),
    /// End: finish what is under way, flush, give up the volume.
    Detach,
}

/// What a primary wants done. Effects are carried out in their order.
#[derive(Debug)]
pub enum PrimaryEffect<P> {
    /// Answer a client.
    Reply {
        /// Which request.
        request: RequestId,
        /// The answer.
        result: Result<Reply<P>, RequestError>,
    },
    /// Nothing that was asked over this path is under way any more: see [`PrimaryEvent::Drain`].
    Drained {
        /// As [`PrimaryEvent::Drain`] named it.
        path: PathNumber,
    },
    /// Say something to a replica. Messages on one link arrive in their order or not at all.
    Send {
        /// Over which link.
        link: LinkId,
        /// What is said.
        message: Message,
        /// The data that belong to it; `None` if its kind has none.
        payload: Option<P>,
    },
    /// Make a connection to a replica; answered by exactly one `LinkUp`, or a `LinkDown` without
    /// a link.
    Connect {
        /// The replica.
        replica: ReplicaId,
        /// The node that has its disk, by the newest view.
        node: NodeId,
    },
    /// Close a connection. Nothing more is heard of it, not even `LinkDown`.
    Disconnect {
        /// As [`PrimaryEvent::LinkUp`] named it.
        link: LinkId,
    },
    /// Ask the coordinator for the newest view of the volume.
    ReadView {
        /// Names the answer.
        call: CoordinatorCall,
    },
    /// Ask the coordinator to commit this view, if its parent is still the newest.
    SwapView {
        /// Names the answer.
        call: CoordinatorCall,
        /// The one to commit: its generation follows that of `replaces`.
        view: Box<View>,
        /// Its parent. A coordinator whose database is older may have given its number to another
        /// view since.
        replaces: Box<View>,
    },
    /// An operator's command has ended.
    CommandDone {
        /// As it was given to [`PrimaryEvent::Command`].
        id: CommandId,
        /// Success, or why not.
        result: Result<(), CommandError>,
    },
    /// The primary has ended for good; every request has been answered. The driver drops it.
    Ended {
        /// What ended it.
        reason: EndReason,
    },
    /// Something that an administrator wants to read in the log.
    Note(Note),
}

/// Why an operator's command failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandError {
    /// The view does not permit it.
    View(ViewError),
    /// The coordinator has not answered for the time that it is given. The change may have been
    /// committed all the same.
    NoCoordinator,
    /// The coordinator has given up the replica that was to be added.
    GivenUp,
    /// The change is made, and what was permitted before it may still be under way: some primary or
    /// replica has not answered for the time that it is given.
    Unfinished,
    /// The primary ended before.
    Ended,
}

/// Why a primary ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReason {
    /// It was told to; the view is clean.
    Detached,
    /// It was told to while not all replicas answered; the volume is marked as in use and will be
    /// resynchronised at the next attach.
    DetachedUnclean,
    /// Another primary took over.
    Fenced,
    /// Of a shared volume: the other primaries went on without this one, which no replica had
    /// answered for several leases. They may have ended meanwhile.
    Evicted,
    /// It could not start: the coordinator did not answer.
    NoCoordinator,
    /// It could not start: a mirror has no in-sync replica that answers.
    NoData,
    /// It could not start: of a mirror's in-sync replicas only this one answers, and its disk is a
    /// stale clone, which was put back.
    StaleClone(ReplicaId),
    /// The volume does not exist any more.
    NoVolume,
    /// It could not start: a replica has adopted a newer view than the coordinator knows. The
    /// coordinator was restored from an old backup.
    CoordinatorBehind,
    /// It could not start: the volume was put together from its disks, and this replica, which
    /// counted, has not adopted that in time. It may have gone on in the epoch before (V7).
    Unconfirmed(ReplicaId),
    /// It could not start: others run the volume, and it does not reach this in-sync replica as
    /// they do.
    NotReached(ReplicaId),
    /// It could not start: as many primaries run the volume as it has slots.
    TooManyPrimaries,
    /// It could not start: replicas go on answering an earlier primary of the same node.
    PredecessorAlive,
    /// See [`RequestError::LostWrites`].
    LostWrites,
}

/// Something to log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Note {
    /// The volume is ready for requests.
    Serving {
        /// The generation of the view by which it serves.
        view: Generation,
        /// The only primary of the view that this one's first view replaced. `None` if there was
        /// not exactly one. Nobody else has written since that one ended.
        follows: Option<PrimaryId>,
    },
    /// A replica left the view.
    Left(ReplicaId, Cause),
    /// A replica does not belong to the volume any more: its space may be given back.
    Removed(ReplicaId, NodeId),
    /// A spare stands in for another replica.
    StandsIn(ReplicaId, ReplicaId),
    /// A replica began to rebuild.
    Admitted(ReplicaId),
    /// A replica is in-sync again.
    Completed {
        /// The replica that has become in-sync.
        replica: ReplicaId,
        /// Bytes that its source has sent for that, as far as it has told.
        copied: u64,
    },
    /// The primary on this node was evicted: no replica had answered it for several leases.
    Evicted(NodeId),
    /// The volume has become larger: so many bytes.
    Grown(u64),
    /// The coordinator told of a view of this generation that can't be one of the volume. It counts
    /// as silent until it tells of another one.
    ViewRefused(Generation, Mismatch),
    /// Requests wait: see [`Waiting`].
    Suspended(Waiting),
    /// Requests go on.
    Resumed,
    /// A replica was reached that holds data of another history; it is left alone.
    OtherHistory(ReplicaId),
    /// A replica is too slow, and leaves if the others can go on without it.
    Lagging {
        /// The slow one.
        replica: ReplicaId,
        /// The median of its writes, at most twice too high.
        took: Duration,
        /// That of the fastest other one.
        others: Duration,
    },
    /// A replica has returned in vain time after time, and stays away for a while.
    StaysAway {
        /// The one that is not connected to meanwhile.
        replica: ReplicaId,
        /// How often in a row it has left soon after it was taken in.
        times: u32,
        /// How long it stays away.
        pause: Duration,
    },
    /// A replica could not read this range of the volume: it was read from another one, and
    /// rewritten.
    Rewritten {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u64,
    },
    /// A verify has been through the whole volume.
    Verified {
        /// Bytes that differed between replicas.
        different: u64,
        /// Other bytes that contradicted their checksum on some replica.
        damaged: u64,
        /// Other bytes that some replica's disk could not read.
        unreadable: u64,
        /// Bytes that only one in-sync replica held: nothing to compare with.
        alone: u64,
    },
}

/// Why a view can't be one of the volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mismatch {
    /// It is of another volume.
    OtherVolume,
    /// It contradicts itself.
    Invalid,
    /// Its mirrors, blocks or stripes are not those of the volume, it is smaller, or a replica has
    /// another mirror.
    OtherLayout,
}

/// What requests wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// The attach to finish.
    Start,
    /// An in-sync replica of this mirror that answers.
    Replica(usize),
    /// The coordinator, to commit a view.
    Coordinator,
}

/// For what requests wait at present, and for how long they have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PresentWait {
    /// What is missing.
    pub why: Waiting,
    /// Since when for that. Requests may have waited for something else before.
    pub since: Instant,
    /// Since when it counts towards the volume's limit, whatever they waited for; while requests
    /// fail, since when they do.
    pub counted_from: Instant,
    /// The limit is over: requests fail until the obstacle is gone.
    pub is_over: bool,
}

/// A primary's state, for status displays.
#[derive(Debug, Clone)]
pub struct PrimaryStatus {
    /// The view by which it works; `None` before the first one is known.
    pub view: Option<View>,
    /// Whether it accepts requests.
    pub serving: bool,
    /// What requests wait for, and since when.
    pub waiting: Option<PresentWait>,
    /// Whether a replica says that it adopts a newer view, made by another primary, which the
    /// coordinator has not told yet. But for a shared volume, that one excludes this primary.
    pub is_said_to_be_excluded: bool,
    /// Each replica of the view, in its order.
    pub replicas: Vec<PeerStatus>,
    /// Requests of clients that are not answered.
    pub requests: usize,
    /// Whether writes were acknowledged that no flush covers yet.
    pub unflushed: bool,
    /// The last verify, under way or over.
    pub verify: Option<VerifyStatus>,
    /// Ranges that a replica could not read and that were rewritten there.
    pub rewritten: u64,
}

/// One replica as its primary sees it.
#[derive(Debug, Clone, Copy)]
pub struct PeerStatus {
    /// Its identity.
    pub replica: ReplicaId,
    /// As what it leaves its mirror and why, if that waits for the coordinator. Until then the view
    /// calls it what it was.
    pub leaving: Option<(ReplicaState, Cause)>,
    /// Whether a session is open with the incarnation of it that the view knows.
    pub connected: bool,
    /// It answers, and is not used: its node restarted, and it may lack acknowledged writes that
    /// another in-sync replica has, which does not answer (W5).
    pub may_be_out_of_sync: bool,
    /// Operations that it has not answered.
    pub outstanding: usize,
    /// Age of the oldest of them.
    pub oldest: Option<Duration>,
    /// After how long it is connected to again, if it is stale and has no session; zero: at the
    /// next tick.
    pub retry_in: Option<Duration>,
    /// How often in a row it has left soon after its return, if that is why it is not connected to
    /// before.
    pub left_again: Option<u32>,
    /// How far its rebuild is, if it is rebuilding.
    pub rebuild: Option<RebuildProgress>,
    /// Reads that it has failed since it is a member here: its disk could not read, or a checksum
    /// was wrong.
    pub failed_reads: u32,
}

/// What a primary is made of.
#[derive(Debug, Clone, Copy)]
pub struct PrimaryConfig {
    /// Who it is; the incarnation is drawn anew by the driver at each attach.
    pub id: PrimaryId,
    /// The volume.
    pub volume: VolumeId,
    /// Times and limits.
    pub settings: Settings,
    /// What is certain about earlier primaries of the same node.
    pub earlier: Earlier,
}

/// Which earlier primaries of the volume on the same node have certainly ended. One that may live,
/// perhaps on another machine with a copy of the node's state, is waited for until no replica has
/// answered it for its lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Earlier {
    /// All of them.
    Ended,
    /// This one; of others nothing is certain.
    OneEnded(Incarnation),
    /// Of none this is certain.
    MayLive,
}

impl Earlier {
    pub(super) const fn may_live(self, incarnation: Incarnation) -> bool {
        match self {
            Self::Ended => false,
            Self::OneEnded(ended) => ended.0 != incarnation.0,
            Self::MayLive => true,
        }
    }
}
