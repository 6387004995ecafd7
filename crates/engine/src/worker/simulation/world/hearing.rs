//! What the world hears: answers to orders, events of engines, answers to clients.

use evenkeel_core::RequestError;
use evenkeel_core::primary::Note;
use evenkeel_core::view::Cause;

use super::super::client::{Open, Stage};
use super::super::desk::{Ask, Life, Outcome, look};
use super::super::disks::{Phase, find};
use super::super::model::{BLOCK, Violation};
use super::{Connect, Told, World};
use crate::api::EngineEvent;
use crate::error::EngineError;

impl World {
    /// Hears all that has been told since it was called last.
    pub(super) fn hear(&mut self) -> Result<(), Violation> {
        while let Some((node, told)) = self.told.take() {
            self.orders[node] -= 1;
            self.is_told(told)?;
        }
        for node in 0..self.nodes.len() {
            while let Some(event) = self.nodes[node].events.take() {
                self.happened(node, event)?;
            }
        }
        self.look_at_desks()
    }

    fn is_told(&mut self, told: Told) -> Result<(), Violation> {
        match told {
            Told::Opened(replica, Ok(())) => {
                self.note("opened", replica as u64);
                self.replicas[replica].phase = Phase::Open;
            }
            Told::Closed(replica, Ok(())) => {
                self.note("closed", replica as u64);
                self.replicas[replica].phase = Phase::Closed;
                if !self.replicas[replica].is_free() {
                    let id = self.replicas[replica].id;
                    return Err(("I11", format!("{id:?} is closed, and its file is in use")));
                }
            }
            Told::Attached(volume, Ok(())) => self.note("attached", volume as u64),
            Told::Added(client, Ok(())) => {
                // It may have left meanwhile.
                if self.clients[client].stage == Stage::Adding {
                    self.clients[client].stage = Stage::Running;
                }
            }
            // The volume has ended meanwhile.
            Told::Added(client, Err(EngineError::Unknown)) => {
                self.clients[client].stage = Stage::Gone;
            }
            Told::Removed(client, Ok(())) => {
                self.note("removed", client as u64);
                self.is_gone(client)?;
            }
            // It has ended by itself, or with its volume.
            Told::Removed(_, Err(EngineError::Unknown)) => {}
            Told::Commanded(volume, result) => {
                self.note("commands", volume as u64 + 2 * u64::from(result.is_ok()));
            }
            told => return Err(("orders", format!("{told:?}"))),
        }
        Ok(())
    }

    /// Nothing is heard any more of a front end.
    fn is_gone(&mut self, client: usize) -> Result<(), Violation> {
        let client = &mut self.clients[client];
        client.stage = Stage::Gone;
        if look(&client.desk).life == Life::Running {
            return Err(("orders", format!("{:?} is gone, and was not told", client.id)));
        }
        Ok(())
    }

    fn happened(&mut self, node: usize, event: EngineEvent) -> Result<(), Violation> {
        let volume = |id| self.plan.shapes.iter().position(|it| it.id == id).expect("it is known");
        match event {
            EngineEvent::ReadView { volume: id, primary, call } => {
                self.volumes[volume(id)].coordinator.is_asked(primary, call, None)?;
            }
            EngineEvent::SwapView { volume: id, primary, call, view, replaces } => {
                let swap = Some((*view, *replaces));
                self.volumes[volume(id)].coordinator.is_asked(primary, call, swap)?;
            }
            EngineEvent::Note { volume: id, note } => {
                let volume = volume(id);
                self.volumes[volume].is_serving |= matches!(note, Note::Serving { .. });
                self.noted(note)?;
            }
            EngineEvent::Ended { volume: id, primary, reason } => {
                let volume = volume(id);
                if self.log {
                    println!("volume {volume} ends: {reason:?}");
                }
                self.note("ends", volume as u64);
                if self.volumes[volume].primary.take() != Some(primary) {
                    return Err(("orders", format!("{primary:?} ends, and is not attached")));
                }
                self.has_ended(volume)?;
            }
            EngineEvent::FrontendEnded { volume: id, frontend, reason } => {
                let volume = volume(id);
                let is_it = |it: &super::Client| it.volume == volume && it.id == frontend;
                let client = self.clients.iter().position(is_it).expect("it was added");
                if self.clients[client].stage != Stage::Leaving {
                    return Err(("answers", format!("{frontend:?} ends by itself: {reason}")));
                }
                self.note("front ends that ended", client as u64);
                self.clients[client].stage = Stage::Gone;
            }
            EngineEvent::DiskError { volume: id, replica, kind, reason } => {
                let (volume, kind) = (volume(id), kind as u64);
                if self.log {
                    println!("volume {volume}, {replica:?}: {reason}");
                }
                self.disk_failed(volume, replica, kind, &reason)?;
            }
            EngineEvent::RequestsFailed { .. } => self.note("failures told", 0),
            EngineEvent::Connect { volume: id, request, replica, node: to, .. } => {
                let to = self.nodes.iter().position(|it| it.id == to).expect("it is there");
                self.connects.push((node, Connect { volume: volume(id), request, replica, to }));
            }
            EngineEvent::LinkClosed { volume: id, reason, .. } => {
                if self.log {
                    println!("volume {}: a link ends: {reason}", volume(id));
                }
                self.note("links that ended", node as u64);
            }
        }
        Ok(())
    }

