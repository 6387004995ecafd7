//! One attempt of a task: what it reads becomes a condition of the commit, what it writes is
//! buffered.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_core::{View, VolumeId};
use evenkeel_format::{decode_view, encode_view};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::memory::{Memory, Note};
use crate::moment::Moment;
use crate::store::{
    Commit, Entries, Entry, Guard, Key, MAX_BYTES, MAX_OPERATIONS, Range, Space, StoreError, Write,
};
use crate::{NodeRecord, VolumeRecord, liveness};

/// Why an attempt stops before it has an answer.
#[derive(Debug)]
pub(crate) enum Halt {
    /// This has to be read first.
    Read(Range),
    /// The store holds what cannot be read.
    Content(String),
    /// The request asks for what cannot be.
    Refused(String),
}

pub(crate) type Planned<T> = Result<T, Halt>;

/// The keys and spaces that were read of one snapshot so far, those without a value included.
#[derive(Debug, Default)]
pub(crate) struct Known {
    keys: BTreeMap<Key, Option<Entry>>,
    spaces: BTreeMap<Space, Entries>,
}

impl Known {
    pub(crate) fn learn(&mut self, range: Range, entries: Entries) {
        match range {
            Range::Key(key) => {
                let entry = entries.get(&key.name).cloned();
                self.keys.insert(key, entry);
            }
            Range::Space(space) => drop(self.spaces.insert(space, entries)),
        }
    }

    fn get(&self, key: &Key) -> Planned<Option<&Entry>> {
        match (self.keys.get(key), self.spaces.get(&key.space)) {
            (Some(entry), _) => Ok(entry.as_ref()),
            (None, Some(entries)) => Ok(entries.get(&key.name)),
            (None, None) => Err(Halt::Read(Range::Key(key.clone()))),
        }
    }

    fn all(&self, space: Space) -> Planned<&Entries> {
        self.spaces.get(&space).ok_or(Halt::Read(Range::Space(space)))
    }
}

/// One attempt of a task: reads of a snapshot, which become conditions, and the writes to commit
/// under them.
pub(crate) struct Transaction<'a> {
    /// What the coordinator keeps in memory.
    pub memory: &'a Memory,
    /// The time of the attempt.
    pub now: Moment,
    known: &'a Known,
    guards: BTreeSet<Range>,
    writes: BTreeMap<Key, Option<Vec<u8>>>,
    notes: Vec<Note>,
}

impl<'a> Transaction<'a> {
    pub(crate) fn new(memory: &'a Memory, now: Moment, known: &'a Known) -> Self {
        let (guards, writes, notes) = Default::default();
        Self { memory, now, known, guards, writes, notes }
    }

    /// A value, as this attempt has written it or else as it was read. That it stays so becomes a
    /// condition.
    fn value(&mut self, space: Space, name: &str) -> Planned<Option<Vec<u8>>> {
        let key = Key::new(space, name);
        if let Some(written) = self.writes.get(&key) {
            return Ok(written.clone());
        }
        let value = self.known.get(&key)?.map(|entry| entry.value.clone());
        self.guards.insert(Range::Key(key));
        Ok(value)
    }

    pub(crate) fn has(&mut self, space: Space, name: &str) -> Planned<bool> {
        Ok(self.value(space, name)?.is_some())
    }

    pub(crate) fn json<T: DeserializeOwned>(
        &mut self,
        space: Space,
        name: &str,
    ) -> Planned<Option<T>> {
        self.value(space, name)?.map(|value| parse(&value)).transpose()
    }

    pub(crate) fn text(&mut self, space: Space, name: &str) -> Planned<Option<String>> {
        self.value(space, name)?.map(|value| String::from_utf8(value).map_err(content)).transpose()
    }

