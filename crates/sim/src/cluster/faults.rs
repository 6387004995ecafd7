//! Faults, drawn from what the profile holds.

use evenkeel_core::primary::Command;
use evenkeel_core::view::Change;
use evenkeel_core::{Bitmap, NodeId, RebuildLimit};

use super::{Cluster, Event};
use crate::marks::Mark;
use crate::payload::SECTOR;
use crate::profile::Fault;
use crate::queue::{MICROSECOND, Time};
use crate::sabotage::Sabotage;
use crate::tape::Stream;

/// How often a client reads within a lease that its primary may no longer have.
const READS_IN_LEASE: u64 = 8;

impl Cluster {
    pub(super) fn plan_fault(&mut self) {
        if self.faulty {
            let next = Stream::Fault(self.counters.faults + 1);
            let pause = self.drawing_for(next, |c| c.random.waiting(c.profile.fault_pause));
            self.queue.push(self.now + pause + MICROSECOND, Event::Fault);
        }
    }

    /// How long a fault lasts: shorter than any wait of the core, or longer than all.
    fn duration(&mut self) -> Time {
        let lease = self.profile.lease.time().as_nanos() as Time;
        self.random.magnitude(lease / 1000, lease * 4)
    }

    pub(super) fn inject(&mut self) {
        if !self.faulty {
            return;
        }
        self.judge_differences();
        let outer = self.random.set_stream(Stream::Fault(self.counters.faults + 1));
        let weights = self.profile.faults.iter().map(|(_, weight)| weight).sum();
        let mut draw = self.random.below(weights);
        for index in 0..self.profile.faults.len() {
            let (fault, weight) = self.profile.faults[index];
            if draw < weight {
                self.strike(fault);
                break;
            }
            draw -= weight;
        }
        self.random.set_stream(outer);
        self.plan_fault();
    }

    fn strike(&mut self, fault: Fault) {
        self.counters.faults += 1;
        let number = self.counters.faults;
        if !self.reduction.strikes(number, fault) {
            return;
        }
        self.struck.push((number, fault));
        let node = self.random.index(self.nodes.len());
        let replica = self.random.index(self.replicas.len());
        let duration = self.duration();
        let until = self.now + duration;
        self.log(|| {
            let ms = duration / 1_000_000;
            format!("-- {number} {fault:?} (node {node}, replica {replica}, {ms} ms)")
        });
        match fault {
            Fault::CutLink => self.cut_some_link(duration),
            Fault::OneWay => {
                let other = self.random.index(self.nodes.len());
                self.block(node, other, until);
            }
            Fault::Isolate => self.isolate(node, until),
            Fault::Verify => self.verify_somewhere(),
            Fault::Reserve => self.change_reservation(),
            Fault::KillNode => self.stop_for(node, false, duration),
            Fault::RestartReplica => self.restart_replica(replica, duration),
            Fault::PowerCut => self.stop_for(node, true, duration),
            Fault::Blackout => {
                for node in 0..self.nodes.len() {
                    let pause = self.random.below(duration) + 1;
                    self.stop_for(node, true, pause);
                }
            }
            Fault::Pause => self.pause(node, until),
            Fault::Suspend => self.suspend_primary(),
            Fault::Takeover => {
                // A node runs one primary of a volume at a time: a lock sees to that.
                let is_here = self.is_taken(node);
                let is_possible = self.nodes[node].up && self.coordinator.is_usable();
                if is_possible && !is_here && self.living_primaries().count() < 3 {
                    self.attach(node);
                }
            }
            Fault::DiskErrors => {
                let per_mille = self.random.pick(&[10, 200, 1000]);
                self.replicas[replica].health.errors = (until, per_mille);
            }
            Fault::Damage => self.damage_disk(replica),
            Fault::StaleClone => self.copy_disk_or_put_back(replica, duration),
            Fault::DiskFull => self.replicas[replica].health.full_until = until,
            Fault::SlowDisk if self.random.chance(500) => {
                self.replicas[replica].health.frozen_until = until;
            }
            Fault::SlowDisk => {
                let times = self.random.magnitude(5, 500);
                self.replicas[replica].health.slow = (until, times);
            }
            Fault::CoordinatorAway => self.coordinator.away_until = until,
            Fault::Operator => self.operate(replica, until),
            Fault::Members => self.change_members(replica),
            Fault::Layout => self.change_intents(),
            Fault::Lease => self.try_lease(),
            Fault::CloneNode => self.clone_node(),
            Fault::Assembly => self.plan_assembly(node, until),
            Fault::Detach => self.command_somewhere(Command::Detach),
            Fault::NoConnections => self.no_connections_until = until,
            Fault::SlowNetwork => self.slow_network_until = until,
        }
        self.rot_forgotten();
    }

