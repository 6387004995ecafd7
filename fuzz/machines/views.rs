//! Views: the one that a script begins with, and what may follow one.

use core::time::Duration;

use evenkeel_core::settings::{MAX_OPEN_REGIONS, MAX_REPLICAS};
use evenkeel_core::view::{Cause, Change, ReservationChange, ReservationKind};
use evenkeel_core::*;

use super::script::Script;

/// The primaries that there may be: two of one node, and one of another.
pub const PRIMARIES: [PrimaryId; 3] = [
    PrimaryId { node: NodeId(101), incarnation: Incarnation(11) },
    PrimaryId { node: NodeId(101), incarnation: Incarnation(12) },
    PrimaryId { node: NodeId(109), incarnation: Incarnation(13) },
];
/// The replicas that there may be, of all mirrors: each has the node with its number and 100 more.
pub const MAX_IDS: u128 = 8;
const CAUSES: [Cause; 8] = [
    Cause::None,
    Cause::Disconnected,
    Cause::Restarted,
    Cause::UncleanEnd,
    Cause::OtherHistory,
    Cause::Medium,
    Cause::Unconfirmed,
    Cause::SourceFailed,
];
const STATES: [ReplicaState; 5] = [
    ReplicaState::InSync,
    ReplicaState::Rebuilding,
    ReplicaState::Stale,
    ReplicaState::Faulty,
    ReplicaState::Spare,
];
const SIZES: [u64; 8] =
    [64 << 10, 1 << 20, 3 << 20, (8 << 20) + 4096, 64 << 20, 200 << 20, 1 << 30, 512];

/// The view with which a script begins; valid.
pub fn first(script: &mut Script<'_>) -> View {
    let shape = script.byte();
    let (mirrors, replicas) = (usize::from(shape & 1) + 1, usize::from(shape >> 1 & 3).clamp(1, 3));
    let block_size = if shape & 8 == 0 { 512 } else { 4096 };
    let size = SIZES[usize::from(shape >> 4) % SIZES.len()].next_multiple_of(block_size.into());
    let geometry = Geometry { size, block_size, chunk: 64 << 10 };
    let mut id = 0;
    let mut mirror = || {
        let mut record = || {
            id += 1;
            record(ReplicaId(id))
        };
        MirrorView { replicas: (0..replicas).map(|_| record()).collect() }
    };
    let mirrors: Vec<_> = (0..mirrors).map(|_| mirror()).collect();
    let mut view = View {
        generation: Generation(10),
        parent: Generation(9),
        bitmap: Bitmap::Internal,
        intents: IntentLayout { region: 64 << 10, places: 4, slots: 2 },
        ..View::first(VolumeId(7), History(20), CoordinatorId(21), geometry, mirrors)
    };
    for _ in 0..script.choose(8) {
        let mut edited = view.clone();
        edit(script, &mut edited);
        view = if edited.is_valid() { edited } else { view };
    }
    view
}

/// A replica that is in-sync.
fn record(id: ReplicaId) -> ReplicaRecord {
    ReplicaRecord {
        id,
        node: NodeId(id.0 + 100),
        state: ReplicaState::InSync,
        since: Generation(1),
        incarnation: Incarnation(5),
        cause: Cause::None,
        missing_since: None,
        role: Role::Own,
    }
}

/// A view that may follow this one, if it is valid.
pub fn next(script: &mut Script<'_>, base: &View) -> View {
    let mut view = if script.is_rare() {
        let coordinator = CoordinatorId(30 + script.choose(3) as u128);
        base.next_epoch(
            coordinator,
            History(base.history.0 + script.choose(2) as u128),
            1_700_000_000,
        )
    } else {
        base.successor()
    };
    for _ in 0..script.choose(5) {
        edit(script, &mut view);
    }
    view
}

