//! What happened, in words for the event log.

use evenkeel_core::primary::CoordinatorAnswer;
use evenkeel_core::view::Cause;
use evenkeel_core::*;

use crate::coordinator::Question;
use crate::network::Party;
use crate::payload::{HOLE, SECTOR, Sectors, ZERO, stamped};

/// Names a primary or replica as the log does.
#[must_use]
pub fn party(party: Party) -> String {
    match party {
        Party::Primary(primary) => format!("primary {primary}"),
        Party::Replica(replica, _) => format!("replica {replica}"),
    }
}

/// The numbers of the writes in a payload, as the log shows them.
#[must_use]
pub fn payload(payload: &Sectors) -> String {
    let mut writes: Vec<String> = Vec::new();
    for cell in payload.cells().iter().take(4096) {
        let name = match *cell {
            ZERO | HOLE => "0".to_owned(),
            cell => format!("#{}", stamped(cell).0),
        };
        if writes.last() != Some(&name) {
            writes.push(name);
        }
    }
    writes.truncate(12);
    writes.join(" ")
}

/// A view: its number, its primaries, and each replica with its state.
#[must_use]
pub fn view(view: &View) -> String {
    let mut text = format!("generation {}", view.generation);
    for primary in &view.primaries {
        let PrimaryId { node, incarnation } = primary.id;
        let incarnation = incarnation.0 >> 48;
        text +=
            &format!(", primary {incarnation:x} on node {} in slot {}", node.0 - 1, primary.slot);
    }
    for mirror in &view.mirrors {
        let records = mirror.replicas.iter();
        let states: Vec<_> = records
            .map(|r| format!("{}:{}{}{}", r.id.0 - 1, r.state, role(r.role), cause(r.cause)))
            .collect();
        text += &format!(" [{}]", states.join(" "));
    }
    text
}

fn role(role: Role) -> String {
    match role {
        Role::Own | Role::Spare(None) => String::new(),
        Role::Replaces(other) => format!(" replacing {}", other.0 - 1),
        Role::Spare(Some(other)) => format!(" in for {}", other.0 - 1),
    }
}

fn cause(cause: Cause) -> String {
    if cause == Cause::None { String::new() } else { format!("({cause:?})") }
}

/// A request of a client, as the log shows it.
#[must_use]
pub fn wanted(operation: &Operation<Sectors>) -> String {
    let sector = |offset: u64| offset / u64::from(SECTOR);
    let range = |offset: u64, length: u64| format!("{}+{}", sector(offset), sector(length));
    let written = |offset: u64, data: &Sectors| range(offset, u64::from(data.length()));
    let durably = |durable: bool| if durable { ", durable" } else { "" };
    match operation {
        Operation::Read { offset, length } => {
            format!("read sectors {}", range(*offset, u64::from(*length)))
        }
        Operation::Write { offset, payload: data, durable } => {
            let sectors = written(*offset, data);
            format!("write sectors {sectors} [{}]{}", payload(data), durably(*durable))
        }
        Operation::Zero { offset, length, durable, .. } => {
            format!("zero sectors {}{}", range(*offset, *length), durably(*durable))
        }
        Operation::CompareAndWrite { offset, expected, payload: data, durable } => {
            let (sectors, old) = (written(*offset, data), payload(expected));
            let new = payload(data);
            format!("compare sectors {sectors} [{old}] and write [{new}]{}", durably(*durable))
        }
        Operation::Flush => "flush".to_owned(),
        Operation::Map { offset, length } => format!("map sectors {}", range(*offset, *length)),
    }
}

/// A message with its payload.
#[must_use]
pub fn message(message: &Message, data: Option<&Sectors>) -> String {
    let mut text = match message {
        Message::Adopt { view: adopted } => format!("Adopt {}", view(adopted)),
        Message::Write { id, offset, length, .. } => {
            format!("Write {} sectors {}", operation(id), sectors(*offset, *length))
        }
        Message::Zero { id, offset, length, .. } => {
            format!("Zero {} sectors {}", operation(id), sectors(*offset, *length))
        }
        Message::Read { id, offset, length } => {
            format!("Read {} sectors {}", operation(id), sectors(*offset, *length))
        }
        Message::Copy { generation, token, offset, length } => {
            format!("Copy g{generation} token {token} sectors {}", sectors(*offset, *length))
        }
        Message::Drain { generation, token, offset, length, source } => format!(
            "Drain g{generation} token {token} sectors {} from replica {}",
            sectors(*offset, *length),
            source.0 - 1
        ),
        Message::Done { id, result } => format!("Done {} {result:?}", operation(id)),
        Message::Data { id, is_unverified: false } => format!("Data {}", operation(id)),
        Message::Data { id, is_unverified: true } => format!("Data {}, unverified", operation(id)),
        Message::Received { id } => format!("Received {}", operation(id)),
        Message::Flush { id, covers } => format!("Flush {} covers {covers}", operation(id)),
        other => format!("{other:?}"),
    };
    if let Some(data) = data {
        text += &format!(" [{}]", payload(data));
    }
    text
}

fn operation(id: &OperationId) -> String {
    format!("g{} n{}", id.generation, id.sequence)
}

fn sectors(offset: u64, length: u32) -> String {
    format!("{}+{}", offset / u64::from(SECTOR), length / SECTOR)
}

/// A question to the coordinator.
#[must_use]
pub fn question(question: &Question) -> String {
    match question {
        Question::Read => "what is the newest view?".into(),
        Question::Swap(next) => format!("commit {}", view(next)),
    }
}

/// An answer of the coordinator.
#[must_use]
pub fn answer(answer: &CoordinatorAnswer) -> String {
    match answer {
        CoordinatorAnswer::Newest(newest) => format!("the newest is {}", view(newest)),
        other => format!("{other:?}"),
    }
}
