//! The front end on one end of a socket that keeps messages apart, in place of the kernel.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use evenkeel_core::{Extent, Payload};
use evenkeel_engine::frontend::FrontendAction;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::*;

const SIZE: u64 = 1 << 22;

struct Kernel {
    socket: OwnedFd,
    frontend: FuseFrontend,
    context: FrontendContext,
    waits: usize,
    unique: u64,
}

/// What the front end asked of the volume.
type Submitted = (RequestToken, Operation<Buffer>);

impl Kernel {
    fn new(memory: usize) -> Self {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let (socket, other) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        for end in [&socket, &other] {
            rustix::net::sockopt::set_socket_send_buffer_size(end, 8 << 20).unwrap();
        }
        let frontend = FuseFrontend::new(other, Arc::new(AtomicU64::new(SIZE)), 512);
        let context = FrontendContext::detached(memory);
        let mut kernel = Self { socket, frontend, context, waits: 0, unique: 0 };
        assert_eq!(kernel.event(FrontendEvent::Started).len(), 0);
        kernel
    }

    /// Hands an event to the front end and returns what it asks of the volume.
    fn event(&mut self, event: FrontendEvent) -> Vec<Submitted> {
        self.frontend.handle(event, &mut self.context);
        let mut submitted = Vec::new();
        for action in self.context.take_actions() {
            match action {
                FrontendAction::Submit { token, operation, .. } => {
                    submitted.push((token, operation));
                }
                FrontendAction::WaitReadable { .. } => self.waits += 1,
                FrontendAction::Open { .. } => {}
                other => panic!("unexpected: {other:?}"),
            }
        }
        submitted
    }

    fn send(&mut self, opcode: u32, inode: u64, body: &[u8]) {
        self.unique += 2;
        let mut bytes = ((fuse::REQUEST_HEADER + body.len()) as u32).to_ne_bytes().to_vec();
        bytes.extend_from_slice(&opcode.to_ne_bytes());
        bytes.extend_from_slice(&self.unique.to_ne_bytes());
        bytes.extend_from_slice(&inode.to_ne_bytes());
        bytes.extend_from_slice(&[0; 16]);
        bytes.extend_from_slice(body);
        rustix::io::write(&self.socket, &bytes).unwrap();
    }

    fn ask(&mut self, opcode: u32, inode: u64, body: &[u8]) -> Vec<Submitted> {
        self.send(opcode, inode, body);
        self.event(FrontendEvent::Readable { descriptor: Descriptor(0) })
    }

    fn reply(
        &mut self,
        token: RequestToken,
        result: Result<Reply<Buffer>, RequestError>,
    ) -> Vec<Submitted> {
        self.event(FrontendEvent::Reply { token, result })
    }

    /// The next answer to the kernel: error and what follows the header.
    fn answer(&mut self) -> Option<(i32, Vec<u8>)> {
        let mut bytes = vec![0; 2 << 20];
        let length = rustix::io::read(&self.socket, &mut bytes).ok()?;
        bytes.truncate(length);
        assert_eq!(u32::from_ne_bytes(bytes[..4].try_into().unwrap()) as usize, length);
        let error = i32::from_ne_bytes(bytes[4..8].try_into().unwrap());
        Some((error, bytes.split_off(fuse::REPLY_HEADER)))
    }

    fn buffer(&mut self, bytes: &[u8]) -> Buffer {
        let mut buffer = self.context.allocate_fixed(bytes.len());
        buffer.copy_from_slice(bytes);
        buffer.freeze()
    }
}

fn numbers(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_ne_bytes()).collect()
}

fn write_body(offset: u64, payload: &[u8]) -> Vec<u8> {
    let mut body = numbers(&[0, offset]);
    body.extend_from_slice(&(payload.len() as u32).to_ne_bytes());
    body.extend_from_slice(&[0; 20]);
    body.extend_from_slice(payload);
    body
}

fn read_body(offset: u64, size: u32) -> Vec<u8> {
    let mut body = numbers(&[0, offset]);
    body.extend_from_slice(&size.to_ne_bytes());
    body.extend_from_slice(&[0; 20]);
    body
}

