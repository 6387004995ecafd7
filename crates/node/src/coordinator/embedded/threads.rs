//! Threads of the coordinator's own.
//!
//! The daemon's other work that blocks shares a pool of threads: disks that hang could take all of
//! them, and with them the cluster's coordinator. What changes the database waits for its one
//! writer, so questions have threads of their own, too.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

use crate::coordinator::Request;

/// Threads for questions, and as many for changes.
const THREADS: usize = 4;
/// Most requests of each of the two kinds that wait. Each was asked by a node that waits for
/// seconds only.
const MAX_WAITING: usize = 1024;

type Job = Box<dyn FnOnce() + Send>;

/// Why a request was not carried out, or not to its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ThreadError {
    /// The database does not keep up with what it is asked.
    #[error(
        "{MAX_WAITING} requests wait already: the disk of its state directory is slow, or hangs"
    )]
    Full,
    /// The work panicked.
    #[error("the work was cut off; please report this, with the node's log")]
    CutOff,
}

/// Runs what blocks on the coordinator's database. The threads end when this is dropped.
pub(super) struct Threads {
    questions: SyncSender<Job>,
    changes: SyncSender<Job>,
}

impl Threads {
    /// # Errors
    /// If the system has no threads.
    pub(super) fn start() -> io::Result<Self> {
        Ok(Self { questions: start("questions")?, changes: start("changes")? })
    }

    /// Runs this, as soon as a thread for such requests is free, and once that is answered also
    /// what comes after it.
    ///
    /// # Errors
    /// If too many requests wait, or it panicked.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        is_question: bool,
        work: impl FnOnce() -> T + Send + 'static,
        after: impl FnOnce() + Send + 'static,
    ) -> Result<T, ThreadError> {
        let (sender, answer) = oneshot::channel();
        let job = Box::new(move || {
            drop(sender.send(work()));
            after();
        });
        let queue = if is_question { &self.questions } else { &self.changes };
        queue.try_send(job).map_err(|_| ThreadError::Full)?;
        answer.await.map_err(|_| ThreadError::CutOff)
    }
}

/// Whether a request changes nothing in the database, but for a heartbeat of who was silent.
pub(super) const fn is_question(request: &Request) -> bool {
    matches!(
        request,
        Request::Heartbeat { .. }
            | Request::Nodes
            | Request::RemovedNodes
            | Request::Membership
            | Request::Volumes
            | Request::Read { .. }
    )
}

fn start(kind: &str) -> io::Result<SyncSender<Job>> {
    let (sender, queue) = sync_channel(MAX_WAITING);
    let queue = Arc::new(Mutex::new(queue));
    for _ in 0..THREADS {
        let queue = queue.clone();
        std::thread::Builder::new().name(format!("coordinator {kind}")).spawn(move || {
            while let Some(job) = next(&queue) {
                if let Err(panic) = catch_unwind(AssertUnwindSafe(job)) {
                    tracing::error!(why = said(&*panic), "the coordinator's work was cut off");
                }
            }
        })?;
    }
    Ok(sender)
}

fn next(queue: &Mutex<Receiver<Job>>) -> Option<Job> {
    queue.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}

fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("it panicked")
}

#[cfg(test)]
mod tests;
