//! Which incarnations of the replica its superblocks list, and whether the present one is among
//! them (see [`crate::incarnations`]).

use crate::ids::Incarnation;
use crate::incarnations::Incarnations;

/// See the module's documentation.
#[derive(Debug)]
pub(in crate::replica) struct Recorded {
    present: Incarnation,
    /// Those that the superblocks list, or will when they are saved next.
    all: Incarnations,
    state: State,
}

/// Whether the superblocks list the present incarnation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Unsaved,
    Saving,
    Saved,
}

impl Recorded {
    /// What was found in the superblocks at a start.
    pub fn found(present: Incarnation, all: Incarnations) -> Self {
        let state = if all.newest() == present { State::Saved } else { State::Unsaved };
        Self { present, all, state }
    }

    /// The present incarnation.
    pub const fn present(&self) -> Incarnation {
        self.present
    }

    /// Whether every incarnation in `named` is listed: else the disk is a stale clone.
    pub fn know_all(&self, named: &Incarnations) -> bool {
        self.all.know_all(named)
    }

    /// Whether the present incarnation is to be added before `named` may be answered.
    pub fn lacks_present(&self, named: &Incarnations) -> bool {
        self.state == State::Unsaved && self.know_all(named)
    }

    /// Whether the present incarnation is being added.
    pub fn is_being_saved(&self) -> bool {
        self.state == State::Saving
    }

    /// Adds the present incarnation; what is named must stay listed. Returns what to save.
    pub fn add_present(&mut self, named: &Incarnations) -> Incarnations {
        self.state = State::Saving;
        self.add_with_view(named)
    }

    /// The same, together with a view that is being adopted.
    pub fn add_with_view(&mut self, named: &Incarnations) -> Incarnations {
        self.all = self.all.followed_by(self.present, named);
        self.all
    }

    /// A view is saved, and with it the present incarnation.
    pub fn saved_with_view(&mut self) {
        self.state = State::Saved;
    }

    /// The save of the present incarnation has ended. Returns whether it is listed: a view that was
    /// adopted meanwhile lists it, too.
    pub fn saved(&mut self, succeeded: bool) -> bool {
        if self.state == State::Saving {
            self.state = if succeeded { State::Saved } else { State::Unsaved };
        }
        self.state == State::Saved
    }
}
