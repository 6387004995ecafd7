//! Counters, for Prometheus. They belong to one worker each and are copied when asked for.

use std::time::Duration;

mod failures;

pub use failures::{Failure, Failures};

/// Upper bounds of the latency buckets: 2^n microseconds, from 8 µs to 8.4 s; the last counts the
/// rest.
pub const LATENCY_BUCKETS: usize = 22;

/// How many took how long.
#[derive(Debug, Clone, Default)]
pub struct Histogram {
    /// Counts per bucket (not cumulative); see [`Histogram::bound`].
    pub buckets: [u64; LATENCY_BUCKETS],
    /// The sum of all, in nanoseconds.
    pub sum: u64,
}

impl Histogram {
    /// The upper bound of a bucket, in seconds; the last has none.
    #[must_use]
    pub fn bound(bucket: usize) -> f64 {
        if bucket + 1 == LATENCY_BUCKETS { f64::INFINITY } else { (8u64 << bucket) as f64 / 1e6 }
    }

    /// How many there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    pub(crate) fn note(&mut self, latency: Duration) {
        let nanoseconds = latency.as_nanos() as u64;
        let eights = nanoseconds.saturating_sub(1) / 8_000;
        let bucket = (64 - eights.leading_zeros()) as usize;
        self.buckets[bucket.min(LATENCY_BUCKETS - 1)] += 1;
        self.sum += nanoseconds;
    }
}

/// Requests of one kind.
#[derive(Debug, Clone, Default)]
pub struct KindCounters {
    /// Bytes of those that succeeded.
    pub bytes: u64,
    /// How many failed.
    pub errors: u64,
    /// How long they took, failed ones too.
    pub latency: Histogram,
}

/// The kinds of requests and of disk actions that are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Kind {
    Read,
    Write,
    Zero,
    Flush,
    Map,
    SaveView,
    SaveIntents,
    SaveMissing,
    Checksums,
}

impl Kind {
    /// What is being done, as the beginning of a sentence.
    #[must_use]
    pub const fn in_words(self) -> &'static str {
        match self {
            Self::Read => "reading",
            Self::Write => "writing",
            Self::Zero => "writing zeroes to",
            Self::Flush => "flushing",
            Self::Map => "looking up the space of",
            Self::SaveView => "saving the view",
            Self::SaveIntents => "saving the intent log",
            Self::SaveMissing => "saving what other replicas lack",
            Self::Checksums => "saving checksums",
        }
    }
}

/// All kinds, in the order of the counters, with their names.
pub const KINDS: [(Kind, &str); 9] = [
    (Kind::Read, "read"),
    (Kind::Write, "write"),
    (Kind::Zero, "zero"),
    (Kind::Flush, "flush"),
    (Kind::Map, "map"),
    (Kind::SaveView, "save_view"),
    (Kind::SaveIntents, "save_intents"),
    (Kind::SaveMissing, "save_missing"),
    (Kind::Checksums, "checksums"),
];

/// What the clients of a volume did, by [`Kind`].
#[derive(Debug, Clone, Default)]
pub struct VolumeCounters {
    /// In the order of [`KINDS`].
    pub kinds: [KindCounters; KINDS.len()],
    /// Those that were answered with an error.
    pub failures: Failures,
}

/// What a replica's disk did, by [`Kind`].
#[derive(Debug, Clone, Default)]
pub struct DiskCounters {
    /// In the order of [`KINDS`].
    pub kinds: [KindCounters; KINDS.len()],
    /// Writes to make block checksums durable.
    pub checksum_writes: u64,
    /// Reads that contradicted the checksum of a block.
    pub checksum_mismatches: u64,
}

impl KindCounters {
    pub(crate) fn note(&mut self, latency: Duration, succeeded: bool, bytes: u64) {
        self.latency.note(latency);
        if succeeded {
            self.bytes += bytes;
        } else {
            self.errors += 1;
        }
    }
}

/// What went over a link.
#[derive(Debug, Clone, Copy, Default)]
pub struct LinkCounters {
    /// Bytes sent.
    pub bytes_sent: u64,
    /// Bytes received.
    pub bytes_received: u64,
    /// Messages sent.
    pub messages_sent: u64,
    /// Messages received.
    pub messages_received: u64,
}

/// What a worker did.
#[derive(Debug, Clone, Copy, Default)]
pub struct WorkerCounters {
    /// Turns of its loop.
    pub loops: u64,
    /// Calls of `io_uring_enter`.
    pub system_calls: u64,
    /// Operations that the ring completed.
    pub completions: u64,
    /// Waits that began with polling.
    pub polls: u64,
    /// Of these, those in which something completed meanwhile.
    pub polls_in_time: u64,
    /// Times that a front end or a link waited for memory.
    pub memory_waits: u64,
    /// The longest turn of its loop since it started, without its waiting: so long nothing else of
    /// its volumes went on.
    pub longest_turn: Duration,
    /// Turns that took longer than [`LONG_TURN`].
    pub long_turns: u64,
}

/// A turn that clients may notice.
pub const LONG_TURN: Duration = Duration::from_millis(10);

impl WorkerCounters {
    pub(crate) fn note_turn(&mut self, took: Duration) {
        if took > self.longest_turn {
            self.longest_turn = took;
        }
        self.long_turns += u64::from(took > LONG_TURN);
    }
}

#[cfg(test)]
mod tests;
