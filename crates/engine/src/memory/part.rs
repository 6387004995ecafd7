//! A part of what is sent or written in one system call.

use std::ops::Deref;

use super::Buffer;

/// A part of what is written at once.
#[derive(Debug, Clone)]
pub enum Part {
    /// A few bytes, as a header.
    Bytes(Vec<u8>),
    /// Data.
    Buffer(Buffer),
}

impl Deref for Part {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Buffer(buffer) => buffer,
        }
    }
}
