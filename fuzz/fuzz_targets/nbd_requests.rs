//! A client's requests, served by the front end with the fuzzer as client, kernel and volume. The
//! first byte sets the size of the pieces and how the volume answers.
#![no_main]

use std::ops::Range;
use std::os::unix::net::UnixStream;

use evenkeel_core::{Extent, Operation, Payload, Reply, RequestError};
use evenkeel_engine::frontend::FrontendAction;
use evenkeel_engine::{
    Buffer, BufferMut, Descriptor, Frontend, FrontendContext, FrontendEvent, RequestToken,
};
use evenkeel_exports::nbd::{Negotiated, front_end};
use evenkeel_fuzz::export;
use libfuzzer_sys::fuzz_target;

struct Bench {
    frontend: Box<dyn Frontend>,
    context: FrontendContext,
    lent: Option<(BufferMut, Range<usize>)>,
    submitted: Vec<(RequestToken, Operation<Buffer>)>,
    sent: usize,
    ended: bool,
}

impl Bench {
    fn event(&mut self, event: FrontendEvent) {
        self.frontend.handle(event, &mut self.context);
        for action in self.context.take_actions() {
            assert!(!self.ended, "nothing follows the end");
            match action {
                FrontendAction::Receive { memory, range, .. } => {
                    assert!(self.lent.is_none() && !range.is_empty() && range.end <= memory.len());
                    self.lent = Some((memory, range));
                }
                FrontendAction::Send { bytes, .. } => self.sent += bytes.len(),
                FrontendAction::SendBuffer { buffer, .. } => self.sent += buffer.len(),
                FrontendAction::Submit { token, operation, .. } => {
                    self.submitted.push((token, operation));
                }
                FrontendAction::End { .. } => self.ended = true,
                _ => {}
            }
        }
        assert!(self.submitted.len() <= evenkeel_exports::nbd::connection::MAX_REQUESTS);
    }

    /// Lets the time come for which it waits.
    fn wake(&mut self) {
        if let Some(moment) = self.frontend.next_wakeup().filter(|_| !self.ended) {
            self.context.set_now(moment);
            self.event(FrontendEvent::Tick);
        }
    }

    fn answer(&mut self, mode: u8) {
        for (token, operation) in std::mem::take(&mut self.submitted) {
            let result = match operation {
                _ if mode & 1 != 0 => Err(RequestError::NoData),
                Operation::Read { offset, length } => {
                    assert!(offset + u64::from(length) <= export().size && length <= 32 << 20);
                    let buffer = self.context.allocate_fixed(length as usize).freeze();
                    Ok(Reply::Data(vec![(0, buffer)]))
                }
                Operation::Write { offset, payload, .. } => {
                    assert!(offset + u64::from(payload.length()) <= export().size);
                    Ok(Reply::Done)
                }
                Operation::Map { length, .. } => {
                    Ok(Reply::Extents(vec![Extent { length, allocated: mode & 2 != 0 }]))
                }
                _ => Ok(Reply::Done),
            };
            if self.ended {
                return;
            }
            self.event(FrontendEvent::Reply { token, result });
        }
        if !self.ended {
            let result = Ok(std::mem::take(&mut self.sent));
            self.event(FrontendEvent::Sent { descriptor: Descriptor(0), result });
        }
        if !self.ended {
            self.event(FrontendEvent::MemoryAvailable);
        }
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((mode, mut bytes)) = input.split_first() else { return };
    let negotiated = Negotiated {
        export: export(),
        structured_replies: mode & 4 != 0,
        block_status: mode & 4 != 0,
        rest: Vec::new(),
    };
    let (socket, _client) = UnixStream::pair().unwrap();
    let mut bench = Bench {
        frontend: front_end(socket.into(), negotiated)(),
        context: FrontendContext::detached(1 << 20),
        lent: None,
        submitted: Vec::new(),
        sent: 0,
        ended: false,
    };
    bench.event(FrontendEvent::Started);
    let piece = usize::from(mode >> 3) * 64 + 1;
    while !bytes.is_empty() && !bench.ended {
        let Some((mut memory, range)) = bench.lent.take() else {
            bench.wake();
            bench.answer(*mode);
            let is_busy = bench.sent > 0 || !bench.submitted.is_empty();
            let receives = bench.lent.is_some();
            assert!(bench.ended || is_busy || receives, "an idle connection receives");
            continue;
        };
        let count = bytes.len().min(range.len()).min(piece);
        memory[range.start..range.start + count].copy_from_slice(&bytes[..count]);
        bytes = &bytes[count..];
        let result = Ok(count);
        bench.event(FrontendEvent::Received { descriptor: Descriptor(0), memory, result });
    }
    if !bench.ended {
        bench.answer(*mode);
    }
});
