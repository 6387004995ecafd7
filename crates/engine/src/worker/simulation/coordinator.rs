//! A coordinator of one volume that answers late, twice, or not at all.

use evenkeel_core::primary::CoordinatorAnswer;
use evenkeel_core::{CoordinatorCall, PrimaryId, View};

use crate::seeds::Random;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Coordinator {
    newest: View,
    calls: Vec<Call>,
    /// On their way.
    answers: Vec<(PrimaryId, CoordinatorCall, CoordinatorAnswer)>,
}

#[derive(Debug)]
struct Call {
    primary: PrimaryId,
    call: CoordinatorCall,
    /// The view to be committed, and its parent; `None`: the newest view is wanted.
    swap: Option<(View, View)>,
}

/// How often it misbehaves, of a thousand answers.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Manners {
    pub(super) late: u64,
    pub(super) lost: u64,
    pub(super) repeated: u64,
}

impl Coordinator {
    pub(super) fn new(first: View) -> Self {
        Self { newest: first, calls: Vec::new(), answers: Vec::new() }
    }

    pub(super) fn is_asked(
        &mut self,
        primary: PrimaryId,
        call: CoordinatorCall,
        swap: Option<(View, View)>,
    ) {
        self.calls.push(Call { primary, call, swap });
    }

    pub(super) fn has_nothing_to_do(&self) -> bool {
        self.calls.is_empty() && self.answers.is_empty()
    }

    /// Does something, and returns the answer that arrives by this.
    pub(super) fn act(
        &mut self,
        random: &mut Random,
        manners: Manners,
    ) -> Option<(PrimaryId, CoordinatorCall, CoordinatorAnswer)> {
        let things = self.calls.len() + self.answers.len();
        if things == 0 {
            return None;
        }
        let place = random.index(things);
        if place >= self.calls.len() {
            return Some(self.answers.remove(place - self.calls.len()));
        }
        let Call { primary, call, swap } = self.calls.remove(place);
        let is_lost = random.chance(manners.lost);
        let answer = match is_lost && random.chance(500) {
            // It has never heard of it.
            true => CoordinatorAnswer::Unknown,
            false => self.carry_out(swap),
        };
        let answer = if is_lost { CoordinatorAnswer::Unknown } else { answer };
        let answer = (primary, call, answer);
        if random.chance(manners.repeated) {
            self.answers.push(answer.clone());
        }
        if random.chance(manners.late) {
            self.answers.push(answer);
            return None;
        }
        Some(answer)
    }

    fn carry_out(&mut self, swap: Option<(View, View)>) -> CoordinatorAnswer {
        match swap {
            Some((view, replaces)) if replaces == self.newest => {
                self.newest = view;
                CoordinatorAnswer::Committed
            }
            _ => CoordinatorAnswer::Newest(Box::new(self.newest.clone())),
        }
    }
}