/// Changes one thing of a view.
pub fn edit(script: &mut Script<'_>, view: &mut View) {
    match script.choose(14) {
        13 => {
            let _ = view.change(Change::Reservation(reservation(script)));
        }
        0..=3 => change_replica(script, view),
        4 | 5 => change_primaries(script, view),
        6 => view.protocol = [Protocol::A, Protocol::B, Protocol::C][script.choose(3)],
        7 => view.bitmap = [Bitmap::None, Bitmap::Internal][script.choose(2)],
        8 => change_layout(script, view),
        9 => {
            view.rebuild_limit = match script.choose(3) {
                0 => RebuildLimit::None,
                1 => RebuildLimit::BytesPerSecond(script.near(1 << 20)),
                _ => RebuildLimit::Paused,
            }
        }
        10 => change_members(script, view),
        11 => {
            let [time, margin] =
                [(); 2].map(|()| Duration::from_millis(script.near(10).saturating_mul(10)));
            view.lease = Lease::new(time, margin).unwrap_or_default();
        }
        _ => {
            let more = u64::from(script.byte()) << 16;
            view.geometry.size = view.geometry.size.saturating_add(more);
            if script.is_rare() {
                view.generation = Generation(script.near(view.generation.0));
            }
        }
    }
}

/// A change of reservations by one of three hosts.
pub fn reservation(script: &mut Script<'_>) -> ReservationChange {
    let host = HostId(101 + script.choose(3) as u128);
    let key = script.near(1) % 3;
    let kinds = [
        ReservationKind::WriteExclusive,
        ReservationKind::ExclusiveAccess,
        ReservationKind::WriteExclusiveRegistrants,
        ReservationKind::ExclusiveAccessAll,
    ];
    let kind = kinds[script.choose(kinds.len())];
    match script.choose(7) {
        0 | 1 => {
            let is_persistent = Some(script.is_set());
            ReservationChange::Register { host, expected: None, key, is_persistent }
        }
        2 => ReservationChange::Reserve { host, key, kind },
        3 => ReservationChange::Release { host, key, kind },
        4 => ReservationChange::Preempt { host, key, victim: script.near(1) % 3, kind },
        5 => ReservationChange::Clear { host, key },
        _ => ReservationChange::Drop,
    }
}

fn change_replica(script: &mut Script<'_>, view: &mut View) {
    let mirror = script.choose(view.mirrors.len());
    let generation = view.generation;
    let replicas = &mut view.mirrors[mirror].replicas;
    let chosen = script.choose(replicas.len());
    let Some(record) = replicas.get_mut(chosen) else { return };
    let (state, how) = (STATES[script.choose(STATES.len())], script.byte());
    record.missing_since = match state {
        ReplicaState::InSync => None,
        // Generations have 48 bits, and begin with 1.
        _ if how & 1 == 0 => Some(Generation(script.near(generation.0).clamp(1, (1 << 48) - 1))),
        _ => None,
    };
    if how & 2 == 0 {
        (record.state, record.since) = (state, generation);
    }
    if how & 4 != 0 {
        record.incarnation = Incarnation(script.near(5));
    }
    if how & 8 != 0 {
        record.cause = CAUSES[script.choose(CAUSES.len())];
    }
    if how & 16 != 0 {
        let other = ReplicaId(script.choose(MAX_IDS as usize) as u128 + 1);
        record.role =
            [Role::Own, Role::Replaces(other), Role::Spare(None), Role::Spare(Some(other))]
                [script.choose(4)];
    }
}

fn change_primaries(script: &mut Script<'_>, view: &mut View) {
    let id = PRIMARIES[script.choose(PRIMARIES.len())];
    let slot = script.choose(4) as u8;
    match script.choose(4) {
        0 => view.primaries.clear(),
        1 => view.primaries.retain(|primary| primary.id != id),
        _ => {
            view.primaries.retain(|primary| primary.id != id && primary.slot != slot);
            view.primaries.push(PrimaryRecord { id, slot });
        }
    }
}

fn change_layout(script: &mut Script<'_>, view: &mut View) {
    view.intents = IntentLayout {
        region: 4096 << script.choose(18),
        places: [1, 2, 3, 4, 16, MAX_OPEN_REGIONS as u16][script.choose(6)],
        slots: [1, 2, 3, 32][script.choose(4)],
    };
}

fn change_members(script: &mut Script<'_>, view: &mut View) {
    let mirror = script.choose(view.mirrors.len());
    let id = ReplicaId(script.choose(MAX_IDS as usize) as u128 + 1);
    let replicas = &mut view.mirrors[mirror].replicas;
    if script.is_set() {
        replicas.retain(|record| record.id != id);
    } else if replicas.len() < MAX_REPLICAS {
        let state = ReplicaState::Stale;
        replicas.push(ReplicaRecord { state, since: view.generation, ..record(id) });
    }
}
