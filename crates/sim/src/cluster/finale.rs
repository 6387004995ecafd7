//! The liveness phase: the faults end, what the volume needs is repaired, part of the rest dies for
//! good.
//! Within a bound of virtual time every request must be answered, the volume must serve, and every
//! replica that lives must be in-sync (I11). Then the whole volume is read back (I1, I2), and the
//! in-sync replicas must be identical (I6), before and after a clean detach.
//!
//! If the last in-sync replica of a mirror died with the rest (a view change was under way when it
//! was decided who dies), the volume can't serve: then only the answers are demanded.

use evenkeel_core::primary::{Command, PeerStatus, Waiting};
use evenkeel_core::view::{Cause, Change, ReservationChange};
use evenkeel_core::*;

use super::{Cluster, Stop};
use crate::marks::Mark;
use crate::oracles::Violation;
use crate::payload::SECTOR;

/// Requests that clients still make after the faults.
const LAST_REQUESTS: u64 = 40;

/// How often the cluster is looked at.
const LOOKS: u32 = 64;

impl Cluster {
    pub(super) fn finale(&mut self) -> Result<(), Stop> {
        self.log(|| "== the faults end".into());
        self.judge_differences();
        self.heal();
        if !self.bring_together()? {
            return Ok(());
        }
        if self.random.chance(400) {
            self.evict_some();
        }
        self.profile.primaries = 1;
        self.budget = LAST_REQUESTS;
        for primary in self.living_primaries().collect::<Vec<_>>() {
            self.queue.push(self.now + 1, super::Event::Issue { primary });
        }
        self.plan_attach();
        let bound = self.now + self.profile.patience() * 6;
        let mut reached = Err("nothing was looked at".to_owned());
        while self.now < bound {
            self.advance(self.now + self.profile.patience() * 6 / u64::from(LOOKS))?;
            self.budget = 0;
            self.tend();
            reached = self.goal();
            if reached.is_ok() {
                return self.check_everything();
            }
        }
        // Branches that diverged mirror by mirror can't be put together.
        if self.serves_impossible() || self.operators.found_nothing {
            return self.check_answers();
        }
        let why = reached.err().unwrap_or_default();
        let text = format!("the cluster does not recover after all faults: {why}");
        Err(Violation::new("I11", text).into())
    }

    /// If the coordinator's database is lost, or the volume stopped, it is put together first:
    /// nobody can say otherwise who may die. Whether that succeeds: it may be refused that nothing
    /// in-sync is left of a mirror, which ends the run.
    fn bring_together(&mut self) -> Result<bool, Stop> {
        if self.coordinator.is_usable() {
            return Ok(true);
        }
        for _ in 0..LOOKS {
            self.advance(self.now + self.profile.patience() / u64::from(LOOKS / 4))?;
            if self.assemble_at_last() {
                return Ok(true);
            }
        }
        if self.operators.found_nothing {
            return Ok(false);
        }
        Err(Violation::new("I11", "the volume can't be put together with all its disks").into())
    }

    /// Lets some nodes die whose loss the volume must survive.
    fn evict_some(&mut self) {
        let mut doomed: Vec<usize> =
            (0..self.nodes.len()).filter(|_| self.random.chance(400)).collect();
        doomed.retain(|node| self.profile.coordinator_node != Some(*node) && self.nodes[*node].up);
        for mirror in &self.coordinator.newest().mirrors {
            // One that restarted may have lost what another one still has, and one that failed a
            // write that was acknowledged before (A, B) lacks it.
            let whole = |record: &&ReplicaRecord| {
                let mut slots = self.replicas.iter();
                slots.any(|s| {
                    let has_failed = s.failed_change == Some((record.incarnation, record.since));
                    let lives = s.core.is_some() && s.incarnation == record.incarnation;
                    s.id == record.id && lives && !has_failed && !s.is_old
                })
            };
            let mut survivors: Vec<_> = mirror.in_sync().filter(whole).collect();
            let is_doomed =
                |record: &&ReplicaRecord| doomed.contains(&(record.node.0 as usize - 1));
            let is_old = |record: &&ReplicaRecord| {
                self.replicas.iter().any(|slot| slot.id == record.id && slot.is_old)
            };
            if survivors.is_empty() {
                survivors = mirror.in_sync().filter(|record| !is_old(record)).collect();
            } else if survivors.iter().all(is_doomed) {
                survivors = vec![survivors[self.random.index(survivors.len())]];
            } else {
                continue;
            }
            doomed.retain(|node| survivors.iter().all(|r| r.node.0 as usize - 1 != *node));
        }
        if doomed.len() == self.nodes.len() {
            doomed.pop();
        }
        for node in doomed {
            self.marks.reach(Mark::Survived);
            self.log(|| format!("node {node} stays dead"));
            self.evict(node);
        }
    }

