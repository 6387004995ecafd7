//! Operators who stop a volume, or whose coordinator has lost its database, and who put the volume
//! together from the disks that they find. Found is what lies on nodes that live and can be reached
//! from the one at which the operator sits. How the volume goes on is decided by the shipped code.

use std::collections::BTreeSet;

use evenkeel_core::assembly::{Branch, Decision, Present, Question, Refusal, Start, branches};
use evenkeel_core::primary::{Command, EndReason};
use evenkeel_core::*;
use evenkeel_format::Superblock;

use super::{Cluster, Event};
use crate::coordinator::Database;
use crate::marks::Mark;
use crate::oracles::minimal::Primaries;
use crate::oracles::{lines, views};
use crate::payload::SECTOR;
use crate::queue::Time;
use crate::sabotage::Sabotage;
use crate::store::Store;

/// Most epochs of one run: a view remembers only so many.
const MAX_BEGUN: u32 = 5;

/// What may happen to a volume, or to the coordinator's database.
#[derive(Debug, Clone, Copy)]
pub(super) enum Trouble {
    /// An operator stops the volume.
    Stop,
    /// The database is lost.
    Lose,
    /// The database is restored from a backup.
    Restore,
}

/// What operators are at.
#[derive(Debug, Default)]
pub(super) struct Operators {
    /// Whether somebody is about to put the volume together.
    is_planned: bool,
    /// New epochs so far.
    begun: u32,
    /// Whether an assembly was refused because nothing in-sync was found of a mirror.
    pub found_nothing: bool,
    /// Whether nobody attaches the volume until it is put together.
    pub is_held: bool,
    /// Why the last attach ended, if operators have to do something about it.
    pub stuck: Option<EndReason>,
    /// Replicas of which a primary has said that they have diverged.
    pub diverged: BTreeSet<ReplicaId>,
    /// Whether losses are taken now: at the end, when all disks that live are there.
    is_last_resort: bool,
}

/// What an operator finds.
struct Findings {
    superblocks: Vec<(NodeId, Superblock)>,
    /// Whether the volume is attached on a node that answers, and by whom.
    attached: Vec<usize>,
}

/// A decision that somebody made.
struct Choice {
    keep: Option<usize>,
    force: bool,
}

impl Cluster {
    /// Something is going to happen after which the volume has to be put together, at `until`.
    /// Often a node can't be reached from before that until later: then old primaries live on
    /// there, unseen, and disks are missing.
    pub(super) fn plan_assembly(&mut self, node: usize, until: Time) {
        if self.operators.is_planned || self.operators.begun >= MAX_BEGUN {
            return;
        }
        self.operators.is_planned = true;
        let duration = until - self.now;
        if self.random.chance(500) {
            let end = until + self.random.below(duration * 2);
            self.isolate(node, end);
        }
        let trouble = match self.random.below(10) {
            0..=2 => {
                self.command_somewhere(Command::Detach);
                Trouble::Stop
            }
            3..=6 => Trouble::Lose,
            _ => Trouble::Restore,
        };
        let pause = self.random.below(duration);
        self.queue.push(self.now + pause, Event::Trouble(trouble));
        self.queue.push(until, Event::Assemble);
    }

    /// It happens.
    pub(super) fn trouble(&mut self, trouble: Trouble) {
        if !self.faulty || !self.coordinator.is_usable() {
            return;
        }
        match trouble {
            Trouble::Stop => self.stop_volume(),
            Trouble::Lose => {
                self.log(|| "the coordinator's database is lost".into());
                self.coordinator.lose();
            }
            Trouble::Restore => {
                let commits = self.random.index(self.coordinator.commits());
                // Nobody attaches the volume while its database is being restored.
                if self.living_primaries().all(|p| self.primaries[p].served) {
                    self.log(|| {
                        format!("the coordinator's database is as after {commits} commits")
                    });
                    self.coordinator.restore(commits);
                }
            }
        }
    }

