//! Changes that were asked for: each is a task of its own, and goes to its end though whoever asked
//! may go away meanwhile.
//!
//! What is cut off between two steps leaves halves: a primary that has ended and that the node
//! still lists, space that is zeroed while it is in use already. So no change lives in its request.
//!
//! A change that waits for the coordinator gives up once nobody awaits it ([`asker_has_gone`]).
//! Whoever interrupted the command may have given another one meanwhile; the first must not take
//! effect after it.

use std::future::Future;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use evenkeel_api::{ApiError, ErrorCode};
use tokio::sync::{Semaphore, TryAcquireError};
use tokio::task::{JoinError, spawn_blocking};
use tokio::time::timeout;

/// Most changes under way at a time.
const MAX_TASKS: u32 = 512;
/// A coordinator that takes so long to answer stands still.
const LONG: Duration = Duration::from_secs(1);

tokio::task_local! {
    /// Lives as long as somebody awaits the change that this task carries out.
    static ASKER: Weak<()>;
}

/// Most nodes that are asked the same at a time.
pub const MAX_ASKED: usize = 256;

/// Runs these as tasks, in their order and at most `limit` at a time: where a few are silent, one
/// wait follows no other, and a large cluster does not take this node's memory and descriptors.
/// Returns the results in the same order; the error is that of a task that panicked.
pub async fn at_most<T: Send + 'static>(
    limit: usize,
    all: impl IntoIterator<Item = impl Future<Output = T> + Send + 'static>,
) -> Vec<Result<T, JoinError>> {
    let permits = Arc::new(Semaphore::new(limit));
    let mut begun = Vec::new();
    for one in all {
        // Nobody closes it.
        let permit = permits.clone().acquire_owned().await.ok();
        begun.push(tokio::spawn(async move {
            let _permit = permit;
            one.await
        }));
    }
    let mut results = Vec::new();
    for one in begun {
        results.push(one.await);
    }
    results
}

/// Returns true in a change whose answer nobody awaits any more.
pub fn asker_has_gone() -> bool {
    ASKER.try_with(|asker| asker.strong_count() == 0).unwrap_or(false)
}

/// The same of a change that has waited since then: a later command may have been carried out. One
/// that does not wait goes to its end.
pub fn asker_has_gone_since(began: Instant) -> bool {
    began.elapsed() >= LONG && asker_has_gone()
}

/// Runs something that blocks on a disk.
///
/// # Errors
/// Its own, or that the daemon ends.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    spawn_blocking(work).await.unwrap_or_else(|error| Err(cut_off(error)))
}

fn cut_off(error: JoinError) -> ApiError {
    let advice = "Please report this, with the node's log";
    ApiError::new(ErrorCode::System, "the work was cut off", error.to_string(), advice)
}

/// The changes under way.
#[derive(Debug)]
pub struct Tasks {
    /// Closed when no more are taken.
    room: Arc<Semaphore>,
}

impl Default for Tasks {
    fn default() -> Self {
        Self { room: Arc::new(Semaphore::new(MAX_TASKS as usize)) }
    }
}

impl Tasks {
    /// Carries a change out to its end. Whoever awaits this may stop to: the change goes on.
    ///
    /// # Errors
    /// If the daemon is ending, too many are under way, or the change panicked.
    pub async fn carry_out<T: Send + 'static>(
        &self,
        change: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, ApiError> {
        let permit = self.room.clone().try_acquire_owned().map_err(refusal)?;
        let asker = Arc::new(());
        let task = tokio::spawn(ASKER.scope(Arc::downgrade(&asker), async move {
            let done = change.await;
            drop(permit);
            done
        }));
        let done = task.await;
        drop(asker);
        done.map_err(cut_off)
    }

    /// How many are under way.
    #[must_use]
    pub fn under_way(&self) -> usize {
        (MAX_TASKS as usize).saturating_sub(self.room.available_permits())
    }

    /// Takes no more changes, and waits for those under way. `false`: some have not ended in time.
    pub async fn finish(&self, patience: Duration) -> bool {
        let all = timeout(patience, self.room.acquire_many(MAX_TASKS)).await;
        self.room.close();
        all.is_ok()
    }
}

fn refusal(error: TryAcquireError) -> ApiError {
    let what = "this cannot be begun";
    match error {
        TryAcquireError::Closed => {
            let advice = "Ask another node, or this one when it runs again";
            ApiError::new(ErrorCode::Stopping, what, "the node is stopping", advice)
        }
        TryAcquireError::NoPermits => {
            let why = format!("{MAX_TASKS} changes are under way, or the node is stopping");
            ApiError::new(ErrorCode::WrongState, what, why, "Try again in a moment")
        }
    }
}

#[cfg(test)]
mod tests;
