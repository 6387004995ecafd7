//! Putting a volume together from its disks alone (rule V7): which of the views found is the
//! newest, whether replicas have diverged, and by which view the volume goes on, or why not. Why so
//! is in `docs/protocol-notes/assembling.md`.
//!
//! All of it are pure functions: what was found comes in, a view or a refusal goes out.

mod branches;
mod judge;

pub use branches::{Branch, branches};
pub use judge::{Present, Refusal, Start, next_view};

use crate::view::View;

/// What somebody wants to put together, and what is known of it.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The replicas that were found.
    pub present: &'a [Present<'a>],
    /// What the coordinator knows, if it knows the volume.
    pub known: Option<&'a View>,
    /// Whether a node that answers has it attached.
    pub is_attached: bool,
    /// The branches of all these views, as [`branches`] tells them.
    pub branches: &'a [Branch],
    /// The branch that somebody chose, if there are several.
    pub keep: Option<usize>,
}

/// How a volume goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The coordinator knows the newest view: by that.
    Known,
    /// By this view, the first of a new epoch.
    Begin(Box<View>),
}

impl Question<'_> {
    /// Decides it. The same question again, once the coordinator has the view, is answered with
    /// [`Decision::Known`].
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn decide(&self, start: Start) -> Result<Decision, Refusal> {
        let kept = match (self.branches, self.keep) {
            ([], _) => return Err(Refusal::NothingFound),
            ([_], _) => 0,
            (_, Some(kept)) => kept,
            (_, None) => return Err(Refusal::Diverged),
        };
        let branch = &self.branches[kept];
        let others = self.branches.iter().enumerate().filter(|(index, _)| *index != kept);
        let lost: Vec<&Branch> = others.map(|(_, branch)| branch).collect();
        let begin = |force| next_view(&branch.head, self.present, &lost, Start { force, ..start });
        if lost.is_empty() && self.is_known(branch) {
            // Force is for what can't go on as it is.
            let goes_on = || begin(false).is_ok();
            if !start.force || self.is_attached || goes_on() {
                return Ok(Decision::Known);
            }
        }
        if self.is_attached {
            return Err(Refusal::Attached);
        }
        begin(start.force).map(|view| Decision::Begin(Box::new(view)))
    }

    /// Whether the coordinator knows the newest view. While a volume is attached its replicas may
    /// be a moment ahead of what was read there.
    fn is_known(&self, branch: &Branch) -> bool {
        let Some(view) = self.known else { return false };
        *view == branch.head || (self.is_attached && view.is_of_epoch(&branch.head))
    }
}

#[cfg(test)]
mod tests;
