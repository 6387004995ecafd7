//! What each part of a run drew, so that a run from which something is left out draws the same
//! elsewhere.
//!
//! A seed is one sequence of numbers: without one fault, all later draws would go to somebody else,
//! and nothing that happened would happen again. So a seed is run once as it is, and what was drawn
//! is noted by whom ([`Stream`]) and in which millisecond. A run with something left out gives each
//! part what it had drawn then. A part that draws more than before, or in another millisecond, gets
//! numbers that follow from the seed, the part and the millisecond. If nothing is left out, both
//! runs are the same.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use crate::queue::{MILLISECOND, Time};

/// The part of the simulator that makes a draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stream {
    /// The run itself: how it begins and ends.
    Run,
    /// Operators, and whoever attaches the volume.
    Operators,
    /// The node of this number, as it starts.
    Node(usize),
    /// The client of a primary.
    Client(usize),
    /// A primary.
    Primary(usize),
    /// A replica.
    Replica(usize),
    /// The disk of a replica.
    Disk(usize),
    /// What is on its way from one node to another one.
    Path(usize, usize),
    /// The coordinator, for a primary.
    Coordinator(usize),
    /// The fault of this number, whenever it strikes.
    Fault(u64),
    /// The operation of this number, whenever it is asked for.
    Operation(u64),
}

impl Stream {
    /// A number of its own.
    fn number(self) -> u64 {
        let of = |kind: u64, part: usize| kind << 48 | part as u64;
        match self {
            Self::Run => of(0, 0),
            Self::Operators => of(1, 0),
            Self::Node(node) => of(2, node),
            Self::Client(primary) => of(3, primary),
            Self::Primary(primary) => of(4, primary),
            Self::Replica(replica) => of(5, replica),
            Self::Disk(replica) => of(6, replica),
            Self::Path(from, to) => of(7, from << 16 | to),
            Self::Coordinator(primary) => of(8, primary),
            Self::Fault(number) => of(9, number as usize),
            Self::Operation(number) => of(10, number as usize),
        }
    }
}

/// Who draws, and in which millisecond, if that matters.
type Place = (Stream, Time);

/// The draws of one run.
#[derive(Debug, Clone, Default)]
pub struct Tape {
    seed: u64,
    drawn: HashMap<Place, Vec<u64>>,
    /// How long it took from each operation until its client was to ask for the next one.
    turns: BTreeMap<u64, Time>,
}

/// What a run does with a tape.
#[derive(Debug, Clone)]
enum Use {
    Record(Tape),
    Replay { tape: Rc<Tape>, taken: HashMap<Place, usize> },
}

/// A tape in its machine.
#[derive(Debug, Clone)]
pub struct Recorder {
    place: Place,
    millisecond: Time,
    tape: Use,
}

impl Recorder {
    /// Notes what the run of this seed draws.
    #[must_use]
    pub fn record(seed: u64) -> Self {
        Self::with(Use::Record(Tape { seed, ..Tape::default() }))
    }

    /// Gives each part what it drew then.
    #[must_use]
    pub fn replay(tape: &Rc<Tape>) -> Self {
        Self::with(Use::Replay { tape: Rc::clone(tape), taken: HashMap::new() })
    }

    fn with(tape: Use) -> Self {
        Self { place: (Stream::Run, 0), millisecond: 0, tape }
    }

    /// The tape that was recorded.
    #[must_use]
    pub fn into_tape(self) -> Option<Tape> {
        match self.tape {
            Use::Record(tape) => Some(tape),
            Use::Replay { .. } => None,
        }
    }

    /// It is now this time.
    pub fn set_time(&mut self, now: Time) {
        self.millisecond = now / MILLISECOND;
    }

    /// Who draws from now on. Returns who did until now.
    pub fn set_stream(&mut self, stream: Stream) -> Stream {
        let is_numbered = matches!(stream, Stream::Fault(_) | Stream::Operation(_));
        let millisecond = if is_numbered { 0 } else { self.millisecond };
        std::mem::replace(&mut self.place, (stream, millisecond)).0
    }

    /// What is drawn where the seed's own sequence goes on with `bits`.
    pub fn draw(&mut self, bits: u64) -> u64 {
        let place = self.place;
        match &mut self.tape {
            Use::Record(tape) => {
                tape.drawn.entry(place).or_default().push(bits);
                bits
            }
            Use::Replay { tape, taken } => {
                let taken = taken.entry(place).or_default();
                let number = *taken;
                *taken += 1;
                let drawn = tape.drawn.get(&place).and_then(|drawn| drawn.get(number));
                drawn.copied().unwrap_or_else(|| more(tape.seed, place, number))
            }
        }
    }

    /// The client of an operation asks for its next one after this time.
    pub fn note_turn(&mut self, operation: u64, took: Time) {
        if let Use::Record(tape) = &mut self.tape {
            tape.turns.entry(operation).or_insert(took);
        }
    }

    /// After which time the client of an operation asked for its next one, if it did.
    #[must_use]
    pub fn turn(&self, operation: u64) -> Option<Time> {
        match &self.tape {
            Use::Record(_) => None,
            Use::Replay { tape, .. } => tape.turns.get(&operation).copied(),
        }
    }
}

/// What is drawn beyond what was noted.
fn more(seed: u64, (stream, millisecond): Place, number: usize) -> u64 {
    let place = spread(spread(seed ^ stream.number()) ^ millisecond);
    spread(place.wrapping_add(number as u64))
}

/// One step of splitmix64: spreads a small number over all bits.
#[must_use]
pub fn spread(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests;
