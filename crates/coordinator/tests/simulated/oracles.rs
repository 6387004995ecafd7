//! What must hold of every commit, and of every answer.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_coordinator::starts::Present;
use evenkeel_coordinator::store::{Entry, Key, Space};
use evenkeel_coordinator::{Answer, Maker, NodeRecord, RemovedNode, Request, VolumeRecord};
use evenkeel_core::{Generation, View};
use evenkeel_format::decode_view;
use serde::de::DeserializeOwned;

use crate::overtaken::Overtaken;
use crate::signs::Signs;
use crate::store::{Applied, Values};

/// So long no coordinator may have heard a node that counts as dead: heartbeats come each second.
const MIN_SILENCE: u64 = 2500;

/// What must hold does not: which oracle, and why.
pub type Violation = (&'static str, String);

/// Who was heard.
#[derive(Debug, Clone, Default)]
pub struct Heard {
    /// When a node asked last that was answered so, in milliseconds.
    pub seen: BTreeMap<String, u64>,
    pub signs: Signs,
}

/// What was ever so: an answer that something is done must be true.
#[derive(Debug, Default)]
pub struct Oracles {
    pub heard: Heard,
    /// What was so when a commit began that hung since.
    pub then: Option<(u64, Heard)>,
    views: BTreeMap<(String, u128, u64), Vec<u8>>,
    ever: BTreeSet<(Space, String)>,
    placed: BTreeSet<(String, String)>,
    named: BTreeSet<(String, String)>,
    started: BTreeSet<(String, u64)>,
    /// Nodes that were ever removed, whatever the store remembers.
    removed: BTreeMap<String, RemovedNode>,
    /// Volumes that were assembled with something on a removed node, or had something there in an
    /// older store.
    came_back: BTreeSet<(String, String)>,
    /// Views that were committed since the store was copied, and when.
    since_backup: BTreeMap<Vec<u8>, u64>,
    /// Views that were committed, and then an older store was put back.
    forgotten: BTreeMap<Vec<u8>, u64>,
    /// Of which views each one that was asked for is a change.
    made_of: BTreeMap<Vec<u8>, BTreeSet<Vec<u8>>>,
    /// Replicas that were taken out, and volumes that were deleted, as the store knows; and when.
    ordered: BTreeMap<String, u64>,
    /// The same of the store that was copied.
    ordered_then: BTreeMap<String, u64>,
    pub overtaken: Overtaken,
    pub counts: BTreeMap<&'static str, u64>,
}

pub fn json<T: DeserializeOwned>(entry: &Entry) -> T {
    serde_json::from_slice(&entry.value).expect("what is stored can be read")
}

pub fn get<'a>(values: &'a Values, space: Space, name: &str) -> Option<&'a Entry> {
    values.get(&Key::new(space, name))
}

fn all(values: &Values, space: Space) -> impl Iterator<Item = (&str, &Entry)> {
    let of = values.iter().filter(move |(key, _)| key.space == space);
    of.map(|(key, entry)| (key.name.as_str(), entry))
}

fn view(values: &Values, volume: &str) -> Option<View> {
    get(values, Space::Views, volume).map(|entry| decode_view(&entry.value).expect("a view"))
}

fn is_alive_maker(values: &Values, maker: &Maker) -> bool {
    let node = get(values, Space::Nodes, &maker.node).map(json::<NodeRecord>);
    node.is_some_and(|node| node.incarnation == maker.incarnation)
}

impl Oracles {
    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    /// The store is copied.
    pub fn back_up(&mut self) {
        self.since_backup.clear();
        self.ordered_then = self.ordered.clone();
    }

    /// That copy takes the place of the store: numbers of views go on from there, and nobody was
    /// heard.
    pub fn put_back(&mut self, values: &Values) {
        self.forgotten.extend(self.since_backup.clone());
        self.ordered = self.ordered_then.clone();
        self.heard = Heard::default();
        for removed in self.removed.keys() {
            for (volume, entry) in all(values, Space::Volumes) {
                let view = view(values, volume).expect("each has one");
                if uses(&json(entry), &view, removed) {
                    self.came_back.insert((volume.to_owned(), removed.clone()));
                }
            }
        }
        let stored: BTreeSet<_> =
            all(values, Space::Views).map(|(_, entry)| &entry.value).collect();
        self.views.retain(|_, view| stored.contains(&*view));
    }

