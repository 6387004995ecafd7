//! Replicas: opening, stepping, carrying out effects.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use evenkeel_core::replica::{FoundPage, OpenRegions, ReplicaConfig};
use evenkeel_core::*;

use super::disks::{Health, Pending};
use super::{Cluster, Event};
use crate::describe;
use crate::disk::Disk;
use crate::marks::Mark;
use crate::network::Party;
use crate::oracles::fencing::Fence;
use crate::oracles::registers::Moment;
use crate::oracles::tables::Tables;
use crate::payload::{Arrived, Cell, SECTOR, Sectors};
use crate::profile::Profile;
use crate::queue::{MICROSECOND, Time};
use crate::store::Store;

/// A replica: its disk, which lasts, and its process, which comes and goes.
#[derive(Debug)]
pub(super) struct SimReplica {
    pub id: ReplicaId,
    pub node: usize,
    pub mirror: usize,
    pub disk: Disk,
    pub health: Health,
    pub store: Store,
    pub core: Option<Replica<Sectors>>,
    /// Counts the incarnations of the process.
    pub starts: u32,
    /// The present or last incarnation, as the views name it.
    pub incarnation: Incarnation,
    /// When the last incarnation ended.
    pub ended: Moment,
    /// The generation that is saved in the superblocks.
    pub adopted: Generation,
    /// The regions that are open in the intent log on its disk, slot by slot.
    pub open_regions: BTreeMap<u8, OpenRegions>,
    /// Judges what its disk says of them after a crash.
    pub tables: Tables,
    /// Slots of its intent log whose last save was made to fail.
    pub failed_tables: BTreeSet<u8>,
    /// Disk actions under way.
    pub pending: BTreeMap<u64, Pending>,
    pub last_action: u64,
    pub fence: Fence,
    /// When it first answered the adoption of each generation.
    pub joined: BTreeMap<Generation, Moment>,
    /// First stamps of the writes that arrived in this incarnation.
    pub received: HashSet<Cell>,
    /// How often each operation was refused in this incarnation.
    pub refused: HashMap<Option<Sequence>, u32>,
    /// Copies that were asked for in this incarnation and not answered, with the generation of the
    /// question.
    pub copies_asked: HashMap<(LinkId, CopyToken), Generation>,
    /// Sectors that a machine crash took back since the replica was last known to be whole.
    pub lost: BTreeSet<u32>,
    /// A copy of the disk that was made at some time.
    pub copy: Option<Disk>,
    /// A stale clone was put in the disk's place, and no view says yet that it lacks everything.
    pub is_old: bool,
    /// What was in its place before, with what that had lost.
    pub newest_disk: Option<(Disk, BTreeSet<u32>)>,
    /// How often its disk was taken out for another one.
    pub swaps: u64,
    /// When its disk last failed a read.
    pub failed_read: Time,
    /// In which incarnation, and since when a member, it last failed to change its disk.
    pub failed_change: Option<(Incarnation, Generation)>,
    tick: Option<Time>,
    /// From which replica it copied last.
    source: Option<ReplicaId>,
}

impl SimReplica {
    /// Whether it lies on this node.
    pub fn is_of(&self, node: NodeId) -> bool {
        NodeId(self.node as u128 + 1) == node
    }
}

/// The view with which the volume is created: everything in-sync, nothing attached.
pub(super) fn first_view(profile: &Profile) -> View {
    let mut last = 0;
    let mut record = |node: &usize| {
        last += 1;
        ReplicaRecord::first(ReplicaId(last), NodeId(*node as u128 + 1))
    };
    let mirrors = profile.placement.iter();
    View {
        protocol: profile.protocol,
        bitmap: profile.bitmap,
        intents: profile.layout,
        lease: profile.lease,
        no_coordinator: profile.no_coordinator,
        ..View::first(
            VolumeId(0x766f_6c75_6d65),
            History(1),
            CoordinatorId(1),
            profile.geometry,
            mirrors
                .map(|nodes| MirrorView { replicas: nodes.iter().map(&mut record).collect() })
                .collect(),
        )
    }
}

/// Where a replica is made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub id: ReplicaId,
    pub mirror: usize,
    pub node: usize,
}

