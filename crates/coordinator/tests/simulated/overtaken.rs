//! Commands that are over, while a request of theirs waits in a socket: what it does then must not
//! undo what a later command was answered.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_coordinator::store::Space;
use evenkeel_coordinator::{Answer, Request, VolumeRecord};

use crate::oracles::{Violation, get, json};
use crate::store::{Applied, Values};

/// A volume, and what of it a command is about.
type Aspect = (String, String);

#[derive(Debug, Default)]
struct Command {
    aspect: Option<Aspect>,
    /// It was answered, or given up: nobody awaits it.
    is_over: bool,
    /// A later one of the same aspect was asked when it was over, and is done.
    is_overtaken: bool,
    /// Those that were over when it was asked.
    behind: Vec<u64>,
    /// The view that it was decided upon, to delete its volume.
    view: Option<Vec<u8>>,
}

/// All commands.
#[derive(Debug, Default)]
pub struct Overtaken {
    commands: BTreeMap<u64, Command>,
    count: BTreeSet<u64>,
}

fn aspect(request: &Request) -> Option<Aspect> {
    let (volume, what) = match request {
        Request::Stop { volume, .. } | Request::Delete { volume, .. } => (volume, "stopped"),
        Request::Assemble { volume, .. } => (&volume.record.id, "stopped"),
        Request::RenameVolume { volume, .. } => (volume, "name"),
        Request::Verified { volume, .. } => (volume, "verdict"),
        Request::Lost { volume, .. } => (volume, "lost"),
        Request::Want { volume, node, .. } => (volume, node.as_str()),
        Request::Place { volume, replica, .. } => (volume, replica.id.as_str()),
        Request::Forget { volume, replica } => (volume, replica.as_str()),
        _ => return None,
    };
    Some((volume.clone(), what.to_owned()))
}

/// How that is, as text. A volume that is not there is in no state.
fn state(values: &Values, (volume, what): &Aspect) -> Option<String> {
    let record: VolumeRecord = json(get(values, Space::Volumes, volume)?);
    Some(match what.as_str() {
        "stopped" => format!("stopped: {}", record.stopped),
        "name" => record.name,
        "verdict" => format!("{:?}", record.verified),
        "lost" => format!("{:?}", record.lost),
        id => {
            let placed = record.replicas.iter().find(|placed| placed.id == id);
            format!("{:?}, {:?}", record.wanted_on.get(id), placed.map(|placed| placed.removed))
        }
    })
}

impl Overtaken {
    /// A command begins.
    pub fn asked(&mut self, number: u64, request: &Request, view: Option<Vec<u8>>) {
        let aspect = aspect(request);
        let is_before = |(_, other): &(&u64, &Command)| {
            other.is_over && aspect.is_some() && other.aspect == aspect
        };
        let behind = self.commands.iter().filter(is_before).map(|(number, _)| *number).collect();
        let command = Command { aspect, behind, view, ..Command::default() };
        self.commands.insert(number, command);
    }

    /// Nobody awaits it any more. `answer`: it was answered.
    pub fn over(&mut self, number: u64, answer: Option<&Answer>) {
        let Some(command) = self.commands.get_mut(&number) else { return };
        command.is_over = true;
        if !matches!(answer, Some(Answer::Done)) {
            return;
        }
        for overtaken in std::mem::take(&mut command.behind) {
            self.count.insert(overtaken);
            self.commands.entry(overtaken).or_default().is_overtaken = true;
        }
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.count.len() as u64
    }

    /// Whether a command was decided upon this view.
    pub fn has_seen(&self, number: Option<u64>, view: &[u8]) -> bool {
        let command = number.and_then(|number| self.commands.get(&number));
        command.is_some_and(|command| command.view.as_deref() == Some(view))
    }

    /// Judges a commit.
    pub fn check(&self, applied: &Applied) -> Result<(), Violation> {
        let Applied { tag, before, after } = applied;
        let command = tag.command.and_then(|number| self.commands.get(&number));
        let Some(command) = command.filter(|command| command.is_overtaken) else { return Ok(()) };
        let Some(aspect) = &command.aspect else { return Ok(()) };
        let [was, is] = [before, after].map(|values| state(values, aspect));
        if was == is {
            return Ok(());
        }
        let request = &tag.request;
        Err(("overtaken", format!("{was:?} became {is:?}, after a later command: {request:?}")))
    }
}
