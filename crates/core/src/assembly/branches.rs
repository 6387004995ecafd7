//! Which of several views is the newest, and whether their replicas have diverged.

use crate::view::View;

/// Views that follow from each other, and the newest of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Branch {
    /// The newest.
    pub head: View,
    /// All of them, by their index in the question.
    pub members: Vec<usize>,
}

/// Whether one view was replaced by the other.
fn is_older(view: &View, than: &View) -> bool {
    match view.is_of_epoch(than) {
        true => view.generation < than.generation,
        false => than.continues(view),
    }
}

/// The branches that views belong to. One: all follow from each other, as they should. A view that
/// is older than several heads belongs to all their branches.
#[must_use]
pub fn branches(views: &[&View]) -> Vec<Branch> {
    let is_head = |view: &View| !views.iter().any(|other| is_older(view, other));
    let mut branches: Vec<Branch> = Vec::new();
    for view in views.iter().filter(|view| is_head(view)) {
        if !branches.iter().any(|branch| branch.head == **view) {
            branches.push(Branch { head: (*view).clone(), members: Vec::new() });
        }
    }
    for branch in &mut branches {
        let belongs = |view: &View| *view == branch.head || is_older(view, &branch.head);
        branch.members = (0..views.len()).filter(|index| belongs(views[*index])).collect();
    }
    branches
}

#[cfg(test)]
mod tests;
