//! The core's state machine of a replica: see `evenkeel_fuzz::machines::replica`.
#![no_main]

use evenkeel_fuzz::machines::replica;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| replica::play(input));