    /// The nodes that were ever removed.
    pub fn removed(&self) -> Vec<RemovedNode> {
        self.removed.values().cloned().collect()
    }

    /// A node has made a view of another one, and is about to ask for it.
    pub fn made(&mut self, next: &View, of: &View) {
        let [next, of] = [next, of].map(|view| evenkeel_format::encode_view(view).expect("sent"));
        self.made_of.entry(next).or_default().insert(of);
    }

    /// Judges that a replica is deleted whose disk has this view: not if it has been in use by
    /// views that only an older store does not know, and nobody has given it up since.
    pub fn discarded(&mut self, replica: &str, view: &View) -> Result<(), Violation> {
        let bytes = evenkeel_format::encode_view(view).expect("it was stored");
        let ordered = [replica, &view.volume.to_string()].map(|id| self.ordered.get(id));
        let ordered = ordered.into_iter().flatten().max();
        // One that was placed and has not joined by then has nothing; nor has one of a volume that
        // was never attached.
        let is_member = view.replicas().any(|(_, record)| record.id.to_string() == replica);
        let was_used = is_member && view.generation > Generation(1);
        let forgotten = self.forgotten.get(&bytes);
        if forgotten.is_some() && was_used && ordered < forgotten {
            let (volume, generation) = (view.volume, view.generation);
            let why = format!("{replica} of {volume} had {generation:?}, and is deleted");
            return Err(("forgotten", why));
        }
        self.count("replicas deleted");
        Ok(())
    }

    /// Judges a commit.
    pub fn applied(&mut self, applied: &Applied, now: u64) -> Result<(), Violation> {
        let Applied { tag, before, after } = applied;
        for (name, entry) in all(after, Space::Volumes) {
            if get(before, Space::Volumes, name) != Some(entry) {
                let record: VolumeRecord = json(entry);
                self.named.insert((name.to_owned(), record.name.clone()));
                let ids = record.replicas.iter().map(|placed| placed.id.clone());
                self.placed.extend(ids.map(|id| (name.to_owned(), id)));
            }
        }
        for (key, entry) in after.iter().filter(|(key, entry)| before.get(key) != Some(entry)) {
            self.ever.insert((key.space, key.name.clone()));
            if key.space == Space::Nodes {
                let node: NodeRecord = json(entry);
                self.started.insert((node.id, node.incarnation));
            }
        }
        self.note_orders(applied, now);
        check_names(after)?;
        self.check_members(applied)?;
        check_replicas(after)?;
        check_drafts(applied)?;
        self.check_views(applied, now)?;
        check_caller(applied)?;
        self.overtaken.check(applied)?;
        self.check_deaths(applied, now)?;
        if let (Some(Request::Register(start)), Some(present)) = (
            &tag.request,
            tag.caller.as_ref().and_then(|caller| {
                get(before, Space::Starts, &caller.node.to_string()).map(json::<Present>)
            }),
        ) {
            let is_taken = get(after, Space::Starts, &start.node.id)
                .map(json::<Present>)
                .is_some_and(|next| next.incarnation != present.incarnation);
            let may_follow = start.lineage.before_ended
                || present.leave(present.incarnation).is_some_and(|left| left == present);
            if is_taken && !may_follow {
                self.must_be_silent(&start.node.id, now, "a start took over")?;
                self.count("starts after silence");
            }
        }
        Ok(())
    }

    /// Notes what somebody has asked to be deleted.
    fn note_orders(&mut self, applied: &Applied, now: u64) {
        let Applied { tag, before, after } = applied;
        match &tag.request {
            Some(Request::Delete { volume, .. }) => drop(self.ordered.insert(volume.clone(), now)),
            Some(Request::Swap { view: next, .. }) => {
                let volume = next.decode().expect("sent").volume.to_string();
                let ids = |values: &Values| -> BTreeSet<String> {
                    let view = view(values, &volume);
                    let replicas = view.iter().flat_map(View::replicas);
                    replicas.map(|(_, replica)| replica.id.to_string()).collect()
                };
                let (before, after) = (ids(before), ids(after));
                self.ordered.extend(before.difference(&after).map(|id| (id.clone(), now)));
            }
            _ => {}
        }
    }

