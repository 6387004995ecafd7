use evenkeel_core::message::*;
use evenkeel_core::settings::{MAX_EXTENTS, MAX_ZERO};
use evenkeel_core::*;
use evenkeel_format::strategy::{replica_states, views};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::*;

/// Any message that a core can send.
fn messages() -> impl Strategy<Value = Message> {
    prop_oneof![
        3 => operations(),
        2 => answers(),
        2 => adoptions(),
        2 => rebuilds(),
    ]
}

fn ids() -> impl Strategy<Value = OperationId> {
    any::<(u64, u64)>().prop_map(|(generation, sequence)| OperationId {
        generation: Generation(generation),
        sequence: Sequence(sequence),
    })
}

fn failures() -> impl Strategy<Value = Failure> {
    select(vec![Failure::Medium, Failure::NoSpace, Failure::Invalid, Failure::Damaged])
}

fn operations() -> impl Strategy<Value = Message> {
    let ranges = (0..1u64 << 60, 1..=MAX_PAYLOAD, 0..=MAX_ZERO);
    (ids(), ranges, any::<[bool; 3]>(), any::<u64>(), 0..6).prop_map(
        |(id, (offset, short, long), [durable, receipt, unmap], covers, which)| match which {
            0 => Message::Write { id, offset, length: short, durable, receipt },
            1 => Message::Zero { id, offset, length: long, unmap, durable, receipt },
            2 => Message::Read { id, offset, length: short },
            3 => Message::Digest { id, offset, length: short },
            4 => Message::Flush { id, covers: Sequence(covers) },
            _ => Message::Map { id, offset, length: long },
        },
    )
}

fn answers() -> impl Strategy<Value = Message> {
    let extents = vec((1..=u64::from(MAX_ZERO) / 256, any::<bool>()), 1..=MAX_EXTENTS);
    prop_oneof![
        ids().prop_map(|id| Message::Received { id }),
        ids().prop_map(|id| Message::Done { id, result: Ok(()) }),
        (ids(), failures()).prop_map(|(id, f)| Message::Done { id, result: Err(f) }),
        (ids(), any::<bool>()).prop_map(|(id, is_unverified)| Message::Data { id, is_unverified }),
        (ids(), vec(any::<u64>().prop_map(BlockDigest), 0..=256))
            .prop_map(|(id, digests)| Message::Digests { id, digests }),
        (ids(), extents).prop_map(|(id, extents)| {
            let extent = |(length, allocated)| Extent { length, allocated };
            Message::Extents { id, extents: extents.into_iter().map(extent).collect() }
        }),
        any::<(u64, Option<u64>)>().prop_map(|(adopted, sequence)| Message::Refused {
            adopted: Generation(adopted),
            sequence: sequence.map(Sequence),
        }),
    ]
}

fn adoptions() -> impl Strategy<Value = Message> {
    let generation = any::<u64>().prop_map(Generation);
    prop_oneof![
        any::<(u64, u128, u64, bool)>().prop_map(|(session, id, incarnation, copies)| {
            let primary = PrimaryId { node: NodeId(id), incarnation: Incarnation(incarnation) };
            let opener =
                if copies { Opener::Copier(ReplicaId(id)) } else { Opener::Primary(primary) };
            let named_incarnations = match opener {
                Opener::Primary(_) => Incarnations::of([!session, session].map(Incarnation)),
                Opener::Copier(_) => Incarnations::default(),
            };
            let named_incarnations = Box::new(named_incarnations);
            Message::OpenSession { session: SessionNumber(session), opener, named_incarnations }
        }),
        (any::<([u64; 3], [u128; 3])>(), prop::option::of(replica_states())).prop_map(
            |((numbers, ids), state)| Message::SessionOpened {
                session: SessionNumber(numbers[0]),
                report: Box::new(ReplicaReport {
                    replica: ReplicaId(ids[0]),
                    incarnation: Incarnation(numbers[1]),
                    is_stale_clone: numbers[1].is_multiple_of(2),
                    boot: BootId(ids[1]),
                    generation: Generation(numbers[2]),
                    history: History(ids[2]),
                    size: !numbers[2],
                    state,
                    slots: SlotBits { open: numbers[1] as u32, seen: numbers[0] as u32 },
                }),
            }
        ),
        views().prop_map(|view| Message::Adopt { view: Box::new(view) }),
        (generation, failures(), any::<u64>(), 0..10).prop_map(
            |(generation, failure, number, which)| match which {
                0 => Message::Adopted { generation },
                1 => Message::DiskFailed { generation, failure },
                2 => Message::Ping { generation, number: PingNumber(number) },
                3 => Message::Pong {
                    generation,
                    number: PingNumber(number),
                    slots: SlotBits { open: number as u32, seen: number as u32 }
                },
                4 => Message::Fenced { generation },
                5 => Message::Stable {
                    generation,
                    through: Sequence(number),
                    last_of_earlier_incarnations: (number % 2 == 1).then_some(Sequence(number)),
                },
                6 => Message::LogFilling { generation },
                7 => Message::ClusterLock {
                    generation,
                    requester: requester(number),
                    number: ClusterLockNumber(number),
                    range: (number % 2 == 1).then_some(number / 2..u64::MAX),
                },
                8 => Message::Granted {
                    generation,
                    requester: requester(number),
                    number: ClusterLockNumber(number),
                },
                _ => Message::FenceConfirmed { generation },
            }
        ),
    ]
}