    /// For how long a node was silent, as it is stored. Only as it was read: no attempt asks for
    /// what it wrote.
    pub(crate) fn silence(&mut self, node: &str) -> Planned<Option<liveness::Entry>> {
        let text = self.text(Space::Silent, node)?;
        let milliseconds = text.map(|text| text.parse().map_err(content)).transpose()?;
        let revision = self.known.get(&Key::new(Space::Silent, node))?.map(|entry| entry.revision);
        Ok(milliseconds.map(|milliseconds| liveness::Entry { milliseconds, revision }))
    }

    pub(crate) fn node(&mut self, node: &str) -> Planned<Option<NodeRecord>> {
        self.json(Space::Nodes, node)
    }

    pub(crate) fn volume(&mut self, volume: &str) -> Planned<Option<VolumeRecord>> {
        self.json(Space::Volumes, volume)
    }

    pub(crate) fn view(&mut self, volume: &str) -> Planned<Option<View>> {
        self.value(Space::Views, volume)?
            .map(|bytes| decode_view(&bytes).map_err(content))
            .transpose()
    }

    /// The last view of a volume that was deleted, if it is known.
    pub(crate) fn last_view(&mut self, volume: &str) -> Planned<Option<View>> {
        let value = self.value(Space::Deleted, volume)?;
        Ok(value.and_then(|bytes| decode_view(&bytes).ok()))
    }

    /// The names of a space, as they were read. Nothing follows from it for the commit: for who
    /// decides about each by itself, and reads it.
    pub(crate) fn names(&self, space: Space) -> Planned<Vec<String>> {
        Ok(self.known.all(space)?.keys().cloned().collect())
    }

    /// The same, and no other may come or be changed.
    pub(crate) fn names_for_sure(&mut self, space: Space) -> Planned<Vec<String>> {
        let names = self.names(space)?;
        self.guards.insert(Range::Space(space));
        Ok(names)
    }

    /// Looks without making conditions of what is seen.
    pub(crate) fn look<T>(&mut self, look: impl FnOnce(&mut Self) -> Planned<T>) -> Planned<T> {
        let guards = self.guards.clone();
        let seen = look(self);
        self.guards = guards;
        seen
    }

    /// What was read there is not written again: that it stays so becomes a condition. An attempt
    /// that changes nothing commits nothing.
    pub(crate) fn put_bytes(&mut self, space: Space, name: &str, value: Vec<u8>) {
        let key = Key::new(space, name);
        let read = self.known.get(&key).ok().flatten();
        if !self.writes.contains_key(&key) && read.is_some_and(|entry| entry.value == value) {
            self.guards.insert(Range::Key(key));
            return;
        }
        self.writes.insert(key, Some(value));
    }

    /// Writes again what is there, if anything is: to try whether anything can be committed.
    pub(crate) fn write_again(&mut self, space: Space, name: &str) -> Planned<()> {
        if let Some(value) = self.value(space, name)? {
            self.writes.insert(Key::new(space, name), Some(value));
        }
        Ok(())
    }

    pub(crate) fn put(&mut self, space: Space, name: &str, value: &impl Serialize) -> Planned<()> {
        let value = serde_json::to_vec(value).map_err(content)?;
        self.put_bytes(space, name, value);
        Ok(())
    }

    /// A changed record. It gets its next revision: what was decided upon another one is refused.
    pub(crate) fn put_volume(&mut self, record: &VolumeRecord) -> Planned<()> {
        let revision = record.revision.saturating_add(1).max(self.now.unix);
        let record = VolumeRecord { revision, ..record.clone() };
        self.put(Space::Volumes, &record.id, &record)
    }

    /// Whether one commit takes a changed record of this volume beside what this attempt writes
    /// already: one in any case, and then as many as fill half of it.
    pub(crate) fn has_room(&self, volume: &str) -> bool {
        let read = self.known.get(&Key::new(Space::Volumes, volume)).ok().flatten();
        let length = read.map_or(0, |entry| entry.value.len());
        self.writes.is_empty() || self.bytes() + length <= MAX_BYTES / 2
    }

