//! Views: what is wanted of the next one ([`change`]), its commit ([`calls`]), and its adoption by all members
//! ([`adoption`]).

pub(super) mod adoption;
pub(super) mod calls;
pub(super) mod change;
mod members;
