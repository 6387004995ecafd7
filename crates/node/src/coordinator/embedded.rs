//! The coordinator as a database in the state directory of one node.
//!
//! Every change is one transaction, durable before it is answered. Which nodes are alive follows from
//! how long each was [silent](silence).

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use evenkeel_core::{CoordinatorId, NodeId, View, VolumeId};
use evenkeel_format::{decode_view, encode_view};
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction};

use super::starts::{Claim, Verdict};
use super::*;
use crate::identity::random_u128;

mod assembly;
mod drafts;
mod fates;
mod placements;
mod removal;
mod rename;
mod silence;
mod starts;
mod threads;

pub use removal::RemovedNode;
use silence::Silence;
pub use threads::ThreadError;
use threads::{Threads, is_question};

const CLUSTER: TableDefinition<&str, &str> = TableDefinition::new("cluster");
const NODES: TableDefinition<&str, &[u8]> = TableDefinition::new("nodes");
const VOLUMES: TableDefinition<&str, &[u8]> = TableDefinition::new("volumes");
const NAMES: TableDefinition<&str, &str> = TableDefinition::new("names");
const VIEWS: TableDefinition<&str, &[u8]> = TableDefinition::new("views");
const DELETED: TableDefinition<&str, u64> = TableDefinition::new("deleted");

/// The database, and when each node was heard of.
#[derive(Clone)]
pub struct Embedded {
    inner: Arc<Inner>,
}

struct Inner {
    database: Database,
    id: CoordinatorId,
    cluster: RwLock<String>,
    here: NodeId,
    silence: Mutex<Silence>,
    /// Held while that is saved.
    saving: Mutex<()>,
    revision: AtomicU64,
    watch: Mutex<starts::Watch>,
    /// Held by whoever acts for a node's present start, and by whoever admits another one.
    gate: RwLock<()>,
    threads: Threads,
}

/// Why the database cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddedError {
    /// The database reported an error.
    #[error("the coordinator's database: {0}; check the disk, or restore the file from a backup")]
    Database(#[from] redb::Error),
    /// It was made for another cluster.
    #[error(
        "the coordinator's database belongs to cluster {stored:?} and the configuration says {configured:?}: set `cluster` to the former, or use another state directory"
    )]
    OtherCluster {
        /// What the database says.
        stored: String,
        /// What the configuration says.
        configured: String,
    },
    /// It holds what this software cannot read.
    #[error(
        "the coordinator's database holds {0}: it was written by other software, or is damaged"
    )]
    Content(String),
    /// It has no threads to answer with.
    #[error("the system gives the coordinator no threads: {0}")]
    Threads(std::io::Error),
}

type Stored<T> = Result<T, EmbeddedError>;

/// Turns the database's several error types into one.
fn db<T, E: Into<redb::Error>>(result: Result<T, E>) -> Stored<T> {
    result.map_err(|e| EmbeddedError::Database(e.into()))
}

fn json<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Stored<T> {
    serde_json::from_slice(bytes).map_err(|e| EmbeddedError::Content(e.to_string()))
}

fn text<T: Serialize>(value: &T) -> Stored<Vec<u8>> {
    serde_json::to_vec(value).map_err(|e| EmbeddedError::Content(e.to_string()))
}

