//! The front end over a file that stands for the character device: descriptions at its start,
//! data where the driver would have them.

use std::fs::File;
use std::os::unix::fs::FileExt;

use evenkeel_engine::frontend::FrontendAction;

use super::*;

const SIZE: u64 = 1 << 30;
const FUA: u32 = 1 << 13;

struct Kernel {
    device: File,
    frontend: UblkFrontend,
    context: FrontendContext,
}

#[derive(Debug, Default)]
struct Wanted {
    submitted: Vec<(RequestToken, Operation<Buffer>)>,
    fetched: usize,
    committed: Vec<(u16, i32)>,
    ended: bool,
}

impl Kernel {
    fn new(memory: usize) -> Self {
        let device = tempfile::tempfile().unwrap();
        device.set_len(1 << 40).unwrap();
        let frontend = UblkFrontend::new(device.try_clone().unwrap().into(), SIZE);
        let mut kernel = Self { device, frontend, context: FrontendContext::detached(memory) };
        let wanted = kernel.event(FrontendEvent::Started);
        assert_eq!(wanted.fetched, usize::from(QUEUE_DEPTH));
        kernel
    }

    fn event(&mut self, event: FrontendEvent) -> Wanted {
        self.frontend.handle(event, &mut self.context);
        let mut wanted = Wanted::default();
        for action in self.context.take_actions() {
            match action {
                FrontendAction::Submit { token, operation, .. } => {
                    wanted.submitted.push((token, operation));
                }
                FrontendAction::Command { operation: request::FETCH, .. } => wanted.fetched += 1,
                FrontendAction::Command { token, argument, .. } => {
                    assert_eq!(argument[2..4], (token.0 as u16).to_ne_bytes());
                    let result = i32::from_ne_bytes(argument[4..8].try_into().unwrap());
                    wanted.committed.push((token.0 as u16, result));
                }
                FrontendAction::End { .. } => wanted.ended = true,
                FrontendAction::Open { .. } => {}
                other => panic!("unexpected: {other:?}"),
            }
        }
        wanted
    }

    /// Gives a request to the front end.
    fn request(&mut self, tag: u16, operation: u32, sectors: u32, start: u64) -> Wanted {
        let mut bytes = operation.to_ne_bytes().to_vec();
        bytes.extend_from_slice(&sectors.to_ne_bytes());
        bytes.extend_from_slice(&start.to_ne_bytes());
        bytes.extend_from_slice(&[0; 8]);
        self.device.write_all_at(&bytes, u64::from(tag) * 24).unwrap();
        self.event(FrontendEvent::Command { token: DescriptorToken(tag.into()), result: 0 })
    }

    fn reply(&mut self, tag: u16, result: Result<Reply<Buffer>, RequestError>) -> Wanted {
        self.event(FrontendEvent::Reply { token: RequestToken(tag.into()), result })
    }
}

#[test]
fn a_write_brings_its_data() {
    let mut kernel = Kernel::new(8 << 20);
    kernel.device.write_all_at(&[7; 4096], abi::data_offset(3)).unwrap();
    let (token, operation) = kernel.request(3, 1 | FUA, 8, 16).submitted.pop().unwrap();
    assert_eq!(token, RequestToken(3));
    let Operation::Write { offset, payload, durable } = operation else { panic!("{operation:?}") };
    assert_eq!((offset, &payload[..], durable), (8192, &[7; 4096][..], true));
    assert_eq!(kernel.reply(3, Ok(Reply::Done)).committed, [(3, 4096)]);
}

#[test]
fn a_read_takes_its_data() {
    let mut kernel = Kernel::new(8 << 20);
    let (_, operation) = kernel.request(5, 0, 3, 1).submitted.pop().unwrap();
    assert!(matches!(operation, Operation::Read { offset: 512, length: 1536 }));
    let mut pieces = Vec::new();
    for index in 0..3u8 {
        let mut piece = kernel.context.allocate_fixed(512);
        piece.fill(index);
        pieces.push((u32::from(index) * 512, piece.freeze()));
    }
    assert_eq!(kernel.reply(5, Ok(Reply::Data(pieces))).committed, [(5, 1536)]);
    let mut data = [9; 1536];
    kernel.device.read_exact_at(&mut data, abi::data_offset(5)).unwrap();
    assert_eq!(data, [[0; 512], [1; 512], [2; 512]].as_flattened());
}

#[test]
fn flushes_and_discards_reach_the_volume() {
    let mut kernel = Kernel::new(8 << 20);
    let (_, operation) = kernel.request(0, 2, 0, u64::MAX).submitted.pop().unwrap();
    assert!(matches!(operation, Operation::Flush));
    assert_eq!(kernel.reply(0, Ok(Reply::Done)).committed, [(0, 0)]);
    let (_, operation) = kernel.request(1, 3, 1 << 21, 0).submitted.pop().unwrap();
    assert!(matches!(operation, Operation::Zero { length: 0x4000_0000, unmap: true, .. }));
    assert_eq!(kernel.reply(1, Err(RequestError::NoData)).committed, [(1, -libc::EIO)]);
}

#[test]
fn what_can_not_be_served_is_refused() {
    let mut kernel = Kernel::new(8 << 20);
    let cases = [
        (13, 8, 0, libc::EOPNOTSUPP),
        (0, 8, SIZE / 512, libc::EINVAL),
        (1, 4096, 0, libc::EINVAL),
        (0, 0, 0, libc::EINVAL),
    ];
    for (operation, sectors, start, error) in cases {
        let wanted = kernel.request(2, operation, sectors, start);
        assert!(wanted.submitted.is_empty());
        assert_eq!(wanted.committed, [(2, -error)]);
    }
}

#[test]
fn requests_wait_for_memory_in_their_order() {
    let mut kernel = Kernel::new(1 << 20);
    let mut first = kernel.request(0, 1, 2048, 0).submitted;
    assert_eq!(first.len(), 1);
    for tag in 1..4 {
        assert!(kernel.request(tag, 1, 1024, 0).submitted.is_empty());
    }
    assert!(kernel.event(FrontendEvent::MemoryAvailable).submitted.is_empty());
    first.clear();
    let submitted = kernel.event(FrontendEvent::MemoryAvailable).submitted;
    assert_eq!(submitted.iter().map(|(token, _)| token.0).collect::<Vec<_>>(), [1, 2]);
    drop(submitted);
    let submitted = kernel.event(FrontendEvent::MemoryAvailable).submitted;
    assert_eq!(submitted.iter().map(|(token, _)| token.0).collect::<Vec<_>>(), [3]);
}

#[test]
fn a_stopped_device_ends_the_front_end_when_all_tags_are_back() {
    let mut kernel = Kernel::new(8 << 20);
    for tag in 0..u64::from(QUEUE_DEPTH) {
        let token = DescriptorToken(tag);
        let wanted = kernel.event(FrontendEvent::Command { token, result: -libc::ENODEV });
        assert_eq!(wanted.ended, tag + 1 == u64::from(QUEUE_DEPTH));
    }
}
