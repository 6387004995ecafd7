//! The parts of requests ([`super::part`]): [`sending`] brings them to the members, and again after
//! a reconnect; [`answers`] acknowledges them by the protocol's rule, and ends them when every
//! member has carried them out; [`blockwise`] reads once more what nobody could read as a whole,
//! and [`unverified`] elsewhere what nothing vouches for.

mod answers;
mod blockwise;
mod confirming;
mod invariants;
mod placing;
mod sending;
pub(in crate::primary) mod under_way;
mod unverified;
