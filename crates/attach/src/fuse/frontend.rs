//! Serves the filesystem: one state machine on the connection to the kernel.
//!
//! It reads and answers with non-blocking system calls, one of each for a request; the engine only
//! reports when there is something to read. See
//! `docs/decisions/0003-fuse-and-loop-where-ublk-is-missing.md`.
//!
//! Memory: one read takes one request. Its first 80 bytes go to a buffer of their own, which is
//! just the length of what precedes a write's payload, so that the payload begins at the start of
//! an aligned buffer, in place to be written to disks. That buffer has the size of the last write;
//! what does not fit spills into a second buffer and is put together by copying.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use evenkeel_core::{Operation, Reply, RequestError};
use evenkeel_engine::memory::buffer_size;
use evenkeel_engine::{
    Buffer, BufferMut, Descriptor, Frontend, FrontendContext, FrontendEvent, RequestToken,
};

use super::mount::FILE_NAME;
use super::protocol::{self as fuse, Attributes, Limits, Request};
use crate::errno;
use pending::{Pending, Requests};

mod pending;

/// The longest read or write that the kernel may send, in bytes.
pub const MAX_TRANSFER: usize = 1 << 20;
/// Requests in the volume at a time; no more are read from the kernel until some are answered.
const MAX_OPEN: usize = 1024;
/// Requests read in a row before the worker does something else.
const MAX_IN_A_ROW: usize = 64;
/// How far the search for data or a hole goes in one step, in bytes.
const SEEK_STEP: u64 = 1 << 30;
/// The smallest buffer that a write is received into: also room for the rest of other requests.
const SMALLEST_BUFFER: usize = 4096;
/// The discard granularity that the loop device gets, in bytes.
const DISCARD_UNIT: u32 = 4096;

const ROOT: u64 = 1;
const FILE: u64 = 2;

/// The filesystem with one file, as a front end of a volume.
pub struct FuseFrontend {
    connection: OwnedFd,
    /// Of the volume, which may grow.
    size: Arc<AtomicU64>,
    block_size: u32,
    descriptor: Option<Descriptor>,
    requests: Requests,
    head: [u8; fuse::WRITE_HEADER],
    /// Where the payload of the next write is expected to fit.
    expected: Option<BufferMut>,
    expected_size: usize,
    /// The buffer that receives what does not fit into `expected`.
    spill: Option<BufferMut>,
    /// A request that waits for memory. Nothing is read meanwhile.
    held: Option<Held>,
    waiting: bool,
    ended: bool,
}

/// A request that waits for memory.
enum Held {
    Read { pending: Pending, operation: Operation<Buffer> },
    Write { unique: u64, offset: u64, payload: BufferMut },
}

impl FuseFrontend {
    /// Serves `size` bytes on the connection of a mounted filesystem, which must not block. The
    /// size may become greater at any time.
    #[must_use]
    pub fn new(connection: OwnedFd, size: Arc<AtomicU64>, block_size: u32) -> Self {
        Self {
            connection,
            size,
            block_size,
            descriptor: None,
            requests: Requests::default(),
            head: [0; fuse::WRITE_HEADER],
            expected: None,
            expected_size: SMALLEST_BUFFER,
            spill: None,
            held: None,
            waiting: false,
            ended: false,
        }
    }

    fn size(&self) -> u64 {
        self.size.load(Ordering::Relaxed)
    }

    fn start(&mut self, context: &mut FrontendContext) {
        match self.connection.try_clone() {
            Ok(copy) => {
                self.descriptor = Some(context.open(copy));
                self.spill = Some(context.allocate_fixed(MAX_TRANSFER));
                self.serve(context);
            }
            Err(error) => self.end(context, format!("its connection can't be used: {error}")),
        }
    }

    fn end(&mut self, context: &mut FrontendContext, reason: String) {
        self.ended = true;
        context.end(reason);
    }