    fn noted(&mut self, note: Note) -> Result<(), Violation> {
        if self.log {
            println!("{note:?}");
        }
        match note {
            Note::Serving { .. } => self.note("serving", 0),
            Note::Left(_, Cause::Late) if self.is_calm => {
                return Err(("I11", format!("nothing is wrong, and yet {note:?}")));
            }
            Note::Left(..) => self.note("replicas that left", 0),
            Note::Completed { .. } => self.note("rebuilds", 0),
            Note::Suspended(_) => self.note("requests that wait", 0),
            _ => {}
        }
        Ok(())
    }

    /// A primary has ended: nothing goes on that was attached with it.
    fn has_ended(&mut self, volume: usize) -> Result<(), Violation> {
        (self.volumes[volume].is_serving, self.volumes[volume].is_detaching) = (false, false);
        for client in 0..self.clients.len() {
            let it = &self.clients[client];
            if it.volume == volume && matches!(it.stage, Stage::Running | Stage::Leaving) {
                self.is_gone(client)?;
            }
        }
        Ok(())
    }

    fn disk_failed(
        &mut self,
        volume: usize,
        id: evenkeel_core::ReplicaId,
        kind: u64,
        reason: &str,
    ) -> Result<(), Violation> {
        let found = find(&self.replicas, volume, id);
        let replica = &mut self.replicas[found.expect("it is one of the world's")];
        replica.told_of = replica.drive.failures();
        if !reason.starts_with("a flush of its drive") {
            self.note("errors of disks", kind);
            return Ok(());
        }
        replica.times_told += 1;
        let failed = replica.told_of - replica.opened_at + self.refusals - replica.refusals;
        if replica.times_told > failed {
            return Err(("W5", format!("{id:?} is told of a flush that has not failed")));
        }
        self.note("failed flushes of others", volume as u64);
        Ok(())
    }

    /// A front end has answered its client.
    pub(super) fn is_answered(
        &mut self,
        client: usize,
        name: u64,
        outcome: Outcome,
    ) -> Result<(), Violation> {
        let (id, volume) = (self.clients[client].id, self.clients[client].volume);
        let Some(open) = self.clients[client].is_answered(name) else {
            return Err(("answers", format!("{id:?} is answered {name}, which is not open")));
        };
        if self.log {
            println!("{id:?} of volume {volume} is answered {name}: {outcome:?}");
        }
        let Open { ask, blocks, began } = open;
        let (now, model) = (self.step, &mut self.volumes[volume].model);
        let is_change = matches!(ask, Ask::Write { .. } | Ask::Zero { .. });
        match (&ask, outcome) {
            (Ask::Write { .. } | Ask::Zero { .. }, Outcome::Done) => {
                model.acknowledged(name, &blocks, now);
                self.note("changes", name);
            }
            (Ask::Flush, Outcome::Done) => self.note("flushes", name),
            (Ask::Drain, Outcome::Drained) => self.note("drains", name),
            (Ask::Read { .. }, Outcome::Data(values)) => {
                if values.len() as u64 != blocks.end - blocks.start {
                    return Err(("answers", format!("{name} is answered {} blocks", values.len())));
                }
                model.is_read(&blocks, &values, began)?;
                self.note("reads", name);
            }
            (Ask::Map { offset, length }, Outcome::Extents(extents)) => {
                let mut at = *offset;
                for (run, is_allocated) in extents {
                    let mut inside = at.div_ceil(BLOCK)..(at + run) / BLOCK;
                    if !is_allocated && inside.any(|block| model.holds_data(block)) {
                        return Err(("allocation", format!("{name}: a hole at {at}+{run}")));
                    }
                    at += run;
                }
                if at != offset + length {
                    return Err(("answers", format!("{name} is answered a map up to {at}")));
                }
                self.note("maps", name);
            }
            (_, Outcome::Failed(RequestError::Cancelled)) => {
                if is_change {
                    model.cancelled(name, &blocks);
                }
                self.note("cancelled", name);
            }
            (_, Outcome::Failed(_)) => self.note("failures", name),
            (ask, outcome) => return Err(("answers", format!("{ask:?} is answered {outcome:?}"))),
        }
        Ok(())
    }
}
