//! A coordinator of one volume that answers late, twice, or not at all.

use evenkeel_core::primary::CoordinatorAnswer;
use evenkeel_core::{CoordinatorCall, PrimaryId, View};

use super::model::Violation;
use crate::seeds::Random;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Coordinator {
    /// All that were committed, the newest last.
    views: Vec<View>,
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
        Self { views: vec![first], calls: Vec::new(), answers: Vec::new() }
    }

    pub(super) fn is_asked(
        &mut self,
        primary: PrimaryId,
        call: CoordinatorCall,
        swap: Option<(View, View)>,
    ) -> Result<(), Violation> {
        if let Some((view, replaces)) = &swap
            && !self.views.contains(replaces)
        {
            let generation = view.generation;
            return Err(("V1", format!("{generation:?} follows a view that was never committed")));
        }
        self.calls.push(Call { primary, call, swap });
        Ok(())
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
        let newest = self.views.last().expect("there is a first one");
        match swap {
            Some((view, replaces)) if replaces == *newest => {
                self.views.push(view);
                CoordinatorAnswer::Committed
            }
            _ => CoordinatorAnswer::Newest(Box::new(newest.clone())),
        }
    }
}
