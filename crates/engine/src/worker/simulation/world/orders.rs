//! What the control plane orders: it opens, attaches and adds, and ends all that.

use evenkeel_core::primary::{Command, Earlier, PrimaryConfig};
use evenkeel_core::{Incarnation, PrimaryId, Settings};

use super::super::client::Client;
use super::super::disks::Phase;
use super::{Stage, Told, World};
use crate::api::FrontendId;

impl World {
    /// Opens, attaches and adds what is not there.
    pub(super) fn keep_going(&mut self) {
        for replica in 0..self.replicas.len() {
            if self.replicas[replica].phase == Phase::Closed && self.random.chance(300) {
                self.open(replica);
            }
        }
        if self.random.chance(100) {
            // Whether or not it is out of use.
            let replica = self.random.index(self.replicas.len());
            let (volume, id) = (self.replicas[replica].volume, self.replicas[replica].id);
            self.command(volume, Command::ReAdd(id));
        }
        for volume in 0..self.volumes.len() {
            let count = self.clients_of(volume).count();
            if self.volumes[volume].primary.is_none() && self.random.chance(300) {
                self.attach(volume);
            } else if self.volumes[volume].primary.is_some()
                && !self.volumes[volume].is_detaching
                && count < self.plan.clients
            {
                self.add_client(volume);
            }
        }
    }

    pub(super) fn open(&mut self, replica: usize) {
        let node = self.replicas[replica].node;
        // Whoever is told that it is closed has looked whether its file is free.
        let Some(open) = self.replicas[replica].read(node) else { return };
        self.replicas[replica].phase = Phase::Opening;
        self.replicas[replica].refusals = self.refusals;
        let told = self.told.clone();
        self.orders[node] += 1;
        let answer = move |result| told.put((node, Told::Opened(replica, result)));
        self.nodes[node].engine.open_replica(open, answer);
    }

    pub(super) fn close(&mut self, replica: usize) {
        let it = &mut self.replicas[replica];
        it.phase = Phase::Closing;
        let (volume, id, told) = (self.plan.shapes[it.volume].id, it.id, self.told.clone());
        let node = it.node;
        self.orders[node] += 1;
        let answer = move |result| told.put((node, Told::Closed(replica, result)));
        self.nodes[node].engine.close_replica(volume, id, answer);
    }

    pub(super) fn attach(&mut self, volume: usize) {
        let (shape, it) = (&self.plan.shapes[volume], &mut self.volumes[volume]);
        it.incarnation += 1;
        // Mostly where it was.
        if self.random.chance(300) {
            it.node = self.random.index(self.nodes.len());
        }
        let node = it.node;
        let id = PrimaryId { node: self.nodes[node].id, incarnation: Incarnation(it.incarnation) };
        it.primary = Some(id);
        let (settings, earlier) = (Settings::default(), Earlier::Ended);
        let config = PrimaryConfig { id, volume: shape.id, settings, earlier };
        let told = self.told.clone();
        self.orders[node] += 1;
        let answer = move |result| told.put((node, Told::Attached(volume, result)));
        self.nodes[node].engine.attach(config, None, answer);
    }

    pub(super) fn detach(&mut self, volume: usize) {
        self.volumes[volume].is_detaching = true;
        self.command(volume, Command::Detach);
    }

    fn command(&mut self, volume: usize, command: Command) {
        let (id, told) = (self.plan.shapes[volume].id, self.told.clone());
        let node = self.volumes[volume].node;
        self.orders[node] += 1;
        let answer = move |result| told.put((node, Told::Commanded(volume, result)));
        self.nodes[node].engine.command(id, command, answer);
    }

    pub(super) fn add_client(&mut self, volume: usize) {
        let it = &mut self.volumes[volume];
        it.clients += 1;
        let (client, make) =
            Client::new(volume, it.node, FrontendId(it.clients), self.plan.sockets);
        let (id, told, index) = (client.id, self.told.clone(), self.clients.len());
        self.clients.push(client);
        let (shape, node) = (&self.plan.shapes[volume], it.node);
        self.orders[node] += 1;
        let answer = move |result| told.put((node, Told::Added(index, result)));
        let engine = &self.nodes[node].engine;
        engine.add_frontend(shape.id, id, "simulated".to_owned(), make, answer);
    }

    pub(super) fn remove(&mut self, client: usize) {
        let it = &mut self.clients[client];
        it.stage = Stage::Leaving;
        let (shape, told) = (&self.plan.shapes[it.volume], self.told.clone());
        let node = self.volumes[it.volume].node;
        self.orders[node] += 1;
        let answer = move |result| told.put((node, Told::Removed(client, result)));
        self.nodes[node].engine.remove_frontend(shape.id, it.id, answer);
    }
}
