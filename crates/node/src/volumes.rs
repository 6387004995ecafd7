//! Volumes: those attached on this node, and what can be done with any.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use evenkeel_core::primary::{Earlier, EndReason, Note, Waiting};
use evenkeel_core::{Incarnation, PrimaryId, ReplicaId, View, VolumeId};
use evenkeel_engine::FrontendId;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::api::types::VolumeEvent;
use crate::coordinator::{PlacedReplica, Shown, VolumeRecord, WantedNbd, unix_seconds};
use crate::disks::Unserved;
use crate::keyed_lock::{Held, KeyedLock, Recall};
use crate::node::Node;

pub mod again;
pub mod assemble;
pub mod attach;
pub mod change;
pub mod condition;
pub mod create;
pub mod delete;
pub mod detach;
pub mod export;
mod facts;
pub(crate) mod failures;
mod fewer;
pub mod grow;
pub(crate) mod hearing;
mod known;
pub mod local;
mod lookup;
mod make;
pub mod members;
mod place;
pub mod plan;
mod primaries;
mod rate;
pub mod rename;
pub mod replica;
pub mod reservation;
pub mod retire;
pub mod status;
pub mod stop;
pub mod sweep;
mod unclean;
mod unserved;
mod verdict;
pub mod verify;
mod view_change;
mod wanted;
pub(crate) mod words;

use again::Awaited;
use rate::Rate;

/// What the state directory remembers of attached volumes.
const FILE: &str = "attached.json";
/// Most events that are kept of one volume.
const MOST_EVENTS: usize = 64;

/// How far the life of a primary here is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// It reads the view and reaches replicas.
    Starting,
    /// It serves, or has served and waits.
    Serving,
    /// It was told to end.
    Ending,
    /// It is over.
    Ended(EndReason),
}

/// A block device of an attached volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Its stable name.
    pub path: PathBuf,
    /// How it is made.
    pub kind: String,
}

/// How a volume was attached, to do it again after a restart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// The volume's identity.
    pub volume: String,
    /// Its name.
    pub name: String,
    /// The life of its primary, to tell whether another one was there since.
    pub incarnation: u64,
    /// With a block device.
    pub device: bool,
    /// With an NBD export: on TCP too, and whether writes are refused.
    pub nbd: Option<WantedNbd>,
    /// Devices of an attachment that has ended, which give errors. While anybody uses one, none is made
    /// in its place: whoever has it mounted would take the two for one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dead: Vec<PathBuf>,
}

impl Wanted {
    const fn new(volume: String, name: String, incarnation: u64, shown: Shown) -> Self {
        let Shown { device, nbd } = shown;
        Self { volume, name, incarnation, device, nbd, dead: Vec::new() }
    }

    const fn shown(&self) -> Shown {
        Shown { device: self.device, nbd: self.nbd }
    }
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
    /// Logical block size.
    pub block_size: u32,
    /// This life of its primary.
    pub primary: PrimaryId,
    /// How it is to be shown here. `None`: it is attached for a moment only, so that its replicas adopt a
    /// view.
    asked: Option<Shown>,
    /// The only primary of the view that its first view replaced, known once it serves.
    follows: OnceLock<PrimaryId>,
    phase: watch::Sender<Phase>,
    device: Mutex<Option<Device>>,
    nbd: Mutex<Option<WantedNbd>>,
    events: Mutex<VecDeque<VolumeEvent>>,
    rates: Mutex<HashMap<ReplicaId, Rate>>,
    /// Replicas that were reached and turned out to be written apart.
    apart: Mutex<BTreeSet<ReplicaId>>,
    /// Replicas that their nodes do not serve, as those nodes said last.
    unserved: Mutex<BTreeMap<ReplicaId, Unserved>>,
    /// When the verify ended whose verdict the coordinator keeps, on the core's clock.
    kept_verdict: Mutex<Option<evenkeel_core::Instant>>,
}

