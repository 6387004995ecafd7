use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::*;

const NAMES: &str = "[a-zA-Z0-9][a-zA-Z0-9._-]{0,63}";

fn versions() -> impl Strategy<Value = VersionRange> {
    any::<(u16, u16)>().prop_map(|(a, b)| VersionRange { oldest: a.min(b), newest: a.max(b) })
}

fn refusals() -> impl Strategy<Value = Refusal> {
    let reasons = select(vec![
        Reason::Version,
        Reason::Cluster,
        Reason::NoReplica,
        Reason::Busy,
        Reason::Superseded,
        Reason::DiskAway,
        Reason::Unusable,
        Reason::Other,
    ]);
    (reasons, "[ -~ä]{0,256}").prop_map(|(reason, text)| Refusal { reason, text })
}

fn starts() -> impl Strategy<Value = Option<Start>> {
    any::<Option<(u64, u64)>>().prop_map(|start| {
        start.map(|(counter, incarnation)| Start {
            counter,
            incarnation: Incarnation(incarnation.max(1)),
        })
    })
}

fn hellos() -> impl Strategy<Value = Hello> {
    let purposes = any::<Option<(u128, u128)>>().prop_map(|ids| match ids {
        Some((volume, replica)) => {
            Purpose::Replication { volume: VolumeId(volume), replica: ReplicaId(replica) }
        }
        None => Purpose::Control,
    });
    let names = (NAMES, NAMES);
    let rest = (any::<(u128, u64)>(), starts());
    (versions(), purposes, names, rest).prop_map(
        |(versions, purpose, (node_name, cluster), ((node, epoch), start))| Hello {
            versions,
            purpose,
            node: NodeId(node),
            node_name,
            cluster,
            software: SOFTWARE.to_owned(),
            start,
            epoch,
        },
    )
}

fn answers() -> impl Strategy<Value = HelloAnswer> {
    let outcomes = prop_oneof![any::<u16>().prop_map(Ok), refusals().prop_map(Err)];
    let ids = (any::<(u128, u64)>(), starts());
    (outcomes, versions(), NAMES, ids).prop_map(
        |(outcome, versions, node_name, ((node, epoch), start))| HelloAnswer {
            outcome,
            versions,
            node: NodeId(node),
            node_name,
            software: SOFTWARE.to_owned(),
            start,
            epoch,
        },
    )
}

/// The answer of a node of this name.
fn answer(outcome: Result<u16, Refusal>, name: &str) -> HelloAnswer {
    HelloAnswer {
        outcome,
        versions: crate::VERSIONS,
        node: NodeId(1),
        node_name: name.to_owned(),
        software: String::new(),
        start: None,
        epoch: 0,
    }
}

#[test]
fn the_newest_common_version_is_spoken() {
    let range = |oldest, newest| VersionRange { oldest, newest };
    assert_eq!(range(0, 3).common(range(2, 5)), Some(3));
    assert_eq!(range(2, 5).common(range(0, 3)), Some(3));
    assert_eq!(range(0, 1).common(range(2, 5)), None);
    assert_eq!(range(2, 5).common(range(0, 1)), None);
    assert_eq!(crate::VERSIONS.common(crate::VERSIONS), Some(1));
}

#[test]
fn strangers_and_wrong_parts_are_told_apart() {
    let answer = answer(Ok(1), "n1").encode();
    assert_eq!(Hello::decode(&answer), Err(PartError::Kind { expected: 1, found: 2 }));
    assert_eq!(rest_length(b"GET / HTTP/1.1\r\n"), Err(PartError::Magic));
    assert_eq!(rest_length(b"evenkeel\x01\0\xff\xff\0\0\0\0"), Err(PartError::Length));
}

