//! Which byte of the volume lies where: its geometry, and the stripe over the mirrors.

/// Size and layout of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Usable size in bytes, a multiple of the block size.
    pub size: u64,
    /// Logical block size: 512 or 4096 bytes.
    pub block_size: u32,
    /// Bytes that go to one mirror before the next one's turn. Of no effect with one mirror.
    pub chunk: u32,
}

impl Geometry {
    /// Whether a volume of that geometry, after it has grown or not, is of this one.
    #[must_use]
    pub const fn is_grown_from(self, old: Self) -> bool {
        self.size >= old.size && self.block_size == old.block_size && self.chunk == old.chunk
    }
}

/// A run of bytes that lies on one mirror without a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Index of the mirror.
    pub mirror: usize,
    /// First byte in the mirror.
    pub offset: u64,
    /// Bytes.
    pub length: u32,
    /// First byte, counted from the start of the request.
    pub from: u64,
}

/// Bytes that each replica must hold for a volume of this geometry over this many mirrors.
#[must_use]
pub fn replica_size(geometry: Geometry, mirrors: usize) -> u64 {
    if mirrors <= 1 {
        return geometry.size;
    }
    let chunks = geometry.size.div_ceil(u64::from(geometry.chunk));
    chunks.div_ceil(mirrors as u64) * u64::from(geometry.chunk)
}

/// Cuts a range of the volume into pieces that each lie on one mirror and are no longer than
/// `longest`.
pub fn pieces(
    geometry: Geometry,
    mirrors: usize,
    offset: u64,
    length: u64,
    longest: u32,
) -> impl Iterator<Item = Piece> {
    let mut from = 0;
    core::iter::from_fn(move || {
        (from < length).then(|| {
            let piece = piece_at(geometry, mirrors, offset + from, length - from, longest, from);
            from += u64::from(piece.length);
            piece
        })
    })
}

/// The share of each mirror in a range of the volume. In the mirror's own space a share has no
/// gaps, however long the range is.
pub fn shares(
    geometry: Geometry,
    mirrors: usize,
    offset: u64,
    length: u64,
) -> impl Iterator<Item = (usize, core::ops::Range<u64>)> {
    (0..mirrors.max(1)).filter_map(move |mirror| {
        let start = share_below(geometry, mirrors, mirror, offset);
        let end = share_below(geometry, mirrors, mirror, offset + length);
        (start < end).then_some((mirror, start..end))
    })
}

/// How many of the volume's first `bytes` bytes lie on `mirror`.
fn share_below(geometry: Geometry, mirrors: usize, mirror: usize, bytes: u64) -> u64 {
    if mirrors <= 1 {
        return bytes;
    }
    let (chunk, mirrors, mirror) = (u64::from(geometry.chunk), mirrors as u64, mirror as u64);
    let (row, in_row) = (bytes / (chunk * mirrors), bytes % (chunk * mirrors));
    row * chunk + in_row.saturating_sub(mirror * chunk).min(chunk)
}

/// Where in the volume this byte of a mirror lies.
#[must_use]
pub fn volume_offset(geometry: Geometry, mirrors: usize, mirror: usize, offset: u64) -> u64 {
    if mirrors <= 1 {
        return offset;
    }
    let chunk = u64::from(geometry.chunk);
    (offset / chunk * mirrors as u64 + mirror as u64) * chunk + offset % chunk
}

fn piece_at(
    geometry: Geometry,
    mirrors: usize,
    at: u64,
    left: u64,
    longest: u32,
    from: u64,
) -> Piece {
    let longest = u64::from(longest);
    if mirrors <= 1 {
        return Piece { mirror: 0, offset: at, length: left.min(longest) as u32, from };
    }
    let (chunk, mirrors) = (u64::from(geometry.chunk), mirrors as u64);
    let (number, within) = (at / chunk, at % chunk);
    Piece {
        mirror: (number % mirrors) as usize,
        offset: number / mirrors * chunk + within,
        length: left.min(longest).min(chunk - within) as u32,
        from,
    }
}

#[cfg(test)]
mod tests;