    /// A volume that is detached is stopped: its replicas are closed. Perhaps the disks are then
    /// taken to another cluster.
    fn stop_volume(&mut self) {
        let is_attached = self.living_primaries().next().is_some();
        let is_clean = self.coordinator.newest().primaries.is_empty();
        if is_attached || !is_clean {
            return;
        }
        self.log(|| "   the volume is stopped".into());
        self.marks.reach(Mark::Stopped);
        (self.coordinator.stopped, self.coordinator.was_touched) = (true, true);
        for replica in 0..self.replicas.len() {
            if self.replicas[replica].core.is_some() {
                self.replica_dies(replica, false);
            }
        }
        if self.random.chance(400) {
            self.coordinator.lose();
        }
    }

    /// Somebody puts the volume together, or tries again later.
    pub(super) fn assemble_planned(&mut self) {
        if !self.operators.is_planned {
            return;
        }
        if self.try_assembly() {
            return self.operators.is_planned = false;
        }
        let lease = self.profile.lease.time().as_nanos() as Time;
        let pause = self.random.between(lease / 4, lease * 2);
        self.queue.push(self.now + pause, Event::Assemble);
    }

    /// At the end everything is brought together, whatever it costs. Whether the volume is usable.
    pub(super) fn assemble_at_last(&mut self) -> bool {
        let is_diverged = |(_, record): (usize, &ReplicaRecord)| {
            self.operators.diverged.contains(&record.id) && !self.is_dead(record.id)
        };
        let is_split = self.coordinator.newest().replicas().any(is_diverged);
        let needs_help = is_split || self.operators.stuck.is_some();
        let is_attached = self.living_primaries().next().is_some();
        let is_usable = self.coordinator.is_usable();
        if is_usable && (!self.coordinator.was_touched || (is_attached && !needs_help)) {
            self.operators.is_held = false;
            return true;
        }
        self.operators.is_held = true;
        for primary in self.living_primaries().collect::<Vec<_>>() {
            if self.primaries[primary].commands.is_empty() {
                self.command(primary, Command::Detach);
            }
        }
        self.operators.is_last_resort = true;
        self.operators.is_planned = false;
        let is_done = self.living_primaries().next().is_none() && self.try_assembly();
        self.operators.is_held &= !is_done;
        is_done
    }

    fn try_assembly(&mut self) -> bool {
        let up: Vec<_> = (0..self.nodes.len()).filter(|n| self.nodes[*n].up).collect();
        if up.is_empty() {
            return false;
        }
        let here = self.random.pick(&up);
        let findings = self.look_around(here);
        if !findings.attached.is_empty() && !self.coordinator.is_usable() {
            // It is detached first, as the refusal says.
            for primary in findings.attached {
                if self.primaries[primary].commands.is_empty() {
                    self.command(primary, Command::Detach);
                }
            }
            return false;
        }
        if !self.is_backup_covered(&findings) {
            return false;
        }
        self.put_together(here, &findings)
    }

    /// What lies on the disks that can be reached from a node, and who runs there.
    fn look_around(&self, here: usize) -> Findings {
        let reaches = |node: usize| {
            let is_open =
                !self.network.is_blocked(here, node) && !self.network.is_blocked(node, here);
            self.nodes[node].up && (node == here || is_open)
        };
        let slots = self.replicas.iter().filter(|slot| reaches(slot.node));
        let found = slots.filter_map(|slot| {
            let superblock = Store::examine(&slot.disk)?;
            Some((NodeId(slot.node as u128 + 1), superblock))
        });
        Findings {
            superblocks: found.collect(),
            attached: self
                .living_primaries()
                .filter(|primary| reaches(self.primaries[*primary].node))
                .collect(),
        }
    }