/// The replicas of a new volume, each with the first view in its superblocks.
pub(super) fn create(profile: &Profile, view: &View) -> Vec<SimReplica> {
    let nodes = profile.placement.iter().flatten();
    let places = view.replicas().zip(nodes);
    places
        .map(|((mirror, record), node)| make(view, Place { id: record.id, mirror, node: *node }))
        .collect()
}

/// A new replica with this view in its superblocks.
pub(super) fn make(view: &View, place: Place) -> SimReplica {
    let Place { id, mirror, node } = place;
    let sectors = (view.replica_size() / u64::from(SECTOR)) as u32;
    let (store, superblock) = Store::create(id, mirror as u32, view);
    SimReplica {
        id,
        node,
        mirror,
        disk: Disk::new(sectors, &superblock),
        health: Health::default(),
        store,
        core: None,
        starts: 0,
        incarnation: Incarnation(0),
        ended: 0,
        adopted: view.generation,
        open_regions: BTreeMap::new(),
        tables: Tables::default(),
        failed_tables: BTreeSet::new(),
        pending: BTreeMap::new(),
        last_action: 0,
        fence: Fence::default(),
        joined: BTreeMap::new(),
        received: HashSet::new(),
        refused: HashMap::new(),
        copies_asked: HashMap::new(),
        lost: BTreeSet::new(),
        copy: None,
        is_old: false,
        newest_disk: None,
        swaps: 0,
        failed_read: 0,
        failed_change: None,
        tick: None,
        source: None,
    }
}

impl Cluster {
    pub(super) fn replica_starts(&mut self, replica: usize, starts: u32) {
        let node = self.replicas[replica].node;
        let slot = &mut self.replicas[replica];
        if slot.starts != starts
            || slot.core.is_some()
            || !self.nodes[node].up
            || self.coordinator.stopped
        {
            return;
        }
        let incarnation = Incarnation(self.random.bits() | 1);
        let (store, found) = match Store::open(&slot.disk) {
            Ok(found) => found,
            Err(error) => {
                return self.fail("I1", format!("replica {replica} can't start: {error}"));
            }
        };
        if found.damaged {
            self.marks.reach(Mark::TornSuperblock);
        }
        let generation = found.view.generation;
        let open_regions = found.open_regions.clone();
        slot.open_regions = open_regions.iter().map(|table| (table.slot, table.clone())).collect();
        let forgotten = slot.tables.found(replica, &open_regions);
        open_regions.iter().for_each(|table| slot.disk.forget_checksums(table));
        let mirror = slot.mirror;
        let is_damaged = found.missing.iter().any(|page| matches!(page, FoundPage::Damaged { .. }));
        self.find_open((mirror, replica), &open_regions, is_damaged);
        let slot = &mut self.replicas[replica];
        let verdict = slot.fence.starts(replica, generation);
        let config = ReplicaConfig {
            id: slot.id,
            incarnation,
            boot: BootId(self.nodes[node].boot.0 ^ u128::from(slot.swaps)),
            view: found.view,
            incarnations: found.incarnations,
            open_regions: found.open_regions,
            missing: found.missing,
            settings: self.profile.own_settings[node],
            has_fua: self.profile.has_fua(replica),
        };
        slot.store = store;
        slot.incarnation = config.incarnation;
        slot.adopted = generation;
        slot.core = Some(Replica::new(config, self.nodes[node].clock(self.now)));
        self.judge(verdict);
        self.judge(forgotten);
        self.log(|| {
            format!(
                "replica {replica} starts on node {node} in generation {generation}, with open regions {open_regions:?}"
            )
        });
        self.plan_replica_tick(replica);
    }

    /// Told to the oracle of what rebuilds copy.
    fn find_open(
        &mut self,
        (mirror, replica): (usize, usize),
        found: &[OpenRegions],
        is_damaged: bool,
    ) {
        if self.is_relaid {
            return;
        }
        for table in found.iter().filter(|table| !table.is_all()) {
            for region in &table.open {
                self.minimal.found_open((mirror, replica), Some(*region));
            }
        }
        if found.iter().any(OpenRegions::is_all) {
            self.minimal.found_open((mirror, replica), None);
        }
        if is_damaged {
            self.minimal.lose_track(mirror);
        }
    }

