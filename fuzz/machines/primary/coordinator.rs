//! The coordinator: commits what follows its newest view, if the script lets it answer.

use evenkeel_core::primary::CoordinatorAnswer;
use evenkeel_core::*;

use crate::machines::script::Script;
use crate::machines::views;

/// See the module's documentation.
pub struct Coordinator {
    /// The newest view.
    pub newest: View,
    call: Option<(CoordinatorCall, Option<View>)>,
}

impl Coordinator {
    /// One that has committed this view.
    pub fn new(newest: View) -> Self {
        Self { newest, call: None }
    }

    /// It is asked for the newest view, or to commit one: one call at a time.
    pub fn called(&mut self, call: CoordinatorCall, view: Option<View>) {
        if let Some(view) = &view {
            assert!(view.is_valid(), "a view that is not valid: {view:?}");
            assert_eq!(view.generation, view.parent.next());
        }
        assert!(self.call.is_none(), "two calls at once");
        self.call = Some((call, view));
    }

    /// The answer to the call under way.
    pub fn answer(
        &mut self,
        script: &mut Script<'_>,
    ) -> Option<(CoordinatorCall, CoordinatorAnswer)> {
        let (call, view) = self.call.take()?;
        let how = script.byte();
        let newest = || CoordinatorAnswer::Newest(Box::new(self.newest.clone()));
        let answer = match (view, how) {
            (_, 208..=223) => CoordinatorAnswer::Unknown,
            (_, 255) => CoordinatorAnswer::NoVolume,
            (None, _) => newest(),
            (Some(view), _) if !view.follows(&self.newest) => newest(),
            (Some(_), 224..=231) => CoordinatorAnswer::GivenUp,
            (Some(view), how) => {
                self.newest = view;
                if how >= 232 { CoordinatorAnswer::Unknown } else { CoordinatorAnswer::Committed }
            }
        };
        Some((call, answer))
    }

    /// Somebody else has a view committed.
    pub fn usurp(&mut self, script: &mut Script<'_>) {
        let next = views::next(script, &self.newest);
        if next.is_valid() && next.generation > self.newest.generation {
            self.newest = next;
        }
    }
}
