//! The core's two state machines under a script that the fuzzer writes: what happens to them is
//! read from its bytes, what they want done is checked and carried out by a driver that is honest.

#[path = "../../crates/core/tests/harness/mod.rs"]
pub mod harness;
pub mod memory;
pub mod menu;
pub mod primary;
pub mod replica;
pub mod script;
pub mod views;
pub mod wire;
