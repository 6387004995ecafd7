//! What a host without the key says while it has to prove who it is. The first byte says whether
//! there is a key of the controller, and which numbers the challenge has; then come steps: `s`, a
//! length and a message to send, or `r` and the room for one to receive.
#![no_main]

use std::sync::Arc;

use evenkeel_exports::nvme::authentication::{
    Authentication, EXPONENT_LENGTH, Fresh, Hash, Keys, Parties, SECRET_LENGTH, Secret, Sent, Then,
};
use libfuzzer_sys::fuzz_target;

fn machine(mode: u8) -> Authentication {
    let secret = |byte| Secret::new(&[byte; SECRET_LENGTH]);
    let keys = Keys { host: secret(1), controller: (mode & 1 == 1).then(|| secret(2)) };
    let (host, subsystem) = ("nqn.host".to_owned(), "nqn.disk".to_owned());
    let fresh = Fresh {
        challenge: [mode; Hash::MAX_LENGTH],
        sequence: u32::from(mode) + 1,
        exponent: [mode; EXPONENT_LENGTH].into(),
    };
    Authentication::new(Parties { host, subsystem, keys: Arc::new(keys) }, fresh)
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&mode, mut rest)) = bytes.split_first() else { return };
    let mut machine = machine(mode);
    let mut is_over = false;
    while let [kind, length, after @ ..] = rest {
        let (message, next) = after.split_at((usize::from(*length) * 8).min(after.len()));
        rest = next;
        if *kind == b's' {
            match machine.send(message) {
                Sent::Taken => {}
                // What it is does not matter to who has no key, and it takes long.
                Sent::Compute(_) => machine.computed(vec![5; 256].into()),
                Sent::Proved => panic!("nobody has the key"),
                Sent::Failed(_) => is_over = true,
            }
        } else {
            let room = usize::from(*length) * 8;
            let fault = machine.fault();
            match machine.receive(room) {
                Err(_) => assert_eq!(machine.fault(), fault, "what does not fit changes nothing"),
                Ok(received) => {
                    assert!(received.message.len() <= room);
                    match received.then {
                        Then::GoOn => assert!(!is_over, "nothing goes on after the end"),
                        Then::Proved => panic!("nobody has the key"),
                        Then::Failed(why) => {
                            assert!(fault.is_none_or(|fault| fault == why));
                            is_over = true;
                        }
                    }
                }
            }
            rest = after;
        }
    }
});
