//! The core's state machine of a replica: see `evenkeel_fuzz::machines::replica`.
#![no_main]

use evenkeel_fuzz::machines::memory::Counting;
use evenkeel_fuzz::machines::replica;
use libfuzzer_sys::fuzz_target;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fuzz_target!(|input: &[u8]| replica::play(input));
