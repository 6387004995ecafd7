//! Serves one device: one state machine on the worker's ring.
//!
//! Each of the device's 128 tags is either with the kernel, which waits for a request to give it
//! to, or with the volume. Data are copied by reading and writing the device, so a tag needs
//! memory only while it has a request.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::os::fd::OwnedFd;

use evenkeel_core::{Operation, Reply, RequestError};
use evenkeel_engine::{
    Buffer, Descriptor, DescriptorToken, Frontend, FrontendContext, FrontendEvent, RequestToken,
};

use super::abi::{self, Description, Kind, QUEUE_DEPTH, request};
use crate::errno;
use descriptions::Descriptions;

mod descriptions;

/// A ublk device, as a front end of a volume.
pub struct UblkFrontend {
    device: OwnedFd,
    size: u64,
    descriptor: Option<Descriptor>,
    descriptions: Option<Descriptions>,
    /// Tags whose request waits for memory, in order.
    waiting: VecDeque<u16>,
    /// Tags that are with the kernel or with the volume.
    tags: u16,
    ended: bool,
}

impl UblkFrontend {
    /// Serves `size` bytes on the character device of a device that has been made, or whose taking
    /// over has begun.
    #[must_use]
    pub fn new(device: OwnedFd, size: u64) -> Self {
        Self {
            device,
            size,
            descriptor: None,
            descriptions: None,
            waiting: VecDeque::new(),
            tags: 0,
            ended: false,
        }
    }

    fn start(&mut self, context: &mut FrontendContext) {
        let descriptions = Descriptions::map(&self.device);
        match (self.device.try_clone(), descriptions) {
            (Ok(copy), Ok(descriptions)) => {
                let descriptor = context.open(copy);
                self.descriptor = Some(descriptor);
                self.descriptions = Some(descriptions);
                for tag in 0..QUEUE_DEPTH {
                    let argument = abi::argument(tag, 0);
                    context.command(
                        descriptor,
                        request::FETCH,
                        argument,
                        DescriptorToken(tag.into()),
                    );
                }
                self.tags = QUEUE_DEPTH;
            }
            (Err(error), _) => self.end(context, format!("its device can't be used: {error}")),
            (_, Err(error)) => self.end(context, format!("its device can't be mapped: {error}")),
        }
    }

    fn end(&mut self, context: &mut FrontendContext, reason: String) {
        self.ended = true;
        context.end(reason);
    }

    /// A tag has come back from the kernel, with a request or because the device ends.
    fn fetched(&mut self, tag: u16, result: i32, context: &mut FrontendContext) {
        if result == 0 {
            return self.begin(tag, context);
        }
        if result != -libc::ENODEV {
            let error = std::io::Error::from_raw_os_error(-result);
            tracing::error!(tag, %error, "a ublk command failed");
        }
        self.tags -= 1;
        if self.tags == 0 {
            self.end(context, "its device has been stopped".to_owned());
        }
    }

    fn description(&self, tag: u16) -> Option<Description> {
        Some(self.descriptions.as_ref()?.get(tag))
    }

    /// Begins the request of a tag, or notes that it waits for memory.
    fn begin(&mut self, tag: u16, context: &mut FrontendContext) {
        let begun = match self.operation(tag, context) {
            Ok(Some(operation)) => context.submit(RequestToken(tag.into()), operation).is_ok(),
            Ok(None) => false,
            Err(error) => {
                self.commit(tag, -error, context);
                true
            }
        };
        if !begun {
            self.waiting.push_back(tag);
        }
    }

