//! Steady writing beside everything else, each write made durable and timed: shows whether and
//! how long input and output stand still.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::store::{LOAD_SPAN, LoadTarget};

/// Bytes of one write.
const PIECE: usize = 64 << 10;
/// Between two writes, so that other work gets its turn.
const PAUSE: Duration = Duration::from_millis(2);

/// What was written since the last look.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Durable writes.
    pub writes: u64,
    /// The longest time that one took.
    pub longest: Duration,
    /// The first error, if there was one.
    pub error: Option<String>,
}

impl Tally {
    /// Bytes of the writes.
    pub const fn bytes(&self) -> u64 {
        self.writes * PIECE as u64
    }
}

/// The writing thread. Dropping it ends it.
#[derive(Debug)]
pub struct Load {
    stop: Arc<AtomicBool>,
    tally: Arc<Mutex<Tally>>,
    thread: Option<JoinHandle<()>>,
}

impl Load {
    /// Begins to write.
    pub fn start(target: Box<dyn LoadTarget>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let tally = Arc::new(Mutex::new(Tally::default()));
        let thread = std::thread::spawn({
            let (stop, tally) = (Arc::clone(&stop), Arc::clone(&tally));
            move || write_until(&stop, &tally, target)
        });
        Self { stop, tally, thread: Some(thread) }
    }

    /// What was written since the last call.
    pub fn take(&self) -> Tally {
        std::mem::take(&mut self.tally.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic there has been printed already.
            drop(thread.join());
        }
    }
}

fn write_until(stop: &AtomicBool, tally: &Mutex<Tally>, mut target: Box<dyn LoadTarget>) {
    let mut number = 0u64;
    while !stop.load(Ordering::Relaxed) {
        let content = piece(number);
        let offset = number * PIECE as u64 % LOAD_SPAN;
        let start = Instant::now();
        let result = target.write_durably(offset, &content);
        count(tally, start.elapsed(), &result);
        if result.is_err() {
            return;
        }
        number += 1;
        std::thread::sleep(PAUSE);
    }
}

/// Content that differs from write to write.
fn piece(number: u64) -> Vec<u8> {
    let mut content = Vec::with_capacity(PIECE);
    let mut word = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    while content.len() < PIECE {
        // Xorshift: quick, and no two neighbours alike.
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        content.extend(word.to_le_bytes());
    }
    content
}

fn count(tally: &Mutex<Tally>, time: Duration, result: &io::Result<()>) {
    let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
    tally.longest = tally.longest.max(time);
    match result {
        Ok(()) => tally.writes += 1,
        Err(error) => tally.error = Some(error.to_string()),
    }
}