    pub(crate) fn put_view(&mut self, view: &View) -> Planned<()> {
        let bytes = encode_view(view).map_err(content)?;
        self.put_bytes(Space::Views, &view.volume.to_string(), bytes);
        Ok(())
    }

    /// A volume is deleted, and this was its last view; none if the store was damaged.
    pub(crate) fn put_last_view(&mut self, volume: &str, view: Option<&View>) -> Planned<()> {
        let bytes = view.map(encode_view).transpose().map_err(content)?;
        self.put_bytes(Space::Deleted, volume, bytes.unwrap_or_default());
        Ok(())
    }

    pub(crate) fn put_number(&mut self, space: Space, name: &str, number: u64) {
        self.put_bytes(space, name, number.to_string().into_bytes());
    }

    /// That it is now, in seconds since 1970.
    pub(crate) fn put_now(&mut self, space: Space, name: &str) {
        self.put_number(space, name, self.now.unix);
    }

    pub(crate) fn delete(&mut self, space: Space, name: &str) {
        self.writes.insert(Key::new(space, name), None);
    }

    /// How many bytes this attempt writes until now.
    fn bytes(&self) -> usize {
        self.writes.values().flatten().map(Vec::len).sum()
    }

    /// What the coordinator is to remember once this is committed.
    pub(crate) fn note(&mut self, note: Note) {
        self.notes.push(note);
    }

    /// Whether a node may still be alive: it is not known to have been silent for the expiry time.
    /// That the store says the same of its silence becomes a condition: another coordinator may
    /// have heard it.
    pub(crate) fn may_live(&mut self, node: &str) -> Planned<bool> {
        Ok(self.memory.liveness.may_live(node) || self.may_speak(node)?)
    }

    /// The same of the start that is its present one: not of one that asks to become that.
    pub(crate) fn may_speak(&mut self, node: &str) -> Planned<bool> {
        let liveness = &self.memory.liveness;
        if liveness.may_speak(node) {
            return Ok(true);
        }
        // It has joined through another coordinator.
        if !liveness.counts(node) && self.node(node)?.is_some() {
            return Ok(true);
        }
        let stored = self.silence(node)?;
        Ok(!self.memory.liveness.has_stood(node, stored))
    }

    /// What is to be committed, if anything, and what to remember then.
    ///
    /// # Errors
    /// If it is more than a store takes.
    pub(crate) fn finish(self) -> Result<(Option<Commit>, Vec<Note>), StoreError> {
        if self.writes.is_empty() {
            return Ok((None, self.notes));
        }
        let (known, bytes) = (self.known, self.bytes());
        let guard = |range| match range {
            Range::Space(space) => {
                Guard::Space(space, known.spaces.get(&space).cloned().unwrap_or_default())
            }
            Range::Key(key) => {
                let entry = known.get(&key).ok().flatten().cloned();
                Guard::Key(key, entry)
            }
        };
        let guards: Vec<_> = self.guards.into_iter().map(guard).collect();
        let writes: Vec<_> =
            self.writes.into_iter().map(|(key, value)| Write { key, value }).collect();
        let operations = guards.len().max(writes.len());
        if operations > MAX_OPERATIONS || bytes > MAX_BYTES {
            return Err(StoreError::Refused(format!(
                "too much for one change: {operations} keys, {bytes} bytes"
            )));
        }
        Ok((Some(Commit { guards, writes }), self.notes))
    }
}

fn parse<T: DeserializeOwned>(value: &[u8]) -> Planned<T> {
    serde_json::from_slice(value).map_err(content)
}

pub(crate) fn content(error: impl ToString) -> Halt {
    Halt::Content(error.to_string())
}

pub(crate) fn refused(error: impl ToString) -> Halt {
    Halt::Refused(error.to_string())
}

pub(crate) fn volume_id(volume: &str) -> Planned<VolumeId> {
    volume.parse().map_err(|_| refused(format_args!("no volume is called {volume}")))
}