/// All volumes attached on this node.
#[derive(Debug, Default)]
pub struct Volumes {
    attached: Mutex<BTreeMap<VolumeId, Arc<Attached>>>,
    /// Requests that failed, also of volumes that are detached by now.
    failed: failures::Failed,
    /// Those that are to be attached here again, as soon as they may.
    awaited: Mutex<BTreeMap<VolumeId, Awaited>>,
    /// Those of which the coordinator is to be told where they are meant to be attached.
    untold: Mutex<BTreeSet<VolumeId>>,
    /// The daemon ends: what is detached now is attached by the next one.
    is_closing: AtomicBool,
    /// The last primary of each volume that ran here, if it is certain that it has ended when another
    /// one starts.
    last: Mutex<BTreeMap<VolumeId, Incarnation>>,
    frontends: AtomicU64,
    /// Volumes that are being attached, detached, exported or deleted.
    changing: KeyedLock<VolumeId>,
    /// Replicas of this node that are being made, given to the engine, made larger, closed or deleted.
    replicas: KeyedLock<ReplicaId>,
    /// Held while it is saved which volumes are attached.
    saving: Mutex<()>,
    /// What the sweeps of this node's disks know from each other.
    sweeping: sweep::Sweeping,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Attached {
    fn new(record: &VolumeRecord, view: &View, primary: PrimaryId, asked: Option<Shown>) -> Self {
        Self {
            id: view.volume,
            name: record.name.clone(),
            record: Mutex::new(Arc::new(record.clone())),
            size: Arc::new(AtomicU64::new(view.geometry.size)),
            block_size: view.geometry.block_size,
            primary,
            asked,
            follows: OnceLock::new(),
            phase: watch::Sender::new(Phase::Starting),
            device: Mutex::default(),
            nbd: Mutex::default(),
            events: Mutex::default(),
            rates: Mutex::default(),
            apart: Mutex::default(),
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

    /// It has become larger.
    fn set_size(&self, size: u64) {
        self.size.store(size, Ordering::Relaxed);
    }

    /// What the coordinator stores of it.
    #[must_use]
    pub fn record(&self) -> Arc<VolumeRecord> {
        lock(&self.record).clone()
    }

    /// A replica is about to join it.
    fn placed(&self, replica: PlacedReplica) {
        let mut record = lock(&self.record);
        Arc::make_mut(&mut record).replicas.push(replica);
    }

    /// How far the life of its primary is.
    #[must_use]
    pub fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    /// The block device here.
    #[must_use]
    pub fn device(&self) -> Option<Device> {
        lock(&self.device).clone()
    }

    /// How it is exported.
    #[must_use]
    pub fn nbd(&self) -> Option<WantedNbd> {
        *lock(&self.nbd)
    }

    /// Whether it is attached for a moment only, so that its replicas adopt a view.
    #[must_use]
    pub fn in_passing(&self) -> bool {
        self.asked.is_none()
    }

    /// How it is shown here now.
    fn shown(&self) -> Shown {
        Shown { device: self.device().is_some(), nbd: self.nbd() }
    }

    /// Adds to what happened.
    pub fn event(&self, message: String) {
        let mut events = lock(&self.events);
        if events.len() == MOST_EVENTS {
            events.pop_front();
        }
        events.push_back(VolumeEvent { at: unix_seconds(), message });
    }

    fn wanted(&self) -> Wanted {
        let (id, name) = (self.id.to_string(), self.name.clone());
        Wanted::new(id, name, self.primary.incarnation.0, self.shown())
    }
}

impl Volumes {
    /// One by its identity.
    #[must_use]
    pub fn get(&self, volume: VolumeId) -> Option<Arc<Attached>> {
        lock(&self.attached).get(&volume).cloned()
    }

    /// One by its name or identity.
    #[must_use]
    pub fn by_name(&self, name: &str) -> Option<Arc<Attached>> {
        let attached = lock(&self.attached);
        let is = |a: &&Arc<Attached>| a.name() == name || a.id.to_string() == name;
        attached.values().find(is).cloned()
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Attached>> {
        lock(&self.attached).values().cloned().collect()
    }

    /// Their names.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = self.all().iter().map(|a| a.name().to_owned()).collect();
        names.sort();
        names
    }

    /// A name for a front end, never used twice.
    pub fn next_frontend(&self) -> FrontendId {
        FrontendId(self.frontends.fetch_add(1, Ordering::Relaxed))
    }

    /// Waits until the volume is not being attached, detached, exported or deleted otherwise: one such
    /// change of it at a time.
    pub async fn change(&self, volume: VolumeId) -> Held<VolumeId> {
        self.changing.lock(volume).await
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

    /// What is certain about earlier primaries of a volume on this node.
    fn earlier(&self, volume: VolumeId) -> Earlier {
        lock(&self.last).get(&volume).map_or(Earlier::MayLive, |last| Earlier::OneEnded(*last))
    }

    /// A primary that runs here has ended when the next one starts: in this process, or with the lock
    /// that this one holds.
    fn note_last(&self, volume: VolumeId, incarnation: Incarnation) {
        lock(&self.last).insert(volume, incarnation);
    }

    /// Lists an attachment. Returns false if another one of the volume is listed.
    #[must_use]
    fn insert(&self, attached: Arc<Attached>) -> bool {
        let mut held = lock(&self.attached);
        let Entry::Vacant(place) = held.entry(attached.id) else { return false };
        if !attached.in_passing() {
            self.failed.forget(attached.id);
        }
        place.insert(attached);
        true
    }

    /// Whether this is the volume's attachment still: whoever waited for another change asks first.
    fn holds(&self, attached: &Attached) -> bool {
        lock(&self.attached).get(&attached.id).is_some_and(|held| held.primary == attached.primary)
    }

    /// Takes an attachment out, unless another one has taken its place.
    fn remove(&self, attached: &Attached) {
        let mut held = lock(&self.attached);
        if held.get(&attached.id).is_some_and(|held| held.primary == attached.primary) {
            held.remove(&attached.id);
        }
    }

    /// Remembers which volumes are attached, so that the next daemon attaches them again. While the daemon
    /// ends nothing is saved: what was attached before counts.
    pub async fn save(&self, node: &Arc<Node>) {
        let saved = node.blocking(|node| {
            let volumes = &node.volumes;
            // No older list takes the place of a newer one.
            let _alone = lock(&volumes.saving);
            if volumes.is_closing.load(Ordering::Relaxed) {
                return Ok(());
            }
            if let Err(error) = node.state.save(FILE, &volumes.all_wanted()) {
                node.warn(format!("cannot remember which volumes are attached: {error}"));
            }
            Ok(())
        });
        if let Err(error) = saved.await {
            node.warn(error.to_string());
        }
    }

    /// Something for the log, and for the volume's events.
    pub fn note(&self, node: &Arc<Node>, volume: VolumeId, note: Note) {
        let Some(attached) = self.get(volume) else { return };
        let is_placed = |id: ReplicaId| {
            attached.record().replicas.iter().any(|placed| placed.id == id.to_string())
        };
        if words::named(&note).is_none_or(is_placed) {
            return self.tell(node, &attached, note);
        }
        // Another primary's node has made it: the coordinator knows where.
        let node = node.clone();
        tokio::spawn(async move {
            if let Ok(found) = lookup::find(&node, "", &volume.to_string()).await {
                *lock(&attached.record) = Arc::new(found.stored.record);
            }
            node.volumes.tell(&node, &attached, note);
        });
    }

    fn tell(&self, node: &Arc<Node>, attached: &Arc<Attached>, note: Note) {
        let volume = attached.id;
        match note {
            // It is tried again and again, and told once.
            Note::OtherLineage(replica) if !lock(&attached.apart).insert(replica) => return,
            Note::Admitted(replica) => drop(lock(&attached.apart).remove(&replica)),
            _ => {}
        }
        let place = |replica| status::place_of(node, attached, replica);
        let message = words::note(&note, place, |id| node.coordinator.node_ref(id).name);
        match note {
            Note::Left(..)
            | Note::StandsIn(..)
            | Note::Suspended(_)
            | Note::OtherLineage(_)
            | Note::Evicted(_) => {
                tracing::warn!(volume = attached.name(), "{message}");
            }
            _ => tracing::info!(volume = attached.name(), "{message}"),
        }
        if let Note::Serving { follows, .. } = note {
            // Before anybody learns that it serves.
            if let Some(last) = follows {
                let _ = attached.follows.set(last);
            }
            attached.phase.send_if_modified(|phase| {
                let starting = *phase == Phase::Starting;
                if starting {
                    *phase = Phase::Serving;
                }
                starting
            });
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
        let Some(attached) = self.get(volume).filter(|held| held.primary == primary) else {
            return;
        };
        let message = attach::why_ended(node, &attached, reason);
        tracing::info!(volume = attached.name(), "{message}");
        attached.event(message.clone());
        let before = attached.phase.send_replace(Phase::Ended(reason));
        if reason == EndReason::Detached {
            // No view names it any more.
            lock(&self.last).remove(&volume);
        }
        // Nobody has taken the volume from this node: the others go on, and it may join them.
        let comes_back = before == Phase::Serving && reason == EndReason::Evicted;
        if comes_back {
            self.await_again(volume, attached.wanted(), &message);
        }
        if matches!(before, Phase::Serving | Phase::Ending) {
            if !matches!(reason, EndReason::Detached | EndReason::DetachedUnclean) {
                let then = if comes_back { "; it attaches again by itself" } else { "" };
                let name = attached.name();
                node.warn(format!("volume {name} is not attached here any more: {message}{then}"));
            }
            let node = node.clone();
            tokio::spawn(async move {
                detach::take_away(&node, &attached).await;
                if comes_back {
                    again::until_attached(node, volume).await;
                }
            });
        }
    }

    /// A client has gone, or the kernel has closed a device.
    pub fn frontend_ended(&self, volume: VolumeId, frontend: FrontendId, reason: &str) {
        let name = self.get(volume).map(|attached| attached.name().to_owned());
        tracing::info!(volume = name, frontend = frontend.0, %reason, "a client's connection ended");
    }
}
