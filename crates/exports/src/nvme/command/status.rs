//! Status codes (Base 4.2.3, and Base 6 for those of Fabrics commands).

/// Makes the enumeration and the way back from its numbers.
macro_rules! statuses {
    ($($(#[$doc:meta])* $name:ident = $number:literal,)*) => {
        /// How a command ended: status code type (three bits) and status code (eight bits).
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u16)]
        pub enum Status {
            $($(#[$doc])* $name = $number,)*
        }

        impl Status {
            /// The status of this number.
            #[must_use]
            pub const fn from_number(number: u16) -> Option<Self> {
                match number {
                    $($number => Some(Self::$name),)*
                    _ => None,
                }
            }

            #[cfg(test)]
            pub(super) const ALL: &[Self] = &[$(Self::$name),*];
        }
    };
}

statuses! {
    /// It did what was asked for.
    Success = 0x000,
    /// The opcode is unknown or not supported.
    InvalidOpcode = 0x001,
    /// A field is reserved, unsupported or out of range.
    InvalidField = 0x002,
    /// A command with this identifier is under way.
    IdentifierConflict = 0x003,
    /// Data could not be transferred.
    DataTransfer = 0x004,
    /// The controller failed.
    Internal = 0x006,
    /// Another command asked to abort it.
    AbortRequested = 0x007,
    /// Its queue was deleted.
    QueueDeleted = 0x008,
    /// The other half of the fused operation failed.
    FusedFailed = 0x009,
    /// The other half of the fused operation is missing.
    FusedMissing = 0x00a,
    /// There is no such namespace.
    InvalidNamespace = 0x00b,
    /// It came before another command that has to come first.
    Sequence = 0x00c,
    /// The data pointer has another length than the data.
    DataLength = 0x00f,
    /// The data pointer's type is not supported.
    DescriptorType = 0x011,
    /// More is asked to be compared and written at once than can be.
    AtomicUnitExceeded = 0x014,
    /// The data pointer begins outside of the capsule.
    DescriptorOffset = 0x016,
    /// Host identifiers of two formats are mixed.
    HostIdentifier = 0x018,
    /// The keep-alive timer expired.
    KeepAliveExpired = 0x019,
    /// The keep-alive time is invalid.
    KeepAliveInvalid = 0x01a,
    /// The namespace may not be written.
    WriteProtected = 0x020,
    /// It was interrupted: try again.
    Interrupted = 0x021,
    /// Data was damaged on its way: try again.
    TransientTransport = 0x022,
    /// The range ends behind the namespace.
    OutOfRange = 0x080,
    /// There is no space left.
    CapacityExceeded = 0x081,
    /// The namespace is not ready.
    NotReady = 0x082,
    /// Another host has reserved the namespace.
    ReservationConflict = 0x083,
    /// Command specific: the queue's identifier is invalid.
    InvalidQueue = 0x101,
    /// Command specific: the queue's size is invalid.
    InvalidQueueSize = 0x102,
    /// Command specific: too many Abort commands are under way.
    AbortLimit = 0x103,
    /// Command specific: too many Asynchronous Event Request commands are under way.
    EventLimit = 0x105,
    /// Command specific: there is no such log page.
    InvalidLogPage = 0x109,
    /// Command specific: the feature cannot be saved.
    NotSaveable = 0x10d,
    /// Command specific: the feature cannot be changed.
    NotChangeable = 0x10e,
    /// Connect and Disconnect: the record's format is not supported.
    IncompatibleFormat = 0x180,
    /// Connect: the controller is busy, or belongs to another host.
    ControllerBusy = 0x181,
    /// Connect: a parameter is invalid; the result says where.
    ConnectParameters = 0x182,
    /// Connect: this host is not permitted.
    ConnectHost = 0x184,
    /// Connect: a queue of this type is not possible here.
    QueueType = 0x185,
    /// Connect: the host must authenticate.
    AuthenticationRequired = 0x191,
    /// Media: data could not be written.
    WriteFault = 0x280,
    /// Media: data could not be read.
    Unrecovered = 0x281,
    /// Media: the data differs from what was compared with.
    CompareFailure = 0x285,
    /// Path: this controller cannot reach the namespace.
    InternalPath = 0x300,
    /// Path: the namespace's group is lost here.
    PersistentLoss = 0x301,
    /// Path: the namespace's group is inaccessible here.
    Inaccessible = 0x302,
    /// Path: the namespace's group changes its state.
    Transition = 0x303,
}

impl Status {
    /// Status code type and status code.
    #[must_use]
    pub const fn number(self) -> u16 {
        self as u16
    }

    /// Whether the same command would fail again, so that the host should not retry it.
    #[must_use]
    pub const fn is_final(self) -> bool {
        !matches!(
            self,
            Self::Success
                | Self::DataTransfer
                | Self::Internal
                | Self::AbortRequested
                | Self::QueueDeleted
                | Self::FusedFailed
                | Self::KeepAliveExpired
                | Self::Interrupted
                | Self::TransientTransport
                | Self::NotReady
                | Self::AbortLimit
                | Self::ControllerBusy
                | Self::InternalPath
                | Self::PersistentLoss
                | Self::Inaccessible
                | Self::Transition
        )
    }
}

#[cfg(test)]
mod tests;
