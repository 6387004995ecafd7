//! Where buffers come from, and how much there may be: the rules are in [`super`].

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::cell::{Cell, RefCell};
use std::ptr::NonNull;
use std::rc::Rc;

use super::BufferMut;

/// Alignment of every buffer, in bytes: enough for direct I/O on any disk that can be used.
pub const BUFFER_ALIGNMENT: usize = 4096;
/// The smallest buffer, in bytes.
const SMALLEST: usize = 4096;
/// Up to here buffers double in size; above, they are multiples of it.
const LARGE: usize = 1 << 20;
/// Longest buffer, in bytes: the longest request, and a header before it.
pub const MAX_BUFFER: usize = (32 << 20) + LARGE;
/// 4 KiB to 1 MiB by doubling, then 2 to 33 MiB.
const CLASSES: usize = 9 + 32;

/// The memory of one worker. Cloning it shares it.
#[derive(Clone, Debug)]
pub struct Pool(Rc<PoolState>);

#[derive(Debug)]
struct PoolState {
    limit: usize,
    reserved: Cell<usize>,
    in_use: Cell<usize>,
    cached: Cell<usize>,
    released: Cell<bool>,
    free: RefCell<Vec<Vec<NonNull<u8>>>>,
}

/// The size in bytes of the buffer that holds `length` bytes.
#[must_use]
pub fn buffer_size(length: usize) -> usize {
    if length <= LARGE {
        length.max(SMALLEST).next_power_of_two()
    } else {
        length.next_multiple_of(LARGE)
    }
}

fn class_of(size: usize) -> usize {
    if size <= LARGE { (size / SMALLEST).trailing_zeros() as usize } else { 7 + size / LARGE }
}

fn size_of(class: usize) -> usize {
    if class < 9 { SMALLEST << class } else { (class - 7) * LARGE }
}

fn layout_of(size: usize) -> Layout {
    Layout::from_size_align(size, BUFFER_ALIGNMENT).expect("a buffer's size is below 34 MiB")
}

/// A run of aligned, initialised memory. Returns to its pool when dropped.
#[derive(Debug)]
pub(super) struct Memory {
    pointer: NonNull<u8>,
    size: usize,
    pool: Pool,
}

impl Memory {
    pub(super) fn pointer(&self) -> *mut u8 {
        self.pointer.as_ptr()
    }

    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: the memory is `size` bytes long, initialised at its allocation, and belongs to
        // this value; it is written only through `bytes_mut` and by the kernel while a `BufferMut`
        // is lent to it, when no reference exists.
        unsafe { std::slice::from_raw_parts(self.pointer.as_ptr(), self.size) }
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `&mut self` excludes every other reference.
        unsafe { std::slice::from_raw_parts_mut(self.pointer.as_ptr(), self.size) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.pool.give_back(self.pointer, self.size);
    }
}

impl Pool {
    /// A pool that admits at most `limit` bytes and keeps no more than that for reuse.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self(Rc::new(PoolState {
            limit,
            reserved: Cell::new(0),
            in_use: Cell::new(0),
            cached: Cell::new(0),
            released: Cell::new(false),
            free: RefCell::new(vec![Vec::new(); CLASSES]),
        }))
    }

    /// A buffer for something that has been admitted already. Its contents are what was last in it.
    ///
    /// # Panics
    /// If `length` is more than [`MAX_BUFFER`].
    #[must_use]
    pub fn take(&self, length: usize) -> BufferMut {
        BufferMut::new(self.take_memory(length), length, None)
    }

    fn take_memory(&self, length: usize) -> Memory {
        assert!(length <= MAX_BUFFER, "no request is longer than a buffer can be");
        let size = buffer_size(length);
        let state = &self.0;
        let cached = state.free.borrow_mut()[class_of(size)].pop();
        let pointer = match cached {
            Some(pointer) => {
                state.cached.set(state.cached.get() - size);
                pointer
            }
            None => self.allocate_memory(size),
        };
        state.in_use.set(state.in_use.get() + size);
        Memory { pointer, size, pool: self.clone() }
    }

    fn allocate_memory(&self, size: usize) -> NonNull<u8> {
        self.trim(size);
        let layout = layout_of(size);
        // SAFETY: the layout's size is not zero.
        let pointer = unsafe { alloc_zeroed(layout) };
        NonNull::new(pointer).unwrap_or_else(|| handle_alloc_error(layout))
    }

    /// Gives unused memory back to the system until `size` more bytes fit in the limit.
    fn trim(&self, size: usize) {
        let state = &self.0;
        for (class, list) in state.free.borrow_mut().iter_mut().enumerate().rev() {
            while state.in_use.get() + state.cached.get() + size > state.limit {
                let Some(pointer) = list.pop() else { break };
                let freed = size_of(class);
                state.cached.set(state.cached.get() - freed);
                // SAFETY: it was allocated with this layout, and nothing else has the pointer.
                unsafe { dealloc(pointer.as_ptr(), layout_of(freed)) };
            }
        }
    }

    fn give_back(&self, pointer: NonNull<u8>, size: usize) {
        let state = &self.0;
        state.in_use.set(state.in_use.get() - size);
        if state.in_use.get() + state.cached.get() + size <= state.limit {
            state.cached.set(state.cached.get() + size);
            state.free.borrow_mut()[class_of(size)].push(pointer);
        } else {
            // SAFETY: it was allocated with this layout, and nothing else has the pointer.
            unsafe { dealloc(pointer.as_ptr(), layout_of(size)) };
        }
    }

    /// Bytes of buffers in use at present.
    #[must_use]
    pub fn in_use(&self) -> usize {
        self.0.in_use.get()
    }

    /// Bytes reserved at present.
    #[must_use]
    pub fn reserved(&self) -> usize {
        self.0.reserved.get()
    }

    /// Whether a reservation has returned since the last call: who waits may try again.
    pub(crate) fn take_released(&self) -> bool {
        self.0.released.replace(false)
    }
}