    /// Names of nodes are unique, and a removed one has nothing; but a volume may come back from
    /// its disks with a replica that was there.
    fn check_members(&mut self, applied: &Applied) -> Result<(), Violation> {
        let Applied { tag, after, .. } = applied;
        let is_assembled = matches!(tag.request, Some(Request::Assemble { .. }));
        let mut names = BTreeSet::new();
        for (_, entry) in all(after, Space::Nodes) {
            let node: NodeRecord = json(entry);
            if !names.insert(node.name.clone()) {
                return Err(("members", format!("two nodes are called {}", node.name)));
            }
        }
        for (removed, entry) in all(after, Space::Removed) {
            self.removed.entry(removed.to_owned()).or_insert_with(|| json(entry));
        }
        for removed in self.removed.keys() {
            if get(after, Space::Removed, removed).is_none() {
                // It takes several commits to have an older store know it.
                if tag.is_start {
                    continue;
                }
                return Err(("members", format!("it is forgotten that {removed} was removed")));
            }
            for space in [Space::Nodes, Space::Starts, Space::Silent] {
                if get(after, space, removed).is_some() {
                    return Err(("members", format!("{space:?} has the removed node {removed}")));
                }
            }
            for (volume, entry) in all(after, Space::Volumes) {
                let use_of = (volume.to_owned(), removed.clone());
                if !uses(&json(entry), &view(after, volume).expect("each has one"), removed) {
                    continue;
                }
                if is_assembled {
                    self.came_back.insert(use_of);
                } else if !self.came_back.contains(&use_of) {
                    let why = format!("volume {volume} uses removed node {removed}");
                    return Err(("members", why));
                }
            }
        }
        Ok(())
    }

    /// A view is committed by a swap only in place of its parent, and one view has each number.
    fn check_views(&mut self, applied: &Applied, now: u64) -> Result<(), Violation> {
        let Applied { tag, before, after } = applied;
        for (volume, entry) in all(after, Space::Views) {
            if get(before, Space::Views, volume) == Some(entry) {
                continue;
            }
            let next = view(after, volume).expect("it is there");
            self.since_backup.insert(entry.value.clone(), now);
            self.forgotten.remove(&entry.value);
            let number = (volume.to_owned(), next.history.0, next.generation.0);
            let known = self.views.entry(number).or_insert_with(|| entry.value.clone());
            if *known != entry.value {
                return Err(("views", format!("two views {:?} of {volume}", next.generation)));
            }
            let replaced = get(before, Space::Views, volume);
            if let (Some(Request::Assemble { .. }), Some(replaced)) = (&tag.request, replaced) {
                self.count("assemblies in place of a view");
                self.check_branch(&entry.value, &replaced.value, volume)?;
            }
            let Some(Request::Swap { .. }) = &tag.request else { continue };
            self.count("swaps");
            let Some(parent) = view(before, volume) else {
                return Err(("views", format!("a swap made volume {volume}")));
            };
            if !next.follows(&parent) || next.history != parent.history {
                let (from, to) = (parent.generation, next.generation);
                return Err(("views", format!("{to:?} of {volume} in place of {from:?}")));
            }
            let replaced = replaced.expect("it is there");
            self.check_branch(&entry.value, &replaced.value, volume)?;
        }
        self.check_deleted(applied)
    }

    /// A view is a change of the one that it replaces.
    fn check_branch(&self, next: &[u8], replaced: &[u8], volume: &str) -> Result<(), Violation> {
        if self.made_of.get(next).is_some_and(|of| of.contains(replaced)) {
            return Ok(());
        }
        let [from, to] = [replaced, next].map(|view| decode_view(view).expect("a view").generation);
        Err(("branches", format!("{to:?} of {volume} is no change of this {from:?}")))
    }

    /// A volume is deleted as it was when that was decided.
    fn check_deleted(&self, applied: &Applied) -> Result<(), Violation> {
        let Applied { tag, before, after } = applied;
        let Some(Request::Delete { volume, .. }) = &tag.request else { return Ok(()) };
        let deleted = get(before, Space::Views, volume);
        let is_deleted = get(after, Space::Views, volume).is_none();
        match deleted.filter(|_| is_deleted) {
            Some(view) if !self.overtaken.has_seen(tag.command, &view.value) => {
                Err(("branches", format!("{volume} was deleted by who saw another view of it")))
            }
            _ => Ok(()),
        }
    }