/// What older software said there of a shared key is passed over: it refuses by itself who has
/// none.
#[test]
fn reserved_bytes_are_not_looked_at() {
    let sent = answer(Ok(1), "n1");
    let mut bytes = sent.encode();
    let reserved = PREFIX_LENGTH + 6;
    bytes[reserved] = 1;
    bytes[reserved + 17..reserved + 17 + RESERVED].fill(7);
    let mut part = PartWriter::new(ANSWER);
    part.bytes(&bytes[PREFIX_LENGTH..]);
    let read = HelloAnswer::decode(&part.finish()).unwrap();
    assert_eq!(read, HelloAnswer { software: SOFTWARE.to_owned(), ..sent });
}

#[test]
fn what_nodes_and_clusters_are_called_is_a_name() {
    let hello = |node: &str, cluster: &str| {
        let hello = Hello {
            versions: crate::VERSIONS,
            purpose: Purpose::Control,
            node: NodeId(1),
            node_name: node.to_owned(),
            cluster: cluster.to_owned(),
            software: String::new(),
            start: None,
            epoch: 0,
        };
        Hello::decode(&hello.encode()).map(drop)
    };
    let answer = |node: &str| HelloAnswer::decode(&answer(Ok(1), node).encode()).map(drop);
    assert_eq!((hello("n1", "lab"), answer("n1")), (Ok(()), Ok(())));
    for bad in ["", "../n1", "n 1", "n\u{202e}1", "nä"] {
        assert_eq!(hello(bad, "lab"), Err(PartError::Name("node")), "{bad:?}");
        assert_eq!(hello("n1", bad), Err(PartError::Name("cluster")), "{bad:?}");
        assert_eq!(answer(bad), Err(PartError::Name("node")), "{bad:?}");
    }
    let reported = PartError::Name("node").to_string();
    assert!(
        reported.starts_with("the hello's node name is none: a name has 1 to 64"),
        "{reported}"
    );
}

#[test]
fn long_texts_are_cut_at_a_character() {
    let refusal = Refusal { reason: Reason::Busy, text: "ä".repeat(MAX_TEXT_LENGTH) };
    let read = HelloAnswer::decode(&answer(Err(refusal), "n1").encode()).unwrap();
    assert_eq!(read.outcome.unwrap_err().text, "ä".repeat(MAX_TEXT_LENGTH / 2));
}

#[test]
fn the_largest_parts_are_within_the_limit() {
    let refusal = Refusal { reason: Reason::Other, text: "x".repeat(9999) };
    let answer = HelloAnswer {
        start: Some(Start { counter: u64::MAX, incarnation: Incarnation(u64::MAX) }),
        epoch: u64::MAX,
        ..answer(Err(refusal), &"x".repeat(9999))
    };
    assert!(answer.encode().len() <= MAX_PART_LENGTH);
    assert!(HelloAnswer::decode(&answer.encode()).is_ok());
}

proptest! {
    #[test]
    fn what_is_sent_arrives(hello in hellos(), answer in answers()) {
        prop_assert_eq!(Hello::decode(&hello.encode()), Ok(hello));
        prop_assert_eq!(HelloAnswer::decode(&answer.encode()), Ok(answer));
    }

    #[test]
    fn any_change_or_cut_is_detected(hello in hellos(), at: Index, flip in 1..=255u8) {
        let mut bytes = hello.encode();
        let at = at.index(bytes.len());
        prop_assert!(Hello::decode(&bytes[..at]).is_err());
        bytes[at] ^= flip;
        prop_assert!(Hello::decode(&bytes).is_err());
    }

    #[test]
    fn no_input_panics(bytes in vec(any::<u8>(), 0..MAX_PART_LENGTH), kind in 1..=2u16) {
        let mut part = PartWriter::new(kind);
        part.bytes(&bytes[..bytes.len().min(MAX_PART_LENGTH - PREFIX_LENGTH)]);
        for bytes in [part.finish(), bytes] {
            let _ = Hello::decode(&bytes);
            let _ = HelloAnswer::decode(&bytes);
        }
    }
}
