//! Which NBD clients each volume has, and that they do not become too many.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel_core::VolumeId;
use evenkeel_engine::{Frontend, FrontendContext, FrontendEvent, FrontendId, FrontendMaker};

use super::proof::Client;

/// Keeps clients by volume.
#[derive(Debug)]
pub struct Clients {
    most: usize,
    seated: Mutex<Seated>,
}

type Seated = BTreeMap<VolumeId, BTreeMap<FrontendId, Reported>>;

/// A client, and what it was told when it chose the export.
#[derive(Debug, Clone)]
pub struct Reported {
    /// Who it is.
    pub client: Client,
    /// Whether it may write.
    pub may_write: bool,
}

/// For whom an export is.
#[derive(Debug, Clone, Copy)]
pub struct Offered<'a> {
    /// Clients on TCP, all if none is named; `None`: it is not on TCP.
    pub on_tcp: Option<&'a [String]>,
    /// Whether writes are refused.
    pub read_only: bool,
}

impl Reported {
    /// Whether it may go on with what is offered so. One that writes may not if it is read-only.
    #[must_use]
    pub fn may_use(&self, offered: Offered<'_>) -> bool {
        self.client.may_use(offered.on_tcp) && !(offered.read_only && self.may_write)
    }
}

/// A client's place among those of its volume; free again when this is dropped.
#[derive(Debug)]
pub struct Seat {
    clients: Arc<Clients>,
    volume: VolumeId,
    frontend: FrontendId,
}

impl Clients {
    /// At most `most` clients for each volume.
    #[must_use]
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, seated: Mutex::default() })
    }

    /// The most clients that a volume may have.
    #[must_use]
    pub fn most(&self) -> usize {
        self.most
    }

    fn lock(&self) -> MutexGuard<'_, Seated> {
        self.seated.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the volume takes one more at this moment.
    #[must_use]
    pub fn has_room(&self, volume: VolumeId) -> bool {
        self.lock().get(&volume).is_none_or(|seated| seated.len() < self.most)
    }

    /// Takes a place for a client that is to be this front end. `None`: there is none left.
    #[must_use]
    pub fn admit(
        self: &Arc<Self>,
        volume: VolumeId,
        frontend: FrontendId,
        client: Reported,
    ) -> Option<Seat> {
        let mut all = self.lock();
        let seated = all.entry(volume).or_default();
        if seated.len() >= self.most {
            return None;
        }
        seated.insert(frontend, client);
        Some(Seat { clients: self.clone(), volume, frontend })
    }

    /// The front ends of a volume whose clients may not go on, as [`Reported::may_use`] says.
    #[must_use]
    pub fn unwanted(&self, volume: VolumeId, offered: Offered<'_>) -> Vec<FrontendId> {
        let all = self.lock();
        let seated = all.get(&volume).into_iter().flatten();
        let unwanted = seated.filter(|(_, client)| !client.may_use(offered));
        unwanted.map(|(frontend, _)| *frontend).collect()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut all = self.clients.lock();
        if let Some(seated) = all.get_mut(&self.volume) {
            seated.remove(&self.frontend);
            if seated.is_empty() {
                all.remove(&self.volume);
            }
        }
    }
}

/// A front end that holds its place for as long as it lives, however it ends.
struct Holding {
    frontend: Box<dyn Frontend>,
    _seat: Seat,
}

impl Frontend for Holding {
    fn handle(&mut self, event: FrontendEvent, context: &mut FrontendContext) {
        self.frontend.handle(event, context);
    }

    fn next_wakeup(&self) -> Option<evenkeel_core::Instant> {
        self.frontend.next_wakeup()
    }
}

/// Gives a front end its place.
#[must_use]
pub fn seated(maker: FrontendMaker, seat: Seat) -> FrontendMaker {
    Box::new(move || Box::new(Holding { frontend: maker(), _seat: seat }))
}

#[cfg(test)]
mod tests;