impl Embedded {
    /// Opens the database, or makes it.
    ///
    /// # Errors
    /// If it cannot be used, or belongs to another cluster.
    pub fn open(path: &Path, configured: &str, here: NodeId, expiry: Duration) -> Stored<Self> {
        let database = db(Database::create(path))?;
        let transaction = db(database.begin_write())?;
        let (id, cluster) = {
            let mut table = db(transaction.open_table(CLUSTER))?;
            let records = [NODES, VOLUMES, VIEWS, drafts::DRAFTS, fates::DISCARDED, starts::STARTS];
            db(transaction.open_table(removal::REMOVED))?;
            for empty in records {
                db(transaction.open_table(empty))?;
            }
            db(transaction.open_table(NAMES))?;
            for times in [DELETED, drafts::GIVEN_UP, silence::SILENT] {
                db(transaction.open_table(times))?;
            }
            let get = |key| Stored::Ok(db(table.get(key))?.map(|v| v.value().to_owned()));
            let (stored, name) = (get("id")?, get("name")?);
            // Renamed since it was configured so; else it is another cluster's.
            let is_renamed = get("configured")?.is_some_and(|before| before == configured);
            let name = name.unwrap_or_else(|| configured.into());
            if name != configured && !is_renamed {
                return Err(EmbeddedError::OtherCluster {
                    stored: name,
                    configured: configured.into(),
                });
            }
            let id = match stored {
                Some(id) => id.parse().map_err(|_| EmbeddedError::Content(id))?,
                None => CoordinatorId(random_u128()),
            };
            db(table.insert("id", id.to_string().as_str()))?;
            db(table.insert("name", name.as_str()))?;
            db(table.insert("configured", configured))?;
            (id, name)
        };
        let counted = silence::load(&transaction)?;
        db(transaction.commit())?;
        let inner = Inner {
            database,
            id,
            cluster: RwLock::new(cluster),
            here,
            silence: Mutex::new(Silence::new(expiry, Instant::now(), counted)),
            saving: Mutex::default(),
            revision: AtomicU64::new(1),
            watch: Mutex::default(),
            gate: RwLock::default(),
            threads: Threads::start().map_err(EmbeddedError::Threads)?,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The cluster's name.
    #[must_use]
    pub fn cluster(&self) -> String {
        self.inner.cluster()
    }

    /// Its identity.
    #[must_use]
    pub fn id(&self) -> CoordinatorId {
        self.inner.id
    }

    /// Answers a request of this very daemon; blocks on the disk. Those of others: [`Self::asked`].
    ///
    /// # Errors
    /// If the database reports an error.
    pub fn answer(&self, request: Request) -> Stored<Answer> {
        let inner = &*self.inner;
        match request {
            Request::Register(registration) => inner.register(&registration, None),
            Request::Goodbye { node, incarnation } => inner.goodbye(&node, incarnation),
            Request::Heartbeat { node } => Ok(inner.heartbeat(&node)),
            Request::Rename { name } => inner.rename(&name),
            Request::RemoveNode { node } => inner.remove_node(&node),
            Request::RemovedNodes => inner.removed_nodes(),
            Request::Nodes => inner.nodes(),
            Request::Volumes => inner.volumes(),
            Request::Read { volume } => inner.read(&volume),
            Request::Draft { node, incarnation, volume } => inner.draft(node, incarnation, &volume),
            Request::Create(volume) => inner.create(&volume),
            Request::GiveUp { volume } => inner.give_up(&volume),
            Request::Swap { node, view, in_passing, wish } => {
                let in_passing = in_passing.then_some(Wish::AsBefore);
                inner.swap(&node, &view, wish.or(in_passing))
            }
            Request::Want { volume, node, shown } => inner.want(&volume, &node, shown),
            Request::Place { volume, replica, same_disk, alone } => {
                inner.place(&volume, replica, (same_disk, alone))
            }
            Request::Forget { volume, replica } => inner.forget(&volume, &replica),
            Request::Verified { volume, verdict } => inner.verified(&volume, verdict),
            Request::Stop { volume, stopped } => inner.stop(&volume, stopped),
            Request::Assemble { volume, replaces, node } => {
                inner.assemble(&volume, replaces, &node)
            }
            Request::Delete { node, volume, generation, force } => {
                inner.delete(&node, &volume, generation, force)
            }
            Request::RenameVolume { volume, name } => inner.rename_volume(&volume, &name),
            Request::Fates(found) => inner.fates(&found),
            Request::Discard { by, replica } => inner.discard(&by, &replica),
            Request::Discarded(found) => inner.discarded(&found),
        }
    }
}

impl Coordinator for Embedded {
    fn call(&self, request: Request) -> CallFuture<'_> {
        let this = self.clone();
        Box::pin(async move {
            let is_question = is_question(&request);
            let answer = self.inner.threads.run(is_question, move || this.answer(request)).await;
            match answer {
                Ok(answer) => answer.map_err(|e| CallError::Refused(e.to_string())),
                Err(e) => Err(CallError::Unreachable(e.to_string())),
            }
        })
    }
}

impl Inner {
    fn cluster(&self) -> String {
        self.cluster.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn rename(&self, name: &str) -> Stored<Answer> {
        let answer = self.change(|transaction| {
            db(db(transaction.open_table(CLUSTER))?.insert("name", name))?;
            Ok(Answer::Done)
        })?;
        name.clone_into(&mut self.cluster.write().unwrap_or_else(PoisonError::into_inner));
        Ok(answer)
    }

    fn heartbeat(&self, node: &str) -> Answer {
        self.note_heard(node);
        let cluster = Some(self.cluster());
        Answer::Heard { revision: self.revision.load(Ordering::Relaxed), cluster, other: None }
    }

    fn silence(&self) -> MutexGuard<'_, Silence> {
        self.silence.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a node may still be alive: it is not known to have been silent for the expiry time.
    fn alive(&self, node: &str) -> bool {
        self.silence().may_live(node, Instant::now())
    }

    /// When a node was heard of last, since this start of the coordinator.
    fn last_heard(&self, node: &str) -> Option<Instant> {
        self.silence().last_heard(node).map(|(at, _)| at)
    }

    fn change(&self, change: impl FnOnce(&WriteTransaction) -> Stored<Answer>) -> Stored<Answer> {
        let transaction = db(self.database.begin_write())?;
        let answer = change(&transaction)?;
        match answer {
            Answer::Done | Answer::Registered { .. } => {
                db(transaction.commit())?;
                self.revision.fetch_add(1, Ordering::Relaxed);
            }
            _ => db(transaction.abort())?,
        }
        Ok(answer)
    }

    /// A request of this very daemon has no caller. Its start is admitted: the database lies in the
    /// state directory whose lock it holds.
    fn register(&self, registration: &Registration, caller: Option<&Caller>) -> Stored<Answer> {
        let _gate = self.gate.write().unwrap_or_else(PoisonError::into_inner);
        let (node, claim) = (&registration.node, claim(registration));
        let is_this_daemon = caller.is_none() && node.id == self.here.to_string();
        let mut verdict = Verdict::Admitted;
        let answer = self.change(|transaction| {
            if let Some(refusal) = removal::refusal(transaction, [node.id.as_str()])? {
                return Ok(refusal);
            }
            let mut nodes = db(transaction.open_table(NODES))?;
            if is_name_taken(&nodes, node)? {
                return Ok(Answer::NameInUse);
            }
            let present =
                starts::load(&db(transaction.open_table(starts::STARTS))?, &nodes, &node.id)?;
            let judged = present.as_ref().filter(|_| !is_this_daemon);
            verdict = self.judge(judged, &node.id, &claim);
            if verdict != Verdict::Admitted {
                return Ok(Answer::NotRegistered);
            }
            starts::admit(transaction, present.as_ref(), &node.id, &claim)?;
            db(nodes.insert(node.id.as_str(), text(node)?.as_slice()))?;
            let (coordinator, cluster) = (self.id.to_string(), self.cluster());
            Ok(Answer::Registered { coordinator, cluster })
        })?;
        match answer {
            Answer::Registered { .. } => {
                self.admitted(registration, caller);
                self.note_heard(&node.id);
            }
            Answer::NotRegistered => return self.not_admitted(verdict, registration, caller),
            _ => {}
        }
        Ok(answer)
    }

    fn nodes(&self) -> Stored<Answer> {
        let transaction = db(self.database.begin_read())?;
        let mut nodes = Vec::new();
        for entry in db(db(transaction.open_table(NODES))?.iter())? {
            let node: NodeRecord = json(db(entry)?.1.value())?;
            let last_heard = self.silence().last_heard(&node.id).map(|(_, at)| at);
            let may_live = self.alive(&node.id);
            let alive = last_heard.is_some() && may_live;
            let coordinator = node.id == self.here.to_string();
            nodes.push(NodeLife { node, alive, may_live, last_heard, coordinator });
        }
        nodes.sort_by(|a, b| a.node.name.cmp(&b.node.name));
        Ok(Answer::Nodes(nodes))
    }

    fn volumes(&self) -> Stored<Answer> {
        let transaction = db(self.database.begin_read())?;
        let volumes = db(transaction.open_table(VOLUMES))?;
        let views = db(transaction.open_table(VIEWS))?;
        let mut found = Vec::new();
        for entry in db(db(transaction.open_table(NAMES))?.iter())? {
            let id = db(entry)?.1.value().to_owned();
            found.extend(load(&volumes, &views, &id)?);
        }
        Ok(Answer::Volumes(found))
    }

    fn read(&self, volume: &str) -> Stored<Answer> {
        let transaction = db(self.database.begin_read())?;
        let names = db(transaction.open_table(NAMES))?;
        let id = db(names.get(volume))?.map_or(volume.to_owned(), |id| id.value().to_owned());
        let volumes = db(transaction.open_table(VOLUMES))?;
        let views = db(transaction.open_table(VIEWS))?;
        let found = load(&volumes, &views, &id)?;
        Ok(found.map_or(Answer::NoVolume, |volume| Answer::Volume(Box::new(volume))))
    }

    fn create(&self, volume: &StoredVolume) -> Stored<Answer> {
        let Ok(view) = volume.view.decode() else {
            return Err(EmbeddedError::Content("no valid view for a new volume".into()));
        };
        let record = &volume.record;
        self.change(|transaction| {
            let mut names = db(transaction.open_table(NAMES))?;
            let holder = db(names.get(record.name.as_str()))?.map(|id| id.value().to_owned());
            match holder {
                // The same request again: its answer was lost.
                Some(id) if id == record.id => return Ok(Answer::Done),
                Some(_) => return Ok(Answer::NameInUse),
                None => {}
            }
            let mut volumes = db(transaction.open_table(VOLUMES))?;
            // The same, and it was renamed meanwhile.
            if db(volumes.get(record.id.as_str()))?.is_some() {
                return Ok(Answer::Done);
            }
            let homes = record.replicas.iter().map(|placed| placed.node.as_str());
            if let Some(refusal) = removal::refusal(transaction, homes)? {
                return Ok(refusal);
            }
            if !drafts::take(transaction, &record.id)? {
                return Ok(Answer::NoVolume);
            }
            db(names.insert(record.name.as_str(), record.id.as_str()))?;
            db(volumes.insert(record.id.as_str(), text(record)?.as_slice()))?;
            store_view(transaction, &view)?;
            Ok(Answer::Done)
        })
    }

    fn swap(&self, node: &str, view: &ViewText, wish: Option<Wish>) -> Stored<Answer> {
        let refused = |e: CallError| EmbeddedError::Content(format!("{e} in a view to swap"));
        let next = view.decode().map_err(refused)?;
        let by = node.parse().map_err(|_| EmbeddedError::Content(format!("no node {node}")))?;
        self.change(|transaction| {
            let Some(newest) = newest_view(transaction, next.volume)? else {
                return Ok(Answer::NoVolume);
            };
            // The same request again: its answer was lost.
            if newest == next {
                return Ok(Answer::Done);
            }
            // A stopped volume is not attached, however late the request comes.
            if !next.primaries.is_empty() && assembly::is_stopped(transaction, next.volume)? {
                return Ok(Answer::NoVolume);
            }
            if !next.follows(&newest) {
                return ViewText::encode(&newest).map(Answer::Newest).map_err(refused);
            }
            if let Some(node) = dropped(&next, &newest, by).find(|n| self.alive(&n.to_string())) {
                return Ok(Answer::NotExpired { node: node.to_string() });
            }
            if !placements::follow(transaction, &newest, &next)? {
                return Ok(Answer::GivenUp);
            }
            placements::note_use(transaction, (&newest, &next), by, wish)?;
            store_view(transaction, &next)?;
            Ok(Answer::Done)
        })
    }

    fn delete(&self, node: &str, volume: &str, generation: u64, force: bool) -> Stored<Answer> {
        self.change(|transaction| {
            let mut volumes = db(transaction.open_table(VOLUMES))?;
            let found = db(volumes.get(volume))?.map(|v| json::<VolumeRecord>(v.value()));
            let Some(record) = found.transpose()? else {
                let deleted = db(transaction.open_table(DELETED))?;
                let known = db(deleted.get(volume))?.is_some();
                return Ok(if known { Answer::Done } else { Answer::NoVolume });
            };
            let id: VolumeId = volume
                .parse()
                .map_err(|_| EmbeddedError::Content(format!("no volume {volume}")))?;
            // A silent node may serve it still: it does not need the coordinator for that.
            let attached = |newest: &View| {
                let mut nodes = newest.primaries.iter().map(|p| p.id.node.to_string());
                nodes.any(|primary| primary != node && (!force || self.alive(&primary)))
            };
            if let Some(newest) = newest_view(transaction, id)?
                && (newest.generation.0 != generation || attached(&newest))
            {
                let newest = ViewText::encode(&newest);
                return newest
                    .map(Answer::Newest)
                    .map_err(|e| EmbeddedError::Content(e.to_string()));
            }
            db(volumes.remove(volume))?;
            db(db(transaction.open_table(NAMES))?.remove(record.name.as_str()))?;
            db(db(transaction.open_table(VIEWS))?.remove(volume))?;
            db(db(transaction.open_table(DELETED))?.insert(volume, unix_seconds()))?;
            Ok(Answer::Done)
        })
    }
}

fn claim(registration: &Registration) -> Claim {
    let node = &registration.node;
    Claim {
        counter: node.counter,
        incarnation: node.incarnation,
        lineage: registration.lineage.clone(),
        is_chosen: registration.is_chosen,
    }
}

fn is_name_taken(
    nodes: &impl ReadableTable<&'static str, &'static [u8]>,
    node: &NodeRecord,
) -> Stored<bool> {
    for entry in db(nodes.iter())? {
        let other: NodeRecord = json(db(entry)?.1.value())?;
        if other.name == node.name && other.id != node.id {
            return Ok(true);
        }
    }
    Ok(false)
}

fn load(
    volumes: &impl ReadableTable<&'static str, &'static [u8]>,
    views: &impl ReadableTable<&'static str, &'static [u8]>,
    id: &str,
) -> Stored<Option<StoredVolume>> {
    let record = db(volumes.get(id))?.map(|v| json::<VolumeRecord>(v.value())).transpose()?;
    let view = db(views.get(id))?.map(|v| ViewText(to_hex(v.value())));
    Ok(record.zip(view).map(|(record, view)| StoredVolume { record, view }))
}

fn newest_view(transaction: &WriteTransaction, volume: VolumeId) -> Stored<Option<View>> {
    let views = db(transaction.open_table(VIEWS))?;
    let found = db(views.get(volume.to_string().as_str()))?.map(|v| decode_view(v.value()));
    found.transpose().map_err(|e| EmbeddedError::Content(e.to_string()))
}

fn store_view(transaction: &WriteTransaction, view: &View) -> Stored<()> {
    let bytes = encode_view(view).map_err(|e| EmbeddedError::Content(e.to_string()))?;
    let mut views = db(transaction.open_table(VIEWS))?;
    db(views.insert(view.volume.to_string().as_str(), bytes.as_slice()))?;
    Ok(())
}

#[cfg(test)]
mod tests;
