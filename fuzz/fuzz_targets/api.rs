//! Requests to the API of a node, and to what it serves to other nodes.
#![no_main]

use evenkeel_fuzz::http;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| http::play(input));