fn requester(number: u64) -> PrimaryId {
    PrimaryId { node: NodeId(u128::from(number) << 64 | 1), incarnation: Incarnation(number) }
}

fn rebuilds() -> impl Strategy<Value = Message> {
    let numbers = any::<[u64; 2]>().prop_map(|[g, t]| (Generation(g), CopyToken(t)));
    let contents = prop_oneof![
        select(vec![CopyContent::Data, CopyContent::Zeroes, CopyContent::Refused]),
        any::<[u64; 4]>().prop_map(|forgotten| CopyContent::Unverified { forgotten }),
        failures().prop_map(CopyContent::Failed),
        (0..=MAX_ZERO / 2, 0..=MAX_ZERO / 2)
            .prop_map(|(zeroes, data)| CopyContent::Begins { zeroes, data }),
    ];
    let ranges = (0..1u64 << 60, 1..=MAX_PAYLOAD);
    (numbers, contents, progress(), ranges, any::<u128>(), 0..11).prop_map(
        |((generation, token), content, progress, (offset, length), source, which)| match which {
            0 => {
                let source = ReplicaId(source);
                Message::Drain { generation, token, offset, length, source }
            }
            1 => Message::Drained { generation, token, is_busy: offset % 2 == 0 },
            2 => Message::Copy { generation, token, offset, length },
            3 => Message::Copied { token, content },
            4 => Message::RebuildProgress { generation, progress: Box::new(progress) },
            5 => Message::ClearBits { generation, offset, length: token.0 },
            6 => Message::AskMissing { generation, replica: ReplicaId(source), page: length },
            7 => {
                let content = missing(token.0);
                Message::MissingBlocks { replica: ReplicaId(source), asked: length, content }
            }
            8 => Message::RebuildCopied { generation, number: BarrierNumber(token.0) },
            9 => Message::WritesFinished { generation, number: BarrierNumber(token.0) },
            _ => Message::RebuildDone { generation },
        },
    )
}

fn missing(number: u64) -> MissingContent {
    match number % 4 {
        0 => MissingContent::Page(7, Box::new([number; evenkeel_core::block_set::PAGE_WORDS])),
        1 => MissingContent::End,
        2 => MissingContent::Unknown,
        _ => MissingContent::Refused,
    }
}

fn progress() -> impl Strategy<Value = RebuildProgress> {
    let waits = prop_oneof![
        select(vec![RebuildWait::Source, RebuildWait::Drain, RebuildWait::Operator]),
        any::<u64>().prop_map(RebuildWait::SourceMedium),
    ];
    (any::<[u64; 3]>(), any::<Option<u128>>(), prop::option::of(waits)).prop_map(
        |([done, total, copied], source, waits_for)| RebuildProgress {
            done,
            total,
            copied,
            source: source.map(ReplicaId),
            waits_for,
        },
    )
}

/// A payload that fits the message.
fn payload_for(message: &Message) -> Option<PayloadSummary> {
    let length = if let Message::Write { length, .. } = message { *length } else { 4096 };
    carries_payload(message).then_some(PayloadSummary { length, crc: 0x1234_5678 })
}

fn encoded(message: &Message) -> Vec<u8> {
    let mut out = Vec::new();
    encode(message, payload_for(message), &mut out).unwrap();
    out
}

/// As a receiver does it.
fn receive(bytes: &[u8]) -> Result<(Header, Message), FrameError> {
    let (header, body) = bytes.split_first_chunk().ok_or(FrameError::Length(0))?;
    let header = decode_header(header)?;
    let body = body.get(..header.body_length as usize).ok_or(FrameError::Length(0))?;
    Ok((header, decode(&header, body)?))
}

/// Makes both checksums right again after a change.
fn seal(bytes: &mut [u8]) {
    let body = crc32c(&bytes[HEADER_LENGTH..]).to_le_bytes();
    if bytes.len() > HEADER_LENGTH {
        bytes[20..24].copy_from_slice(&body);
    }
    let header = crc32c(&bytes[..CRC_OFFSET]).to_le_bytes();
    bytes[CRC_OFFSET..HEADER_LENGTH].copy_from_slice(&header);
}

fn sample_write() -> Message {
    let id = OperationId { generation: Generation(3), sequence: Sequence(0x0102_0304) };
    Message::Write { id, offset: 4096, length: 512, durable: true, receipt: false }
}

