//! A node's configuration file: either what the fuzzer says, or lines that it chooses.
#![no_main]

use evenkeel_fuzz::configuration::{check, composed, looks_names_up};
use evenkeel_fuzz::machines::script::Script;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((mode, rest)) = input.split_first() else { return };
    let text = match mode & 1 {
        0 => String::from_utf8_lossy(rest).into_owned(),
        _ => composed(&mut Script::new(rest)),
    };
    if !looks_names_up(&text) {
        check(&text);
    }
});
