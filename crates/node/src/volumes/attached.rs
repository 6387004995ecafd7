//! A volume attached on this node: what is certain of it, what others see of its actor, and what is
//! known of its replicas.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use evenkeel_api::types::VolumeEvent;
use evenkeel_core::settings::MAX_PAYLOAD;
use evenkeel_core::{Instant, PrimaryId, ReplicaId, View, VolumeId};
use serde_json::Value;
use tokio::sync::watch;

use super::attachment::lifecycle::{Phase, Purpose, Seen};
use super::lock;
use super::rate::Rate;
use super::remembered::Point;
use crate::clock::{core_now, unix_seconds};
use crate::coordinator::{PlacedReplica, Shown, VolumeRecord, WantedNbd, WantedNvme};
use crate::disks::Unserved;

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
    began: Instant,
    /// Since when its primary serves.
    served: OnceLock<Instant>,
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
    kept_verdict: Mutex<Option<Instant>>,
}

/// A stripe is best written whole if one message carries as much, and all else by whole messages.
fn best_write(view: &View) -> u32 {
    let stripe = view.geometry.chunk.saturating_mul(view.mirrors.len() as u32);
    if view.mirrors.len() > 1 && stripe <= MAX_PAYLOAD { stripe } else { MAX_PAYLOAD }
}

impl Attached {
    pub(super) fn new(
        record: &VolumeRecord,
        view: &View,
        primary: PrimaryId,
        purpose: Purpose,
    ) -> Self {
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
            began: core_now(),
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
    pub(super) fn shared_size(&self) -> Arc<AtomicU64> {
        self.size.clone()
    }

    /// The size, in bytes, that all who show it here have shown: less than [`Self::size`] where one
    /// of them could not.
    pub(super) fn shown_size(&self) -> u64 {
        self.shown_size.load(Ordering::Relaxed)
    }

    /// The generation of the view that its first one replaces, or of an earlier one. Whoever
    /// attaches it next, after this one, sees a later generation.
    #[must_use]
    pub const fn began_after(&self) -> u64 {
        self.replaces.generation()
    }

    /// It has become larger, or was so already: growths are noted in any order.
    pub(super) fn grow_to(&self, size: u64) {
        self.size.fetch_max(size, Ordering::Relaxed);
    }

    /// All who show it here have shown this size.
    pub(super) fn set_shown_size(&self, size: u64) {
        self.shown_size.store(size, Ordering::Relaxed);
    }

    /// What the coordinator stores of it.
    #[must_use]
    pub fn record(&self) -> Arc<VolumeRecord> {
        lock(&self.record).clone()
    }

    /// The coordinator has told what it stores now.
    pub(super) fn renew(&self, record: VolumeRecord) {
        *lock(&self.record) = Arc::new(record);
    }

    /// A replica is about to join it.
    pub(super) fn placed(&self, replica: PlacedReplica) {
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
    pub(super) fn shown(&self) -> Shown {
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
    pub(super) fn follows(&self) -> Option<PrimaryId> {
        self.seen.borrow().follows()
    }

    /// Whether it serves, and is shown as was asked.
    pub(super) fn is_shown(&self) -> bool {
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

    /// What happened, the oldest first.
    pub(super) fn events(&self) -> Vec<VolumeEvent> {
        lock(&self.events).iter().cloned().collect()
    }

    /// What it is attached for.
    pub(super) const fn purpose(&self) -> &Purpose {
        &self.purpose
    }

    /// The view that its first one replaces, or an earlier one.
    pub(super) const fn replaces(&self) -> &Point {
        &self.replaces
    }

    /// When that it is attached began, on the core's clock.
    pub(super) const fn began(&self) -> Instant {
        self.began
    }

    /// Since when its primary serves, on the core's clock.
    pub(super) fn served(&self) -> Option<Instant> {
        self.served.get().copied()
    }

    /// Its primary serves; only the first time counts.
    pub(super) fn note_serves(&self, now: Instant) {
        self.served.get_or_init(|| now);
    }

    /// Its actor shows this from now on.
    pub(super) fn publish(&self, now: &Seen) {
        self.seen.send_if_modified(|seen| {
            let is_new = seen != now;
            seen.clone_from(now);
            is_new
        });
    }

    /// What its actor shows, and will.
    pub(super) fn watch(&self) -> watch::Receiver<Seen> {
        self.seen.subscribe()
    }

    /// How quickly its rebuilds progress.
    pub(super) fn rates(&self) -> MutexGuard<'_, HashMap<ReplicaId, Rate>> {
        lock(&self.rates)
    }

    /// A replica was reached and has diverged. Returns whether that is new.
    pub(super) fn note_diverged(&self, replica: ReplicaId) -> bool {
        lock(&self.diverged).insert(replica)
    }

    /// A replica is admitted, diverged or not.
    pub(super) fn note_admitted(&self, replica: ReplicaId) {
        lock(&self.diverged).remove(&replica);
    }

    /// Replicas that have diverged.
    pub(super) fn diverged(&self) -> BTreeSet<ReplicaId> {
        lock(&self.diverged).clone()
    }

    /// A replica's node does not serve it, or does (`None`). Returns whether it did until now.
    pub(super) fn note_unserved(&self, replica: ReplicaId, why: Option<Unserved>) -> bool {
        let mut unserved = lock(&self.unserved);
        match why {
            Some(why) => unserved.insert(replica, why).is_none(),
            None => unserved.remove(&replica).is_none(),
        }
    }

    /// Replicas that their nodes do not serve, as those nodes said last.
    pub(super) fn unserved(&self) -> BTreeMap<ReplicaId, Unserved> {
        lock(&self.unserved).clone()
    }

    /// The coordinator keeps this of its verifies.
    pub(super) fn note_verified(&self, kept: Option<Value>) {
        Arc::make_mut(&mut lock(&self.record)).verified = kept;
    }

    /// When the verify ended whose verdict the coordinator keeps.
    pub(super) fn kept_verdict(&self) -> Option<Instant> {
        *lock(&self.kept_verdict)
    }

    /// The coordinator keeps the verdict of the verify that ended then.
    pub(super) fn note_kept_verdict(&self, ended: Option<Instant>) {
        *lock(&self.kept_verdict) = ended;
    }
}
