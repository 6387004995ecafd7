//! Volumes: those attached on this node, and what can be done with any.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use evenkeel_api::types::VolumeEvent;
use evenkeel_core::primary::{EndReason, Note, Waiting};
use evenkeel_core::settings::MAX_PAYLOAD;
use evenkeel_core::{PrimaryId, ReplicaId, View, VolumeId};
use evenkeel_engine::FrontendId;
use tokio::sync::watch;

use crate::clock::unix_seconds;
use crate::coordinator::{PlacedReplica, Shown, VolumeRecord, WantedNbd, WantedNvme};
use crate::disks::Unserved;
use crate::keyed_lock::{Held, KeyedLock, Recall};

pub mod attachment;
pub mod commands;
mod disk_errors;
pub(crate) mod failures;
mod found_wrong;
mod kept;
mod lookup;
pub(crate) mod messages;
mod node;
mod rate;
mod remembered;
pub mod replicas;
pub mod status;
mod verdict;

pub use attachment::lifecycle::{Over, Phase};
use attachment::lifecycle::{Purpose, Seen};
use attachment::{actor, leftovers, saving, start};
use commands::grow;
pub use node::Node;
use rate::Rate;
use remembered::Point;
use replicas::{make, sweep};
use status::risks;

/// Most events that are kept of one volume.
const MAX_EVENTS: usize = 64;

/// A block device of an attached volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Its stable name.
    pub path: PathBuf,
    /// How it is made.
    pub kind: String,
}

/// A volume attached on this node.
#[derive(Debug)]
pub struct Attached {
    /// Its identity.
    pub id: VolumeId,
    /// Its name, for life.
    name: String,
    /// What the coordinator stores of it.
    record: Mutex<Arc<VolumeRecord>>,
    /// Bytes.
    size: Arc<AtomicU64>,
    shown_size: AtomicU64,
    /// Logical block size.
    pub block_size: u32,
    /// Bytes that are best written at once.
    pub best_write: u32,
    /// This incarnation of its primary.
    pub primary: PrimaryId,
    /// What it is attached for.
    purpose: Purpose,
    /// When that began, on the core's clock.
    began: evenkeel_core::Instant,
    /// Since when its primary serves.
    served: OnceLock<evenkeel_core::Instant>,
    /// The view that its first one replaces, or an earlier one.
    replaces: Point,
    /// As its actor has published it.
    seen: watch::Sender<Seen>,
    events: Mutex<VecDeque<VolumeEvent>>,
    rates: Mutex<HashMap<ReplicaId, Rate>>,
    /// Replicas that were reached and turned out to have diverged.
    diverged: Mutex<BTreeSet<ReplicaId>>,
    /// Replicas that their nodes do not serve, as those nodes said last.
    unserved: Mutex<BTreeMap<ReplicaId, Unserved>>,
    /// When the verify ended whose verdict the coordinator keeps, on the core's clock.
    kept_verdict: Mutex<Option<evenkeel_core::Instant>>,
}