    /// Reads and begins requests until there is none, or no memory, or it is another's turn.
    fn serve(&mut self, context: &mut FrontendContext) {
        if let Some(held) = self.held.take() {
            self.try_held(held, context);
        }
        for _ in 0..MAX_IN_A_ROW {
            if self.ended || self.held.is_some() || self.requests.len() >= MAX_OPEN {
                return;
            }
            if self.expected.is_none() {
                self.expected = context.allocate(self.expected_size);
            }
            // The pool is exhausted: it goes on when something is given back.
            let Some(mut buffer) = self.expected.take() else { return };
            let received = self.receive(&mut buffer);
            self.expected = Some(buffer);
            match received {
                Ok(length) => self.begin(length, context),
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN) => break,
                    // The request was taken back, or a signal came.
                    Some(libc::ENOENT | libc::EINTR) => {}
                    Some(libc::ENODEV) => {
                        return self.end(context, "it has been unmounted".to_owned());
                    }
                    _ => return self.end(context, format!("its connection failed: {error}")),
                },
            }
        }
        self.wait(context);
    }

    fn wait(&mut self, context: &mut FrontendContext) {
        if let Some(descriptor) = self.descriptor
            && !self.waiting
            && !self.ended
        {
            self.waiting = true;
            context.wait_readable(descriptor);
        }
    }

    fn receive(&mut self, buffer: &mut BufferMut) -> io::Result<usize> {
        let spill = self.spill.as_deref_mut().unwrap_or_default();
        let parts =
            &mut [IoSliceMut::new(&mut self.head), IoSliceMut::new(buffer), IoSliceMut::new(spill)];
        Ok(rustix::io::readv(&self.connection, parts)?)
    }

    /// Begins the request of `length` bytes that has just been received.
    fn begin(&mut self, length: usize, context: &mut FrontendContext) {
        let mut message = [0; fuse::MAX_PLAIN_REQUEST];
        let (head, rest) = message.split_at_mut(fuse::WRITE_HEADER);
        head.copy_from_slice(&self.head);
        if let Some(buffer) = self.expected.as_deref()
            && length > fuse::WRITE_HEADER
        {
            let known = rest.len().min(length - fuse::WRITE_HEADER);
            rest[..known].copy_from_slice(&buffer[..known]);
        }
        let known = length.min(message.len());
        match fuse::decode(&message[..known], length) {
            Ok((header, request)) => self.dispatch(header, request, context),
            Err(malformed) => {
                tracing::warn!(%malformed, length, "refused");
                match fuse::decode_header(&message[..known]) {
                    Ok(header) => self.fail(header.unique, libc::EINVAL),
                    Err(_) => self.end(context, malformed.to_string()),
                }
            }
        }
    }

    fn dispatch(
        &mut self,
        header: fuse::Header,
        request: Request<'_>,
        context: &mut FrontendContext,
    ) {
        let unique = header.unique;
        match request {
            Request::Read { offset, size } => self.read(unique, offset, size, context),
            Request::Write { offset, size } => self.write(unique, offset, size, context),
            Request::Synchronize => {
                self.submit(Pending::Done { unique }, Operation::Flush, context);
            }
            Request::Allocate { offset, length, mode } => {
                self.allocate(unique, offset, length, mode, context);
            }
            Request::Seek { offset, whence } => self.seek(unique, offset, whence, context),
            Request::Initialize { major, minor, read_ahead, abilities } => {
                self.initialize(unique, (major, minor), read_ahead, abilities, context);
            }
            other => self.answer_at_once(unique, header.inode, &other),
        }
    }

    /// Requests that don't concern the volume's data.
    fn answer_at_once(&mut self, unique: u64, inode: u64, request: &Request<'_>) {
        let Some(attributes) = self.attributes(inode) else {
            return self.fail(unique, libc::ENOENT);
        };
        match *request {
            Request::Forget => {}
            Request::Interrupt => self.fail(unique, libc::ENOSYS),
            Request::Lookup { name } if inode == ROOT && name == FILE_NAME.as_bytes() => {
                self.answer(&fuse::entry(unique, &self.file_attributes()));
            }
            Request::Lookup { .. } => self.fail(unique, libc::ENOENT),
            Request::SetAttributes { valid, size }
                if valid & fuse::SET_SIZE != 0 && size != attributes.size =>
            {
                self.fail(unique, libc::EPERM);
            }
            Request::GetAttributes | Request::SetAttributes { .. } => {
                self.answer(&fuse::attributes(unique, &attributes));
            }
            Request::Open if inode == FILE => {
                use fuse::open_flag::{DIRECT_IO, NO_FLUSH, PARALLEL_DIRECT_WRITES};
                self.answer(&fuse::opened(unique, DIRECT_IO | NO_FLUSH | PARALLEL_DIRECT_WRITES));
            }
            Request::OpenDirectory if inode == ROOT => self.answer(&fuse::opened(unique, 0)),
            Request::Open | Request::OpenDirectory => self.fail(unique, libc::EINVAL),
            Request::ReadDirectory { offset, size } => {
                let (directory, file) = (u32::from(libc::DT_DIR), u32::from(libc::DT_REG));
                let entries: [(u64, u32, &[u8]); 3] = [
                    (ROOT, directory, b"."),
                    (ROOT, directory, b".."),
                    (FILE, file, FILE_NAME.as_bytes()),
                ];
                self.answer(&fuse::directory(unique, &entries, offset, size));
            }
            Request::FilesystemStatistics => {
                let blocks = self.size() / u64::from(DISCARD_UNIT);
                self.answer(&fuse::statistics(unique, blocks, DISCARD_UNIT));
            }
            Request::CloseDescriptor
            | Request::SynchronizeDirectory
            | Request::Release
            | Request::Destroy => self.answer(&fuse::header(unique, 0, 0)),
            _ => self.fail(unique, libc::ENOSYS),
        }
    }

    fn initialize(
        &mut self,
        unique: u64,
        version: (u32, u32),
        read_ahead: u32,
        abilities: u32,
        context: &mut FrontendContext,
    ) {
        use fuse::ability::{
            ASYNC_DIRECT_IO, ASYNC_READ, BIG_WRITES, MAX_PAGES, PARALLEL_DIRECTORY_OPERATIONS,
        };
        let (major, minor) = version;
        if major > fuse::MAJOR {
            return self.answer(&fuse::other_major(unique));
        }
        if major < fuse::MAJOR || minor < fuse::OLDEST_MINOR {
            self.fail(unique, libc::EPROTO);
            return self.end(
                context,
                format!("the kernel speaks FUSE {major}.{minor}: Linux 5.4 or later is needed"),
            );
        }
        let wanted =
            ASYNC_READ | ASYNC_DIRECT_IO | BIG_WRITES | MAX_PAGES | PARALLEL_DIRECTORY_OPERATIONS;
        let pages = MAX_TRANSFER / rustix::param::page_size();
        let limits = Limits {
            read_ahead,
            abilities: abilities & wanted,
            background: MAX_OPEN as u16,
            max_write: MAX_TRANSFER as u32,
            max_pages: pages as u16,
        };
        self.answer(&fuse::initialized(unique, &limits));
    }

    fn read(&mut self, unique: u64, offset: u64, size: u32, context: &mut FrontendContext) {
        let block = u64::from(self.block_size);
        let end = offset.saturating_add(u64::from(size)).min(self.size());
        if offset >= end {
            return self.answer(&fuse::header(unique, 0, 0));
        }
        // The loop device asks for whole blocks; a program that reads the file itself need not.
        let from = offset / block * block;
        let length = (end.next_multiple_of(block).min(self.size()) - from) as u32;
        let skip = (offset - from) as u32;
        let pending = Pending::Data { unique, skip, length: (end - offset) as u32 };
        self.submit(pending, Operation::Read { offset: from, length }, context);
    }

    fn write(&mut self, unique: u64, offset: u64, size: u32, context: &mut FrontendContext) {
        let length = size as usize;
        if !self.has_blocks(offset, u64::from(size)) || length > MAX_TRANSFER {
            return self.fail(unique, libc::EINVAL);
        }
        let Some(mut buffer) = self.expected.take() else {
            return self.fail(unique, libc::EIO);
        };
        if buffer_size(length) == buffer_size(buffer.len()) && length <= buffer.len() {
            buffer.truncate(length);
            return self.submit_write(unique, offset, buffer, context);
        }
        self.expected_size = buffer_size(length).min(MAX_TRANSFER);
        let allocated = context.allocate(length);
        let enough = allocated.is_some();
        let mut payload = allocated.unwrap_or_else(|| context.allocate_fixed(length));
        let first = length.min(buffer.len());
        let spill = self.spill.as_deref().unwrap_or_default();
        payload[..first].copy_from_slice(&buffer[..first]);
        payload[first..].copy_from_slice(&spill[..length - first]);
        if enough {
            self.submit_write(unique, offset, payload, context);
        } else {
            self.held = Some(Held::Write { unique, offset, payload });
        }
    }

    fn submit_write(
        &mut self,
        unique: u64,
        offset: u64,
        payload: BufferMut,
        context: &mut FrontendContext,
    ) {
        let pending = Pending::Written { unique, length: payload.len() as u32 };
        let payload = payload.freeze();
        self.submit(pending, Operation::Write { offset, payload, durable: false }, context);
    }

    fn allocate(
        &mut self,
        unique: u64,
        offset: u64,
        length: u64,
        mode: u32,
        context: &mut FrontendContext,
    ) {
        let mode = mode.cast_signed();
        let keep = libc::FALLOC_FL_KEEP_SIZE;
        let unmap = match mode & !keep {
            libc::FALLOC_FL_PUNCH_HOLE => true,
            libc::FALLOC_FL_ZERO_RANGE => false,
            _ => return self.fail(unique, libc::EOPNOTSUPP),
        };
        let length = length.min(self.size().saturating_sub(offset));
        if !self.has_blocks(offset, length) {
            return self.fail(unique, libc::EINVAL);
        }
        let operation = Operation::Zero { offset, length, unmap, durable: false };
        self.submit(Pending::Done { unique }, operation, context);
    }

    fn seek(&mut self, unique: u64, offset: u64, whence: u32, context: &mut FrontendContext) {
        let hole = match whence.cast_signed() {
            libc::SEEK_DATA => false,
            libc::SEEK_HOLE => true,
            _ => return self.fail(unique, libc::EINVAL),
        };
        if offset >= self.size() {
            // As the kernel's own filesystems answer; the end itself is a hole.
            return self.fail(unique, libc::ENXIO);
        }
        let block = u64::from(self.block_size);
        let from = offset / block * block;
        let length = (self.size() - from).min(SEEK_STEP);
        let pending = Pending::Seek { unique, wanted: offset, hole, position: from };
        self.submit(pending, Operation::Map { offset: from, length }, context);
    }

    fn submit(
        &mut self,
        pending: Pending,
        operation: Operation<Buffer>,
        context: &mut FrontendContext,
    ) {
        let token = self.requests.insert(pending);
        if let Err(operation) = context.submit(token, operation)
            && let Some(pending) = self.requests.remove(token)
        {
            self.held = Some(Held::Read { pending, operation });
            // It may be what fills the volume's memory; nothing is received meanwhile.
            self.expected = None;
        }
    }

    /// Tries again what found no memory.
    fn try_held(&mut self, held: Held, context: &mut FrontendContext) {
        match held {
            Held::Read { pending, operation } => self.submit(pending, operation, context),
            Held::Write { unique, offset, payload } => match context.allocate(payload.len()) {
                Some(mut buffer) => {
                    buffer.copy_from_slice(&payload);
                    self.submit_write(unique, offset, buffer, context);
                }
                None => self.held = Some(Held::Write { unique, offset, payload }),
            },
        }
    }

    /// Answers the kernel with what the volume answered.
    fn reply(
        &mut self,
        token: RequestToken,
        result: Result<Reply<Buffer>, RequestError>,
        context: &mut FrontendContext,
    ) {
        let was_full = self.requests.len() >= MAX_OPEN;
        // The volume answers each request once.
        let Some(pending) = self.requests.remove(token) else { return };
        let unique = pending.unique();
        match (pending, result) {
            (_, Err(error)) => self.fail(unique, errno::of(error)),
            (Pending::Written { length, .. }, Ok(Reply::Done)) => {
                self.answer(&fuse::written(unique, length));
            }
            (Pending::Done { .. }, Ok(Reply::Done)) => self.answer(&fuse::header(unique, 0, 0)),
            (Pending::Data { skip, length, .. }, Ok(Reply::Data(pieces))) => {
                self.answer_data(unique, skip as usize, length as usize, &pieces);
            }
            (Pending::Seek { wanted, hole, position, .. }, Ok(Reply::Extents(extents))) => {
                match pending::find(&extents, position, wanted, hole) {
                    Ok(found) => self.answer(&fuse::found(unique, found)),
                    Err(end) if end < self.size() && end > position => {
                        self.seek_on(unique, wanted, hole, end, context);
                    }
                    // There always is a hole at the end, and never data.
                    Err(_) if hole => self.answer(&fuse::found(unique, self.size())),
                    Err(_) => self.fail(unique, libc::ENXIO),
                }
            }
            _ => self.fail(unique, libc::EIO),
        }
        if was_full {
            self.wait(context);
        }
    }

    fn seek_on(
        &mut self,
        unique: u64,
        wanted: u64,
        hole: bool,
        position: u64,
        context: &mut FrontendContext,
    ) {
        let length = (self.size() - position).min(SEEK_STEP);
        let pending = Pending::Seek { unique, wanted, hole, position };
        self.submit(pending, Operation::Map { offset: position, length }, context);
    }

    /// Answers a read with `length` bytes from `skip` on of what was read.
    fn answer_data(&self, unique: u64, skip: usize, length: usize, pieces: &[(u32, Buffer)]) {
        let mut parts: Vec<&[u8]> = Vec::with_capacity(pieces.len());
        let mut bytes = 0;
        for (offset, piece) in pieces {
            let start = skip.saturating_sub(*offset as usize).min(piece.len());
            let part = &piece[start..];
            let part = &part[..part.len().min(length - bytes)];
            bytes += part.len();
            parts.push(part);
        }
        if bytes != length {
            tracing::error!(bytes, length, "a read was answered with another length");
            return self.fail(unique, libc::EIO);
        }
        let header = fuse::header(unique, 0, length as u32);
        if parts.len() < libc::UIO_MAXIOV as usize {
            let mut all = Vec::with_capacity(parts.len() + 1);
            all.push(IoSlice::new(&header));
            all.extend(parts.into_iter().map(IoSlice::new));
            self.send(&all);
        } else {
            let joined = parts.concat();
            self.send(&[IoSlice::new(&header), IoSlice::new(&joined)]);
        }
    }

    fn fail(&self, unique: u64, error: i32) {
        self.answer(&fuse::header(unique, error, 0));
    }

    fn answer(&self, bytes: &[u8]) {
        self.send(&[IoSlice::new(bytes)]);
    }

    fn send(&self, parts: &[IoSlice<'_>]) {
        use rustix::io::Errno;
        match rustix::io::writev(&self.connection, parts) {
            // Who asked has given up, or the filesystem is gone: the next read tells.
            Ok(_) | Err(Errno::NOENT | Errno::NODEV | Errno::PERM) => {}
            Err(error) => tracing::error!(%error, "the kernel did not take an answer"),
        }
    }

    /// Whether the range is inside the volume and made of whole blocks.
    fn has_blocks(&self, offset: u64, length: u64) -> bool {
        let block = u64::from(self.block_size);
        let end = offset.checked_add(length);
        length > 0
            && offset.is_multiple_of(block)
            && length.is_multiple_of(block)
            && end.is_some_and(|end| end <= self.size())
    }

    fn attributes(&self, inode: u64) -> Option<Attributes> {
        match inode {
            ROOT => Some(Attributes {
                inode: ROOT,
                size: 0,
                mode: libc::S_IFDIR | 0o700,
                block_size: 4096,
            }),
            FILE => Some(self.file_attributes()),
            // Forgetting several inodes at once, and ending, name none.
            0 => Some(Attributes { inode: 0, size: 0, mode: 0, block_size: 0 }),
            _ => None,
        }
    }

    fn file_attributes(&self) -> Attributes {
        Attributes {
            inode: FILE,
            size: self.size(),
            mode: libc::S_IFREG | 0o600,
            block_size: self.block_size.max(4096),
        }
    }
}

impl Frontend for FuseFrontend {
    fn handle(&mut self, event: FrontendEvent, context: &mut FrontendContext) {
        if self.ended {
            return;
        }
        match event {
            FrontendEvent::Started => self.start(context),
            FrontendEvent::Readable { .. } => {
                self.waiting = false;
                self.serve(context);
            }
            FrontendEvent::Reply { token, result } => self.reply(token, result, context),
            FrontendEvent::MemoryAvailable => self.serve(context),
            // The kernel tells by the next read what became of the filesystem.
            FrontendEvent::Stopping => self.ended = true,
            FrontendEvent::Received { .. }
            | FrontendEvent::Sent { .. }
            | FrontendEvent::Read { .. }
            | FrontendEvent::Written { .. }
            | FrontendEvent::Tick
            | FrontendEvent::Command { .. }
            | FrontendEvent::Drained
            | FrontendEvent::Reported { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests;
