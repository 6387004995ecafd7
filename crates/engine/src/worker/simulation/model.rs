//! What each block of a volume may hold, as its clients were told.

use std::collections::BTreeMap;
use std::ops::Range;

/// A rule that is broken, and how.
pub(super) type Violation = (&'static str, String);

/// Bytes of a block.
pub(super) const BLOCK: u64 = 512;

/// See the module's documentation. Blocks that are not named hold zeroes.
#[derive(Debug, Default)]
pub(super) struct Model {
    blocks: BTreeMap<u64, Vec<Version>>,
}

/// What one request has put into a block. Times are steps of the world.
#[derive(Debug)]
struct Version {
    request: u64,
    /// Zero for zeroes.
    value: u64,
    began: u64,
    /// When it was acknowledged; `None`: it may still come.
    ended: Option<u64>,
    /// From when on another one has certainly replaced it.
    gone: Option<u64>,
}

const ZEROES: Version = Version { request: 0, value: 0, began: 0, ended: Some(0), gone: None };

impl Model {
    fn versions(&mut self, range: &Range<u64>) -> impl Iterator<Item = &mut Vec<Version>> {
        for block in range.clone() {
            self.blocks.entry(block).or_insert_with(|| vec![ZEROES]);
        }
        self.blocks.range_mut(range.clone()).map(|(_, versions)| versions)
    }

    /// A client asks for these blocks to hold this value.
    pub(super) fn begin(&mut self, request: u64, range: &Range<u64>, value: u64, now: u64) {
        for versions in self.versions(range) {
            versions.push(Version { request, value, began: now, ended: None, gone: None });
        }
    }

    /// It is acknowledged: what was acknowledged before it began is replaced.
    pub(super) fn acknowledged(&mut self, request: u64, range: &Range<u64>, now: u64) {
        for versions in self.versions(range) {
            let own = versions.iter_mut().find(|version| version.request == request);
            let Some(own) = own else { continue };
            own.ended = Some(now);
            let began = own.began;
            let is_replaced = |it: &&mut Version| it.ended.is_some_and(|ended| ended < began);
            for replaced in versions.iter_mut().filter(is_replaced) {
                replaced.gone.get_or_insert(now);
            }
        }
    }

    /// It has no effect.
    pub(super) fn cancelled(&mut self, request: u64, range: &Range<u64>) {
        self.versions(range).for_each(|versions| versions.retain(|it| it.request != request));
    }

    /// Nothing is under way any more: what was not acknowledged has come by now, or does not.
    pub(super) fn nothing_is_under_way(&mut self, now: u64) {
        for version in self.blocks.values_mut().flatten() {
            version.ended.get_or_insert(now);
        }
    }

    /// What a read returns that began at this time.
    pub(super) fn is_read(
        &self,
        range: &Range<u64>,
        values: &[u64],
        began: u64,
    ) -> Result<(), Violation> {
        for (block, value) in range.clone().zip(values) {
            let Some(versions) = self.blocks.get(&block) else {
                if *value == 0 {
                    continue;
                }
                return Err(("contents", format!("block {block}, never written: {value:x}")));
            };
            let may_be = |it: &Version| it.value == *value && it.gone.is_none_or(|at| at > began);
            if !versions.iter().any(may_be) {
                let why = format!("block {block} holds {value:x}, which is none of {versions:?}");
                return Err(("contents", why));
            }
        }
        Ok(())
    }

    /// Which blocks certainly hold data.
    pub(super) fn holds_data(&self, block: u64) -> bool {
        self.blocks.get(&block).is_some_and(|versions| versions.iter().all(|it| it.value != 0))
    }
}
