//! Blocks that the source can't read. They are set aside, so that everything else is copied
//! meanwhile, and tried again after a pause that grows: a client may write them, another replica
//! may have them repaired, and a medium that takes its time to fail is not asked without end.

use core::ops::Range;
use core::time::Duration;

use crate::block_set::BlockSet;
use crate::time::Instant;

/// The first pause before blocks are tried again. Each one after it is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause.
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct SetAside {
    /// Nothing of these is copied until the pause is over.
    blocks: BlockSet,
    /// Somewhere in these the source has failed: they are read block by block.
    piecemeal: BlockSet,
    pause: Duration,
    until: Option<Instant>,
}

impl Default for SetAside {
    fn default() -> Self {
        let (blocks, piecemeal) = (BlockSet::default(), BlockSet::default());
        Self { blocks, piecemeal, pause: FIRST_PAUSE, until: None }
    }
}

impl SetAside {
    /// The source could not read a run.
    pub fn failed(&mut self, now: Instant, run: Range<u64>) {
        self.piecemeal.insert(run.clone());
        if run.end - run.start > 1 {
            return;
        }
        self.blocks.insert(run);
        if self.until.is_none() {
            self.until = Some(now + self.pause);
            self.pause = (self.pause * 2).min(MAX_PAUSE);
        }
    }

    /// A run is copied.
    pub fn copied(&mut self, run: Range<u64>) {
        if self.piecemeal.is_empty() {
            return;
        }
        self.piecemeal.remove(run);
        if self.piecemeal.is_empty() {
            *self = Self::default();
        }
    }

    /// All may be tried again if the pause is over.
    pub fn advance(&mut self, now: Instant) {
        if self.until.take_if(|until| *until <= now).is_some() {
            self.blocks = BlockSet::default();
        }
    }

    /// The first block that the source can't read, as far as is known.
    pub fn first(&self) -> Option<u64> {
        let runs = if self.blocks.is_empty() { &self.piecemeal } else { &self.blocks };
        runs.first_run(0..u64::MAX).map(|run| run.start)
    }

    /// The first run of lacking blocks in a range of which nothing is set aside.
    pub fn first_run(&self, out_of_sync: &BlockSet, range: Range<u64>) -> Option<Range<u64>> {
        let mut from = range.start;
        loop {
            let run = out_of_sync.first_run(from..range.end)?;
            match self.blocks.first_run(run.clone()) {
                Some(aside) if aside.start == run.start => from = aside.end,
                Some(aside) => return Some(run.start..aside.start),
                None => return Some(run),
            }
        }
    }

    /// As much of such a run as is read at once.
    pub fn piece(&self, run: Range<u64>) -> Range<u64> {
        match self.piecemeal.first_run(run.clone()) {
            Some(careful) if careful.start == run.start => run.start..run.start + 1,
            Some(careful) => run.start..careful.start,
            None => run,
        }
    }
}

#[cfg(test)]
mod tests;
