//! The core's state machine of a primary: see `evenkeel_fuzz::machines::primary`.
#![no_main]

use evenkeel_fuzz::machines::primary;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| primary::play(input));
