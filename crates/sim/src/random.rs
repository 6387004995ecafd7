//! Numbers that look random and follow from one seed: xoshiro256**, seeded by splitmix64.

use crate::queue::Time;
pub use crate::tape::spread;
use crate::tape::{Recorder, Stream, Tape};

/// A source of numbers.
#[derive(Debug, Clone)]
pub struct Random {
    state: [u64; 4],
    /// Notes who draws what, or says what is drawn.
    recorder: Option<Box<Recorder>>,
}

impl Random {
    /// The sequence that belongs to this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut word = seed;
        let state = [0; 4].map(|_: u64| {
            word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
            spread(word)
        });
        Self { state, recorder: None }
    }

    /// The same, with a tape.
    #[must_use]
    pub fn taped(seed: u64, recorder: Recorder) -> Self {
        Self { recorder: Some(Box::new(recorder)), ..Self::new(seed) }
    }

    /// What was noted on a tape that records, which ends.
    pub fn take_tape(&mut self) -> Option<Tape> {
        self.recorder.take().and_then(|recorder| recorder.into_tape())
    }

    /// The tape, if there is one.
    pub fn recorder(&mut self) -> Option<&mut Recorder> {
        self.recorder.as_deref_mut()
    }

    /// It is now this time.
    pub fn set_time(&mut self, now: Time) {
        if let Some(recorder) = &mut self.recorder {
            recorder.set_time(now);
        }
    }

    /// Who draws from now on. Returns who did until now.
    pub fn set_stream(&mut self, stream: Stream) -> Stream {
        match &mut self.recorder {
            Some(recorder) => recorder.set_stream(stream),
            None => stream,
        }
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        let bits = self.next();
        match &mut self.recorder {
            Some(recorder) => recorder.draw(bits),
            None => bits,
        }
    }

    fn next(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// A number from 0 to `limit` - 1.
    ///
    /// # Panics
    /// If `limit` is 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        assert!(limit > 0, "a choice among nothing");
        ((u128::from(self.bits()) * u128::from(limit)) >> 64) as u64
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// An index below `length`.
    pub fn index(&mut self, length: usize) -> usize {
        self.below(length as u64) as usize
    }

    /// True in `per_mille` of 1,000 cases.
    pub fn chance(&mut self, per_mille: u64) -> bool {
        self.below(1000) < per_mille
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.index(choices.len())]
    }

    /// A number spread evenly over the orders of magnitude from `low` to `high`.
    pub fn magnitude(&mut self, low: u64, high: u64) -> u64 {
        let (mut from, low) = (low.max(1), low.max(1));
        let doublings = (high / low).max(1).ilog2();
        from <<= self.below(u64::from(doublings) + 1);
        self.between(from, (from * 2).min(high).max(from))
    }

    /// A waiting time with this mean, at most ten times it.
    pub fn waiting(&mut self, mean: u64) -> u64 {
        let unit = (self.bits() >> 11) as f64 / (1u64 << 53) as f64;
        (-(1.0 - unit).ln() * mean as f64).min(mean as f64 * 10.0) as u64
    }
}

#[cfg(test)]
mod tests;