    /// What operators do when they are back: bring back replicas that wait for a command, and
    /// attach the volume if it is attached nowhere.
    fn tend(&mut self) {
        if !self.assemble_at_last() {
            return;
        }
        self.attach_if_wanted();
        let view = self.coordinator.newest().clone();
        let Some(primary) = self.serving_primary() else { return };
        if !self.primaries[primary].commands.is_empty() {
            return;
        }
        if !view.has_primary(self.primaries[primary].id) {
            // Another one had itself committed and died unheard; this one serves, rightly, until
            // it needs another view. An operator who sees that attaches anew.
            return self.command(primary, Command::Detach);
        }
        if self.living_primaries().count() > 1 {
            // One is to be left.
            return self.command(primary, Command::Detach);
        }
        if self.waits_for_the_dead(primary) {
            // Who died could have told what the others lost. The operator knows that it is dead
            // for good, and attaches anew with what there is.
            return self.command(primary, Command::Detach);
        }
        if view.rebuild_limit != RebuildLimit::None {
            let change = Change::RebuildLimit(RebuildLimit::None);
            return self.command(primary, Command::Change(change));
        }
        if view.reservations.held.is_some() {
            let change = Change::Reservation(ReservationChange::Drop);
            return self.command(primary, Command::Change(change));
        }
        let faulty =
            view.replicas().find(|(_, r)| r.state == ReplicaState::Faulty && !self.is_dead(r.id));
        if let Some((_, record)) = faulty.filter(|(_, r)| r.cause == Cause::TooLarge) {
            return self.command(primary, Command::Remove(record.id));
        }
        if let Some((_, record)) = faulty {
            // One that was added while the volume grew is given the room that it lacks.
            let needed = (view.replica_size() / u64::from(SECTOR)) as u32;
            let slots = self.replicas.iter_mut().filter(|slot| slot.id == record.id);
            slots.for_each(|slot| slot.disk.extend(needed));
            self.command(primary, Command::ReAdd(record.id));
        }
    }

    pub(super) fn is_dead(&self, replica: ReplicaId) -> bool {
        let slot = self.replicas.iter().find(|slot| slot.id == replica);
        slot.is_some_and(|slot| self.nodes[slot.node].dead)
    }

    /// Whether a primary waits for a mirror of which each in-sync replica is dead for good or has
    /// restarted, and may have lost what a dead one has.
    fn waits_for_the_dead(&self, primary: usize) -> bool {
        let Some(Waiting::Replica(mirror)) = self.primaries[primary].waiting else { return false };
        let view = self.coordinator.newest();
        let in_sync = || view.mirrors[mirror].in_sync();
        let has_restarted = |record: &ReplicaRecord| {
            let mut slots = self.replicas.iter();
            slots.any(|slot| slot.id == record.id && slot.incarnation != record.incarnation)
        };
        in_sync().any(|record| self.is_dead(record.id))
            && in_sync().all(|record| self.is_dead(record.id) || has_restarted(record))
    }

    /// Whether a mirror's in-sync replicas are all dead for good.
    fn serves_impossible(&self) -> bool {
        let view = self.coordinator.newest();
        view.mirrors.iter().any(|mirror| mirror.in_sync().all(|r| self.is_dead(r.id)))
    }

