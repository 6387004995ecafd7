//! Views: what is wanted of the next one ([`edits`]) and what becomes of that ([`change`]), its
//! commit by the coordinator ([`calls`]), and its adoption by all members ([`adoption`]).

pub(super) mod adoption;
pub(super) mod calls;
pub(super) mod change;
mod coordinator;
pub(super) mod edits;
mod install;
mod members;
