//! Reads a script out of the fuzzer's bytes. Behind their end all is zero.

use std::sync::LazyLock;

/// See the module's documentation.
pub struct Script<'a> {
    rest: &'a [u8],
}

/// Lengths of ranges: those at which something changes.
const LENGTHS: [u32; 16] = [
    512,
    4096,
    8192,
    65_536,
    1 << 20,
    2 << 20,
    128 << 20,
    0,
    1,
    511,
    513,
    1024,
    (1 << 20) + 512,
    (128 << 20) + 1,
    1 << 31,
    u32::MAX,
];

/// Tells what happens, if `FUZZ_LOG` is set: to understand an input that fails.
pub fn log(line: impl FnOnce() -> String) {
    static IS_ON: LazyLock<bool> = LazyLock::new(|| std::env::var_os("FUZZ_LOG").is_some());
    if *IS_ON {
        eprintln!("{}", line());
    }
}

impl<'a> Script<'a> {
    /// The script that these bytes are.
    pub fn new(rest: &'a [u8]) -> Self {
        Self { rest }
    }

    /// Whether nothing follows.
    pub fn is_over(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.rest.split_first() else { return 0 };
        self.rest = rest;
        *first
    }

    /// So many of the next bytes, as far as there are any.
    pub fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(count.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    /// A number below `count`.
    pub fn choose(&mut self, count: usize) -> usize {
        usize::from(self.byte()) % count.max(1)
    }

    /// One of these, if there is any.
    pub fn pick<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        let chosen = self.choose(from.len());
        from.get(chosen).cloned()
    }

    /// Yes or no.
    pub fn is_set(&mut self) -> bool {
        self.byte() & 1 != 0
    }

    /// Yes, seldom.
    pub fn is_rare(&mut self) -> bool {
        self.byte() >= 0xf0
    }

    /// A number that means something now, mostly; else one close to it, or close to a limit.
    pub fn near(&mut self, live: u64) -> u64 {
        let byte = self.byte();
        let low = u64::from(byte & 15);
        match byte >> 4 {
            0..=9 => live,
            10 => live.wrapping_add(low + 1),
            11 => live.wrapping_sub(low + 1),
            12 => low,
            13 => 1 << (4 * low),
            14 => u64::from(self.byte()) << low,
            _ => u64::MAX - low,
        }
    }

    /// A place in so many bytes, mostly.
    pub fn offset(&mut self, size: u64) -> u64 {
        let byte = self.byte();
        match byte {
            0..=127 => u64::from(byte) * 4096,
            128..=223 => (u64::from(byte - 128) * size / 96) & !511,
            _ => self.near(size),
        }
    }

    /// The length of a range.
    pub fn length(&mut self) -> u32 {
        let byte = self.byte();
        match byte {
            0..=127 => LENGTHS[usize::from(byte) % 7],
            128..=223 => u32::from(byte - 127) * 512,
            _ => LENGTHS[usize::from(byte) % LENGTHS.len()],
        }
    }
}