fn pattern(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|index| (index / 7) as u8 ^ seed).collect()
}

#[test]
fn the_kernel_is_answered_in_its_version() {
    let mut kernel = Kernel::new(8 << 20);
    let body: Vec<u8> = [7u32, 45, 131_072, u32::MAX]
        .iter()
        .flat_map(|value| value.to_ne_bytes())
        .chain([0; 48])
        .collect();
    assert!(kernel.ask(26, 0, &body).is_empty());
    let (error, answer) = kernel.answer().unwrap();
    assert_eq!((error, answer.len()), (0, 64));
    assert_eq!(answer[4..8], fuse::MINOR.to_ne_bytes());
    assert_eq!(answer[20..24], (1u32 << 20).to_ne_bytes());
    // No write-back cache, no splicing, nothing that was not asked for.
    let abilities = u32::from_ne_bytes(answer[12..16].try_into().unwrap());
    assert_eq!(abilities & (1 << 16), 0);
    assert_eq!(abilities & (1 << 30), 0);
}

#[test]
fn the_file_is_found_and_described() {
    let mut kernel = Kernel::new(8 << 20);
    kernel.ask(1, 1, b"volume\0");
    let (error, entry) = kernel.answer().unwrap();
    assert_eq!((error, entry.len()), (0, 128));
    assert_eq!(entry[48..56], SIZE.to_ne_bytes());
    kernel.ask(1, 1, b"other\0");
    assert_eq!(kernel.answer().unwrap().0, -libc::ENOENT);
    kernel.ask(3, 2, &[0; 16]);
    assert_eq!(kernel.answer().unwrap().1[24..32], SIZE.to_ne_bytes());
    kernel.ask(3, 3, &[0; 16]);
    assert_eq!(kernel.answer().unwrap().0, -libc::ENOENT);
    kernel.ask(14, 2, &[0; 8]);
    assert_eq!(kernel.answer().unwrap().0, 0);
    kernel.ask(17, 2, &[]);
    assert_eq!(kernel.answer().unwrap().1[..8], (SIZE / 4096).to_ne_bytes());
    // Not supported, forgotten, extended attributes.
    kernel.ask(22, 2, &[0; 8]);
    assert_eq!(kernel.answer().unwrap().0, -libc::ENOSYS);
    kernel.ask(42, 0, &[0; 8]);
    assert_eq!(kernel.answer(), None);
}

#[test]
fn the_size_can_not_be_changed() {
    let mut kernel = Kernel::new(8 << 20);
    let mut body = numbers(&[u64::from(fuse::SET_SIZE), 0, SIZE + 512]);
    body.resize(88, 0);
    kernel.ask(4, 2, &body);
    assert_eq!(kernel.answer().unwrap().0, -libc::EPERM);
    body[16..24].copy_from_slice(&SIZE.to_ne_bytes());
    kernel.ask(4, 2, &body);
    assert_eq!(kernel.answer().unwrap().0, 0);
}

#[test]
fn writes_of_all_sizes_carry_their_payload() {
    let mut kernel = Kernel::new(8 << 20);
    let sizes = [512, 4096, 4096, 512, 8192, 65_536, 66_048, 1 << 20, 1 << 20, 512];
    for (index, size) in sizes.into_iter().enumerate() {
        let payload = pattern(size, index as u8);
        let mut submitted = kernel.ask(16, 2, &write_body(1024, &payload));
        let (token, operation) = submitted.pop().unwrap();
        let Operation::Write { offset: 1024, payload: buffer, durable: false } = operation else {
            panic!("not the write: {operation:?}");
        };
        assert_eq!(buffer[..], payload[..]);
        // Disks are written from it as it is.
        assert_eq!(buffer.as_ptr().align_offset(4096), 0);
        drop(buffer);
        kernel.reply(token, Ok(Reply::Done));
        let (error, answer) = kernel.answer().unwrap();
        assert_eq!((error, &answer[..4]), (0, &(size as u32).to_ne_bytes()[..]));
    }
}

