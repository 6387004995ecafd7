//! What the controller sends for a command: requests for its data, data, and its answer.

use super::tags::Tag;
use super::{Connection, NotExpected, Transfer};
use crate::nvme::command::{Completion, Status};
use crate::nvme::pdu::{Data, DataDigest, Flags, Kind, Ready, put_response};

/// SQHD where there is no flow control (Base 6.3).
const NO_HEAD: u16 = 0xffff;

impl Connection {
    /// The host's Connect has succeeded: the queue has so many entries. To be called before that
    /// command is answered. From then on as many commands may be under way, and each tag takes 64
    /// bytes at most.
    ///
    /// # Errors
    /// If the queue is connected already, or if the size is not 2 to 65,536.
    pub fn connected(&mut self, size: u32, without_flow_control: bool) -> Result<(), NotExpected> {
        if self.depth() != 1 || !(2..=1 << 16).contains(&size) {
            return Err(NotExpected);
        }
        self.tags.deepen(size);
        self.without_flow_control = without_flow_control;
        Ok(())
    }

    /// The command that the host calls so (CID), if it is under way. If the host wrongly calls
    /// several so, one of them.
    #[must_use]
    pub fn find(&self, command: u16) -> Option<Tag> {
        self.tags.iter().find(|(_, open)| open.command == command).map(|(tag, _)| tag)
    }

    /// Requests the next so many bytes of a command's data, for which there is room. Only one
    /// request of a command is under way at a time, which is what every host permits.
    ///
    /// # Errors
    /// If the command has no more data on request or has been answered, if what was requested has
    /// not come yet, or if the length is 0 or not a multiple of 4.
    pub fn request(&mut self, tag: Tag, length: u32, out: &mut Vec<u8>) -> Result<(), NotExpected> {
        let open = self.tags.get_mut(tag).ok_or(NotExpected)?;
        let Transfer::OnRequest(all) = open.transfer else { return Err(NotExpected) };
        let is_idle = open.received == open.requested && open.answer.is_none();
        let is_valid = length > 0 && length.is_multiple_of(4) && length <= all - open.requested;
        if !is_idle || !is_valid {
            return Err(NotExpected);
        }
        open.first = open.requested;
        open.requested += length;
        let ready = Ready { command: open.command, tag: tag.tag(), offset: open.first, length };
        ready.put(&self.outgoing, out);
        Ok(())
    }

    /// Answers a command without data, by a status and its result. If data is still on its way that
    /// the capsule brings or that was requested, the answer is sent when it has come. That data is
    /// dropped, and no event tells of it.
    ///
    /// # Errors
    /// If the command has been answered.
    pub fn answer(
        &mut self,
        tag: Tag,
        status: Status,
        result: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), NotExpected> {
        let open = self.tags.get_mut(tag).filter(|open| open.answer.is_none());
        let open = open.ok_or(NotExpected)?;
        open.answer = Some((status, result));
        if open.received == open.requested {
            self.finish(tag, out);
        }
        Ok(())
    }

    /// Answers a command with data and success. What is appended to `before` goes before the data,
    /// what is appended to `after` behind it.
    ///
    /// # Errors
    /// If the command has been answered, or takes another number of bytes.
    pub fn answer_with(
        &mut self,
        tag: Tag,
        result: u64,
        pieces: &[&[u8]],
        before: &mut Vec<u8>,
        after: &mut Vec<u8>,
    ) -> Result<(), NotExpected> {
        let open = self.tags.get(tag).ok_or(NotExpected)?;
        let length: usize = pieces.iter().map(|piece| piece.len()).sum();
        let Transfer::ToHost(expected) = open.transfer else { return Err(NotExpected) };
        if length != expected as usize || open.answer.is_some() {
            return Err(NotExpected);
        }
        // A host that has the flag makes an answer without result and head (TCP 3.3.2.1).
        let success = self.without_flow_control && result == 0 && !open.is_behind;
        let data = Data { command: open.command, tag: 0, offset: 0, length: expected };
        let flags = Flags { last: true, success };
        data.put(Kind::ControllerData, flags, &self.outgoing, before);
        if self.outgoing.data_digest {
            let mut digest = DataDigest::default();
            pieces.iter().for_each(|piece| digest.update(piece));
            after.extend_from_slice(&digest.finish());
        }
        if success {
            self.release(tag, after);
            return Ok(());
        }
        self.answer(tag, Status::Success, result, after)
    }

    /// Sends the answer that a command has, and frees its tag; of a second half, once the first one
    /// has been answered.
    pub(super) fn finish(&mut self, tag: Tag, out: &mut Vec<u8>) {
        // A second half goes when the first one has gone: `release` comes back to it.
        let Some(open) = self.tags.get(tag).filter(|open| !open.is_behind) else { return };
        // It is called for answers and for data, whichever comes last.
        let Some((status, result)) = open.answer else { return };
        let identifier = open.command;
        let head = self.advance_head();
        let is_final = status.is_final();
        let completion = Completion { result, head, identifier, status, is_final };
        put_response(&completion.bytes(), &self.outgoing, out);
        self.release(tag, out);
    }

    /// A command has been answered: its tag is free, and its second half may be answered.
    fn release(&mut self, tag: Tag, out: &mut Vec<u8>) {
        if self.first == Some(tag) {
            self.first = None;
        }
        // Most commands are no first half.
        let Some(second) = self.tags.release(tag).and_then(|open| open.second) else { return };
        // It waits for this one, so it is there.
        let Some(open) = self.tags.get_mut(second) else { return };
        open.is_behind = false;
        if open.answer.is_some() && open.received == open.requested {
            self.finish(second, out);
        }
    }

    /// How far the queue has been consumed: an entry counts once its command is answered, so that a
    /// host never has more commands under way than there are tags.
    fn advance_head(&mut self) -> u16 {
        if self.without_flow_control {
            return NO_HEAD;
        }
        self.head = ((u32::from(self.head) + 1) % self.depth()) as u16;
        self.head
    }
}
