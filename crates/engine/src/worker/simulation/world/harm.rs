//! What goes wrong, but for operations that fail.

use super::super::disks::Phase;
use super::super::node::Node;
use super::super::plan::DRIVES;
use super::{Stage, World};
use crate::seeds::Random;

impl World {
    /// Of all kinds of harm some are done, rarely: of ten thousand steps this is called in 400.
    pub(super) fn do_harm(&mut self) {
        let faults = self.plan.faults;
        let comes = |random: &mut Random, often: u64| random.chance(often * 2);
        if comes(&mut self.random, faults.flushes) {
            let node = self.random.index(self.nodes.len());
            let drive = self.random.index(self.nodes[node].drives.len());
            self.nodes[node].drives[drive].flush_failed();
            self.note("flushes of somebody that failed", drive as u64);
        }
        if comes(&mut self.random, faults.closes) {
            let replica = self.random.index(self.replicas.len());
            if self.replicas[replica].phase == Phase::Open {
                self.close(replica);
                self.note("closes", replica as u64);
            }
        }
        if comes(&mut self.random, faults.detaches) {
            let volume = self.random.index(self.volumes.len());
            if self.volumes[volume].primary.is_some() && !self.volumes[volume].is_detaching {
                self.detach(volume);
                self.note("detaches", volume as u64);
            }
        }
        if comes(&mut self.random, faults.kills) {
            let node = self.random.index(self.nodes.len());
            self.kill(node);
        }
        if comes(&mut self.random, faults.partings) {
            let (node, other) = (self.random.index(self.nodes.len()), self.any_worker().0);
            let id = self.nodes[other].id;
            self.nodes[node].engine.disconnect(id);
            self.note("partings", node as u64);
        }
        if comes(&mut self.random, faults.pauses) {
            self.now.0 += self.random.below(8_000_000_000);
            self.note("pauses", 0);
        }
        let running: Vec<_> = (0..self.clients.len())
            .filter(|client| self.clients[*client].stage == Stage::Running)
            .collect();
        if running.is_empty() {
            return;
        }
        let client = self.random.pick(&running);
        if comes(&mut self.random, faults.removals) {
            self.remove(client);
            self.note("removals", client as u64);
        } else if comes(&mut self.random, faults.hang_ups) {
            self.clients[client].hang_up();
            self.note("hang-ups", client as u64);
        }
    }

    /// The process of a node is killed, and the next one begins.
    fn kill(&mut self, node: usize) {
        self.note("kills", node as u64);
        for bench in &mut self.nodes[node].workers {
            bench.die(&mut self.random);
        }
        let id = self.nodes[node].id;
        let plan = &self.plan;
        self.nodes[node] = Node::new(id, plan.workers, DRIVES, plan.memory, self.now);
        let drives = &self.nodes[node].drives;
        let here = self.replicas.iter_mut().filter(|it| it.node == node);
        here.for_each(|it| it.process_ended(drives));
        // Nobody is left to hear what was answered at its end.
        while self.told.take().is_some() {}
        self.orders[node] = 0;
        self.connects.retain(|(from, _)| *from != node);
        for it in self.volumes.iter_mut().filter(|it| it.node == node) {
            it.primary = None;
            (it.is_serving, it.is_detaching) = (false, false);
        }
        // Also those whose front ends were ordered there, and for whose volume that came too late.
        let clients = self.clients.iter_mut().filter(|it| it.node == node);
        clients.for_each(|it| it.stage = Stage::Gone);
    }
}
