//! Buffers: aligned memory that is filled once and then shared without copying.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

use evenkeel_core::Payload;
use twox_hash::XxHash3_64;

use super::pool::{Memory, Reservation};

/// A buffer that has one owner, who fills it.
pub struct BufferMut {
    memory: Memory,
    length: usize,
    reservation: Option<Reservation>,
}

/// A part of a filled buffer, immutable and shared. The memory returns to its pool when the last
/// part is dropped.
#[derive(Clone)]
pub struct Buffer {
    shared: Rc<Shared>,
    start: u32,
    length: u32,
}

struct Shared {
    memory: Memory,
    /// The checksum of the part that was asked for last: one write goes to several replicas.
    checksum: Cell<Option<Checksum>>,
    reservation: RefCell<Option<Reservation>>,
}

#[derive(Clone, Copy)]
struct Checksum {
    start: u32,
    length: u32,
    value: u32,
}

impl BufferMut {
    pub(super) fn new(memory: Memory, length: usize, reservation: Option<Reservation>) -> Self {
        Self { memory, length, reservation }
    }

    /// Shares what was filled in.
    #[must_use]
    pub fn freeze(self) -> Buffer {
        let length = self.length as u32;
        let shared = Shared {
            memory: self.memory,
            checksum: Cell::new(None),
            reservation: RefCell::new(self.reservation),
        };
        Buffer { shared: Rc::new(shared), start: 0, length }
    }

    /// Keeps the first `length` bytes only.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn truncate(&mut self, length: usize) {
        assert!(length <= self.length, "a buffer is not made longer");
        self.length = length;
    }

    /// The address of the byte at `from`, for the kernel.
    pub(crate) fn address(&self, from: usize) -> *mut u8 {
        assert!(from <= self.length, "the address is inside the buffer");
        self.memory.pointer().wrapping_add(from)
    }
}

impl Deref for BufferMut {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory.bytes()[..self.length]
    }
}

impl DerefMut for BufferMut {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory.bytes_mut()[..self.length]
    }
}

impl fmt::Debug for BufferMut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BufferMut({} bytes)", self.length)
    }
}

impl Buffer {
    /// The CRC-32C of the bytes, computed once for equal parts in a row.
    #[must_use]
    pub fn checksum(&self) -> u32 {
        let cached = self.shared.checksum.get();
        if let Some(c) = cached.filter(|c| c.start == self.start && c.length == self.length) {
            return c.value;
        }
        let value = evenkeel_wire::payload_crc(self);
        self.note_checksum(value);
        value
    }

    /// Notes a checksum that was computed when the bytes were received.
    pub(crate) fn note_checksum(&self, value: u32) {
        let checksum = Checksum { start: self.start, length: self.length, value };
        self.shared.checksum.set(Some(checksum));
    }

    /// Lets the reservation return when the last part of this buffer is dropped.
    pub(crate) fn hold(&self, reservation: Reservation) {
        *self.shared.reservation.borrow_mut() = Some(reservation);
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let start = self.start as usize;
        &self.shared.memory.bytes()[start..start + self.length as usize]
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.length)
    }
}

impl Payload for Buffer {
    fn length(&self) -> u32 {
        self.length
    }

    fn slice(&self, from: u32, length: u32) -> Self {
        let inside = from.checked_add(length).is_some_and(|end| end <= self.length);
        assert!(inside, "the part is inside the payload");
        Self { shared: self.shared.clone(), start: self.start + from, length }
    }

    fn digest(&self, from: u32, length: u32) -> u64 {
        XxHash3_64::oneshot(&self[from as usize..(from + length) as usize])
    }

    fn first_difference(&self, other: &Self) -> Option<u32> {
        let mut pairs = self.iter().zip(other.iter());
        pairs.position(|(own, other)| own != other).map(|byte| byte as u32)
    }

    fn is_zero(&self) -> bool {
        let mut chunks = self.chunks_exact(128);
        chunks.by_ref().all(|chunk| chunk.iter().fold(0, |all, byte| all | byte) == 0)
            && chunks.remainder().iter().all(|byte| *byte == 0)
    }
}

#[cfg(test)]
mod tests;
