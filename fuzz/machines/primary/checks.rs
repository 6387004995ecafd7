//! What is true of a primary whatever it hears.

use evenkeel_core::settings::*;
use evenkeel_core::*;

use super::Bench;
use crate::machines::harness::Blank;
use crate::machines::wire;

/// What a client has asked for.
#[derive(Debug)]
pub enum Asked {
    /// So many bytes of data.
    Data(u64),
    /// A map of so many bytes.
    Map(u64),
    /// To be done if there is what is expected.
    DoneIf,
    /// To be done.
    Done,
}

impl Asked {
    /// By this operation.
    pub fn new(operation: &Operation<Blank>) -> Self {
        match operation {
            Operation::Read { length, .. } => Self::Data((*length).into()),
            Operation::Map { length, .. } => Self::Map(*length),
            Operation::CompareAndWrite { .. } => Self::DoneIf,
            _ => Self::Done,
        }
    }

    /// The answer is of the kind that was asked for, whole and without gaps.
    fn check(&self, reply: &Reply<Blank>) {
        match (self, reply) {
            (Self::Data(length), Reply::Data(pieces)) => {
                let end = pieces.iter().fold(0, |end, (from, piece)| {
                    assert_eq!(end, *from, "{pieces:?}");
                    end + piece.length
                });
                assert_eq!(u64::from(end), *length);
            }
            (Self::Map(length), Reply::Extents(extents)) => {
                let covered: u64 = extents.iter().map(|extent| extent.length).sum();
                assert!((1..=*length).contains(&covered), "{covered} of {length}");
            }
            (Self::Done | Self::DoneIf, Reply::Done) | (Self::DoneIf, Reply::Miscompare { .. }) => {
            }
            (asked, reply) => panic!("{reply:?} to {asked:?}"),
        }
    }
}

impl Bench {
    pub(super) fn carry_out(&mut self, effect: PrimaryEffect<Blank>) {
        match effect {
            PrimaryEffect::Reply { request, result } => {
                let asked = self.requests.remove(&request);
                let asked = asked.expect("a request is answered once");
                if let Ok(reply) = result {
                    assert!(!self.has_ended);
                    asked.check(&reply);
                }
            }
            PrimaryEffect::CommandDone { id, .. } => {
                let place = self.commands.iter().position(|command| *command == id);
                self.commands.swap_remove(place.expect("a command is answered once"));
            }
            PrimaryEffect::Drained { path } => {
                let at = self.drains.iter().position(|drained| *drained == path);
                let at = at.expect("a path that nobody drains");
                self.drains.remove(at);
            }
            PrimaryEffect::Send { link, message, payload } => {
                wire::check(&message, payload.as_ref());
                self.check_range(&message);
                let link = self.links.get_mut(&link).expect("it speaks over open links");
                link.says(message);
            }
            PrimaryEffect::Connect { replica, .. } => {
                assert!(!self.has_ended && self.dialled.len() < 64);
                self.dialled.push(replica);
            }
            PrimaryEffect::Disconnect { link } => {
                assert!(self.links.remove(&link).is_some(), "link {link} is closed twice");
            }
            PrimaryEffect::ReadView { call } => self.coordinator.called(call, None),
            PrimaryEffect::SwapView { call, view, .. } => {
                self.coordinator.called(call, Some(*view))
            }
            PrimaryEffect::Ended { .. } => {
                assert!(!std::mem::replace(&mut self.has_ended, true), "it ends twice");
            }
            PrimaryEffect::Note(_) => {}
        }
    }

    /// What replicas are told to do is inside them, and in whole logical blocks.
    fn check_range(&mut self, message: &Message) {
        let (id, offset, length, most) = match *message {
            Message::Write { id, offset, length, .. }
            | Message::Read { id, offset, length }
            | Message::Digest { id, offset, length } => (id, offset, length, MAX_PAYLOAD),
            Message::Zero { id, offset, length, .. } | Message::Map { id, offset, length } => {
                (id, offset, length, MAX_ZERO)
            }
            _ => return,
        };
        self.last_number = self.last_number.max(id.sequence.0);
        let view = self.core.status(self.now).view.expect("it knows its view");
        assert_eq!(id.generation, view.generation);
        let block = view.geometry.block_size;
        assert!((1..=most).contains(&length) && length % block == 0, "{message:?}");
        assert!(offset % u64::from(block) == 0, "{message:?}");
        assert!(offset + u64::from(length) <= view.replica_size(), "{message:?} of {view:?}");
    }

    /// Nothing is kept of requests that were answered, and everything of those that were not.
    pub(super) fn check_state(&self) {
        let status = self.core.status(self.now);
        assert!(status.requests <= self.requests.len());
        let waiting = self.requests.len() + self.commands.len();
        assert!(!self.has_ended || waiting == 0, "{waiting} are not answered at the end");
        assert!(self.has_ended || status.view.is_none_or(|view| view.is_valid()));
        if let Some(verify) = &status.verify {
            assert!(verify.checked <= verify.total && verify.ranges.len() <= 1024);
        }
        assert!(!self.has_ended || self.core.next_wakeup().is_none());
    }
}
