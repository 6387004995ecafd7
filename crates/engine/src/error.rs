//! Errors that orders are answered with, and by whom the answer is heard.

/// Called once with the result, on a worker's thread; it must not block.
pub type Answer<T> = Box<dyn FnOnce(T) + Send>;

/// Why a replica cannot be opened, a volume attached, or a front end added.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The volume is attached here already.
    #[error("the volume is attached on this node already: detach it first")]
    AlreadyAttached,
    /// The replica is open already.
    #[error("the replica is open already")]
    AlreadyOpen,
    /// There is no such volume, replica or front end in the engine.
    #[error("not open on this node: open or attach it first")]
    Unknown,
    /// The disk needs larger blocks than the volume has.
    #[error(
        "the disk's logical block size is {disk} bytes and the volume's is {volume}: create the volume with --block-size {disk}, or use another disk"
    )]
    BlockSize {
        /// The disk's smallest unit of direct I/O, in bytes.
        disk: u32,
        /// The volume's logical block size.
        volume: u32,
    },
    /// The replica's view in the superblock and the configuration differ.
    #[error(
        "the replica's superblock belongs to another replica or another view: this is a defect of the caller"
    )]
    Mismatch,
    /// The system refused something.
    #[error("{0}")]
    System(#[from] std::io::Error),
    /// Something is being saved just now.
    #[error("the replica is saving something just now: try again")]
    Busy,
    /// A replica of the mirror lacks writes, so bitmaps count.
    #[error("a replica of its mirror lacks writes: let it become in-sync first")]
    Bitmaps,
    /// The engine has been stopped.
    #[error("the engine is stopped")]
    Stopped,
}
