//! The replicas of a primary: what each was asked, and how it answers.

use std::collections::VecDeque;

use evenkeel_core::*;

use crate::machines::menu::{self, Live};
use crate::machines::script::Script;

/// Questions that are remembered for each link.
const MAX_QUESTIONS: usize = 64;

/// An open link.
#[derive(Debug)]
pub struct Link {
    /// To which replica.
    pub replica: ReplicaId,
    /// The session that was asked for.
    pub session: u64,
    questions: VecDeque<Message>,
}

impl Link {
    /// A link over which nothing was said.
    pub fn new(replica: ReplicaId) -> Self {
        Self { replica, session: 0, questions: VecDeque::with_capacity(MAX_QUESTIONS) }
    }

    /// The primary says something.
    pub fn says(&mut self, message: Message) {
        if let Message::OpenSession { session, .. } = &message {
            self.session = session.0;
        }
        if self.questions.len() < MAX_QUESTIONS {
            self.questions.push_back(message);
        }
    }

    /// Something that was asked, mostly the oldest.
    pub fn take(&mut self, script: &mut Script<'_>) -> Option<Message> {
        let index = if script.byte() < 160 { 0 } else { script.choose(self.questions.len()) };
        self.questions.remove(index)
    }
}

/// What a replica answers, with the length of its payload.
pub fn answer(script: &mut Script<'_>, live: &Live, question: &Message) -> Option<(Message, u32)> {
    let fails = script.byte() >= 224;
    let done = |id, script: &mut Script<'_>| {
        let result = if fails { Err(menu::failure(script)) } else { Ok(()) };
        Message::Done { id, result }
    };
    let answer = match *question {
        Message::OpenSession { session, .. } => {
            Message::SessionOpened { session, report: Box::new(menu::report(script, live)) }
        }
        Message::Adopt { ref view } if fails => {
            Message::Refused { adopted: view.generation, sequence: None }
        }
        Message::Adopt { ref view } => Message::Adopted { generation: view.generation },
        Message::Ping { generation, number } => {
            Message::Pong { generation, number, slots: menu::slots(script) }
        }
        Message::Write { id, .. } | Message::Zero { id, .. } | Message::Flush { id, .. } => {
            done(id, script)
        }
        Message::Read { id, length, .. } if !fails => {
            let sent = if script.is_rare() { script.length() } else { length };
            return Some((Message::Data { id, is_unverified: script.is_rare() }, sent));
        }
        Message::Digest { id, length, .. } if !fails => {
            Message::Digests { id, digests: menu::digests(script, length) }
        }
        Message::Map { id, length, .. } if !fails => {
            let extents = match script.is_rare() {
                true => menu::extents(script),
                false => vec![Extent { length: length.into(), allocated: true }],
            };
            Message::Extents { id, extents }
        }
        Message::Read { id, .. } | Message::Digest { id, .. } | Message::Map { id, .. } => {
            done(id, script)
        }
        _ => return None,
    };
    Some((answer, 0))
}
