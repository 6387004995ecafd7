//! Which state of the cluster's membership this node knows, and of which it has heard.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex as Lock, MutexGuard as LockGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, MutexGuard};

/// For how long nothing is heard of a node that has said what the coordinator does not know. So a
/// member that makes up a newer epoch in each hello costs the coordinator one question in this
/// time, and holds up the others' connections once.
const DEAF: Duration = Duration::from_secs(10);
/// Most nodes of which something is kept: the most that a cluster has.
const MAX_SAID: usize = 1024;

/// The epoch of the membership, which the coordinator counts and hellos carry.
#[derive(Debug, Default)]
pub struct Epoch {
    known: AtomicU64,
    said: Lock<Said>,
    fetching: Mutex<()>,
}

/// What other nodes have said, by their names: those are what certificates prove.
#[derive(Debug, Default)]
struct Said {
    /// So many times the coordinator was asked.
    questions: u64,
    news: HashMap<String, News>,
    /// Those of whom nothing is heard, and until when.
    deaf: HashMap<String, Instant>,
}

/// An epoch that is newer than the known one, and after how many questions it was said.
#[derive(Debug, Clone, Copy)]
struct Newer {
    epoch: u64,
    question: u64,
}

/// What one node has said since the coordinator's last answer.
#[derive(Debug, Clone, Copy)]
struct News {
    first: Newer,
    /// The same, or what it has said since. It is judged only after the first.
    last: Newer,
}

/// The coordinator is being asked: what is said from now on is not part of its answer.
#[derive(Debug, Clone, Copy)]
pub struct Question(u64);

impl Epoch {
    /// That of the newest list that this node has; 0: it has none.
    #[must_use]
    pub fn known(&self) -> u64 {
        self.known.load(Ordering::Acquire)
    }

    fn said(&self) -> LockGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until nobody else fetches the list: an older one must not come after a newer one.
    pub async fn turn(&self) -> MutexGuard<'_, ()> {
        self.fetching.lock().await
    }

    /// The node of this name knows this epoch, as it says.
    pub fn learn(&self, name: &str, epoch: u64) {
        self.learn_at(name, epoch, Instant::now());
    }

    fn learn_at(&self, name: &str, epoch: u64, now: Instant) {
        let mut said = self.said();
        if epoch <= self.known() {
            return;
        }
        said.deaf.retain(|_, until| *until > now);
        let newer = Newer { epoch, question: said.questions };
        let is_full = said.news.len() + said.deaf.len() >= MAX_SAID;
        if let Some(news) = said.news.get_mut(name) {
            news.last = newer;
        } else if !is_full && !said.deaf.contains_key(name) {
            said.news.insert(name.to_owned(), News { first: newer, last: newer });
        }
    }

    /// The coordinator is asked now.
    #[must_use]
    pub fn ask(&self) -> Question {
        let mut said = self.said();
        said.questions += 1;
        Question(said.questions)
    }

    /// The coordinator has told the list of this epoch, and nothing newer is to be had: who had
    /// said a newer one before it was asked has made that up, or the coordinator's database is
    /// older than it was.
    pub fn fetched(&self, epoch: u64, asked: Question) {
        self.fetched_at(epoch, asked, Instant::now());
    }

    fn fetched_at(&self, epoch: u64, Question(asked): Question, now: Instant) {
        let mut said = self.said();
        self.known.store(epoch, Ordering::Release);
        let Said { news, deaf, .. } = &mut *said;
        news.retain(|name, news| {
            if news.first.epoch <= epoch {
                news.first = news.last;
            } else if news.first.question < asked {
                deaf.insert(name.clone(), now + DEAF);
                return false;
            }
            news.first.epoch > epoch
        });
    }

    /// The epoch of the list that this node remembers from its last start.
    pub fn remember(&self, epoch: u64) {
        self.known.store(epoch, Ordering::Release);
    }

    /// Whether there is a newer list than this node has, as far as it has heard.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        !self.said().news.is_empty()
    }
}

#[cfg(test)]
mod tests;
