//! The coordinator as a database in the state directory of one node.
//!
//! Every change is one transaction, durable before it is answered. Nobody else opens the database
//! while this daemon has it.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use evenkeel_coordinator::liveness::{Arrivals, Liveness};
use evenkeel_coordinator::{
    FoundingError, Identity, Memory, Moment, Repeated, StoreError, Task, found, run,
};
use evenkeel_core::{CoordinatorId, NodeId};

use super::{Answer, CallError, CallFuture, Caller, Coordinator, RemovedNode, Request};
use crate::clock::unix_seconds;
use crate::random::random_u128;

mod database;
mod threads;

use database::RedbStore;
pub use threads::ThreadError;
use threads::{Threads, is_question};

/// Why this node cannot serve a coordinator.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddedError {
    /// The database cannot be used, or belongs to another cluster.
    #[error(transparent)]
    Founding(#[from] FoundingError),
    /// It has no threads to answer with.
    #[error("the system gives the coordinator no threads: {0}")]
    Threads(std::io::Error),
}

/// The database, and when something came last from each node.
#[derive(Clone)]
pub struct Embedded {
    inner: Arc<Inner>,
}

struct Inner {
    store: RedbStore,
    id: CoordinatorId,
    memory: Mutex<Memory>,
    arrivals: Arrivals,
    /// Held while it is stored who was silent; and how often that has failed.
    saving: Mutex<Repeated>,
    began: Instant,
    /// Seconds by which a test has moved the clock.
    #[cfg(test)]
    ahead: std::sync::atomic::AtomicU64,
    threads: Threads,
}

impl Embedded {
    /// Opens the database, or makes it.
    ///
    /// # Errors
    /// If it cannot be used, or belongs to another cluster.
    pub fn open(
        path: &Path,
        configured: &str,
        here: NodeId,
        expiry: Duration,
    ) -> Result<Self, EmbeddedError> {
        let store = RedbStore::open(path).map_err(FoundingError::Store)?;
        Self::over(store, configured, here, expiry)
    }

