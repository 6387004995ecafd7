//! What a peer's bytes may be instead of a frame.

use thiserror::Error;

/// Why bytes are not a frame. The connection carries nothing that can be relied on any more and
/// must be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum FrameError {
    /// The first bytes are not those of a frame.
    #[error(
        "the peer does not speak evenkeel's replication protocol: check the address and the port"
    )]
    Magic,
    /// The header's checksum does not match.
    #[error("a frame's header was damaged on its way: check the network")]
    HeaderChecksum,
    /// The body's checksum does not match.
    #[error("a frame's body was damaged on its way: check the network")]
    BodyChecksum,
    /// A version that was not agreed on.
    #[error("a frame is of version {0}, which was not agreed on: upgrade the older node")]
    Version(u16),
    /// A message unknown here.
    #[error("message type {0} is unknown here: upgrade this node")]
    Type(u16),
    /// A length above the limits, or one that contradicts the message.
    #[error("a frame of message type {0} has an impossible length: report this defect")]
    Length(u16),
    /// A field whose value has no meaning, or that the message does not use.
    #[error("a frame of message type {0} has a field without meaning: report this defect")]
    Field(u16),
    /// A view that is not valid or can't be read.
    #[error("a frame's view can't be used: {0}")]
    View(#[from] evenkeel_format::ViewFormatError),
    /// To the encoder: the payload is missing, superfluous, or of the wrong length.
    #[error("the payload does not fit the message: report this defect")]
    Payload,
}