    /// An operator wants another lease, or the node of a primary that counts on its lease is cut
    /// off for some of them, and the volume attached elsewhere; or one soon after the other.
    fn try_lease(&mut self) {
        let (changes, cuts) = self.random.pick(&[(true, false), (false, true), (true, true)]);
        let lease = self.profile.changed_lease(&mut self.random);
        if changes {
            self.command_anywhere(Command::Change(Change::Lease(lease)));
        }
        if cuts && self.now >= self.next_cut {
            self.cut_off_primary();
        }
    }

    fn cut_off_primary(&mut self) {
        let living: Vec<_> = self.living_primaries().map(|p| self.primaries[p].node).collect();
        let Some(primary) = self.serving_primary() else { return };
        let is_free = |node: &usize| self.nodes[*node].up && !living.contains(node);
        let free: Vec<_> = (0..self.nodes.len()).filter(is_free).collect();
        let leases = self.random.between(2, 8);
        self.cut_off(primary, leases);
        if !free.is_empty() && self.coordinator.is_usable() && living.len() < 3 {
            let other = self.random.pick(&free);
            self.attach(other);
        }
    }

    /// The node of a primary is cut off from all others for so many leases, and its client goes on
    /// reading.
    pub(super) fn cut_off(&mut self, primary: usize, leases: u64) {
        let lease = self.profile.lease.time().as_nanos() as Time;
        // Then the cluster may recover for two leases, or requests would wait for ever.
        self.next_cut = self.now + lease * (leases + 2);
        self.isolate(self.primaries[primary].node, self.now + lease * leases);
        // What it has under way waits; a client that only reads may go on for long.
        for read in 1..leases * READS_IN_LEASE {
            self.queue.push(self.now + lease / READS_IN_LEASE * read, Event::Reads { primary });
        }
    }

    /// The machine of a primary is suspended, as a virtual machine is that moves: it stands still
    /// for some leases, and hears nobody until soon after it has woken. Meanwhile the volume is
    /// attached elsewhere. The first that the primary meets is what its client has asked.
    fn suspend_primary(&mut self) {
        let lease = self.profile.lease.time().as_nanos() as Time;
        let leases = self.random.between(2, 8);
        let awake = lease / self.random.between(2, 20);
        let Some(primary) = self.serving_primary().filter(|p| self.has_other_data(*p)) else {
            return;
        };
        let living: Vec<_> = self.living_primaries().map(|p| self.primaries[p].node).collect();
        let is_free = |node: &usize| self.nodes[*node].up && !living.contains(node);
        let free: Vec<_> = (0..self.nodes.len()).filter(is_free).collect();
        if free.is_empty() || self.now < self.next_cut || !self.coordinator.is_usable() {
            return;
        }
        let node = self.primaries[primary].node;
        let until = self.now + lease * leases;
        self.next_cut = until + lease * 2;
        self.pause(node, until);
        self.isolate(node, until + awake);
        for read in 1..=READS_IN_LEASE {
            self.queue.push(self.now + read, Event::Reads { primary });
        }
        let other = self.random.pick(&free);
        self.attach(other);
    }

    /// Whether a primary reads a replica on its own node, and each mirror has in-sync ones
    /// elsewhere.
    fn has_other_data(&self, primary: usize) -> bool {
        let own = NodeId(self.primaries[primary].node as u128 + 1);
        let mirrors = &self.coordinator.newest().mirrors;
        mirrors.iter().any(|mirror| mirror.in_sync().any(|record| record.node == own))
            && mirrors.iter().all(|mirror| mirror.in_sync().any(|record| record.node != own))
    }

    /// Damages some blocks of a disk.
    fn damage_disk(&mut self, replica: usize) {
        for _ in 0..self.random.between(1, 4) {
            let sectors = u64::from(self.replicas[replica].disk.sectors());
            // Most requests are near the start.
            let reach = if self.random.chance(800) { sectors.min(64) } else { sectors };
            let sector = self.random.below(reach) as u32;
            if self.can_damage(replica, sector) {
                self.replicas[replica].disk.damage(sector);
            }
        }
    }

    /// Whether no replica of its mirror has damaged this sector: what is damaged everywhere is
    /// lost. Where its checksum is forgotten another one has to vouch for it, or nobody could know.
    pub(super) fn can_damage(&self, replica: usize, sector: u32) -> bool {
        let mirror = self.replicas[replica].mirror;
        let mut others = self.replicas.iter().filter(|slot| slot.mirror == mirror);
        let is_forgotten = self.replicas[replica].disk.has_forgotten(sector);
        !others.any(|slot| sector < slot.disk.sectors() && slot.disk.is_harmed(sector..sector + 1))
            && (!is_forgotten || self.is_vouched_for(replica, sector))
    }

