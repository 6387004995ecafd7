//! Bytes on disk: superblocks.