    /// Whether the cluster has recovered.
    fn goal(&self) -> Result<(), String> {
        let Some(primary) = self.serving_primary() else {
            return Err("no primary serves".into());
        };
        let view = self.coordinator.newest();
        if view.primaries.len() != 1 || !view.has_primary(self.primaries[primary].id) {
            return Err(format!("the newest view does not name primary {primary} alone"));
        }
        if view.reservations.held.is_some() {
            return Err("the volume is reserved".into());
        }
        for other in self.living_primaries() {
            let slot = &self.primaries[other];
            if other != primary || !slot.requests.is_empty() || !slot.commands.is_empty() {
                let n = slot.requests.len();
                return Err(format!("primary {other} lives with {n} unanswered requests"));
            }
            if !slot.drains.is_empty() {
                return Err(format!(
                    "primary {other} does not say that {:?} is drained",
                    slot.drains
                ));
            }
        }
        let slot = &self.primaries[primary];
        let status = slot.core.status(self.nodes[slot.node].clock(self.now));
        for (_, record) in view.replicas() {
            let peer = status.replicas.iter().find(|peer| peer.replica == record.id);
            if !self.is_stable(record, peer) {
                return Err(format!(
                    "replica {} is {} ({:?}; {peer:?}){}",
                    record.id.0 - 1,
                    record.state,
                    record.cause,
                    if self.is_dead(record.id) { ", its node is dead" } else { "" }
                ));
            }
        }
        Ok(())
    }

    /// Whether a replica is where it must end: out of the view if its node is dead, in-sync in its
    /// present incarnation and with all answered if not.
    fn is_stable(&self, record: &ReplicaRecord, peer: Option<&PeerStatus>) -> bool {
        let is_in_sync = record.state == ReplicaState::InSync;
        if record.state == ReplicaState::Spare {
            return true;
        }
        if self.is_dead(record.id) {
            return !is_in_sync;
        }
        let is_present = self
            .replicas
            .iter()
            .any(|slot| slot.id == record.id && slot.incarnation == record.incarnation);
        is_in_sync && is_present && peer.is_some_and(|p| p.connected && p.outstanding == 0)
    }

    /// The volume can't serve, but everybody must be told so.
    fn check_answers(&mut self) -> Result<(), Stop> {
        for primary in self.living_primaries() {
            let unanswered = self.primaries[primary].requests.len();
            if unanswered > 0 {
                let text = format!(
                    "primary {primary} has {unanswered} unanswered requests, although no in-sync replica is left"
                );
                return Err(Violation::new("I11", text).into());
            }
        }
        Ok(())
    }

    fn check_everything(&mut self) -> Result<(), Stop> {
        let Some(primary) = self.serving_primary() else { return Ok(()) };
        self.log(|| "== the whole volume is read back".into());
        let sectors = self.sectors;
        let longest = settings::MAX_PAYLOAD / SECTOR;
        for first in (0..sectors).step_by(longest as usize) {
            self.issue_read(primary, first, longest.min(sectors - first));
        }
        self.issue_flush(primary);
        self.stabilize(
            |c| c.primaries[primary].requests.is_empty(),
            "the last reads and the last flush",
        )?;
        self.rot_unseen();
        self.judge_convergence("at the end");
        self.command(primary, Command::Detach);
        self.stabilize(|c| !c.primaries[primary].alive, "the last detach")?;
        self.judge_convergence("after the last detach");
        self.violation.take().map_or(Ok(()), |violation| Err(violation.into()))
    }

    /// Lets time pass until something is so.
    fn stabilize(&mut self, done: impl Fn(&Self) -> bool, what: &str) -> Result<(), Stop> {
        let step = self.profile.patience() / u64::from(LOOKS);
        for _ in 0..LOOKS {
            if done(self) {
                return Ok(());
            }
            self.advance(self.now + step)?;
        }
        Err(Violation::new("I11", format!("{what}: not answered")).into())
    }
}
