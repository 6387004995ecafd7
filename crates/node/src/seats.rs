//! Connections that have not said who they are yet, and how they share the little there is.
//!
//! Nobody knows of such a connection more than where it comes from. [`Seats`] refuses none: when
//! all seats are taken, the oldest connection from the source that has most gives its own to the
//! new one. Somebody who fills all of them from one address, or from many, cuts off no member: a
//! hello takes milliseconds, and a seat lasts for as long as it takes to open as many connections
//! as there are seats.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

/// How often at most it is logged that connections have given way.
const LOG_PERIOD: Duration = Duration::from_secs(10);

/// Where a connection comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// An address; of IPv6 its network of 64 bits, all of which one machine may have.
    Address(IpAddr),
    /// A user of this machine.
    User(u32),
}

impl From<SocketAddr> for Source {
    fn from(from: SocketAddr) -> Self {
        Self::Address(match from.ip().to_canonical() {
            IpAddr::V6(address) => {
                let network = u128::from(address) & !u128::from(u64::MAX);
                IpAddr::V6(network.into())
            }
            v4 => v4,
        })
    }
}

impl Source {
    /// The machine that it is: this one has 16 million addresses, and any of its users has them
    /// all.
    #[must_use]
    pub const fn machine(self) -> Self {
        match self {
            Self::Address(IpAddr::V4(address)) if address.is_loopback() => {
                Self::Address(IpAddr::V4(Ipv4Addr::LOCALHOST))
            }
            other => other,
        }
    }

    /// Who has connected to a unix socket.
    ///
    /// # Errors
    /// If the kernel does not tell.
    pub fn of(stream: &tokio::net::UnixStream) -> std::io::Result<Self> {
        Ok(Self::User(stream.peer_cred()?.uid()))
    }
}

/// Places for connections that have not proved anything yet.
#[derive(Debug)]
pub struct Seats {
    most: usize,
    /// What they are for, in the log.
    what: &'static str,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    next: u64,
    /// In the order in which they came; whoever has to go is told by the sender's end.
    seats: BTreeMap<u64, (Source, oneshot::Sender<()>)>,
    evictions: Evictions,
}

/// How many connections have had to go, for the log.
#[derive(Debug, Default)]
pub struct Evictions {
    /// Since that was logged last.
    count: u64,
    logged: Option<Instant>,
}

/// A place; free again when this is dropped.
#[derive(Debug)]
pub struct Seat {
    seats: Arc<Seats>,
    number: u64,
    gone: oneshot::Receiver<()>,
}

impl Seats {
    /// `most` places, at least one, for connections of this kind.
    #[must_use]
    pub fn new(most: usize, what: &'static str) -> Arc<Self> {
        Arc::new(Self { most: most.max(1), what, taken: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place, of another connection if there is no free one.
    #[must_use]
    pub fn take(self: &Arc<Self>, source: Source) -> Seat {
        let (stays, gone) = oneshot::channel();
        let mut taken = self.lock();
        while taken.seats.len() >= self.most {
            taken.make_space(self.what);
        }
        let number = taken.next;
        taken.next += 1;
        taken.seats.insert(number, (source, stays));
        drop(taken);
        Seat { seats: self.clone(), number, gone }
    }
}

impl Taken {
    /// The oldest connection of the source that has most has to go.
    fn make_space(&mut self, what: &str) {
        let mut counts: HashMap<Source, usize> = HashMap::new();
        for (source, _) in self.seats.values() {
            *counts.entry(*source).or_default() += 1;
        }
        let most = counts.values().max().copied().unwrap_or_default();
        let oldest = self.seats.iter().find(|(_, (source, _))| counts.get(source) == Some(&most));
        if let Some((&number, &(source, _))) = oldest {
            self.seats.remove(&number);
            self.evictions.note(what, source, most);
        }
    }
}

impl Evictions {
    /// A connection from this source has had to go, which had so many.
    pub fn note(&mut self, what: &str, source: Source, of_source: usize) {
        if let Some(count) = self.due(Instant::now()) {
            tracing::warn!(count, ?source, of_source, "closed connections: too many {what}");
        }
    }

    /// Counts one more. How many there were since the last time, if that is to be logged now.
    fn due(&mut self, now: Instant) -> Option<u64> {
        self.count += 1;
        if self.logged.is_some_and(|at| now.duration_since(at) < LOG_PERIOD) {
            return None;
        }
        self.logged = Some(now);
        Some(std::mem::take(&mut self.count))
    }
}

impl Seat {
    /// Returns when the connection has to give its place to another one.
    pub async fn gone(&mut self) {
        // The sender's end is dropped, nothing is sent.
        let _ = (&mut self.gone).await;
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.seats.lock().seats.remove(&self.number);
    }
}

/// How many connections, or other things, each of some has, so that none has all of them: each
/// source of connections, each node.
#[derive(Debug)]
pub struct Shares<K: Copy + Eq + Hash> {
    counts: Mutex<HashMap<K, usize>>,
}

/// One thing of somebody's share; it counts until this is dropped.
#[derive(Debug)]
pub struct Share<K: Copy + Eq + Hash> {
    shares: Arc<Shares<K>>,
    of: K,
}

impl<K: Copy + Eq + Hash> Default for Shares<K> {
    fn default() -> Self {
        Self { counts: Mutex::default() }
    }
}

impl<K: Copy + Eq + Hash> Shares<K> {
    fn lock(&self) -> MutexGuard<'_, HashMap<K, usize>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one more. `None`: `of` has `most` already.
    #[must_use]
    pub fn take(self: &Arc<Self>, of: K, most: usize) -> Option<Share<K>> {
        let mut counts = self.lock();
        if counts.get(&of).copied().unwrap_or_default() >= most {
            return None;
        }
        *counts.entry(of).or_default() += 1;
        Some(Share { shares: self.clone(), of })
    }
}

impl<K: Copy + Eq + Hash> Drop for Share<K> {
    fn drop(&mut self) {
        let mut counts = self.shares.lock();
        if let Some(count) = counts.get_mut(&self.of) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.of);
            }
        }
    }
}

#[cfg(test)]
mod tests;
