//! The superblocks: what a replica's disk says of itself, in two copies.
//!
//! A view becomes durable by one copy, a flush, the other copy, and a flush. One save at a time
//! does that; others wait.

use std::collections::VecDeque;
use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use evenkeel_core::replica::MissingPage;
use evenkeel_core::{Incarnations, View};
use evenkeel_format::{
    Newest, Superblock, SuperblockBytes, SuperblockCopy, encode_page, page_offset,
};

use super::asked::Asked;
use super::device::{Access, Failure, Writes, write_at};
use super::filters::Request;

/// Bytes of bitmaps that are written at once.
const PIECE: usize = 1 << 20;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Superblocks {
    /// As it is or is becoming.
    superblock: Superblock,
    contents: Contents,
    write_first: SuperblockCopy,
    current: Option<Saving>,
    waiting: VecDeque<(Asked, Box<SuperblockBytes>)>,
}

/// What the disk has of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Contents {
    Known,
    /// One of two different ones: nothing more may be written.
    Unknown,
}

#[derive(Debug)]
struct Saving {
    asked: Asked,
    bytes: Box<SuperblockBytes>,
    copy: SuperblockCopy,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    WriteFirst,
    FlushFirst,
    WriteSecond,
    FlushSecond,
}

impl Saving {
    /// What the present phase takes.
    fn request(&self) -> Request {
        match self.phase {
            Phase::WriteFirst | Phase::WriteSecond => {
                let (place, bytes) = (self.copy.offset(), self.bytes.clone());
                Request::WriteSuperblock { place, bytes }
            }
            Phase::FlushFirst | Phase::FlushSecond => Request::Barrier(self.asked.failures()),
        }
    }
}

/// What follows when an operation of a save has ended.
pub(super) enum Saved {
    /// The next one.
    Goes(Request),
    /// The save has ended. Another one that waited may begin.
    Ended(Asked, Result<(), Failure>),
}

impl Superblocks {
    pub(super) fn new(newest: Newest) -> Self {
        Self {
            superblock: newest.superblock,
            contents: Contents::Known,
            write_first: newest.write_first,
            current: None,
            waiting: VecDeque::new(),
        }
    }

    /// As it is or is becoming.
    pub(super) const fn newest(&self) -> &Superblock {
        &self.superblock
    }

    /// Whether no save is under way or waits.
    pub(super) fn is_idle(&self) -> bool {
        self.current.is_none() && self.waiting.is_empty()
    }

    /// Whether a view may be saved: there is room for it.
    pub(super) fn have_room_for(&self, view: &View) -> bool {
        view.replica_size() <= self.superblock.data_length
    }

    /// Whether a save is under way.
    pub(super) const fn is_saving(&self) -> bool {
        self.current.is_some()
    }

    /// Panics if a save waits for nothing, or writes where it must not.
    pub(super) fn check_invariants(&self) {
        let is_idle = self.current.is_none() && self.waiting.is_empty();
        assert!(self.are_known() || is_idle, "superblocks are saved of which it knows nothing");
        assert!(self.is_saving() || self.waiting.is_empty(), "a save waits for nothing");
        let is_spared = self.current.as_ref().is_none_or(|saving| saving.copy == self.write_first);
        assert!(is_spared, "the copy is written over whose loss would cost something");
    }

    /// What a mistake would do.
    #[cfg(test)]
    pub(super) const fn write_copy_a_first(&mut self) {
        self.write_first = SuperblockCopy::A;
    }

    /// Whether it is known what the disk has of them.
    pub(super) fn are_known(&self) -> bool {
        self.contents == Contents::Known
    }

    /// Somebody else has failed to write them.
    pub(super) const fn become_unknown(&mut self) {
        self.contents = Contents::Unknown;
    }

    /// Somebody else has written this one, with [`Self::places`].
    pub(super) fn replace(&mut self, superblock: Superblock) {
        self.superblock = superblock;
    }

    /// Where the two copies lie: first the one whose loss costs nothing.
    pub(super) const fn places(&self) -> [u64; 2] {
        [self.write_first.offset(), self.write_first.other().offset()]
    }

    /// What it takes to save these pages of bitmaps: pages that lie together are written together.
    pub(super) fn bitmap_writes(&self, mut pages: Vec<MissingPage>) -> Writes {
        let superblock = &self.superblock;
        pages.sort_unstable_by_key(|page| (page.place, page.page));
        let mut pieces: Vec<(u64, Vec<u8>)> = Vec::new();
        for page in &pages {
            let offset = superblock.metadata_offset
                + page_offset(superblock.data_length, page.place, page.page);
            match pieces.last_mut() {
                Some((start, bytes))
                    if *start + bytes.len() as u64 == offset && bytes.len() < PIECE =>
                {
                    bytes.extend_from_slice(&encode_page(page));
                }
                _ => pieces.push((offset, encode_page(page))),
            }
        }
        Writes::new(pieces)
    }

    /// Lets a save wait for its turn.
    pub(super) fn save(
        &mut self,
        asked: Asked,
        view: View,
        incarnations: Incarnations,
    ) -> Result<(), (Asked, io::Error)> {
        // The number is used up even if the save fails: its bytes may be on the disk.
        self.superblock.sequence += 1;
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let saved = now.map_or(0, |now| now.as_secs());
        let superblock = Superblock { view, incarnations, saved, ..self.superblock.clone() };
        match superblock.encode() {
            Ok(bytes) => {
                self.superblock = superblock;
                self.waiting.push_back((asked, bytes));
                Ok(())
            }
            Err(error) => Err((asked, io::Error::other(error))),
        }
    }

    /// Begins the save whose turn it is: what it takes first.
    pub(super) fn next(&mut self) -> Option<Request> {
        if self.current.is_some() {
            return None;
        }
        let (asked, bytes) = self.waiting.pop_front()?;
        let (copy, phase) = (self.write_first, Phase::WriteFirst);
        Some(self.current.insert(Saving { asked, bytes, copy, phase }).request())
    }

    /// An operation of the save under way has ended.
    pub(super) fn completed(&mut self, result: Result<(), Failure>) -> Option<Saved> {
        let mut saving = self.current.take()?;
        if let Err(failure) = result {
            return Some(Saved::Ended(saving.asked, Err(failure)));
        }
        saving.phase = match saving.phase {
            Phase::WriteFirst => Phase::FlushFirst,
            Phase::FlushFirst => {
                // Now the other one is the older one.
                saving.copy = saving.copy.other();
                self.write_first = saving.copy;
                Phase::WriteSecond
            }
            Phase::WriteSecond => Phase::FlushSecond,
            Phase::FlushSecond => return Some(Saved::Ended(saving.asked, Ok(()))),
        };
        Some(Saved::Goes(self.current.insert(saving).request()))
    }
}

/// Brings the older or damaged copy up to the other one, before anybody is told what that says:
/// should the disk lose that one later, a view that this replica has adopted would be forgotten.
/// Blocks on the disk.
///
/// # Errors
/// If the disk can't be written.
pub(super) fn equalise(file: &impl Access, newest: &mut Newest) -> io::Result<()> {
    if newest.copy == newest.write_first {
        return Ok(());
    }
    let bytes = newest.superblock.encode().map_err(io::Error::other)?;
    write_at(file, &bytes.0, newest.write_first.offset())?;
    file.flush()?;
    (newest.copy, newest.write_first, newest.damaged) =
        (SuperblockCopy::A, SuperblockCopy::A, None);
    Ok(())
}

#[cfg(test)]
mod tests;
