//! One io_uring, behind safe functions.
//!
//! What the kernel may touch belongs to the ring from the submission to the completion: memory and
//! descriptor are moved in with the operation and come back with its [`Completion`]. So nothing is
//! freed too early, whoever has gone meanwhile, and an operation is never forgotten.
//!
//! A completion names its [`Owner`] by keys of a [`Slab`], which are not used again: what comes
//! late for something that is gone is recognised.

mod batch;
mod file;
#[cfg(test)]
mod held;
mod slab;

use std::collections::VecDeque;
use std::io;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::time::Duration;

use evenkeel_format::SuperblockBytes;
use io_uring::squeue::{Entry, Flags};
use io_uring::types::{CancelBuilder, Fd, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode};

pub(crate) use self::batch::Batch;
pub(crate) use self::file::SharedFile;
pub use self::file::{Descriptor, DescriptorToken};
pub(crate) use self::slab::{Key, Slab};
use crate::memory::{Buffer, BufferMut};

/// Most operations that are submitted in one system call; more take several.
const SUBMISSION_ENTRIES: u32 = 512;
/// Completions that fit before the kernel keeps them on a slower list.
const COMPLETION_ENTRIES: u32 = 8192;

/// Operations on disks that may block in the kernel at once, each in a thread of its own there:
/// flushes above all, one for each replica. When all are taken others wait, so a few disks that
/// hang must not take all. By default there are four for each processor.
const BLOCKING_OPERATIONS: u32 = 1024;

/// For whom an operation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The worker's mailbox.
    Waker,
    /// A disk action of a replica.
    Disk { replica: Key, job: Key },
    /// Sending on a link.
    LinkSend { link: Key },
    /// Receiving on a link.
    LinkReceive { link: Key },
    /// Something that a front end has asked for.
    Frontend { frontend: Key, descriptor: Descriptor, purpose: Purpose },
    /// A cancellation: what it cancels tells.
    Nobody,
}

/// Which method of the front end's context it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Send,
    Receive,
    Read(DescriptorToken),
    Write(DescriptorToken),
    Readable,
    Command(DescriptorToken),
}