    fn cut_some_link(&mut self, darkness: Time) {
        let links: Vec<_> = self
            .network
            .links
            .iter()
            .filter(|(_, link)| !link.cut && link.ends[0].node != link.ends[1].node)
            .map(|(id, _)| *id)
            .collect();
        if !links.is_empty() {
            let link = self.random.pick(&links);
            let darkness = if self.random.chance(700) { MICROSECOND * 500 } else { darkness };
            self.log(|| format!("   link {link}"));
            self.cut_link(link, darkness);
        }
    }

    /// A node reaches no other, and none reaches it.
    pub(super) fn isolate(&mut self, node: usize, until: Time) {
        for other in 0..self.nodes.len() {
            self.block(node, other, until);
            self.block(other, node, until);
        }
    }

    fn block(&mut self, from: usize, to: usize, until: Time) {
        if from != to {
            self.network.block(from, to, true);
            self.queue.push(until, Event::PartitionEnds { from, to });
        }
    }

    pub(super) fn stop_for(&mut self, node: usize, power: bool, pause: Time) {
        if self.nodes[node].up {
            self.stop_node(node, power);
            self.start_node_after(node, pause);
        }
    }

    fn restart_replica(&mut self, replica: usize, pause: Time) {
        if self.replicas[replica].core.is_some() {
            self.replica_dies(replica, false);
            let starts = self.replicas[replica].starts;
            self.queue.push(self.now + pause, Event::ReplicaStarts { replica, starts });
        }
    }

    fn pause(&mut self, node: usize, until: Time) {
        if !self.nodes[node].up {
            return;
        }
        let until = until.max(self.nodes[node].paused_until);
        let unseen = self.sabotage == Some(Sabotage::SleepUnseen);
        self.nodes[node].pauses(self.now, until, unseen);
        let lease = self.profile.lease.time().as_nanos() as Time;
        if until - self.now > lease {
            self.marks.reach(Mark::PausedWoke);
        }
        for slot in self.primaries.iter_mut().filter(|slot| slot.node == node) {
            slot.paused_until = until;
        }
    }

    fn verify_somewhere(&mut self) {
        let repair = self.random.chance(700);
        self.command_anywhere(Command::Verify { repair, source: None });
    }

    /// An operator does something to a replica, and brings it back later.
    fn operate(&mut self, replica: usize, until: Time) {
        let id = self.replicas[replica].id;
        let mirror = self.replicas[replica].mirror;
        let left = self.coordinator.newest().mirrors[mirror].replicas.len();
        match self.random.below(12) {
            10 => self.verify_somewhere(),
            11 => self.command_somewhere(Command::StopVerify),
            8 => {
                let bitmap = self.random.pick(&[Bitmap::None, Bitmap::Internal]);
                let slots = self.coordinator.newest().intents.slots;
                self.command_somewhere(Command::Change(Change::Bitmap { bitmap, slots }));
            }
            9 => {
                let rate = self.random.magnitude(1 << 12, 1 << 26);
                let limits = [RebuildLimit::None, RebuildLimit::BytesPerSecond(rate)];
                let limit = if self.random.chance(300) {
                    RebuildLimit::Paused
                } else {
                    self.random.pick(&limits)
                };
                self.command_somewhere(Command::Change(Change::RebuildLimit(limit)));
            }
            0 if left > 2 => {
                self.command_somewhere(Command::Fail(id));
                self.command_somewhere(Command::Remove(id));
            }
            1 => self.command_somewhere(Command::Remove(id)),
            2 | 3 => self.command_somewhere(Command::ReAdd(id)),
            _ => {
                self.command_somewhere(Command::Fail(id));
                self.queue.push(until, Event::OperatorReturns { replica: id });
            }
        }
    }

    /// Ends every fault that lasts.
    pub(super) fn heal(&mut self) {
        self.faulty = false;
        self.network.unblock_all();
        self.wake_links();
        self.coordinator.away_until = 0;
        self.no_connections_until = 0;
        self.slow_network_until = 0;
        // Who lacks the room that the volume needs is given it.
        let needed = self.coordinator.newest().replica_size() / u64::from(SECTOR);
        for slot in &mut self.replicas {
            slot.health = super::disks::Health::default();
            slot.disk.extend(needed as u32);
            slot.disk.repair_all();
        }
        for node in 0..self.nodes.len() {
            self.nodes[node].wakes(self.now);
            self.nodes[node].no_coordinator_until = 0;
            if !self.nodes[node].up {
                self.start_node_after(node, MICROSECOND);
            }
        }
        for replica in 0..self.replicas.len() {
            let starts = self.replicas[replica].starts;
            if self.replicas[replica].core.is_none() {
                self.queue.push(self.now + 1, Event::ReplicaStarts { replica, starts });
            }
        }
        self.profile.connect_failures = 0;
    }

    /// A node stays dead for the rest of the run.
    pub(super) fn evict(&mut self, node: usize) {
        self.nodes[node].dead = true;
        if self.nodes[node].up {
            self.stop_node(node, false);
        }
    }
}