    /// A backup may be older than what a missing replica knows, or a primary, and the coordinator
    /// can't tell. So everything that it calls a member is brought first, and the volume detached.
    fn is_backup_covered(&self, findings: &Findings) -> bool {
        let known = self.coordinator.known();
        let Some(known) = known.filter(|_| self.coordinator.database() == Database::Restored)
        else {
            return true;
        };
        let is_there = |id| findings.superblocks.iter().any(|(_, s)| s.replica == id);
        let goes_on = |primary: usize| {
            let slot = &self.primaries[primary];
            slot.core
                .status(self.nodes[slot.node].clock(self.now))
                .view
                .is_some_and(|view| view.is_of_epoch(&known) && view.generation > known.generation)
        };
        if self.living_primaries().any(goes_on) {
            return false;
        }
        self.operators.is_last_resort
            || known.mirrors.iter().flat_map(MirrorView::members).all(|r| is_there(r.id))
    }

    fn put_together(&mut self, here: usize, findings: &Findings) -> bool {
        let known = self.coordinator.known();
        let on_disks = findings.superblocks.iter().map(|(_, superblock)| &superblock.view);
        let all: Vec<&View> = on_disks.chain(&known).collect();
        let branches = branches(&all);
        let ids = [self.random.bits(), self.random.bits()].map(u128::from);
        let start = Start {
            coordinator: CoordinatorId(ids[0]),
            history: History(ids[1]),
            now: 0,
            here: NodeId(here as u128 + 1),
            force: false,
        };
        let is_unconfirmed = matches!(self.operators.stuck.take(), Some(EndReason::Unconfirmed(_)));
        let force = is_unconfirmed && self.operators.is_last_resort;
        let mut choice = Choice { keep: None, force };
        loop {
            let is_attached = !findings.attached.is_empty();
            let decision = decide(findings, known.as_ref(), is_attached, &branches, &choice, start);
            match decision {
                Ok(Decision::Known) => return self.goes_on(known),
                Ok(Decision::Begin(view))
                    if self.mixes_lines(&branches, &choice, &view, findings) =>
                {
                    self.log(|| {
                        "operators do not dare: the mirrors would be of several lines".into()
                    });
                    self.operators.found_nothing |= self.operators.is_last_resort;
                    return false;
                }
                Ok(Decision::Begin(view)) => {
                    let found: Vec<_> =
                        findings.superblocks.iter().map(|(_, s)| s.replica).collect();
                    self.judge_epoch_begun(&branches, &choice, &view, &found);
                    self.begin_epoch(here, (&branches, findings), &choice, &view);
                    return true;
                }
                Err(refusal) => {
                    self.log(|| format!("the assembly on node {here} is refused: {refusal:?}"));
                    if !self.takes_loss(&refusal, &branches, findings, &mut choice) {
                        return false;
                    }
                }
            }
        }
    }

    /// What an operator does about a refusal: whether another choice is tried at once.
    fn takes_loss(
        &mut self,
        refusal: &Refusal,
        branches: &[Branch],
        findings: &Findings,
        choice: &mut Choice,
    ) -> bool {
        let dares = self.profile.forces && self.random.chance(500);
        let dares = dares || self.operators.is_last_resort;
        match refusal {
            Refusal::Missing(_) => {
                self.marks.reach(Mark::AssembledIncomplete);
                let errs = self.sabotage == Some(Sabotage::AssembleWithout);
                let may = (dares || errs) && !choice.force;
                choice.force |= may;
                may
            }
            Refusal::Diverged => {
                self.marks.reach(Mark::AssembledApart);
                let own = |branch: &&Branch| {
                    let replicas =
                        branch.members.iter().filter(|n| **n < findings.superblocks.len());
                    let shared = |n: &usize| {
                        branches.iter().filter(|other| other.members.contains(n)).count() > 1
                    };
                    replicas.filter(|n| !shared(n)).count() > 0
                };
                let choices: Vec<_> =
                    (0..).zip(branches).filter(|(_, branch)| own(branch)).collect();
                if !dares || choices.is_empty() {
                    return false;
                }
                choice.keep = Some(choices[self.random.index(choices.len())].0);
                true
            }
            // Another branch has to be tried, if there is one.
            Refusal::NothingOf(_) => {
                self.operators.found_nothing = true;
                false
            }
            _ => false,
        }
    }

