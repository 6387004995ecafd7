//! Which of several views is the newest, and whether their replicas were written apart.

use crate::view::View;

/// Views that follow from each other, and the newest of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Side {
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

/// The sides that views belong to. One: all follow from each other, as they should. A view that is
/// older than several heads belongs to all their sides.
#[must_use]
pub fn sides(views: &[&View]) -> Vec<Side> {
    let is_head = |view: &View| !views.iter().any(|other| is_older(view, other));
    let mut sides: Vec<Side> = Vec::new();
    for view in views.iter().filter(|view| is_head(view)) {
        if !sides.iter().any(|side| side.head == **view) {
            sides.push(Side { head: (*view).clone(), members: Vec::new() });
        }
    }
    for side in &mut sides {
        let belongs = |view: &View| *view == side.head || is_older(view, &side.head);
        side.members = (0..views.len()).filter(|index| belongs(views[*index])).collect();
    }
    sides
}

#[cfg(test)]
mod tests;