/// All volumes attached on this node.
#[derive(Debug, Default)]
pub struct Volumes {
    actors: Mutex<actor::Actors>,
    /// Requests that failed, also of volumes that are detached by now.
    failed: failures::Failed,
    /// Replicas of this node that are being made, given to the engine, made larger, closed or
    /// deleted.
    replicas: KeyedLock<ReplicaId>,
    /// What the state directory has of them.
    saves: saving::Saves,
    /// What is wrong with replicas that are served, and why others are not.
    risks: risks::Risks,
    /// What the coordinator keeps of volumes and this software can't read.
    unreadable: kept::Unreadable,
    /// Devices from which volumes were taken away.
    leftovers: leftovers::Leftovers,
    /// What the sweeps of this node's disks know from each other.
    sweeping: sweep::Sweeping,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A stripe is best written whole if one message carries as much, and all else by whole messages.
fn best_write(view: &View) -> u32 {
    let stripe = view.geometry.chunk.saturating_mul(view.mirrors.len() as u32);
    if view.mirrors.len() > 1 && stripe <= MAX_PAYLOAD { stripe } else { MAX_PAYLOAD }
}

impl Attached {
    fn new(record: &VolumeRecord, view: &View, primary: PrimaryId, purpose: Purpose) -> Self {
        Self {
            id: view.volume,
            name: record.name.clone(),
            record: Mutex::new(Arc::new(record.clone())),
            size: Arc::new(AtomicU64::new(view.geometry.size)),
            shown_size: AtomicU64::new(view.geometry.size),
            block_size: view.geometry.block_size,
            best_write: best_write(view),
            primary,
            purpose,
            began: crate::clock::core_now(),
            served: OnceLock::new(),
            replaces: Point::of(view),
            seen: watch::Sender::new(Seen::NEW),
            events: Mutex::default(),
            rates: Mutex::default(),
            diverged: Mutex::default(),
            unserved: Mutex::default(),
            kept_verdict: Mutex::default(),
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size.load(Ordering::Relaxed)
    }

    /// The same, for those who show it.
    fn shared_size(&self) -> Arc<AtomicU64> {
        self.size.clone()
    }

    /// The size, in bytes, that all who show it here have shown: less than [`Self::size`] where one
    /// of them could not.
    fn shown_size(&self) -> u64 {
        self.shown_size.load(Ordering::Relaxed)
    }

    /// The generation of the view that its first one replaces, or of an earlier one. Whoever
    /// attaches it next, after this one, sees a later generation.
    #[must_use]
    pub const fn began_after(&self) -> u64 {
        self.replaces.generation()
    }

    /// It has become larger, or was so already: growths are noted in any order.
    fn grow_to(&self, size: u64) {
        self.size.fetch_max(size, Ordering::Relaxed);
    }

    /// All who show it here have shown this size.
    fn set_shown_size(&self, size: u64) {
        self.shown_size.store(size, Ordering::Relaxed);
    }

    /// What the coordinator stores of it.
    #[must_use]
    pub fn record(&self) -> Arc<VolumeRecord> {
        lock(&self.record).clone()
    }

    /// The coordinator has told what it stores now.
    fn renew(&self, record: VolumeRecord) {
        *lock(&self.record) = Arc::new(record);
    }

    /// A replica is about to join it.
    fn placed(&self, replica: PlacedReplica) {
        let mut record = lock(&self.record);
        Arc::make_mut(&mut record).replicas.push(replica);
    }

    /// How far it is attached.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.seen.borrow().phase()
    }

    /// The block device here.
    #[must_use]
    pub fn device(&self) -> Option<Device> {
        self.seen.borrow().device().cloned()
    }

    /// How it is exported by NBD.
    #[must_use]
    pub fn nbd(&self) -> Option<WantedNbd> {
        self.seen.borrow().nbd().cloned()
    }

    /// How it is shown at present.
    pub(in crate::volumes) fn shown(&self) -> Shown {
        self.seen.borrow().shown()
    }

    /// How it is exported by NVMe over TCP.
    #[must_use]
    pub fn nvme(&self) -> Option<WantedNvme> {
        self.seen.borrow().nvme().cloned()
    }

    /// Whether it is attached for a moment only, so that its replicas adopt a view.
    #[must_use]
    pub fn in_passing(&self) -> bool {
        self.purpose == Purpose::Passing
    }

    /// The only primary of the view that its first view replaced, known once it serves.
    fn follows(&self) -> Option<PrimaryId> {
        self.seen.borrow().follows()
    }

    /// Whether it serves, and is shown as was asked.
    fn is_shown(&self) -> bool {
        match self.phase() {
            Phase::Serving => self.in_passing(),
            phase => !phase.is_opening(),
        }
    }

    /// Adds to what happened.
    pub fn event(&self, message: String) {
        let mut events = lock(&self.events);
        if events.len() == MAX_EVENTS {
            events.pop_front();
        }
        events.push_back(VolumeEvent { at: unix_seconds(), message });
    }
}

impl Volumes {
    /// Their names.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = self.all().iter().map(|a| a.name().to_owned()).collect();
        names.sort();
        names
    }

    /// Waits until nothing else is done with a replica of this node.
    pub async fn replica(&self, replica: ReplicaId) -> Held<ReplicaId> {
        self.replicas.lock(replica).await
    }

