//! A view: what is accepted must be valid, and have just one encoding; two if it has the default
//! lease, which views from before leases stood in them do not tell.
#![no_main]

use evenkeel_format::{decode_view, encode_view};
use evenkeel_fuzz::{leave_out_lease, patch, seal, view};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((mode, rest)) = input.split_first() else { return };
    let mut bytes = rest.to_vec();
    if mode & 1 != 0 {
        bytes = encode_view(&view()).unwrap();
        patch(&mut bytes, rest);
    } else if bytes.len() >= 16 {
        let length = (bytes.len() as u32).to_le_bytes();
        bytes[8..12].copy_from_slice(&length);
    }
    seal(&mut bytes, 12);
    if let Ok(view) = decode_view(&bytes) {
        assert!(view.is_valid());
        let mut again = encode_view(&view).unwrap();
        leave_out_lease(&mut again, &bytes, view.lease);
        seal(&mut again, 12);
        assert_eq!(again, bytes);
    }
});
