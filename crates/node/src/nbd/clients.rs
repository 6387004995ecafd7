//! How many NBD clients each volume has, and that they do not become too many.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel_core::VolumeId;
use evenkeel_engine::{Frontend, FrontendContext, FrontendEvent, FrontendMaker};

/// Counts clients by volume.
#[derive(Debug)]
pub struct Clients {
    most: usize,
    counts: Mutex<BTreeMap<VolumeId, usize>>,
}

/// A client's place among those of its volume; free again when this is dropped.
#[derive(Debug)]
pub struct Seat {
    clients: Arc<Clients>,
    volume: VolumeId,
}

impl Clients {
    /// At most `most` clients for each volume.
    #[must_use]
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, counts: Mutex::default() })
    }

    /// The most clients that a volume may have.
    #[must_use]
    pub fn most(&self) -> usize {
        self.most
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<VolumeId, usize>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the volume takes one more at this moment.
    #[must_use]
    pub fn has_room(&self, volume: VolumeId) -> bool {
        self.lock().get(&volume).is_none_or(|count| *count < self.most)
    }

    /// Takes a place. `None`: there is none left.
    #[must_use]
    pub fn admit(self: &Arc<Self>, volume: VolumeId) -> Option<Seat> {
        let mut counts = self.lock();
        let count = counts.entry(volume).or_default();
        if *count >= self.most {
            return None;
        }
        *count += 1;
        Some(Seat { clients: self.clone(), volume })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut counts = self.clients.lock();
        if let Some(count) = counts.get_mut(&self.volume) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.volume);
            }
        }
    }
}

/// A front end that holds its place for as long as it lives, however it ends.
struct Seated {
    frontend: Box<dyn Frontend>,
    _seat: Seat,
}

impl Frontend for Seated {
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
    Box::new(move || Box::new(Seated { frontend: maker(), _seat: seat }))
}

#[cfg(test)]
mod tests;
