//! The numbers that stand for states, causes and protocols on disk and on the network. A number
//! once given is never given to something else.

use evenkeel_core::view::{Cause, ReservationKind};
use evenkeel_core::{Bitmap, Protocol, RebuildLimit, ReplicaId, ReplicaState, Role};

/// Defines both directions of a table of codes, so that they cannot disagree; a value without a
/// code does not compile.
macro_rules! codes {
    ($type:ident, $to:ident, $from:ident, { $($name:ident = $code:literal),+ $(,)? }) => {
        #[doc = concat!("The code of this `", stringify!($type), "`.")]
        #[must_use]
        pub const fn $to(value: $type) -> u8 {
            match value {
                $($type::$name => $code,)+
            }
        }

        #[doc = concat!("The `", stringify!($type), "` with this code, if there is one.")]
        #[must_use]
        pub const fn $from(code: u8) -> Option<$type> {
            match code {
                $($code => Some($type::$name),)+
                _ => None,
            }
        }
    };
}

codes!(Protocol, protocol_code, protocol_from_code, { A = 1, B = 2, C = 3 });

codes!(Bitmap, bitmap_code, bitmap_from_code, { None = 1, Internal = 2 });

// Those of SCSI's PERSISTENT RESERVE commands (SPC-4, table 63).
codes!(ReservationKind, reservation_kind_code, reservation_kind_from_code, {
    WriteExclusive = 1,
    ExclusiveAccess = 3,
    WriteExclusiveRegistrants = 5,
    ExclusiveAccessRegistrants = 6,
    WriteExclusiveAll = 7,
    ExclusiveAccessAll = 8,
});

/// A limit as bytes per second; zero is none, and the greatest number a pause.
#[must_use]
pub const fn rebuild_limit_code(limit: RebuildLimit) -> u64 {
    match limit {
        RebuildLimit::None => 0,
        RebuildLimit::BytesPerSecond(rate) => rate,
        RebuildLimit::Paused => u64::MAX,
    }
}

/// The limit with this code.
#[must_use]
pub const fn rebuild_limit_from_code(code: u64) -> RebuildLimit {
    match code {
        0 => RebuildLimit::None,
        u64::MAX => RebuildLimit::Paused,
        rate => RebuildLimit::BytesPerSecond(rate),
    }
}

codes!(ReplicaState, replica_state_code, replica_state_from_code, {
    InSync = 1,
    Rebuilding = 2,
    Stale = 3,
    Faulty = 4,
    Spare = 5,
});

codes!(Cause, cause_code, cause_from_code, {
    None = 0,
    Disconnected = 1,
    Late = 2,
    Restarted = 3,
    Unreachable = 4,
    UncleanEnd = 5,
    Medium = 6,
    NoSpace = 7,
    Operator = 8,
    OtherHistory = 9,
    SourceFailed = 10,
    Lagging = 11,
    Unconfirmed = 12,
    TooLarge = 13,
    StaleClone = 14,
});

/// The code of this role; in whose place the replica is stands apart.
#[must_use]
pub const fn role_code(role: Role) -> u8 {
    match role {
        Role::Own => 0,
        Role::Replaces(_) => 1,
        Role::Spare(_) => 2,
    }
}

/// The role with this code, in the place of this other replica, if there is one such.
#[must_use]
pub const fn role_from_code(code: u8, instead_of: Option<ReplicaId>) -> Option<Role> {
    match (code, instead_of) {
        (0, None) => Some(Role::Own),
        (1, Some(other)) => Some(Role::Replaces(other)),
        (2, other) => Some(Role::Spare(other)),
        _ => None,
    }
}
