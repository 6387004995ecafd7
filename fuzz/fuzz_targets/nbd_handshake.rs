//! A client's handshake, cut into pieces. The first byte sets TLS and the size of the pieces.
#![no_main]

use evenkeel_exports::nbd::{Handshake, Progress, Tls};
use evenkeel_fuzz::OneExport;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((mode, bytes)) = input.split_first() else { return };
    let tls = [Tls::Off, Tls::Optional, Tls::Required, Tls::Active][usize::from(mode & 3)];
    let mut out = Vec::new();
    let mut server = Handshake::new(tls, &mut out);
    for piece in bytes.chunks(usize::from(mode >> 2) * 16 + 1) {
        out.clear();
        match server.receive(piece, &OneExport, &mut out) {
            Ok(Progress::More) => {}
            Ok(Progress::StartTls) => {
                assert!(matches!(tls, Tls::Optional | Tls::Required));
                server.tls_started();
            }
            Ok(Progress::Ready(negotiated)) => {
                assert_eq!(negotiated.export.name, "db");
                assert!(negotiated.rest.len() <= piece.len());
                return;
            }
            Ok(Progress::Ended) | Err(_) => return,
        }
        // Answers are in proportion to what was asked.
        assert!(out.len() <= 64 * (piece.len() + 64 * 1024));
    }
});
