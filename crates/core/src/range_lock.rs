//! Ordered locks on ranges.