    /// The same; whoever makes the replica larger is asked to stop.
    pub async fn recall(&self, replica: ReplicaId) -> Held<ReplicaId> {
        self.replicas.recall(replica).await
    }

    /// What whoever does something with a replica of this node tells of it.
    #[must_use]
    pub fn at_work(&self, replica: ReplicaId) -> Option<Recall> {
        self.replicas.holder(replica)
    }

    /// Something for the log, and for the volume's events.
    pub fn note(&self, node: &Arc<Node>, volume: VolumeId, note: Note) {
        let Some(attached) = self.get(volume) else { return };
        let is_placed = |id: ReplicaId| {
            attached.record().replicas.iter().any(|placed| placed.id == id.to_string())
        };
        // Who joins and who leaves changes what the record says.
        let changes = matches!(note, Note::Admitted(_) | Note::Removed(..));
        if !changes && messages::named(&note).is_none_or(is_placed) {
            return self.report(node, &attached, note);
        }
        // Another primary's node may have made it: the coordinator knows where.
        let node = node.clone();
        tokio::spawn(async move {
            if let Ok(found) = lookup::find(&node, "", &volume.to_string()).await {
                attached.renew(found.stored.record);
            }
            node.volumes.report(&node, &attached, note);
        });
    }

    fn report(&self, node: &Arc<Node>, attached: &Arc<Attached>, note: Note) {
        let volume = attached.id;
        match note {
            // It is tried again and again, and told once.
            Note::OtherHistory(replica) if !lock(&attached.diverged).insert(replica) => return,
            Note::Admitted(replica) => drop(lock(&attached.diverged).remove(&replica)),
            _ => {}
        }
        let place = |replica| lookup::place_of(node, attached, replica);
        let message = messages::note(&note, place, |id| node.coordinator.node_ref(id).name);
        match note {
            Note::Left(..)
            | Note::StandsIn(..)
            | Note::StaysAway { .. }
            | Note::Suspended(_)
            | Note::OtherHistory(_)
            | Note::ViewRefused(..)
            | Note::Evicted(_) => {
                tracing::warn!(volume = attached.name(), "{message}");
            }
            _ => tracing::info!(volume = attached.name(), "{message}"),
        }
        if let Note::Serving { follows, .. } = note {
            attached.served.get_or_init(crate::clock::core_now);
            actor::serves(node, attached, follows);
        }
        if let Note::Verified { .. } = note {
            verdict::keep_soon(node, attached);
        }
        if let Note::Grown(size) = note {
            // By another primary, perhaps.
            let (node, attached) = (node.clone(), attached.clone());
            tokio::spawn(async move { grow::follow(&node, &attached, size).await });
        }
        if let Note::Removed(replica, home) = note {
            let node = node.clone();
            tokio::spawn(async move { make::delete_removed(&node, home, volume, replica).await });
        }
        // The wait for the start is told by the state; it is no event.
        if !matches!(note, Note::Suspended(Waiting::Start)) {
            attached.event(message);
        }
    }

    /// The primary has ended: for whoever waits for it, and if nobody does, to take away what
    /// served it.
    pub fn ended(&self, node: &Arc<Node>, volume: VolumeId, primary: PrimaryId, reason: EndReason) {
        let Some(attached) = self.of(volume, primary) else { return };
        let message = start::why_ended(node, &attached, reason);
        tracing::info!(volume = attached.name(), "{message}");
        attached.event(message.clone());
        let was_used = attached.phase().is_used();
        let comes_back = actor::ended(node, &attached, reason, &message);
        if was_used && !matches!(reason, EndReason::Detached | EndReason::DetachedUnclean) {
            let text =
                format!("volume {} is not attached here any more: {message}", attached.name());
            match comes_back {
                true => node
                    .warnings
                    .warn_until_shown(volume, format!("{text}; it attaches again by itself")),
                false => node.warn(text),
            }
        }
    }

    /// A client has gone, or the kernel has closed a device.
    pub fn frontend_ended(&self, volume: VolumeId, frontend: FrontendId, reason: &str) {
        let name = self.get(volume).map(|attached| attached.name().to_owned());
        tracing::info!(volume = name, frontend = frontend.0, %reason, "a client's connection ended");
    }
}
