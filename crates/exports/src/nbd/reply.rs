//! Replies: simple ones, and chunks of structured ones. A structured reply here is always one
//! chunk.

use evenkeel_core::{Extent, RequestError};

use super::option::BASE_ALLOCATION_ID;
use super::request::ErrorNumber;

const SIMPLE_MAGIC: u32 = 0x6744_6698;
const CHUNK_MAGIC: u32 = 0x668e_33ef;
const DONE: u16 = 1;
const TYPE_OFFSET_DATA: u16 = 1;
const TYPE_BLOCK_STATUS: u16 = 5;
const TYPE_ERROR: u16 = (1 << 15) + 1;

const STATE_HOLE: u32 = 1;
const STATE_ZERO: u32 = 2;
/// Most extents in one answer; the client asks again for the rest.
const MAX_EXTENTS: usize = 8192;
/// Lengths in an answer are of 32 bits; this is the largest that keeps block boundaries.
const MAX_EXTENT: u64 = (u32::MAX as u64) & !4095;

/// A reply without data. Before the data of a read, if replies are not structured.
pub(super) fn simple(cookie: u64, error: Option<ErrorNumber>) -> [u8; 16] {
    let mut reply = [0; 16];
    reply[..4].copy_from_slice(&SIMPLE_MAGIC.to_be_bytes());
    reply[4..8].copy_from_slice(&error.map_or(0, |error| error as u32).to_be_bytes());
    reply[8..].copy_from_slice(&cookie.to_be_bytes());
    reply
}

fn chunk_header(cookie: u64, kind: u16, length: u32) -> [u8; 20] {
    let mut header = [0; 20];
    header[..4].copy_from_slice(&CHUNK_MAGIC.to_be_bytes());
    header[4..6].copy_from_slice(&DONE.to_be_bytes());
    header[6..8].copy_from_slice(&kind.to_be_bytes());
    header[8..16].copy_from_slice(&cookie.to_be_bytes());
    header[16..].copy_from_slice(&length.to_be_bytes());
    header
}

/// What comes before the data of a structured answer to a read.
pub(super) fn data_chunk(cookie: u64, offset: u64, length: u32) -> [u8; 28] {
    let mut header = [0; 28];
    header[..20].copy_from_slice(&chunk_header(cookie, TYPE_OFFSET_DATA, length + 8));
    header[20..].copy_from_slice(&offset.to_be_bytes());
    header
}

/// An error with the reason for people.
pub(super) fn error_chunk(cookie: u64, error: ErrorNumber, text: &str) -> Vec<u8> {
    let text = &text[..text.floor_char_boundary(1024)];
    let mut reply = chunk_header(cookie, TYPE_ERROR, 6 + text.len() as u32).to_vec();
    reply.extend_from_slice(&(error as u32).to_be_bytes());
    reply.extend_from_slice(&(text.len() as u16).to_be_bytes());
    reply.extend_from_slice(text.as_bytes());
    reply
}

/// The answer to a request for block status: at least one extent, from the start of the range.
pub(super) fn status_chunk(cookie: u64, extents: &[Extent], only_one: bool) -> Vec<u8> {
    let most = if only_one { 1 } else { MAX_EXTENTS };
    let merged = merged(extents, most);
    let mut reply = chunk_header(cookie, TYPE_BLOCK_STATUS, 4 + 8 * merged.len() as u32).to_vec();
    reply.extend_from_slice(&BASE_ALLOCATION_ID.to_be_bytes());
    for extent in merged {
        let state = if extent.allocated { 0 } else { STATE_HOLE | STATE_ZERO };
        reply.extend_from_slice(&(extent.length as u32).to_be_bytes());
        reply.extend_from_slice(&state.to_be_bytes());
    }
    reply
}

/// The first extents, with neighbours of one kind made one.
fn merged(extents: &[Extent], most: usize) -> Vec<Extent> {
    let mut merged: Vec<Extent> = Vec::new();
    for extent in extents.iter().filter(|extent| extent.length > 0) {
        let is_full = merged.len() == most;
        match merged.last_mut() {
            Some(last) if last.allocated == extent.allocated => {
                last.length = last.length.saturating_add(extent.length);
            }
            _ if is_full => break,
            _ => merged.push(*extent),
        }
    }
    // An extent cut short hides those behind it.
    if let Some(long) = merged.iter().position(|extent| extent.length > MAX_EXTENT) {
        merged.truncate(long + 1);
        merged[long].length = MAX_EXTENT;
    }
    merged
}

/// How a failed request is told to clients.
pub(super) const fn error_number(error: RequestError) -> ErrorNumber {
    match error {
        RequestError::Invalid => ErrorNumber::Invalid,
        RequestError::NoSpace => ErrorNumber::NoSpace,
        RequestError::Reserved => ErrorNumber::NotPermitted,
        RequestError::Fenced | RequestError::Detached => ErrorNumber::Shutdown,
        RequestError::Medium
        | RequestError::NoData
        | RequestError::NoCoordinator
        | RequestError::LostWrites
        | RequestError::Cancelled => ErrorNumber::Io,
    }
}

#[cfg(test)]
mod tests;
