//! What empties a node that is alive: commands, in the order in which they are accepted.

use std::collections::BTreeSet;
use std::sync::Arc;

use evenkeel_api::types::{Disk, VolumeStatus};
use evenkeel_core::{ReplicaId, ReplicaRecord, Role};

use super::Use;
use crate::coordinator::NodeLiveness;
use crate::volumes::Node;
use crate::volumes::commands::members;
use crate::volumes::lookup::{Found, places};
use crate::volumes::status;

/// Most volumes whose commands are listed at once.
const MAX_VOLUMES: usize = 20;
/// Digits of an identity that people are shown.
const SHORT: usize = 8;

/// How a node is emptied.
#[derive(Debug, Default)]
pub(super) struct Drain {
    /// The commands, in their order.
    commands: Vec<String>,
    /// What keeps a replica there, a sentence each.
    obstacles: Vec<String>,
    /// Volumes that are not listed yet.
    more: usize,
}

impl Drain {
    /// The same as text, a line each.
    pub(super) fn lines(mut self) -> String {
        self.commands.append(&mut self.obstacles);
        if self.more > 0 {
            let more = self.more;
            self.commands.push(format!(
                "and then, of {more} more volume(s), what this command lists when these are done"
            ));
        }
        self.commands.join("\n")
    }
}

/// What empties a node of these volumes.
pub(super) async fn drain(node: &Arc<Node>, victim: &NodeLiveness, uses: &[Use]) -> Drain {
    let mut disks = node.cluster.disks().await.map(|listed| listed.disks).unwrap_or_default();
    disks.retain(|disk| disk.node.id != victim.node.id);
    let mut drain = Drain { more: uses.len().saturating_sub(MAX_VOLUMES), ..Drain::default() };
    for held in uses.iter().take(MAX_VOLUMES) {
        let status = status::one(node, &held.found.stored.record.id, false).await.ok();
        let volume = Volume { node, held, victim: &victim.node.name, status };
        volume.drain(&mut disks, &mut drain);
    }
    drain
}

/// A volume that uses the node.
struct Volume<'a> {
    node: &'a Node,
    held: &'a Use,
    victim: &'a str,
    status: Option<VolumeStatus>,
}