impl Drop for PoolState {
    fn drop(&mut self) {
        for (class, list) in self.free.get_mut().iter_mut().enumerate() {
            for pointer in list.drain(..) {
                // SAFETY: it was allocated with this layout, and nothing else has the pointer.
                unsafe { dealloc(pointer.as_ptr(), layout_of(size_of(class))) };
            }
        }
    }
}

/// How much of a pool one volume, or one link to a replica, may hold. Cloning it shares it.
#[derive(Clone, Debug)]
pub struct Budget(Rc<BudgetState>);

#[derive(Debug)]
struct BudgetState {
    pool: Pool,
    limit: usize,
    used: Cell<usize>,
}

/// Room that has been reserved in a budget. Returns to it when dropped.
#[derive(Debug)]
pub struct Reservation {
    budget: Budget,
    bytes: usize,
}

impl Budget {
    /// A budget of `limit` bytes of this pool.
    #[must_use]
    pub fn new(pool: Pool, limit: usize) -> Self {
        Self(Rc::new(BudgetState { pool, limit, used: Cell::new(0) }))
    }

    /// Reserves room for a buffer of `length` bytes. `None`: try again when something was returned.
    #[must_use]
    pub fn reserve(&self, length: usize) -> Option<Reservation> {
        self.reserve_all([length]).map(|[room]| room)
    }

    /// Reserves room for buffers of all these lengths, or for none of them. Whoever reserves one
    /// after the other, and returns the first because there is no room for the second, is told at
    /// once that room has returned: his own. He would try again for ever.
    #[must_use]
    pub fn reserve_all<const N: usize>(&self, lengths: [usize; N]) -> Option<[Reservation; N]> {
        let sizes = lengths.map(buffer_size);
        let bytes = sizes.iter().sum::<usize>();
        let (used, reserved) = (self.0.used.get(), self.0.pool.reserved());
        let fits = used + bytes <= self.0.limit && reserved + bytes <= self.0.pool.0.limit;
        if !fits && used > 0 {
            return None;
        }
        self.0.used.set(used + bytes);
        self.0.pool.0.reserved.set(reserved + bytes);
        Some(sizes.map(|bytes| Reservation { budget: self.clone(), bytes }))
    }

    /// A buffer of `length` bytes, with the room for it reserved.
    #[must_use]
    pub fn allocate(&self, length: usize) -> Option<BufferMut> {
        Some(self.reserve(length)?.into_buffer(length))
    }

    /// The pool that this is a part of.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        &self.0.pool
    }

    /// The most bytes that it admits.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.0.limit
    }

    /// Bytes reserved in this budget at present.
    #[must_use]
    pub fn used(&self) -> usize {
        self.0.used.get()
    }
}

impl Reservation {
    /// A buffer of `length` bytes in this room.
    ///
    /// # Panics
    /// If the room is for less.
    #[must_use]
    pub fn into_buffer(self, length: usize) -> BufferMut {
        assert!(buffer_size(length) <= self.bytes, "the buffer fits in the room reserved for it");
        let memory = self.budget.0.pool.take_memory(length);
        BufferMut::new(memory, length, Some(self))
    }

    /// Takes the room for a buffer of `length` bytes out of this one; what is left, if less.
    #[must_use]
    pub fn split(&mut self, length: usize) -> Self {
        let bytes = buffer_size(length).min(self.bytes);
        self.bytes -= bytes;
        Self { budget: self.budget.clone(), bytes }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let budget = &self.budget.0;
        budget.used.set(budget.used.get() - self.bytes);
        budget.pool.0.reserved.set(budget.pool.reserved() - self.bytes);
        budget.pool.0.released.set(true);
    }
}

#[cfg(test)]
mod tests;