    /// The coordinator knows the newest view.
    fn goes_on(&mut self, known: Option<View>) -> bool {
        let Some(view) = known else { return false };
        self.operators.diverged.clear();
        if !self.coordinator.is_usable() {
            self.marks.reach(Mark::AssembledKnown);
            self.log(|| "the volume goes on as the coordinator knows it".into());
            if *self.coordinator.newest() != view {
                self.relaxed = true;
                self.reserved = None;
            }
            self.sectors = (view.geometry.size / u64::from(SECTOR)) as u32;
            self.coordinator.assembled(view);
            self.open_replicas();
        }
        true
    }

    fn begin_epoch(
        &mut self,
        here: usize,
        (branches, findings): (&[Branch], &Findings),
        choice: &Choice,
        view: &View,
    ) {
        let kept = &branches[choice.keep.unwrap_or(0)].head;
        self.log(|| format!("a new epoch begins: {}", crate::describe::view(view)));
        self.operators.begun += 1;
        self.operators.diverged.clear();
        let forced = self.is_forced(choice);
        self.mark_epoch(kept, choice);
        self.begin_line(branches, choice, view, forced.then_some(findings));
        let (mirrors, states): (Vec<_>, Vec<_>) = (
            self.replicas.iter().map(|slot| slot.mirror).collect(),
            self.replicas.iter().map(|slot| state_of(view, slot.id)).collect(),
        );
        if forced || choice.keep.is_some() {
            mirrors.iter().for_each(|mirror| self.minimal.lose_track(*mirror));
            // Who takes the loss of writes takes that of a change of reservations as well.
            self.reserved = None;
        }
        let in_sync = states.iter().map(|state| *state == Some(ReplicaState::InSync));
        let all: Vec<_> = mirrors.into_iter().zip(in_sync).collect();
        self.minimal.committed(&all, Primaries { present: &[], are_others: true });
        self.sectors = (view.geometry.size / u64::from(SECTOR)) as u32;
        self.coordinator.assembled(view.clone());
        self.open_replicas();
        self.plan_attach();
        // It may live elsewhere still, unseen.
        let is_here = self.is_taken(here);
        if self.living_primaries().next().is_some() && !is_here {
            self.marks.reach(Mark::AssembledLiving);
            self.attach(here);
        }
    }

    /// Whether somebody took a loss: the canary only does as if.
    fn is_forced(&self, choice: &Choice) -> bool {
        choice.force && self.sabotage != Some(Sabotage::AssembleWithout)
    }

    fn judge_epoch_begun(
        &mut self,
        branches: &[Branch],
        choice: &Choice,
        view: &View,
        found: &[ReplicaId],
    ) {
        let kept = &branches[choice.keep.unwrap_or(0)].head;
        let forced = self.is_forced(choice);
        self.judge(views::check_assembly(kept, view, found, forced));
    }

    fn mark_epoch(&mut self, kept: &View, choice: &Choice) {
        self.marks.reach(Mark::AssembledAnew);
        if !kept.primaries.is_empty() {
            self.marks.reach(Mark::AssembledUnclean);
        }
        if choice.force {
            self.marks.reach(Mark::AssembledForced);
        }
        if choice.keep.is_some() {
            self.marks.reach(Mark::AssembledKept);
        }
    }