impl Volume<'_> {
    fn found(&self) -> &Found {
        &self.held.found
    }

    fn name(&self) -> &str {
        &self.found().stored.record.name
    }

    fn drain(&self, disks: &mut [Disk], drain: &mut Drain) {
        let view = &self.found().view;
        let records: Vec<(usize, &ReplicaRecord)> =
            self.held.replicas.iter().filter_map(|id| view.replica(*id)).collect();
        // Those first that only stand for others: as long as one does, its copy cannot be moved.
        let (own, others): (Vec<_>, Vec<_>) =
            records.into_iter().partition(|(_, record)| record.role == Role::Own);
        let mut taken = BTreeSet::new();
        let mut steps = Vec::new();
        for (mirror, record) in others {
            self.remove(mirror, record, disks, &mut taken, &mut steps);
        }
        let before = steps.len();
        for (mirror, record) in own {
            match self.moved(mirror, record, disks, &mut taken) {
                Ok(step) => steps.push(step),
                Err(why) => drain.obstacles.push(why),
            }
        }
        self.in_use(steps.len() > before, steps, &mut drain.commands);
    }

    /// What copies needs a volume that is attached; and a node that has it attached is in use.
    fn in_use(&self, copies: bool, mut steps: Vec<String>, commands: &mut Vec<String>) {
        let (name, stopped) = (self.name(), self.found().stored.record.stopped);
        let is_attached = !self.found().view.primaries.is_empty();
        if stopped && !steps.is_empty() {
            commands.push(format!("evenkeel volume assemble {name}"));
        }
        if copies && !is_attached {
            let at = self.other_node();
            steps.insert(0, format!("evenkeel attach {name} --as none --node {at}"));
            steps.push(format!("evenkeel detach {name} --node {at}"));
        }
        if self.held.attached {
            steps.push(format!("evenkeel detach {name} --node {}", self.victim));
        }
        commands.append(&mut steps);
    }

    /// A node that may attach the volume for the time of the copies: this one, if it stays.
    fn other_node(&self) -> String {
        let here = &self.node.identity.name;
        let nodes = self.node.coordinator.nodes();
        let others = nodes.iter().filter(|m| m.may_live && m.node.name != self.victim);
        let mut others = others.map(|member| &member.node.name);
        match here == self.victim {
            true => others.next().unwrap_or(here).clone(),
            false => here.clone(),
        }
    }

    /// A spare, or what stands for another replica: it holds nothing that a mirror counts on.
    fn remove(
        &self,
        mirror: usize,
        record: &ReplicaRecord,
        disks: &mut [Disk],
        taken: &mut BTreeSet<(usize, String)>,
        steps: &mut Vec<String>,
    ) {
        let (name, replica) = (self.name(), self.replica(record));
        if record.role == Role::Spare(None)
            && let Ok(place) = self.place(mirror, record.role, disks, taken)
        {
            steps.push(format!("evenkeel replica add {name} {place} --spare --mirror {mirror}"));
        }
        if record.state.takes_writes() {
            steps.push(format!("evenkeel replica fail {name} {replica}"));
        }
        steps.push(format!("evenkeel replica remove {name} {replica} --yes"));
    }

    /// A copy goes to another node, if there is a source and room; one that is being replaced is
    /// waited for.
    fn moved(
        &self,
        mirror: usize,
        record: &ReplicaRecord,
        disks: &mut [Disk],
        taken: &mut BTreeSet<(usize, String)>,
    ) -> Result<String, String> {
        let name = self.name();
        let stays = |other: &ReplicaRecord| !self.held.replicas.contains(&other.id);
        let replicas = &self.found().view.mirrors[mirror].replicas;
        if replicas.iter().any(|r| r.role == Role::Replaces(record.id) && stays(r)) {
            return Ok(format!("evenkeel volume status {name} --wait in-sync"));
        }
        let replica = self.replica(record);
        let reported = self.status.as_ref().and_then(|status| status.mirrors.get(mirror));
        if reported.is_some_and(|mirror| !mirror.has_source()) {
            return Err(format!(
                "volume {name}: no in-sync replica of mirror {mirror} answers, from which {replica} could be copied"
            ));
        }
        let place = self.place(mirror, Role::Replaces(record.id), disks, taken);
        let place = place.map_err(|why| {
            format!("volume {name}: no other node can take {replica}: {why}; add a disk to one")
        })?;
        Ok(format!("evenkeel replica move {name} {replica} --to {place} --wait"))
    }

    /// Where another replica of a mirror goes, with what was promised to others before.
    fn place(
        &self,
        mirror: usize,
        role: Role,
        disks: &mut [Disk],
        taken: &mut BTreeSet<(usize, String)>,
    ) -> Result<String, String> {
        let is_free = |disk: &&Disk| !taken.contains(&(mirror, disk.node.id.clone()));
        let free: Vec<Disk> = disks.iter().filter(is_free).cloned().collect();
        let chosen = members::elsewhere(self.found(), mirror, role, &free);
        let chosen = chosen.map_err(|error| error.why)?;
        taken.insert((mirror, chosen.node.id.clone()));
        members::take_space(disks, &chosen, members::length(self.found()));
        Ok(format!("{}:{}", chosen.node.name, chosen.name))
    }

    /// A replica by its node and disk, or by its identity where that means several.
    fn replica(&self, record: &ReplicaRecord) -> String {
        let (node, found) = (self.node, self.found());
        let place = |record: &ReplicaRecord| places(node, found, record)[0].clone();
        let own = place(record);
        let all = || found.view.replicas().map(|(_, record)| record);
        match all().filter(|other| place(other) == own).count() {
            1 => own,
            _ => digits(record.id, &all().map(|other| other.id).collect::<Vec<_>>()),
        }
    }
}

/// As many digits of an identity as tell it from the others.
fn digits(id: ReplicaId, all: &[ReplicaId]) -> String {
    let text = id.to_string();
    let means_others =
        |short: &str| all.iter().any(|other| *other != id && other.to_string().starts_with(short));
    let mut shorter = (SHORT..text.len()).filter_map(|length| text.get(..length));
    shorter.find(|short| !means_others(short)).unwrap_or(&text).to_owned()
}