#[test]
fn the_bytes_are_where_the_manual_says() {
    let bytes = encoded(&sample_write());
    assert_eq!(bytes.len(), HEADER_LENGTH);
    assert_eq!(&bytes[..4], b"EKfr");
    assert_eq!(&bytes[4..8], &[1, 0, 16, 0]);
    assert_eq!(&bytes[8..16], &[0, 2, 0, 0, 0x78, 0x56, 0x34, 0x12]);
    assert_eq!(&bytes[16..24], &[0; 8]);
    assert_eq!(&bytes[24..32], &[3, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(&bytes[32..40], &[4, 3, 2, 1, 0, 0, 0, 0]);
    assert_eq!(&bytes[40..48], &[0, 16, 0, 0, 0, 0, 0, 0]);
    assert_eq!(&bytes[48..56], &[0, 2, 0, 0, 1, 0, 0, 0]);
    assert_eq!(&bytes[56..60], &[0; 4]);
    assert_eq!(&bytes[60..64], &crc32c(&bytes[..60]).to_le_bytes());
}

#[test]
fn a_payload_that_does_not_fit_is_not_sent() {
    let payload = |length| Some(PayloadSummary { length, crc: 0 });
    let id = OperationId { generation: Generation(1), sequence: Sequence(2) };
    let data = Message::Data { id, is_unverified: false };
    let ping = Message::Ping { generation: Generation(1), number: PingNumber(1) };
    for (message, payload) in [
        (sample_write(), None),
        (sample_write(), payload(511)),
        (data.clone(), payload(0)),
        (data, payload(MAX_PAYLOAD + 1)),
        (ping, payload(512)),
    ] {
        let mut out = vec![7];
        assert_eq!(encode(&message, payload, &mut out), Err(FrameError::Payload));
        assert_eq!(out, [7]);
    }
}

#[test]
fn lengths_are_checked_before_anything_relies_on_them() {
    for (offset, value) in [(8, MAX_PAYLOAD + 1), (16, MAX_BODY_LENGTH + 1), (8, 0)] {
        let mut bytes = encoded(&sample_write());
        bytes[offset..offset + 4].copy_from_slice(&value.to_le_bytes());
        seal(&mut bytes);
        assert_eq!(receive(&bytes).unwrap_err(), FrameError::Length(16));
    }
}

#[test]
fn strangers_are_reported_apart() {
    let good = encoded(&sample_write());
    let error = |offset: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[offset] = value;
        seal(&mut bytes);
        receive(&bytes).unwrap_err()
    };
    assert_eq!(error(0, b'G'), FrameError::Magic);
    assert_eq!(error(4, 2), FrameError::Version(2));
    assert_eq!(error(6, 15), FrameError::Type(15));
    assert_eq!(error(52, 0x84), FrameError::Field(16));
    assert_eq!(error(54, 1), FrameError::Field(16));
    assert_eq!(error(56, 1), FrameError::Field(16));
    let mut bytes = good.clone();
    bytes[33] ^= 1;
    assert_eq!(receive(&bytes).unwrap_err(), FrameError::HeaderChecksum);
}

#[test]
fn too_many_extents_are_neither_sent_nor_received() {
    let id = OperationId { generation: Generation(1), sequence: Sequence(2) };
    let extent = Extent { length: 512, allocated: true };
    for extents in [vec![], vec![extent; MAX_EXTENTS + 1], vec![Extent { length: 0, ..extent }]] {
        let message = Message::Extents { id, extents };
        assert!(encode(&message, None, &mut Vec::new()).is_err());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn what_is_sent_arrives(message in messages()) {
        let bytes = encoded(&message);
        let (header, received) = receive(&bytes).unwrap();
        prop_assert_eq!(&received, &message);
        let payload = payload_for(&message);
        prop_assert_eq!(header.payload_length, payload.map_or(0, |p| p.length));
        prop_assert_eq!(header.payload_crc, payload.map_or(0, |p| p.crc));
        prop_assert_eq!(header.body_length as usize, bytes.len() - HEADER_LENGTH);
    }

    #[test]
    fn any_changed_byte_is_detected(message in messages(), at: Index, flip in 1..=255u8) {
        let mut bytes = encoded(&message);
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        prop_assert!(receive(&bytes).is_err());
    }

    #[test]
    fn what_is_cut_off_is_detected(message in messages(), at: Index) {
        let bytes = encoded(&message);
        prop_assert!(receive(&bytes[..at.index(bytes.len())]).is_err());
    }

    #[test]
    fn changed_and_sealed_again_it_has_one_meaning(
        message in messages(),
        changes in vec((any::<Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = encoded(&message);
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        seal(&mut bytes);
        if let Ok((header, message)) = receive(&bytes) {
            let payload = carries_payload(&message)
                .then_some(PayloadSummary { length: header.payload_length, crc: header.payload_crc });
            let mut again = Vec::new();
            encode(&message, payload, &mut again).unwrap();
            prop_assert_eq!(again, bytes);
        }
    }

    #[test]
    fn no_input_panics(bytes in vec(any::<u8>(), HEADER_LENGTH..512)) {
        let mut bytes = bytes;
        let _ = receive(&bytes);
        bytes[..4].copy_from_slice(b"EKfr");
        bytes[4..6].fill(0);
        seal(&mut bytes);
        let _ = receive(&bytes);
    }
}