#[test]
fn requests_outside_of_the_volume_or_of_its_blocks_are_refused() {
    let mut kernel = Kernel::new(8 << 20);
    for (offset, length) in [(SIZE, 512), (SIZE - 512, 1024), (100, 512), (0, 100), (u64::MAX, 1)] {
        assert!(kernel.ask(16, 2, &write_body(offset, &pattern(length, 1))).is_empty());
        assert_eq!(kernel.answer().unwrap().0, -libc::EINVAL, "{offset} {length}");
    }
    assert!(kernel.ask(15, 2, &read_body(SIZE, 512)).is_empty());
    assert_eq!(kernel.answer().unwrap(), (0, Vec::new()));
}

#[test]
fn a_read_is_put_together_from_pieces() {
    let mut kernel = Kernel::new(8 << 20);
    let mut submitted = kernel.ask(15, 2, &read_body(700, 1000));
    let (token, operation) = submitted.pop().unwrap();
    assert!(matches!(operation, Operation::Read { offset: 512, length: 1536 }));
    let data = pattern(1536, 3);
    let pieces = [(0, &data[..512]), (512, &data[512..1024]), (1024, &data[1024..])];
    let pieces = pieces.map(|(offset, bytes)| (offset, kernel.buffer(bytes))).to_vec();
    kernel.reply(token, Ok(Reply::Data(pieces)));
    assert_eq!(kernel.answer().unwrap(), (0, data[188..1188].to_vec()));
}

#[test]
fn the_end_of_the_file_cuts_a_read() {
    let mut kernel = Kernel::new(8 << 20);
    let mut submitted = kernel.ask(15, 2, &read_body(SIZE - 512, 4096));
    let (token, operation) = submitted.pop().unwrap();
    assert!(matches!(operation, Operation::Read { length: 512, .. }));
    let piece = kernel.buffer(&pattern(512, 5));
    kernel.reply(token, Ok(Reply::Data(vec![(0, piece)])));
    assert_eq!(kernel.answer().unwrap(), (0, pattern(512, 5)));
}

#[test]
fn errors_of_the_volume_become_errors_of_the_device() {
    let mut kernel = Kernel::new(8 << 20);
    for (error, number) in
        [(RequestError::NoSpace, libc::ENOSPC), (RequestError::NoData, libc::EIO)]
    {
        let (token, _) = kernel.ask(20, 2, &[0; 16]).pop().unwrap();
        kernel.reply(token, Err(error));
        assert_eq!(kernel.answer().unwrap().0, -number);
    }
}

#[test]
fn a_flush_and_a_hole_reach_the_volume() {
    let mut kernel = Kernel::new(8 << 20);
    let (token, operation) = kernel.ask(20, 2, &[0; 16]).pop().unwrap();
    assert!(matches!(operation, Operation::Flush));
    kernel.reply(token, Ok(Reply::Done));
    assert_eq!(kernel.answer().unwrap(), (0, Vec::new()));

    let punch = (libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE) as u64;
    let (_, operation) = kernel.ask(43, 2, &numbers(&[0, 4096, 8192, punch])).pop().unwrap();
    assert!(matches!(operation, Operation::Zero { offset: 4096, length: 8192, unmap: true, .. }));

    let zero = (libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE) as u64;
    let (_, operation) = kernel.ask(43, 2, &numbers(&[0, 4096, SIZE, zero])).pop().unwrap();
    let Operation::Zero { length, unmap: false, .. } = operation else { panic!("{operation:?}") };
    assert_eq!(length, SIZE - 4096);

    assert!(kernel.ask(43, 2, &numbers(&[0, 0, 4096, 0])).is_empty());
    assert_eq!(kernel.answer().unwrap().0, -libc::EOPNOTSUPP);
}

