use proptest::prelude::*;

use super::*;
use crate::strategy::views;
use evenkeel_core::HostId;
use evenkeel_core::view::{Registrant, Reservation, ReservationKind};

/// A view of the largest size.
pub(crate) fn largest() -> View {
    let mirror = |m: u128| MirrorView {
        replicas: (0..(MAX_REPLICAS_IN_ALL / MAX_MIRRORS) as u128)
            .map(|r| ReplicaRecord {
                id: ReplicaId(m * 100 + r),
                node: NodeId(r),
                state: evenkeel_core::ReplicaState::InSync,
                since: Generation(2),
                incarnation: Incarnation(u64::MAX),
                cause: evenkeel_core::view::Cause::None,
                missing_since: None,
                role: Role::Own,
            })
            .collect(),
    };
    let id = PrimaryId { node: NodeId(9), incarnation: Incarnation(8) };
    let primary = |slot| PrimaryRecord { id, slot };
    let registrant = |host| Registrant { host: HostId(host), key: u64::MAX };
    View {
        volume: VolumeId(7),
        generation: Generation(2),
        parent: Generation(1),
        history: History(3),
        coordinator: CoordinatorId(4),
        epochs: vec![
            Epoch {
                coordinator: CoordinatorId(5),
                history: History(6),
                last: Generation(1),
                ended: 1,
            };
            MAX_EPOCHS
        ],
        geometry: Geometry { size: 1 << 40, block_size: 512, chunk: 1 << 20 },
        protocol: evenkeel_core::Protocol::C,
        bitmap: evenkeel_core::Bitmap::Internal,
        intents: IntentLayout { region: 1 << 30, places: 2032, slots: 32 },
        rebuild_limit: evenkeel_core::RebuildLimit::Paused,
        lease: Lease::default(),
        no_coordinator: evenkeel_core::NoCoordinatorPolicy::from_milliseconds(u32::MAX),
        no_data: Some(u32::MAX),
        mirrors: (0..MAX_MIRRORS as u128).map(mirror).collect(),
        primaries: (0..MAX_PRIMARIES as u8).map(primary).collect(),
        reservations: Reservations {
            generation: u32::MAX,
            is_persistent: true,
            registrants: (0..MAX_REGISTRANTS as u128).map(registrant).collect(),
            held: Some(Reservation {
                kind: ReservationKind::ExclusiveAccessAll,
                holder: HostId(MAX_REGISTRANTS as u128 - 1),
            }),
        },
    }
}

/// Makes the checksum right again after a change.
fn seal(bytes: &mut [u8]) {
    let crc = checksum(bytes).to_le_bytes();
    bytes[CRC_OFFSET..CRC_OFFSET + 4].copy_from_slice(&crc);
}

#[test]
fn the_largest_view_has_the_stated_length() {
    let view = largest();
    let bytes = encode_view(&view).unwrap();
    assert_eq!(bytes.len(), MAX_VIEW_LENGTH);
    assert_eq!(decode_view(&bytes).unwrap(), view);
}

/// What does not differ from the default takes no bytes: nodes that do not know of it read such
/// views.
#[test]
fn a_limit_of_waits_takes_bytes_only_if_there_is_one() {
    let mut view = View { no_coordinator: Default::default(), no_data: None, ..largest() };
    let without = encode_view(&view).unwrap();
    assert_eq!(
        (without.len(), without[7]),
        (MAX_VIEW_LENGTH - NO_COORDINATOR - NO_DATA, HAS_RESERVATIONS)
    );
    view.no_coordinator = evenkeel_core::NoCoordinatorPolicy::from_milliseconds(5000);
    let mut with = encode_view(&view).unwrap();
    assert_eq!(decode_view(&with).unwrap(), view);
    let at = MAX_VIEW_LENGTH - MAX_RESERVATIONS_LENGTH - NO_COORDINATOR - NO_DATA;
    assert_eq!(with[at..at + NO_COORDINATOR], 5000u32.to_le_bytes());
    with[at..at + NO_COORDINATOR].fill(0);
    seal(&mut with);
    assert!(decode_view(&with).unwrap_err().to_string().contains("\"no coordinator\""));
    view.no_coordinator = Default::default();
    for milliseconds in [0, 5000] {
        view.no_data = Some(milliseconds);
        let with = encode_view(&view).unwrap();
        assert_eq!(with[at..at + NO_DATA], milliseconds.to_le_bytes());
        assert_eq!(decode_view(&with).unwrap(), view);
    }
}

#[test]
fn an_invalid_view_is_neither_written_nor_read() {
    let mut view = largest();
    let mut bytes = encode_view(&view).unwrap();
    view.geometry.size += 1;
    assert_eq!(encode_view(&view), Err(ViewFormatError::NotValid));
    bytes[80..88].copy_from_slice(&view.geometry.size.to_le_bytes());
    seal(&mut bytes);
    assert_eq!(decode_view(&bytes), Err(ViewFormatError::NotValid));
}

#[test]
fn unknown_values_are_refused_by_name() {
    let good = encode_view(&largest()).unwrap();
    let first_record = HEADER + MAX_PRIMARIES * PRIMARY + MIRROR;
    let reservations = MAX_VIEW_LENGTH - MAX_RESERVATIONS_LENGTH + 4;
    for (offset, name) in [
        (0, "version 255"),
        (2, "\"protocol\""),
        (5, "\"bitmap\""),
        (7, "\"sections\""),
        (reservations, "\"reservation\""),
        (first_record + 46, "\"place\""),
        (first_record + 47, "\"role\""),
        (first_record + 48, "\"replica state\""),
        (first_record + 49, "\"cause\""),
    ] {
        let mut bytes = good.clone();
        bytes[offset] = 255;
        seal(&mut bytes);
        let message = decode_view(&bytes).unwrap_err().to_string();
        assert!(message.contains(name), "{message}");
    }
}

#[test]
fn counts_that_do_not_fit_the_length_are_refused() {
    let good = encode_view(&largest()).unwrap();
    for (offset, count) in [(3, 15), (3, 17), (7, 0), (4, 31), (4, 255), (6, 7), (6, 9)] {
        let mut bytes = good.clone();
        bytes[offset] = count;
        seal(&mut bytes);
        assert!(decode_view(&bytes).is_err());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_written_is_read(view in views()) {
        prop_assert_eq!(decode_view(&encode_view(&view).unwrap()), Ok(view));
    }

    #[test]
    fn any_changed_byte_is_detected(view in views(), at: prop::sample::Index, flip in 1..=255u8) {
        let mut bytes = encode_view(&view).unwrap();
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        prop_assert!(decode_view(&bytes).is_err());
    }

    #[test]
    fn any_length_but_its_own_is_detected(view in views(), at: prop::sample::Index) {
        let mut bytes = encode_view(&view).unwrap();
        prop_assert!(decode_view(&bytes[..at.index(bytes.len())]).is_err());
        bytes.push(0);
        prop_assert!(decode_view(&bytes).is_err());
    }

    #[test]
    fn changed_and_sealed_again_it_is_valid_or_refused(
        view in views(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut bytes = encode_view(&view).unwrap();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        seal(&mut bytes);
        if let Ok(view) = decode_view(&bytes) {
            prop_assert!(view.is_valid());
            prop_assert_eq!(encode_view(&view).unwrap(), bytes);
        }
    }

    #[test]
    fn no_input_panics(bytes in prop::collection::vec(any::<u8>(), 0..4096)) {
        let _ = decode_view(&bytes);
    }
}
