//! Reachability marks: a batch of seeds has to reach every one of them, or it proves nothing.

macro_rules! marks {
    ($($name:ident => $text:literal,)*) => {
        /// Something interesting that a run may reach.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Mark {
            $(#[doc = $text] $name,)*
        }

        /// Every mark, with its description.
        pub const MARKS: &[(Mark, &str)] = &[$((Mark::$name, $text),)*];
    };
}

marks! {
    ViewChanged => "a view was committed while a primary served",
    TakenOver => "a primary took over from one that had not detached",
    RebuildCompleted => "a replica became in-sync again",
    Resent => "an operation was sent again",
    Refused => "a replica refused a message of another generation",
    Reattached => "the volume was attached again while the coordinator was asked for the primary before",
    Joined => "a primary joined others that ran the volume",
    JoinRefused => "a primary could not join the others",
    TwinServed => "a primary began to serve while another one of the same node lived elsewhere",
    TwinRefused => "a primary ended because another one of the same node was answered",
    LeftToOthers => "a primary detached while others went on",
    Evicted => "a primary that had died was taken out by another one",
    EvictedAlive => "a primary that lived, and was silent for long, was taken out by another one",
    Fenced => "a primary was replaced by another one while it lived",
    Suspended => "requests waited for a replica or the coordinator",
    Resumed => "requests that had waited went on",
    LeftDisconnected => "a replica left because its connection was lost",
    LeftLate => "a replica left because it was late",
    LeftLagging => "a replica left because it was slower than the others",
    StayedAway => "a replica that had returned in vain time after time stayed away for a while",
    LeftRestarted => "a replica left because it had restarted",
    LeftStaleClone => "a replica left because a stale clone of its disk was put back",
    LeftMedium => "a replica left because of an input/output error",
    LeftNoSpace => "a replica left because its disk was full",
    LeftOperator => "a replica left because an operator failed it",
    Removed => "a replica was taken out of the volume",
    ReAdded => "a replica was brought back by a command",
    Detached => "a volume was detached cleanly",
    DetachedUnclean => "a volume was detached with a replica that did not answer",
    LostWrites => "a primary ended because its last replica lost writes",
    UnflushedLost => "a machine crash took back writes of an in-sync replica",
    FlushLost => "what a failed flush had covered was gone when the process ended",
    FlushToldApart => "a failed flush was told apart from the save that it belonged to",
    TableFlushLost => "the device flush before a table's save failed, and lost what it covered",
    SectorTorn => "a power cut tore a sector, which can't be read",
    StaleCloneRefused => "an attach ended because only a stale clone of a disk was there",
    NewestPutBack => "then the newest disk was put back",
    TableTorn => "a power cut came while a table was saved again after a failure",
    TornSuperblock => "a replica started from one good superblock of two",
    SwapUnanswered => "a committed swap was not answered",
    SwapLost => "a swap was refused because the view had changed",
    PausedWoke => "a paused node woke after its lease",
    PausedReplaced => "a primary was asked to read as it woke, and had been replaced meanwhile",
    DiskFailed => "a replica reported a disk that failed in an adoption or a rebuild",
    FailedRequest => "a request was answered with an error",
    DirtyRead => "a read found what an unanswered write of an ended primary had left",
    SourceChanged => "a rebuilding replica connected to another source",
    FoundEmpty => "a rebuild was told that a long range begins with nothing",
    FoundData => "a rebuild was told that a long range begins with data",
    Verified => "a verify went through a whole volume",
    VerifiedShared => "so did one while several primaries ran it",
    ComparedAndWrote => "a compare-and-write found what it expected, and wrote",
    Miscompared => "a compare-and-write found something else",
    Cancelled => "a request was cancelled before any replica was sent it",
    Drained => "a primary said that nothing of a path was under way any more",
    Reserved => "a request was refused because another host had reserved the volume",
    Preempted => "a host took another one's registration away",
    ClusterLocked => "all primaries but one yielded a range",
    Rewritten => "a range that a replica could not read was rewritten there",
    Added => "a copy was added to a mirror",
    SpareGiven => "a mirror was given a spare",
    Replaced => "a replica took the place of another one, which left",
    StoodIn => "a spare began to stand in for a replica",
    SpareReturned => "a spare that had stood in was a spare again",
    RetiredInSync => "an in-sync replica left the volume",
    Grown => "the volume became larger",
    Relaid => "regions of the intent logs were given another size",
    FewerSlots => "intent logs were given fewer slots",
    OtherSlot => "a primary had another slot than the first",
    LeaseShortened => "the lease was shortened while several primaries ran the volume",
    LeaseLengthened => "the lease was lengthened",
    ProtocolChanged => "the protocol was changed",
    Stopped => "a volume was stopped",
    EarlierIncarnationsStable => "what was open from earlier incarnations of a replica that stays is stable",
    DamageRead => "a disk was asked for a block that it had damaged",
    DamageVerified => "a verify told of a block that a disk had damaged",
    DamageRepaired => "a block that a disk had damaged was written again",
    ForgottenRead => "a disk was asked for a block of which it had forgotten the checksum",
    ForgottenVouched => "a client read what another replica vouched for, after one had read garbage",
    ForgottenCopied => "a rebuild copied a block of which its source had forgotten the checksum, and gave it none",
    AssembledKnown => "a volume was put together that the coordinator knew",
    AssembledAnew => "a volume went on from its disks alone, in a new epoch",
    AssembledUnclean => "so did one whose last primary had not detached",
    AssembledIncomplete => "an assembly was refused because a replica was missing",
    AssembledForced => "an assembly was forced",
    AssembledApart => "an assembly was refused because replicas have diverged",
    AssembledKept => "somebody chose one of two branches that diverged",
    AssemblyUnconfirmed => "an attach ended because a replica did not confirm an assembly",
    AssembledLiving => "a volume went on in a new epoch while a primary of the old one lived",
    EpochAdopted => "a replica that was away came back from an older epoch",
    EpochRefused => "a replica refused a view of an epoch that does not go on from its own",
    DurableWrite => "a write was made durable without a flush",
    Survived => "part of the nodes stayed dead in the liveness phase",
}

/// Marks that one seed in a thousand reaches, and a batch therefore may not: each with a seed that
/// does.
///
/// What a replica that goes on has forgotten another one seldom knows: whoever rebuilds from it
/// gets no checksum of it either.
pub const RARE: [(Mark, u64); 1] = [(Mark::ForgottenVouched, 188_573_239_533_601)];

/// How often each mark was reached.
#[derive(Debug, Clone)]
pub struct Marks {
    counts: Vec<u64>,
}

impl Default for Marks {
    fn default() -> Self {
        Self { counts: vec![0; MARKS.len()] }
    }
}

impl Marks {
    /// It was reached.
    pub fn reach(&mut self, mark: Mark) {
        self.counts[mark as usize] += 1;
    }

    /// How often it was reached.
    #[must_use]
    pub fn count(&self, mark: Mark) -> u64 {
        self.counts[mark as usize]
    }

    /// Adds another run's.
    pub fn add(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
    }

    /// The descriptions of those that were never reached, but for [`RARE`] ones.
    #[must_use]
    pub fn missing(&self) -> Vec<&'static str> {
        let is_rare = |mark: Mark| RARE.iter().any(|(rare, _)| *rare == mark);
        let unreached = MARKS.iter().filter(|(mark, _)| self.count(*mark) == 0 && !is_rare(*mark));
        unreached.map(|(_, text)| *text).collect()
    }
}