/// What the kernel uses while an operation is under way.
#[derive(Debug)]
pub(crate) enum Kept {
    /// Only the descriptor.
    Nothing,
    /// Memory to be filled.
    Fill(BufferMut),
    /// Data to be written to a disk.
    Data(Buffer),
    /// A superblock to be written.
    Superblock(Box<SuperblockBytes>),
    /// Parts to be sent or written at once.
    Batch(Box<Batch>),
    /// The mailbox's counter.
    Waker(#[expect(dead_code, reason = "the kernel writes it")] Box<[u8; 8]>),
}

/// An operation that has ended.
#[derive(Debug)]
pub(crate) struct Completion {
    pub(crate) owner: Owner,
    /// What the system call would have returned.
    pub(crate) result: io::Result<usize>,
    /// What the operation returned, for drivers' commands.
    pub(crate) raw: i32,
    pub(crate) kept: Kept,
}

struct Inflight {
    owner: Owner,
    kept: Kept,
    /// Keeps the descriptor open.
    _file: Option<SharedFile>,
}

/// See the module's documentation.
pub(crate) struct Ring {
    uring: IoUring,
    /// Leaked if the ring is dropped while the kernel may touch it.
    inflight: ManuallyDrop<Slab<Inflight>>,
    count: usize,
    ready: VecDeque<Completion>,
    /// Calls of `io_uring_enter`.
    system_calls: u64,
    /// What a test keeps from the kernel.
    #[cfg(test)]
    held: Option<held::Held>,
}

impl Ring {
    pub(crate) fn new() -> io::Result<Self> {
        let modern = IoUring::builder()
            .setup_cqsize(COMPLETION_ENTRIES)
            .setup_single_issuer()
            .setup_coop_taskrun()
            .build(SUBMISSION_ENTRIES);
        // Kernels before 6.0 do not know these hints.
        let uring = modern.or_else(|_| {
            IoUring::builder().setup_cqsize(COMPLETION_ENTRIES).build(SUBMISSION_ENTRIES)
        })?;
        if !uring.params().is_feature_ext_arg() || !uring.params().is_feature_nodrop() {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "this kernel's io_uring is too old: Linux 5.11 or later is needed",
            ));
        }
        // Kernels before 5.15 do not know this.
        let _ = uring.submitter().register_iowq_max_workers(&mut [BLOCKING_OPERATIONS, 0]);
        Ok(Self {
            uring,
            inflight: ManuallyDrop::new(Slab::new()),
            count: 0,
            ready: VecDeque::new(),
            system_calls: 0,
            #[cfg(test)]
            held: None,
        })
    }

    /// Calls of `io_uring_enter` since it was made.
    pub(crate) const fn system_calls(&self) -> u64 {
        self.system_calls
    }

    /// Operations under way.
    pub(crate) fn under_way(&self) -> usize {
        self.count
    }

    fn submit(&mut self, owner: Owner, file: Option<SharedFile>, kept: Kept, entry: Entry) {
        self.count += 1;
        let key = self.inflight.insert(Inflight { owner, kept, _file: file });
        let entry = entry.user_data(key.number());
        #[cfg(test)]
        let Some(entry) = self.hold(key, entry) else { return };
        self.push(&entry);
    }

    #[inline]
    fn push(&mut self, entry: &Entry) {
        loop {
            // SAFETY: what the entry points to belongs to `inflight`, at addresses that moves of
            // its owner do not change (pool memory, boxes), until the completion is taken; the
            // descriptor is kept open likewise. `Drop` leaks it all rather than free it early.
            if unsafe { self.uring.submission().push(entry) }.is_ok() {
                return;
            }
            // The queue is full: hand it to the kernel. If that has to rid itself of completions
            // first, take them.
            let _ = self.enter(0, None);
            self.reap();
        }
    }

    pub(crate) fn read_waker(&mut self, file: SharedFile) {
        let mut counter = Box::new([0u8; 8]);
        let entry = opcode::Read::new(Fd(file.raw()), counter.as_mut_ptr(), 8).build();
        self.submit(Owner::Waker, Some(file), Kept::Waker(counter), entry);
    }

    /// Reads into this range of the memory; `offset` counts from the start of the file.
    pub(crate) fn read(
        &mut self,
        owner: Owner,
        file: &SharedFile,
        memory: BufferMut,
        range: Range<usize>,
        offset: u64,
    ) {
        let (address, length) = destination(&memory, &range);
        let entry = opcode::Read::new(Fd(file.raw()), address, length).offset(offset).build();
        let entry = entry.flags(flags_for(file));
        self.submit(owner, Some(file.clone()), Kept::Fill(memory), entry);
    }

    /// Writes the data without its first `skip` bytes.
    pub(crate) fn write(
        &mut self,
        owner: Owner,
        file: &SharedFile,
        data: Buffer,
        skip: usize,
        offset: u64,
    ) {
        let entry = write_entry(file, &data[skip..], offset).build().flags(flags_for(file));
        self.submit(owner, Some(file.clone()), Kept::Data(data), entry);
    }

    /// The same, and durable when it has ended.
    pub(crate) fn write_durably(
        &mut self,
        owner: Owner,
        file: &SharedFile,
        data: Buffer,
        skip: usize,
        offset: u64,
    ) {
        let entry = write_entry(file, &data[skip..], offset).rw_flags(libc::RWF_DSYNC).build();
        let entry = entry.flags(flags_for(file));
        self.submit(owner, Some(file.clone()), Kept::Data(data), entry);
    }

    /// Writes a superblock without its first `skip` bytes, which belongs there from `offset` on.
    pub(crate) fn write_superblock(
        &mut self,
        owner: Owner,
        file: &SharedFile,
        bytes: Box<SuperblockBytes>,
        skip: usize,
        offset: u64,
    ) {
        let rest = &bytes.0[skip..];
        let entry = write_entry(file, rest, offset + skip as u64).build().flags(flags_for(file));
        self.submit(owner, Some(file.clone()), Kept::Superblock(bytes), entry);
    }

    pub(crate) fn write_batch(
        &mut self,
        owner: Owner,
        file: &SharedFile,
        mut batch: Box<Batch>,
        offset: u64,
    ) {
        batch.prepare(0);
        let (vectors, count) = batch.vectors();
        let entry = opcode::Writev::new(Fd(file.raw()), vectors, count).offset(offset).build();
        self.submit(owner, Some(file.clone()), Kept::Batch(batch), entry);
    }

    /// `fdatasync`.
    pub(crate) fn flush(&mut self, owner: Owner, file: &SharedFile) {
        let entry = opcode::Fsync::new(Fd(file.raw())).flags(FsyncFlags::DATASYNC).build();
        self.submit(owner, Some(file.clone()), Kept::Nothing, entry);
    }

    pub(crate) fn fallocate(
        &mut self,
        owner: Owner,
        file: &SharedFile,
        mode: i32,
        offset: u64,
        length: u64,
    ) {
        let entry =
            opcode::Fallocate::new(Fd(file.raw()), length).offset(offset).mode(mode).build();
        self.submit(owner, Some(file.clone()), Kept::Nothing, entry);
    }

    /// Receives into this range of the memory: at least one byte, or with `all` the whole range
    /// unless the stream ends before.
    pub(crate) fn receive(
        &mut self,
        owner: Owner,
        file: &SharedFile,
        memory: BufferMut,
        range: Range<usize>,
        all: bool,
    ) {
        let (address, length) = destination(&memory, &range);
        let flags = if all { libc::MSG_WAITALL } else { 0 };
        let entry = opcode::Recv::new(Fd(file.raw()), address, length).flags(flags).build();
        self.submit(owner, Some(file.clone()), Kept::Fill(memory), entry);
    }

    /// Sends the parts without their first `skip` bytes.
    pub(crate) fn send(
        &mut self,
        owner: Owner,
        file: &SharedFile,
        mut batch: Box<Batch>,
        skip: usize,
    ) {
        batch.prepare(skip);
        let flags = (libc::MSG_NOSIGNAL | libc::MSG_WAITALL) as u32;
        let entry = opcode::SendMsg::new(Fd(file.raw()), batch.message()).flags(flags).build();
        self.submit(owner, Some(file.clone()), Kept::Batch(batch), entry);
    }

    pub(crate) fn wait_readable(&mut self, owner: Owner, file: &SharedFile) {
        let entry = opcode::PollAdd::new(Fd(file.raw()), libc::POLLIN as u32).build();
        self.submit(owner, Some(file.clone()), Kept::Nothing, entry);
    }

    pub(crate) fn command(
        &mut self,
        owner: Owner,
        file: &SharedFile,
        operation: u32,
        argument: [u8; 16],
    ) {
        let entry = opcode::UringCmd16::new(Fd(file.raw()), operation).cmd(argument).build();
        self.submit(owner, Some(file.clone()), Kept::Nothing, entry);
    }

    /// Asks for the end of everything that is under way on a descriptor. Not for disks.
    pub(crate) fn cancel(&mut self, file: &SharedFile) {
        let which = CancelBuilder::fd(Fd(file.raw())).all();
        let entry = opcode::AsyncCancel2::new(which).build();
        self.submit(Owner::Nobody, Some(file.clone()), Kept::Nothing, entry);
    }

    /// Submits what was queued and waits until something completes or the time is over; with a
    /// timeout of zero, only submits and looks.
    pub(crate) fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.reap();
        let idle = self.ready.is_empty() && timeout != Some(Duration::ZERO);
        self.enter(usize::from(idle), timeout.filter(|_| idle))?;
        self.reap();
        Ok(())
    }

    /// Submits what was queued, lets others have the processor, and looks whether something has
    /// completed.
    pub(crate) fn poll(&mut self) -> io::Result<bool> {
        let is_queued = !self.uring.submission().is_empty();
        match is_queued {
            true => self.enter(0, None)?,
            // On its way back the kernel posts what has completed.
            false => rustix::thread::sched_yield(),
        }
        self.reap();
        Ok(self.has_ready())
    }

    fn enter(&mut self, want: usize, timeout: Option<Duration>) -> io::Result<()> {
        self.system_calls += 1;
        let result = match timeout {
            Some(timeout) => {
                let time = Timespec::from(timeout);
                let args = SubmitArgs::new().timespec(&time);
                self.uring.submitter().submit_with_args(want, &args)
            }
            None if want == 0 => self.uring.submit(),
            None => self.uring.submit_and_wait(want),
        };
        match result {
            Ok(_) => Ok(()),
            // The time is over; a signal came; completions must be taken first.
            Err(error)
                if matches!(
                    error.raw_os_error(),
                    Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN)
                ) =>
            {
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn reap(&mut self) {
        for entry in self.uring.completion() {
            let Some(inflight) = self.inflight.remove(Key::from_number(entry.user_data())) else {
                continue;
            };
            self.count -= 1;
            let raw = entry.result();
            let result =
                usize::try_from(raw).map_err(|_| io::Error::from_raw_os_error(raw.wrapping_neg()));
            let Inflight { owner, kept, _file } = inflight;
            self.ready.push_back(Completion { owner, result, raw, kept });
        }
    }

    /// Whether an operation has ended that has not been taken.
    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The next operation that has ended.
    pub(crate) fn next_completion(&mut self) -> Option<Completion> {
        self.ready.pop_front()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if self.count == 0 {
            // SAFETY: it is dropped here only, and not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.inflight) };
        }
    }
}

/// An operation that may block begins in one of the ring's own threads. All others the kernel tries
/// first where they are submitted, which is faster.
/// Whether the same operation may succeed when it is tried again.
pub(crate) fn is_transient(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN))
}

fn flags_for(file: &SharedFile) -> Flags {
    if file.submission_blocks() { Flags::ASYNC } else { Flags::empty() }
}

fn write_entry(file: &SharedFile, data: &[u8], offset: u64) -> opcode::Write {
    opcode::Write::new(Fd(file.raw()), data.as_ptr(), data.len() as u32).offset(offset)
}

fn destination(memory: &BufferMut, range: &Range<usize>) -> (*mut u8, u32) {
    assert!(range.start <= range.end && range.end <= memory.len(), "the range is in the memory");
    (memory.address(range.start), (range.end - range.start) as u32)
}