    /// What the request of a tag asks of the volume; `None`: there is no memory for its payload.
    fn operation(
        &self,
        tag: u16,
        context: &mut FrontendContext,
    ) -> Result<Option<Operation<Buffer>>, i32> {
        let description = self.description(tag).ok_or(libc::EIO)?;
        let kind = description.kind();
        if kind == Kind::Flush {
            // Its range means nothing.
            return Ok(Some(Operation::Flush));
        }
        let (offset, length) = description.range(self.size).ok_or(libc::EINVAL)?;
        let moves_data = matches!(kind, Kind::Read | Kind::Write { .. });
        if moves_data && !(1..=u64::from(abi::MAX_TRANSFER)).contains(&length) {
            return Err(libc::EINVAL);
        }
        Ok(Some(match kind {
            Kind::Read => Operation::Read { offset, length: length as u32 },
            Kind::Write { durable } => {
                let Some(mut payload) = context.allocate(length as usize) else { return Ok(None) };
                let copied = rustix::io::pread(&self.device, &mut *payload, abi::data_offset(tag));
                if copied.map_err(rustix::io::Errno::raw_os_error)? != payload.len() {
                    return Err(libc::EIO);
                }
                Operation::Write { offset, payload: payload.freeze(), durable }
            }
            Kind::Zero { unmap, durable } => Operation::Zero { offset, length, unmap, durable },
            Kind::Flush | Kind::Unknown => return Err(libc::EOPNOTSUPP),
        }))
    }

    /// Ends the request of a tag with what the volume answered.
    fn reply(
        &mut self,
        tag: u16,
        result: Result<Reply<Buffer>, RequestError>,
        context: &mut FrontendContext,
    ) {
        let result = match result {
            Err(error) => -errno::of(error),
            Ok(Reply::Data(pieces)) => self.give(tag, &pieces),
            Ok(Reply::Done | Reply::Extents(_) | Reply::Miscompare { .. }) => {
                let description = self.description(tag);
                let written = description.filter(|d| matches!(d.kind(), Kind::Write { .. }));
                let range = written.and_then(|description| description.range(self.size));
                range.map_or(0, |(_, length)| length as i32)
            }
        };
        self.commit(tag, result, context);
    }

    /// Copies what was read to the request of a tag; the number of bytes, or a negative error.
    fn give(&self, tag: u16, pieces: &[(u32, Buffer)]) -> i32 {
        let mut given = 0;
        for part in pieces.chunks(libc::UIO_MAXIOV as usize) {
            let part: Vec<_> = part.iter().map(|(_, piece)| IoSlice::new(piece)).collect();
            let length: usize = part.iter().map(|piece| piece.len()).sum();
            let offset = abi::data_offset(tag) + given as u64;
            match rustix::io::pwritev(&self.device, &part, offset) {
                Ok(copied) if copied == length => given += length,
                Ok(_) => return -libc::EIO,
                Err(error) => return -error.raw_os_error(),
            }
        }
        given as i32
    }

    fn commit(&mut self, tag: u16, result: i32, context: &mut FrontendContext) {
        // The device is closed, and the kernel has given all requests up.
        let Some(descriptor) = self.descriptor else { return };
        let argument = abi::argument(tag, result);
        context.command(
            descriptor,
            request::COMMIT_AND_FETCH,
            argument,
            DescriptorToken(tag.into()),
        );
    }

    fn try_waiting(&mut self, context: &mut FrontendContext) {
        for _ in 0..self.waiting.len() {
            // There are as many turns as tags.
            let Some(tag) = self.waiting.pop_front() else { return };
            let before = self.waiting.len();
            self.begin(tag, context);
            if self.waiting.len() > before {
                // Still no room; it keeps its turn.
                self.waiting.rotate_right(1);
                return;
            }
        }
    }
}

impl Frontend for UblkFrontend {
    fn handle(&mut self, event: FrontendEvent, context: &mut FrontendContext) {
        if self.ended {
            return;
        }
        match event {
            FrontendEvent::Started => self.start(context),
            FrontendEvent::Command { token, result } => {
                self.fetched(token.0 as u16, result, context)
            }
            FrontendEvent::Reply { token, result } => self.reply(token.0 as u16, result, context),
            FrontendEvent::MemoryAvailable => self.try_waiting(context),
            FrontendEvent::Stopping => self.ended = true,
            FrontendEvent::Received { .. }
            | FrontendEvent::Sent { .. }
            | FrontendEvent::Read { .. }
            | FrontendEvent::Written { .. }
            | FrontendEvent::Tick
            | FrontendEvent::Readable { .. }
            | FrontendEvent::Drained
            | FrontendEvent::Reported { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests;