    /// Who is called dead has sent nothing for a while that was received.
    fn must_be_dead(&self, node: &str, now: u64, what: &str) -> Result<(), Violation> {
        let (then, heard) =
            self.then.as_ref().map_or((now, &self.heard), |(at, heard)| (*at, heard));
        if heard.signs.lives(node, then) {
            return Err(("lives", format!("{what}, and node {node} never stopped sending")));
        }
        self.must_be_silent(node, now, what)
    }

    fn must_be_silent(&self, node: &str, now: u64, what: &str) -> Result<(), Violation> {
        let (now, heard) =
            self.then.as_ref().map_or((now, &self.heard), |(at, heard)| (*at, heard));
        match heard.seen.get(node) {
            Some(seen) if now.saturating_sub(*seen) < MIN_SILENCE => {
                let ago = now - seen;
                Err(("deaths", format!("{what}, and node {node} was heard {ago} ms ago")))
            }
            _ => Ok(()),
        }
    }

    /// Who loses a primary or a draft as a dead node does was not heard by any coordinator.
    fn check_deaths(&mut self, applied: &Applied, now: u64) -> Result<(), Violation> {
        let Applied { tag, before, after } = applied;
        let by = match &tag.request {
            Some(
                Request::Swap { node, .. }
                | Request::Assemble { node, .. }
                | Request::Delete { node, .. },
            ) => Some(node.as_str()),
            _ => None,
        };
        for (volume, _) in all(before, Space::Views) {
            let (Some(old), new) = (view(before, volume), view(after, volume)) else { continue };
            let is_gone = |id| !new.as_ref().is_some_and(|new| new.has_primary(id));
            for primary in old.primaries.iter().filter(|primary| is_gone(primary.id)) {
                let node = primary.id.node.to_string();
                if Some(node.as_str()) != by {
                    self.must_be_dead(&node, now, "its primary was dropped")?;
                    self.count("primaries of dead nodes dropped");
                }
            }
        }
        let is_swept = matches!(tag.request, Some(Request::Fates(_) | Request::RemoveNode { .. }));
        for (volume, entry) in all(before, Space::Drafts).filter(|_| is_swept) {
            let maker: Maker = json(entry);
            if get(after, Space::Drafts, volume).is_none() && is_alive_maker(before, &maker) {
                self.must_be_dead(&maker.node, now, "its draft was given up")?;
                self.count("drafts of dead nodes given up");
            }
        }
        Ok(())
    }

    /// Judges an answer to a request: what is called done was done.
    pub fn answered(&mut self, request: &Request, answer: &Answer) -> Result<(), Violation> {
        let is = |space, name: &str| self.ever.contains(&(space, name.to_owned()));
        let is_true = match (request, answer) {
            (Request::Swap { view, .. }, Answer::Done) => {
                self.has_view(&view.decode().expect("sent"))
            }
            (Request::Assemble { volume, .. }, Answer::Done) => {
                self.has_view(&volume.view.decode().expect("sent"))
            }
            (Request::Create(volume), Answer::Done) => is(Space::Volumes, &volume.record.id),
            (Request::Draft { volume, .. }, Answer::Done) => {
                is(Space::Drafts, volume) || is(Space::Volumes, volume)
            }
            (Request::GiveUp { volume }, Answer::Done) => {
                is(Space::GivenUp, volume)
                    || is(Space::Volumes, volume)
                    || is(Space::Deleted, volume)
            }
            (Request::Delete { volume, .. }, Answer::Done) => is(Space::Deleted, volume),
            (Request::Discard { replica, .. }, Answer::Done) => {
                is(Space::Discarded, &replica.replica)
            }
            (Request::RemoveNode { node, .. }, Answer::Done) => is(Space::Removed, node),
            (Request::RenameVolume { volume, name, .. }, Answer::Done) => {
                self.named.contains(&(volume.clone(), name.clone()))
            }
            (Request::Place { volume, replica, .. }, Answer::Done) => {
                self.placed.contains(&(volume.clone(), replica.id.clone()))
            }
            (Request::Register(start), Answer::Registered { .. }) => {
                self.started.contains(&(start.node.id.clone(), start.node.incarnation))
            }
            _ => true,
        };
        if is_true { Ok(()) } else { Err(("answers", format!("{request:?} is not done"))) }
    }

