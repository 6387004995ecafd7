//! Clients, and what they were promised. Each block belongs to one client, which has one request
//! under way: so the writes to a block have one order, and after a crash its sectors hold the last
//! one that a flush covers, or a later one.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::image::SECTOR;
use crate::nbd::Client;
use crate::random::Random;
use crate::tape::{Moment, Tape};

/// Bytes of one write.
pub const BLOCK: usize = 4096;

/// Between two requests of a client, so that the tape lasts for the time that is recorded.
const PAUSE: Duration = Duration::from_millis(2);

/// One write of a block.
#[derive(Debug, Clone, Copy)]
struct Written {
    /// What each eight bytes of it say; zero: it made zeroes.
    stamp: u64,
    begun: Moment,
    /// When it was acknowledged.
    acknowledged: Option<Moment>,
    /// When a flush that covers it was.
    flushed: Option<Moment>,
}

/// What clients wrote, and which writes and flushes were acknowledged when.
#[derive(Debug, Default)]
pub struct History {
    blocks: HashMap<u64, Vec<Written>>,
    /// When each flush was asked for and acknowledged.
    flushes: Vec<(Moment, Moment)>,
}

/// One client.
#[derive(Debug)]
pub struct Writer {
    pub number: u64,
    /// Of how many.
    pub of: u64,
    /// Blocks of the volume.
    pub blocks: u64,
    pub random: Random,
    pub tape: Arc<Tape>,
    pub stop: Arc<AtomicBool>,
}

impl Writer {
    /// Writes until it is told to stop, or an error comes.
    ///
    /// # Errors
    /// If the connection can't be made. Later ones end it: its node was killed.
    pub fn run(mut self, socket: &Path, export: &str) -> io::Result<History> {
        let mut client = Client::connect(socket, export)?;
        let mut history = History::default();
        let mut count = 0;
        while !self.stop.load(Ordering::SeqCst) && !self.tape.is_full() {
            count += 1;
            thread::sleep(PAUSE);
            if self.step(&mut client, &mut history, count).is_err() {
                break;
            }
        }
        Ok(history)
    }

    fn step(&mut self, client: &mut Client, history: &mut History, count: u64) -> io::Result<()> {
        if self.random.percent(8) {
            let begun = self.tape.now();
            client.flush()?;
            history.flushes.push((begun, self.tape.now()));
            return Ok(());
        }
        // Some blocks are written often.
        let range = if self.random.percent(50) { 64 } else { self.blocks / self.of };
        let block = self.random.below(range) * self.of + self.number;
        let stamp = if self.random.percent(5) { 0 } else { (self.number + 1) << 40 | count };
        let written = Written { stamp, begun: self.tape.now(), acknowledged: None, flushed: None };
        let writes = history.blocks.entry(block).or_default();
        writes.push(written);
        let offset = block * BLOCK as u64;
        match stamp {
            0 => client.zero(offset, BLOCK as u32)?,
            stamp => client.write(offset, &stamp.to_le_bytes().repeat(BLOCK / 8))?,
        }
        if let Some(written) = writes.last_mut() {
            written.acknowledged = Some(self.tape.now());
        }
        Ok(())
    }
}

impl History {
    /// Adds what another client has done. A flush covers the writes of all.
    pub fn add(&mut self, other: Self) {
        self.blocks.extend(other.blocks);
        self.flushes.extend(other.flushes);
    }

    /// Notes of each write when a flush that covers it was acknowledged, now that all is known.
    pub fn note_flushes(&mut self) {
        self.flushes.sort_unstable();
        let mut first = Moment::MAX;
        for (_, ended) in self.flushes.iter_mut().rev() {
            // Of this flush and all that were asked for later, the one that was answered first.
            first = first.min(*ended);
            *ended = first;
        }
        for written in self.blocks.values_mut().flatten() {
            let Some(acknowledged) = written.acknowledged else { continue };
            let next = self.flushes.partition_point(|(begun, _)| *begun <= acknowledged);
            written.flushed = self.flushes.get(next).map(|(_, ended)| *ended);
        }
    }

    /// How many writes and flushes there were.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        (self.blocks.values().map(Vec::len).sum(), self.flushes.len())
    }

    /// Judges what was found in a block after a crash at a moment.
    ///
    /// # Errors
    /// If a sector holds what it may not, in words.
    pub fn judge(&self, at: Moment, block: u64, found: &[u8]) -> Result<(), String> {
        let none = Vec::new();
        let writes = self.blocks.get(&block).unwrap_or(&none);
        let begun = writes.iter().take_while(|write| write.begun <= at).count();
        let durable = writes[..begun]
            .iter()
            .rposition(|write| write.flushed.is_some_and(|flushed| flushed <= at));
        let permitted = &writes[durable.unwrap_or(0)..begun];
        for (number, sector) in found.chunks(SECTOR).enumerate() {
            let mut words =
                sector.chunks(8).map(|w| u64::from_le_bytes(w.try_into().unwrap_or_default()));
            let stamp = words.next().unwrap_or(0);
            let is_whole = words.all(|word| word == stamp);
            let is_start = stamp == 0 && durable.is_none();
            if !is_whole || !(is_start || permitted.iter().any(|write| write.stamp == stamp)) {
                return Err(format!(
                    "sector {number} of block {block} holds {stamp:x}; permitted are {:x?}, of which the first {}",
                    permitted.iter().map(|write| write.stamp).collect::<Vec<_>>(),
                    if durable.is_some() { "was flushed" } else { "may be missing" },
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