#[test]
fn data_and_holes_are_found() {
    let mut kernel = Kernel::new(8 << 20);
    let extents = vec![
        Extent { length: 4096, allocated: true },
        Extent { length: SIZE - 8192, allocated: false },
        Extent { length: 4096, allocated: true },
    ];
    let (data, hole) = (libc::SEEK_DATA as u64, libc::SEEK_HOLE as u64);
    let cases = [
        (0, data, 0),
        (10, data, 10),
        (5000, data, SIZE - 4096),
        (0, hole, 4096),
        (SIZE - 10, hole, SIZE),
    ];
    for (offset, whence, expected) in cases {
        let (token, operation) = kernel.ask(46, 2, &numbers(&[0, offset, whence])).pop().unwrap();
        let Operation::Map { offset: from, length } = operation else { panic!("{operation:?}") };
        assert_eq!(from, offset / 512 * 512);
        assert_eq!(from + length, SIZE);
        // The volume answers about the range that was asked for.
        let mut skip = from;
        let mut answered = Vec::new();
        for extent in &extents {
            let cut = skip.min(extent.length);
            skip -= cut;
            if extent.length > cut {
                answered.push(Extent { length: extent.length - cut, ..*extent });
            }
        }
        kernel.reply(token, Ok(Reply::Extents(answered)));
        assert_eq!(kernel.answer().unwrap(), (0, expected.to_ne_bytes().to_vec()), "{offset}");
    }
}

#[test]
fn without_memory_nothing_more_is_read_until_there_is_some() {
    let mut kernel = Kernel::new(1 << 20);
    let payload = pattern(512 << 10, 9);
    let (first, operation) = kernel.ask(16, 2, &write_body(0, &payload)).pop().unwrap();
    let waits = kernel.waits;
    // The second one finds no room, the third one is left with the kernel.
    assert!(kernel.ask(16, 2, &write_body(0, &pattern(1 << 20, 4))).is_empty());
    kernel.send(15, 2, &read_body(0, 4096));
    assert_eq!(kernel.waits, waits);
    assert!(kernel.event(FrontendEvent::MemoryAvailable).is_empty());
    drop(operation);
    kernel.reply(first, Ok(Reply::Done));
    let mut submitted = kernel.event(FrontendEvent::MemoryAvailable);
    let (second, operation) = submitted.remove(0);
    let Operation::Write { payload, .. } = operation else { panic!("{operation:?}") };
    assert_eq!(payload[..], pattern(1 << 20, 4)[..]);
    assert!(submitted.is_empty());
    drop(payload);
    kernel.reply(second, Ok(Reply::Done));
    // The buffer for the next write fills all memory, and is given back for the sake of the read.
    assert!(kernel.event(FrontendEvent::MemoryAvailable).is_empty());
    let (_, operation) = kernel.event(FrontendEvent::MemoryAvailable).remove(0);
    assert!(matches!(operation, Operation::Read { .. }));
}

#[test]
fn a_malformed_request_is_refused_and_the_next_one_served() {
    let mut kernel = Kernel::new(8 << 20);
    kernel.ask(1, 1, b"no end");
    assert_eq!(kernel.answer().unwrap().0, -libc::EINVAL);
    kernel.ask(15, 2, &[1, 2, 3]);
    assert_eq!(kernel.answer().unwrap().0, -libc::EINVAL);
    kernel.ask(1, 1, b"volume\0");
    assert_eq!(kernel.answer().unwrap().0, 0);
}

#[test]
fn many_requests_are_read_at_once_and_answered_in_any_order() {
    let mut kernel = Kernel::new(8 << 20);
    for index in 0..20u64 {
        kernel.send(15, 2, &read_body(index * 4096, 4096));
    }
    let submitted = kernel.event(FrontendEvent::Readable { descriptor: Descriptor(0) });
    assert_eq!(submitted.len(), 20);
    for (token, operation) in submitted.into_iter().rev() {
        let Operation::Read { offset, .. } = operation else { panic!("{operation:?}") };
        let piece = kernel.buffer(&pattern(4096, offset as u8));
        assert_eq!(piece.length(), 4096);
        kernel.reply(token, Ok(Reply::Data(vec![(0, piece)])));
        assert_eq!(kernel.answer().unwrap().1, pattern(4096, offset as u8));
    }
}
