//! The way back: the volume's replies, as answers to the client.

use evenkeel_core::{Reply, RequestError};
use evenkeel_engine::{Buffer, FrontendContext, RequestToken};

use super::{Connection, Expected};
use crate::nbd::reply::{data_chunk, error_chunk, error_number, simple, status_chunk};
use crate::nbd::request::{Command, ErrorNumber, Request};

impl Connection {
    pub(super) fn replied(
        &mut self,
        token: RequestToken,
        result: Result<Reply<Buffer>, RequestError>,
        context: &mut FrontendContext,
    ) {
        let index = token.index();
        // The volume answers each request once, and nothing else.
        let Some(open) = self.open.get_mut(index).and_then(Option::take) else { return };
        self.free.push(index);
        self.stuck = None;
        match (result, open.command) {
            (Ok(Reply::Data(pieces)), Command::Read) => self.data(open.request, pieces, context),
            (Ok(Reply::Extents(extents)), Command::Status { only_one }) if !extents.is_empty() => {
                let reply = status_chunk(open.request.cookie, &extents, only_one);
                self.stream.send(&reply, context);
            }
            (Ok(Reply::Done), _) => self.answer(open.request, Ok(()), context),
            (Ok(_), _) => {
                let error = (ErrorNumber::Io, "the volume gave an answer that does not fit");
                self.answer(open.request, Err(error), context);
            }
            (Err(error), _) => {
                let error = (error_number(error), &*error.to_string());
                self.answer(open.request, Err(error), context);
            }
        }
    }

    fn data(
        &mut self,
        request: Request,
        pieces: Vec<(u32, Buffer)>,
        context: &mut FrontendContext,
    ) {
        let length: usize = pieces.iter().map(|(_, buffer)| buffer.len()).sum();
        if length != request.length as usize {
            let error = (ErrorNumber::Io, "the volume gave an answer of another length");
            return self.answer(request, Err(error), context);
        }
        if self.negotiated.structured_replies {
            self.stream.send(&data_chunk(request.cookie, request.offset, request.length), context);
        } else {
            self.stream.send(&simple(request.cookie, None), context);
        }
        for (_, buffer) in pieces {
            self.stream.send_buffer(buffer, context);
        }
    }

    /// Answers with success or an error, with the reason for people.
    pub(super) fn answer(
        &mut self,
        request: Request,
        result: Result<(), (ErrorNumber, &str)>,
        context: &mut FrontendContext,
    ) {
        match result {
            Err((error, text)) if self.negotiated.structured_replies => {
                self.stream.send(&error_chunk(request.cookie, error, text), context);
            }
            result => {
                let error = result.err().map(|(error, _)| error);
                self.stream.send(&simple(request.cookie, error), context);
            }
        }
    }

    /// Answers everything in flight: the volume ends.
    pub(super) fn refuse_all(&mut self, context: &mut FrontendContext) {
        self.held.clear();
        for index in 0..self.open.len() {
            if let Some(open) = self.open[index].take() {
                self.free.push(index);
                let error = (ErrorNumber::Shutdown, "the volume is being detached");
                self.answer(open.request, Err(error), context);
            }
        }
        self.expected = Expected::Ended;
    }
}
