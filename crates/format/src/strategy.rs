//! Arbitrary valid views, for property tests.

use core::time::Duration;

use evenkeel_core::settings::MAX_REPLICAS_IN_ALL;
use evenkeel_core::view::{Cause, Registrant, Reservation, ReservationKind, Reservations};
use evenkeel_core::*;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::select;

use crate::code::cause_from_code;

/// Any valid view.
pub fn views() -> impl Strategy<Value = View> {
    let identities = (any::<u128>(), any::<u128>(), any::<u128>(), any::<[u64; 2]>());
    let members = (vec(primaries(), 0..=32).prop_map(in_slots), vec(epochs(), 0..=8));
    let protocols = select(vec![Protocol::A, Protocol::B, Protocol::C]);
    let bitmaps = select(vec![Bitmap::None, Bitmap::Internal]);
    let limits = (leases(), any::<u32>(), any::<Option<u32>>());
    let options = (protocols, bitmaps, layouts(), rebuild_limits(), limits);
    let parts = (vec(mirrors(), 1..=16), reservations());
    (identities, options, geometries(), parts, members)
        .prop_map(|(ids, options, geometry, parts, (primaries, epochs))| {
            let (mut mirrors, reservations) = parts;
            while mirrors.iter().map(|m| m.replicas.len()).sum::<usize>() > MAX_REPLICAS_IN_ALL {
                mirrors.pop();
            }
            let (protocol, bitmap, intents, rebuild_limit, (lease, no_coordinator, no_data)) =
                options;
            // Several primaries by protocol C only.
            let most = if protocol == Protocol::C { 32 } else { 1 };
            let primaries = primaries.into_iter().take(most).collect();
            let intents = IntentLayout { slots: most as u8, ..intents };
            View {
                volume: VolumeId(ids.0),
                generation: Generation(ids.3[0] >> 16),
                parent: Generation(ids.3[1]),
                history: History(ids.1),
                coordinator: CoordinatorId(ids.2),
                epochs,
                geometry,
                protocol,
                bitmap,
                intents: intents.reaching(geometry.size),
                rebuild_limit,
                lease,
                no_coordinator: NoCoordinatorPolicy::from_milliseconds(no_coordinator % 3),
                no_data,
                mirrors,
                primaries,
                reservations,
            }
        })
        .prop_filter("replica identities must differ", View::is_valid)
}

/// Any reservations.
fn reservations() -> impl Strategy<Value = Reservations> {
    use ReservationKind::*;
    let kinds = select(vec![WriteExclusive, ExclusiveAccess, ExclusiveAccessAll]);
    let hosts = btree_map(any::<u128>(), 1..=u64::MAX, 0..=64);
    (any::<(u32, bool)>(), hosts, prop::option::of(kinds)).prop_map(
        |((generation, is_persistent), hosts, kind)| {
            let registrant = |(host, key)| Registrant { host: HostId(host), key };
            let registrants: Vec<_> = hosts.into_iter().map(registrant).collect();
            let holder = registrants.last().map(|last| last.host);
            let held = kind.zip(holder).map(|(kind, holder)| Reservation { kind, holder });
            Reservations { generation, is_persistent, registrants, held }
        },
    )
}

/// Any state of a replica.
pub fn replica_states() -> impl Strategy<Value = ReplicaState> {
    use ReplicaState::*;
    select(vec![InSync, Rebuilding, Stale, Faulty, Spare])
}

/// Any cause.
pub fn causes() -> impl Strategy<Value = Cause> {
    (0..=14u8).prop_map(|code| cause_from_code(code).unwrap_or(Cause::None))
}

fn leases() -> impl Strategy<Value = Lease> {
    (1..=65_535u64, 1..=65_535u64).prop_filter_map("not zero", |(steps, margin)| {
        Lease::new(Duration::from_millis(steps * 10), Duration::from_millis(margin))
    })
}

fn layouts() -> impl Strategy<Value = IntentLayout> {
    (12..=40u32, 1..=settings::MAX_OPEN_REGIONS as u16)
        .prop_map(|(exponent, places)| IntentLayout { region: 1 << exponent, places, slots: 32 })
}

fn rebuild_limits() -> impl Strategy<Value = RebuildLimit> {
    let rates = (1..u64::MAX).prop_map(RebuildLimit::BytesPerSecond);
    prop_oneof![Just(RebuildLimit::None), Just(RebuildLimit::Paused), rates]
}

fn geometries() -> impl Strategy<Value = Geometry> {
    (select(vec![512u32, 4096]), 1..=1u64 << 48, 12..=30u32).prop_map(
        |(block_size, blocks, chunk)| Geometry {
            size: blocks * u64::from(block_size),
            block_size,
            chunk: 1 << chunk,
        },
    )
}

fn epochs() -> impl Strategy<Value = Epoch> {
    any::<(u128, u128, u64, u64)>().prop_map(|(coordinator, history, last, ended)| Epoch {
        coordinator: CoordinatorId(coordinator),
        history: History(history),
        last: Generation(last),
        ended,
    })
}

fn in_slots(primaries: Vec<PrimaryId>) -> Vec<PrimaryRecord> {
    (0..32).rev().zip(primaries).map(|(slot, id)| PrimaryRecord { id, slot }).collect()
}

fn primaries() -> impl Strategy<Value = PrimaryId> {
    any::<(u128, u64)>().prop_map(|(node, incarnation)| PrimaryId {
        node: NodeId(node),
        incarnation: Incarnation(incarnation),
    })
}

/// The first replica is in-sync: a valid mirror has one.
fn mirrors() -> impl Strategy<Value = MirrorView> {
    vec((records(), 0..=3u8, any::<prop::sample::Index>()), 1..=16).prop_map(|drawn| {
        let mut replicas: Vec<_> = drawn.iter().map(|(record, ..)| *record).collect();
        replicas[0].state = ReplicaState::InSync;
        for (place, (_, role, other)) in drawn.iter().enumerate() {
            let other = other.index(replicas.len());
            let id = replicas[other].id;
            let may_replace = other != place && replicas[place].state != ReplicaState::InSync;
            replicas[place].role = match role {
                _ if replicas[place].state == ReplicaState::Spare => Role::Spare(None),
                1 if may_replace => Role::Replaces(id),
                2 if other != place => Role::Spare(Some(id)),
                3 => Role::Spare(None),
                _ => Role::Own,
            };
        }
        MirrorView { replicas }
    })
}

fn records() -> impl Strategy<Value = ReplicaRecord> {
    (any::<(u128, u128, u64, u64)>(), replica_states(), causes()).prop_map(|(ids, state, cause)| {
        ReplicaRecord {
            id: ReplicaId(ids.0),
            node: NodeId(ids.1),
            state,
            since: Generation(ids.3 >> 16),
            incarnation: Incarnation(ids.2),
            cause,
            missing_since: Some(Generation(ids.2 >> 16)).filter(|g| g.0 % 3 == 1),
            role: Role::Own,
        }
    })
}