    fn over(
        store: RedbStore,
        configured: &str,
        here: NodeId,
        expiry: Duration,
    ) -> Result<Self, EmbeddedError> {
        let cluster = found(&store, configured, CoordinatorId(random_u128()))?;
        let known = (cluster.members, cluster.silent);
        let now = Moment { steady: Duration::ZERO, unix: unix_seconds() };
        let liveness = Liveness::new(expiry, false, now, known);
        let identity = Identity { id: cluster.id, here, is_shared: false };
        let arrivals = liveness.arrivals().clone();
        let memory = Mutex::new(Memory::new(identity, cluster.name, liveness));
        let threads = Threads::start().map_err(EmbeddedError::Threads)?;
        let (id, saving) = (cluster.id, Mutex::default());
        let inner = Inner {
            store,
            id,
            memory,
            arrivals,
            saving,
            began: Instant::now(),
            #[cfg(test)]
            ahead: Default::default(),
            threads,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The cluster's name.
    #[must_use]
    pub fn cluster(&self) -> String {
        self.inner.memory.lock().unwrap_or_else(PoisonError::into_inner).cluster.clone()
    }

    /// Its identity.
    #[must_use]
    pub fn id(&self) -> CoordinatorId {
        self.inner.id
    }

    /// The database is opened anew before its next use, as after an error of its disk. For tests.
    #[doc(hidden)]
    pub fn open_anew(&self) {
        self.inner.store.open_anew();
    }

    /// Nodes stay removed that this one remembers as removed, though the database may be older.
    /// Blocks on the disk.
    ///
    /// # Errors
    /// If the database reports an error.
    pub fn stay_removed(&self, nodes: Vec<RemovedNode>) -> Result<(), StoreError> {
        self.inner.run(Task::stay_removed(nodes)).map(drop)
    }

    /// Answers a request of this very daemon; blocks on the disk. Those of others: [`Self::asked`].
    ///
    /// # Errors
    /// If the database reports an error.
    pub fn answer(&self, request: Request) -> Result<Answer, StoreError> {
        let is_sign_of_life = is_sign_of_life(&request);
        let answer = self.inner.run(Task::here(request));
        self.inner.after(is_sign_of_life);
        answer
    }

    /// Answers a request of another node, if the start that sends it is its node's present one.
    /// Questions that change nothing are answered to all.
    ///
    /// # Errors
    /// If too many requests wait for the database. The inner error: if that reports one.
    pub async fn asked(
        &self,
        caller: Caller,
        request: Request,
    ) -> Result<Result<Answer, StoreError>, ThreadError> {
        let kind = Kind::of(&request);
        self.queue(kind, Task::from(caller, request)).await
    }

    /// Does a task by a thread of the coordinator's own. It has come, however long it waits for
    /// one.
    async fn queue(
        &self,
        kind: Kind,
        task: Task,
    ) -> Result<Result<Answer, StoreError>, ThreadError> {
        let (inner, beside) = (self.inner.clone(), self.inner.clone());
        let task = task.arrived(&inner.arrivals, inner.now());
        let after = move || beside.after(kind.is_sign_of_life);
        self.inner.threads.run(kind.is_question, move || inner.run(task), after).await
    }

    /// As [`Self::asked`]; blocks on the disk.
    #[cfg(test)]
    fn handle(&self, caller: &Caller, request: Request) -> Result<Answer, StoreError> {
        let is_sign_of_life = is_sign_of_life(&request);
        let answer = self.inner.run(Task::from(caller.clone(), request));
        self.inner.after(is_sign_of_life);
        answer
    }
}

/// What a request is to the threads that carry it out.
#[derive(Debug, Clone, Copy)]
struct Kind {
    /// It changes nothing.
    is_question: bool,
    /// Nodes send it each second.
    is_sign_of_life: bool,
}

impl Kind {
    fn of(request: &Request) -> Self {
        let (is_question, is_sign_of_life) = (is_question(request), is_sign_of_life(request));
        Self { is_question, is_sign_of_life }
    }
}

/// Whether nodes send this each second.
const fn is_sign_of_life(request: &Request) -> bool {
    matches!(request, Request::Heartbeat { .. } | Request::Register(_))
}

impl Inner {
    /// Stores who was silent, if that is due, once a sign of life is answered: a heartbeat of its
    /// own node comes each second, or a registration while those are in vain. Who has sent it waits
    /// for no disk, and goes on sending. Of all that find it due one waits.
    fn after(&self, is_sign_of_life: bool) {
        if is_sign_of_life {
            self.tick();
        }
    }

    fn tick(&self) {
        let mut failures = match self.saving.try_lock() {
            Err(TryLockError::WouldBlock) => return,
            Err(TryLockError::Poisoned(alone)) => alone.into_inner(),
            Ok(alone) => alone,
        };
        if self.is_tick_due()
            && let Err(error) = self.run(Task::tick())
            && failures.is_news(self.now().steady)
        {
            tracing::warn!(%error, "cannot save which nodes are silent: a restart begins their wait anew");
        }
    }

    fn run(&self, task: Task) -> Result<Answer, StoreError> {
        run(&self.store, &self.memory, || self.now(), task)
    }

    fn is_tick_due(&self) -> bool {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        memory.liveness.take_due(self.now())
    }

    fn now(&self) -> Moment {
        #[cfg_attr(not(test), expect(unused_mut, reason = "only tests move the clock"))]
        let mut steady = self.began.elapsed();
        #[cfg(test)]
        {
            let ahead = self.ahead.load(std::sync::atomic::Ordering::Relaxed);
            steady += Duration::from_secs(ahead);
        }
        Moment { steady, unix: unix_seconds() }
    }
}

impl Coordinator for Embedded {
    fn call(&self, request: Request) -> CallFuture<'_> {
        Box::pin(async move {
            let kind = Kind::of(&request);
            let answer = self.queue(kind, Task::here(request)).await;
            let answer = answer.map_err(|e| CallError::Unreachable(e.to_string()))?;
            answer.map_err(|error| match error.is_refusal() {
                true => CallError::Refused(error.to_string()),
                // What was asked for may be done, or can be once the disk works, or once what is
                // damaged there is restored.
                false => CallError::Unreachable(error.to_string()),
            })
        })
    }
}

#[cfg(test)]
mod tests;
