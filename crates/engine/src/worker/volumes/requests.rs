//! What the clients of one volume have asked and have not been answered, and what is counted of it.

use evenkeel_core::{Instant, Operation, Payload, Reply, RequestError, RequestId, VolumeId};

use crate::api::EngineEvent;
use crate::counters::{Kind, VolumeCounters};
use crate::frontend::{FrontendEvent, RequestToken};
use crate::memory::{Buffer, Reservation};
use crate::ring::{Key, Slab};
use crate::worker::context::{Context, Work};

/// See the module's documentation.
pub(super) struct Requests {
    open: Slab<OpenRequest>,
    counters: VolumeCounters,
}

/// A client's request that has not been answered.
struct OpenRequest {
    frontend: Key,
    token: RequestToken,
    /// For the answer to a read.
    room: Option<Reservation>,
    kind: Kind,
    /// The kind's name where a failure is told.
    name: &'static str,
    bytes: u64,
    began: Instant,
}

impl Requests {
    pub fn new() -> Self {
        Self { open: Slab::new(), counters: VolumeCounters::default() }
    }

    pub const fn counters(&self) -> &VolumeCounters {
        &self.counters
    }

    /// Counts from zero: the volume is attached anew.
    pub fn count_anew(&mut self) {
        self.counters = VolumeCounters::default();
    }

    /// A front end asks for something, which it names by this token.
    #[inline]
    pub fn begin(
        &mut self,
        now: Instant,
        frontend: Key,
        token: RequestToken,
        operation: &Operation<Buffer>,
        room: Option<Reservation>,
    ) -> RequestId {
        let ((kind, bytes), name) = (kind_of(operation), name_of(operation));
        let request = OpenRequest { frontend, token, room, kind, name, bytes, began: now };
        RequestId(self.open.insert(request).number())
    }

    /// The open requests of a front end with such tokens.
    pub fn of(&self, frontend: Key, is_one: impl Fn(RequestToken) -> bool) -> Vec<RequestId> {
        let open = self.open.iter().filter(|(_, it)| it.frontend == frontend && is_one(it.token));
        open.map(|(key, _)| RequestId(key.number())).collect()
    }

    /// Whether a request of this number is open.
    #[cfg(test)]
    pub fn has(&self, request: RequestId) -> bool {
        self.open.get(Key::from_number(request.0)).is_some()
    }

    /// Answers a request of this volume.
    pub fn reply(
        &mut self,
        cx: &mut Context,
        volume: VolumeId,
        request: RequestId,
        result: Result<Reply<Buffer>, RequestError>,
    ) {
        let Some(mut open) = self.open.remove(Key::from_number(request.0)) else {
            debug_assert!(false, "a request is answered once");
            return;
        };
        if matches!(result, Err(RequestError::Cancelled)) {
            // It is none of the volume's failures, and took no time of its own.
            let event = FrontendEvent::Reply { token: open.token, result };
            return cx.queue(Work::Frontend(open.frontend, event));
        }
        let (now, counters) = (cx.now(), &mut self.counters);
        // What was compared and differs is not written.
        let is_done = !matches!(result, Ok(Reply::Miscompare { .. }));
        let bytes = if is_done { open.bytes } else { 0 };
        counters.kinds[open.kind as usize].note(now.since(open.began), result.is_ok(), bytes);
        let error = result.as_ref().err();
        let failed = error.and_then(|error| counters.failures.note(open.name, *error, now));
        if let (Ok(Reply::Data(pieces)), Some(room)) = (&result, &mut open.room) {
            for (_, piece) in pieces {
                piece.hold(room.split(piece.length() as usize));
            }
        }
        let event = FrontendEvent::Reply { token: open.token, result };
        cx.queue(Work::Frontend(open.frontend, event));
        if let Some(failure) = failed {
            cx.report(EngineEvent::RequestsFailed { volume, failure });
        }
    }

    /// Tells of failures that were counted and not told yet: the volume's primary has ended.
    pub fn report_unreported(&mut self, cx: &Context, volume: VolumeId) {
        for failure in self.counters.failures.unreported(cx.now()) {
            cx.report(EngineEvent::RequestsFailed { volume, failure });
        }
    }
}

fn name_of(operation: &Operation<Buffer>) -> &'static str {
    match operation {
        Operation::Read { .. } => "read",
        Operation::Write { .. } => "write",
        Operation::CompareAndWrite { .. } => "compare-and-write",
        Operation::Zero { .. } => "zero",
        Operation::Flush => "flush",
        Operation::Map { .. } => "map",
    }
}

fn kind_of(operation: &Operation<Buffer>) -> (Kind, u64) {
    match operation {
        Operation::Read { length, .. } => (Kind::Read, u64::from(*length)),
        Operation::Write { payload, .. } => (Kind::Write, u64::from(payload.length())),
        Operation::CompareAndWrite { payload, .. } => (Kind::Write, u64::from(payload.length())),
        Operation::Zero { length, .. } => (Kind::Zero, *length),
        Operation::Flush => (Kind::Flush, 0),
        Operation::Map { length, .. } => (Kind::Map, *length),
    }
}