    /// Told to the oracles of what is read: what the new epoch may lack.
    fn begin_line(
        &mut self,
        branches: &[Branch],
        choice: &Choice,
        view: &View,
        by_force: Option<&Findings>,
    ) {
        let kept = &branches[choice.keep.unwrap_or(0)].head;
        let (old, new) = (lines::epoch(kept), lines::epoch(view));
        let source = by_force.and_then(|findings| self.taken_from(kept, view, findings));
        let (old, is_other) = (source.unwrap_or(old), source.is_some());
        // Those found may know less than the line's last view, of whatever epoch.
        let is_of_line = |view: &View| self.lines.are_one(lines::epoch(view), old);
        let truth = self.coordinator.last(is_of_line).cloned();
        // Who was not in-sync in a view that nobody adopted is so again: what it lost counts.
        self.relaxed |= self.coordinator.newest() != kept || choice.keep.is_some();
        let others =
            branches.iter().map(|branch| lines::epoch(&branch.head)).filter(|epoch| *epoch != old);
        let is_chosen = choice.keep.is_some()
            && (others.clone().count() == 0
                || others.into_iter().any(|o| self.lines.are_one(o, old)));
        if by_force.is_none() && !is_chosen {
            return self.lines.goes_on(old, new);
        }
        // A mirror has all if each replica that counts is in-sync in truth.
        let is_whole = |mirror: &MirrorView| {
            mirror.in_sync().all(|record| {
                let state = truth.as_ref().and_then(|truth| state_of(truth, record.id));
                state == Some(ReplicaState::InSync)
            })
        };
        let lossy = |mirror: &MirrorView| is_chosen || is_other || !is_whole(mirror);
        let lossy: Vec<_> = view.mirrors.iter().map(lossy).collect();
        let mut lost = vec![false; self.profile.max_sectors() as usize];
        for part in self.parts(0, self.sectors) {
            let sectors = part.volume_sector..part.volume_sector + part.count;
            sectors.for_each(|sector| lost[sector as usize] = lossy[part.mirror]);
        }
        self.log(|| format!("mirrors that may have lost something: {lossy:?}"));
        self.relaxed = true;
        self.lines.parts(old, new, lost);
    }

    /// By force a replica may count that was in-sync in a line that was not kept once, if its disk
    /// is all that there is. Returns its epoch.
    fn taken_from(&self, kept: &View, view: &View, findings: &Findings) -> Option<lines::EpochKey> {
        let is_in_sync = |view, id| state_of(view, id) == Some(ReplicaState::InSync);
        let found = findings.superblocks.iter().map(|(_, superblock)| superblock);
        let taken = found.filter(|s| is_in_sync(view, s.replica) && !is_in_sync(kept, s.replica));
        let mut epochs = taken.map(|superblock| lines::epoch(&superblock.view));
        epochs.find(|epoch| !self.lines.comes_from(lines::epoch(kept), *epoch))
    }

    /// Whether a stripe would be put together of mirrors that went different ways. The lines of the
    /// oracles are of whole volumes.
    fn mixes_lines(
        &self,
        branches: &[Branch],
        choice: &Choice,
        view: &View,
        findings: &Findings,
    ) -> bool {
        let kept = &branches[choice.keep.unwrap_or(0)].head;
        let is_other = self.is_forced(choice) && self.taken_from(kept, view, findings).is_some();
        is_other && view.mirrors.len() > 1
    }

    fn open_replicas(&mut self) {
        for replica in 0..self.replicas.len() {
            let starts = self.replicas[replica].starts;
            if self.replicas[replica].core.is_none() {
                self.queue.push(self.now + 1, Event::ReplicaStarts { replica, starts });
            }
        }
    }
}

fn state_of(view: &View, replica: ReplicaId) -> Option<ReplicaState> {
    view.replica(replica).map(|(_, record)| record.state)
}

/// Asks the shipped code.
fn decide(
    findings: &Findings,
    known: Option<&View>,
    is_attached: bool,
    branches: &[Branch],
    choice: &Choice,
    start: Start,
) -> Result<Decision, Refusal> {
    let found = findings.superblocks.iter().map(|(node, superblock)| Present {
        replica: superblock.replica,
        incarnations: superblock.incarnations,
        view: &superblock.view,
        node: *node,
    });
    let present: Vec<_> = found.collect();
    let question = Question { present: &present, known, is_attached, branches, keep: choice.keep };
    question.decide(Start { force: choice.force, ..start })
}
