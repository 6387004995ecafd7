//! Identities and counters, each a type of its own so that none can be passed for another.

use core::fmt;

/// Defines a random 128-bit identity, shown and parsed in the form of a UUID.
macro_rules! identity {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u128);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let v = self.0;
                write!(
                    f,
                    "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
                    v >> 96,
                    (v >> 80) & 0xffff,
                    (v >> 64) & 0xffff,
                    (v >> 48) & 0xffff,
                    v & 0xffff_ffff_ffff
                )
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({self})", stringify!($name))
            }
        }

        impl core::str::FromStr for $name {
            type Err = ParseIdentityError;

            /// Reads 32 hexadecimal digits; dashes are ignored.
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                parse_identity(text).map(Self)
            }
        }
    };
}

/// The text is not 32 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParseIdentityError;

impl fmt::Display for ParseIdentityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not an identity: expected 32 hexadecimal digits, with or without dashes")
    }
}

impl core::error::Error for ParseIdentityError {}

fn parse_identity(text: &str) -> Result<u128, ParseIdentityError> {
    let mut value = 0u128;
    let mut digits = 0;
    for c in text.chars().filter(|c| *c != '-') {
        let digit = c.to_digit(16).ok_or(ParseIdentityError)?;
        value = (value << 4) | u128::from(digit);
        digits += 1;
        if digits > 32 {
            return Err(ParseIdentityError);
        }
    }
    if digits == 32 { Ok(value) } else { Err(ParseIdentityError) }
}

identity!(
    /// A volume, for as long as it exists.
    VolumeId
);
identity!(
    /// One replica, for as long as it exists.
    ReplicaId
);
identity!(
    /// A node: one daemon with its state directory.
    NodeId
);
identity!(
    /// The line of descent of a volume's data. A forced start begins a new one, so that data
    /// which went separate ways is never taken for the same.
    History
);
identity!(
    /// A host that asks for reads and writes: a SCSI initiator port, an NVMe host, a node of the
    /// cluster.
    HostId
);
identity!(
    /// The coordinator that committed a view.
    CoordinatorId
);
identity!(
    /// One boot of a machine. Data that was written but not flushed survives a restart of the
    /// process under the same boot, and need not survive a new boot.
    BootId
);

/// Defines a counter or a random 64-bit mark.
macro_rules! number {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl From<$name> for u64 {
            fn from(name: $name) -> Self {
                name.0
            }
        }

        impl $name {
            /// The number after this one.
            #[must_use]
            pub const fn next(self) -> Self {
                Self(self.0 + 1)
            }
        }
    };
}

number!(
    /// Counts the views of a volume. A replica that has adopted one refuses every lower one.
    Generation
);
number!(
    /// One incarnation of a primary or of a replica: drawn anew by the driver at each start, never
    /// 0.
    Incarnation
);
number!(
    /// Numbers the sessions between one primary and one replica; the higher one is the newer.
    SessionNumber
);

impl SessionNumber {
    /// A primary's first session with a replica.
    pub const FIRST: Self = Self(1);
}

number!(
    /// One connection, as the driver counts them. A number is never used twice by one driver, so
    /// that what arrives late from a closed link is recognised.
    LinkId
);
number!(
    /// A client's request at a primary, numbered by the driver.
    RequestId
);
number!(
    /// A way over which requests come to a primary, such as a connection of a client; numbered by
    /// the driver, from 1 on, and not used again at this primary.
    PathNumber
);
number!(
    /// The operations that one primary sends, in the order in which it sent them.
    Sequence
);
number!(
    /// An operation that a replica has accepted, or a range that its rebuild holds, numbered by it.
    OperationNumber
);
number!(
    /// One attempt to copy one region, numbered by the rebuilding replica.
    CopyToken
);
number!(
    /// One question of a rebuilding replica whether writes are finished, numbered by it.
    BarrierNumber
);
number!(
    /// One question of a primary whether a replica is there, numbered by the primary.
    PingNumber
);
number!(
    /// The cluster locks of one primary, numbered by it: a higher one takes the place of those
    /// before.
    ClusterLockNumber
);
number!(
    /// A call to the coordinator, numbered by the primary.
    CoordinatorCall
);
number!(
    /// An operator's command at a primary, numbered by the driver.
    CommandId
);

/// A primary: which node, and which incarnation of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PrimaryId {
    /// The node on which the volume is attached.
    pub node: NodeId,
    /// Drawn anew at each attach.
    pub incarnation: Incarnation,
}

/// A write, by who has sent it and its place among that one's operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WriteId {
    pub primary: PrimaryId,
    pub sequence: Sequence,
}

#[cfg(test)]
mod tests;