    fn has_view(&self, view: &View) -> bool {
        let number = (view.volume.to_string(), view.history.0, view.generation.0);
        let bytes = evenkeel_format::encode_view(view).expect("sent");
        self.views.get(&number) == Some(&bytes)
    }
}

/// No two volumes of one name, and each has its own.
fn check_names(after: &Values) -> Result<(), Violation> {
    let mut names = BTreeSet::new();
    for (id, entry) in all(after, Space::Volumes) {
        let record: VolumeRecord = json(entry);
        let holder = get(after, Space::Names, &record.name).map(|entry| entry.value.as_slice());
        if holder != Some(id.as_bytes()) {
            return Err(("names", format!("volume {id} has the name {} of another", record.name)));
        }
        if get(after, Space::Views, id).is_none() {
            return Err(("names", format!("volume {id} has no view")));
        }
        names.insert(record.name);
    }
    match all(after, Space::Names).find(|(name, _)| !names.contains(*name)) {
        Some((name, _)) => Err(("names", format!("no volume has the name {name}"))),
        None => Ok(()),
    }
}

/// Whether a volume has something on a node.
fn uses(record: &VolumeRecord, view: &View, node: &str) -> bool {
    let is_made = record
        .replicas
        .iter()
        .any(|placed| placed.node == node && !placed.removed && placed.maker.is_some());
    is_made
        || view.replicas().any(|(_, replica)| replica.node.to_string() == node)
        || view.primaries.iter().any(|primary| primary.id.node.to_string() == node)
}

/// A view holds what was placed, and nothing that was given up or is being deleted.
fn check_replicas(after: &Values) -> Result<(), Violation> {
    for (volume, entry) in all(after, Space::Volumes) {
        let record: VolumeRecord = json(entry);
        for (_, replica) in view(after, volume).expect("each has one").replicas() {
            let id = replica.id.to_string();
            let placed = record.replicas.iter().find(|placed| placed.id == id);
            if placed.is_none_or(|placed| placed.removed || placed.maker.is_some()) {
                return Err(("replicas", format!("{volume} holds {id}, placed as {placed:?}")));
            }
            let by = get(after, Space::Discarded, &id).map(json::<Maker>);
            if by.is_some_and(|by| is_alive_maker(after, &by)) {
                return Err(("discarded", format!("{volume} holds {id}, which is being deleted")));
            }
        }
    }
    Ok(())
}

/// A draft that was given up never becomes a volume, but from its disks.
fn check_drafts(applied: &Applied) -> Result<(), Violation> {
    let Applied { tag, before, after } = applied;
    for (volume, _) in all(after, Space::GivenUp) {
        if get(after, Space::Drafts, volume).is_some() {
            return Err(("drafts", format!("{volume} was given up and is a draft")));
        }
        if get(after, Space::Volumes, volume).is_some() {
            return Err(("drafts", format!("{volume} was given up and is a volume")));
        }
    }
    for (volume, _) in all(after, Space::Volumes) {
        let is_new = get(before, Space::Volumes, volume).is_none();
        let is_assembled = matches!(tag.request, Some(Request::Assemble { .. }));
        if is_new && !is_assembled && get(before, Space::Drafts, volume).is_none() {
            return Err(("drafts", format!("{volume} became a volume and was no draft")));
        }
    }
    Ok(())
}

/// What a node changes, its present start changes.
fn check_caller(applied: &Applied) -> Result<(), Violation> {
    let Applied { tag, before, .. } = applied;
    let (Some(caller), Some(request)) = (&tag.caller, &tag.request) else { return Ok(()) };
    let node = caller.node.to_string();
    if get(before, Space::Removed, &node).is_some() {
        return Err(("callers", format!("removed node {node} did {request:?}")));
    }
    if matches!(request, Request::Register(_)) {
        return Ok(());
    }
    let present = get(before, Space::Starts, &node).map(json::<Present>);
    let is_present = present.zip(caller.start).is_some_and(|(present, start)| present.is(start));
    if is_present {
        return Ok(());
    }
    Err(("callers", format!("{:?} is not the present start of {node}: {request:?}", caller.start)))
}