    /// The process of a replica ends; with `power`, its machine does.
    pub(super) fn replica_dies(&mut self, replica: usize, power: bool) {
        let moment = self.tick_moment();
        let slot = &mut self.replicas[replica];
        let lived = slot.core.take().is_some();
        let party = Party::Replica(replica, slot.starts);
        slot.starts += 1;
        slot.ended = moment;
        slot.tick = None;
        slot.received.clear();
        slot.refused.clear();
        slot.copies_asked.clear();
        if lived {
            self.log(|| format!("replica {replica} ends"));
            self.drop_links(party, power);
        }
        self.end_disk_actions(replica);
        self.forget_dropped(replica);
        if power {
            self.power_cut_disk(replica);
        }
    }

    pub(super) fn replica_tick(&mut self, replica: usize, starts: u32) {
        let slot = &mut self.replicas[replica];
        if slot.starts != starts || slot.tick.take_if(|at| *at <= self.now).is_none() {
            return;
        }
        let clock = self.nodes[slot.node].clock(self.now);
        let wakeup = slot.core.as_ref().and_then(Replica::next_wakeup);
        if wakeup.is_some_and(|at| at <= clock) {
            self.step_replica(replica, ReplicaEvent::Tick);
        } else {
            self.plan_replica_tick(replica);
        }
    }

    pub(super) fn step_replica(&mut self, replica: usize, event: ReplicaEvent<Sectors>) {
        let slot = &mut self.replicas[replica];
        let clock = self.nodes[slot.node].clock(self.now);
        let Some(core) = &mut slot.core else { return };
        let mut effects = std::mem::take(&mut self.replica_effects);
        core.step(clock, event, &mut effects);
        for effect in effects.drain(..) {
            self.replica_effect(replica, effect);
        }
        self.replica_effects = effects;
        self.plan_replica_tick(replica);
    }

    fn plan_replica_tick(&mut self, replica: usize) {
        let slot = &mut self.replicas[replica];
        let Some(wakeup) = slot.core.as_ref().and_then(Replica::next_wakeup) else { return };
        let at = self.nodes[slot.node].time(wakeup).max(self.now + MICROSECOND);
        if slot.tick.is_none_or(|planned| planned > at) {
            slot.tick = Some(at);
            let starts = slot.starts;
            self.queue.push(at, Event::ReplicaTick { replica, starts });
        }
    }

    fn replica_effect(&mut self, replica: usize, effect: ReplicaEffect<Sectors>) {
        let slot = &mut self.replicas[replica];
        let party = Party::Replica(replica, slot.starts);
        match effect {
            ReplicaEffect::Send { link, message, payload } => {
                self.judge_answer(replica, link, &message);
                self.log_detail(|| {
                    let message = describe::message(&message, payload.as_ref());
                    format!("replica {replica} → link {link}: {message}")
                });
                self.send(party, link, message, payload);
            }
            ReplicaEffect::Disk { ticket, action } => self.begin_disk(replica, ticket, action),
            ReplicaEffect::ConnectSource { replica: source, node: _ } => {
                if slot.source.replace(source).is_some_and(|before| before != source) {
                    self.marks.reach(Mark::SourceChanged);
                }
                let node = self.replicas[replica].node;
                self.dial(party, node, source);
            }
            ReplicaEffect::Disconnect { link } => self.hang_up(party, link),
        }
    }

    /// Notes what a message brings to a replica, for the oracles.
    pub(super) fn note_arrival(
        &mut self,
        (replica, link): (usize, LinkId),
        message: &Message,
        payload: Option<Sectors>,
    ) -> Option<Sectors> {
        match (message, payload) {
            (Message::Write { id, .. }, Some(payload)) => {
                self.replicas[replica].received.insert(payload.cells()[0]);
                let sender = self.network.links.get(&link).map(|link| link.ends[0].party);
                let operation = match sender {
                    Some(Party::Primary(primary)) => Some((primary, id.sequence)),
                    _ => None,
                };
                Some(payload.arrived_as(Arrived { generation: id.generation, operation }))
            }
            (_, payload) => payload,
        }
    }
}
