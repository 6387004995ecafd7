use super::*;

/// Calls `check` for every combination of sets over three replicas.
fn each(mut check: impl FnMut(WriteProgress)) {
    for bits in 0..1u32 << 16 {
        let set = |from: u32| ((bits >> from) & 7) as ReplicaSet;
        let (members, in_sync, local) = (set(0), set(3), set(6));
        let (received, written, durable) = (set(9), set(12), bits >> 15 & 1 == 1);
        if in_sync & !members == 0 && in_sync != 0 {
            check(WriteProgress { members, in_sync, local, received, written, durable });
        }
    }
}

#[test]
fn c_and_durable_writes_wait_for_every_member() {
    each(|write| {
        let all = write.members & !write.written == 0;
        assert_eq!(acknowledged(Protocol::C, write), all);
        if write.durable {
            assert_eq!(acknowledged(Protocol::A, write), all);
            assert_eq!(acknowledged(Protocol::B, write), all);
        }
    });
}

#[test]
fn each_protocol_waits_for_no_more_than_the_stricter_one() {
    each(|write| {
        let [a, b, c] = [Protocol::A, Protocol::B, Protocol::C].map(|p| acknowledged(p, write));
        assert!(!c || (b && a), "{write:?}");
    });
}

#[test]
fn a_never_acknowledges_what_no_in_sync_replica_wrote() {
    each(|write| {
        if acknowledged(Protocol::A, write) {
            assert_ne!(write.in_sync & write.written, 0, "{write:?}");
        }
    });
}

#[test]
fn b_takes_a_receipt_from_remote_replicas_only() {
    let write = WriteProgress {
        members: 0b111,
        in_sync: 0b111,
        local: 0b001,
        received: 0b111,
        written: 0,
        durable: false,
    };
    assert!(!acknowledged(Protocol::B, write));
    assert!(acknowledged(Protocol::B, WriteProgress { written: 0b001, ..write }));
}
