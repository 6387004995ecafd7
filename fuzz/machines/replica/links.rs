//! Whoever is connected to a replica: what it has asked over each link, and how the replica's own
//! questions are answered.

use std::collections::BTreeMap;

use evenkeel_core::message::*;
use evenkeel_core::*;

use crate::machines::menu::{self, Live};
use crate::machines::script::Script;

/// An open link.
#[derive(Debug, Default)]
pub struct Link {
    /// The replica at the other end, if it was asked for as a source.
    pub source: Option<ReplicaId>,
    /// Whether a session was opened over it.
    pub was_seen: bool,
    /// How many operations with each number have not been answered.
    operations: BTreeMap<Sequence, usize>,
    copies: BTreeMap<CopyToken, usize>,
}

impl Link {
    /// Something is said to the replica.
    pub fn arrives(&mut self, message: &Message) {
        match message {
            Message::Copy { token, .. } => *self.copies.entry(*token).or_default() += 1,
            other => {
                if let Some(id) = operation(other) {
                    *self.operations.entry(id.sequence).or_default() += 1;
                }
            }
        }
    }

    /// An operation is answered: not more often than it was asked.
    pub fn answered(&mut self, sequence: Sequence) {
        assert!(take(&mut self.operations, sequence), "operation {sequence} is answered twice");
    }

    /// A copy is answered.
    pub fn copied(&mut self, token: CopyToken) {
        assert!(take(&mut self.copies, token), "copy {token} is answered twice");
    }

    /// What is not answered.
    pub fn unanswered(&self) -> usize {
        self.operations.values().sum::<usize>() + self.copies.values().sum::<usize>()
    }

    /// Whether this was asked and is not answered.
    pub fn awaits(&self, sequence: Sequence) -> bool {
        self.operations.contains_key(&sequence)
    }
}

fn take<K: Ord>(from: &mut BTreeMap<K, usize>, key: K) -> bool {
    let Some(count) = from.get_mut(&key) else { return false };
    *count -= 1;
    if *count == 0 {
        from.remove(&key);
    }
    true
}

fn operation(message: &Message) -> Option<OperationId> {
    match message {
        Message::Write { id, .. }
        | Message::Zero { id, .. }
        | Message::Read { id, .. }
        | Message::Digest { id, .. }
        | Message::Map { id, .. }
        | Message::Flush { id, .. } => Some(*id),
        _ => None,
    }
}

/// Whether the driver bounds how many of these a replica has at once, so that each may take memory.
pub fn is_admitted(message: &Message) -> bool {
    operation(message).is_some() || matches!(message, Message::Copy { .. })
}

/// Whether the replica waits for an answer to this.
pub fn is_question(message: &Message) -> bool {
    matches!(
        message,
        Message::OpenSession { .. }
            | Message::Drain { .. }
            | Message::Copy { .. }
            | Message::AskMissing { .. }
            | Message::Fenced { .. }
            | Message::LogFilling { .. }
            | Message::RebuildCopied { .. }
    )
}

/// An answer to what a replica asks, with the length of its payload.
pub fn answer(
    script: &mut Script<'_>,
    live: &Live,
    source: Option<ReplicaId>,
    question: &Message,
) -> Option<(Message, u32)> {
    let answer = match *question {
        Message::OpenSession { session, .. } => {
            let live = Live { replica: source?, ..live.clone() };
            Message::SessionOpened { session, report: Box::new(menu::report(script, &live)) }
        }
        Message::Drain { generation, token, .. } => {
            Message::Drained { generation, token, is_busy: script.is_set() }
        }
        Message::Copy { token, length, .. } => {
            let is_long = length > settings::MAX_PAYLOAD;
            let content = match menu::content(script, length) {
                CopyContent::Data | CopyContent::Unverified { .. } if is_long => {
                    CopyContent::Begins { zeroes: 4096, data: 4096 }
                }
                content => content,
            };
            let sent = if script.is_rare() { script.length() } else { length };
            return Some((Message::Copied { token, content }, sent));
        }
        Message::AskMissing { replica, page, .. } => {
            let content = menu::missing(script, page);
            Message::MissingBlocks { replica, asked: page, content }
        }
        Message::Fenced { generation } => Message::FenceConfirmed { generation },
        Message::RebuildCopied { generation, number } => {
            Message::WritesFinished { generation, number }
        }
        Message::LogFilling { generation } => Message::Stable {
            generation,
            through: Sequence(script.near(live.number)),
            last_of_earlier_incarnations: script.is_set().then_some(Sequence(live.number)),
        },
        _ => return None,
    };
    Some((answer, 0))
}
