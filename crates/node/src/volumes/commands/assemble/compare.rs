//! The data of two replicas, compared block by block; what differs is saved if asked for.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use evenkeel_api::types::{DifferingRange, SplitDifference};
use evenkeel_core::{NodeId, ReplicaId};
use rustix::fs::{SeekFrom, seek};

use super::Replica;
use crate::peer::requests::read_data;
use crate::state::sync_parent;
use crate::volumes::Node;

/// Bytes that are compared at once; also the most that a node reads for another.
pub const PIECE: u64 = 1 << 20;
/// The unit in which differences are told.
const BLOCK: usize = evenkeel_core::settings::BLOCK as usize;
/// Most ranges that are listed.
const MAX_RANGES: usize = 10_000;
/// How long a node may take to read a piece.
const DEADLINE: Duration = Duration::from_secs(30);

/// Two replicas of one mirror.
pub(super) struct Pair<'a> {
    pub mirror: usize,
    pub kept: &'a Replica,
    pub lost: &'a Replica,
}

/// What differs.
#[derive(Debug, Default)]
pub(super) struct Difference {
    blocks: u64,
    ranges: Vec<DifferingRange>,
    incomplete: bool,
}

impl Difference {
    pub fn bytes(&self) -> u64 {
        self.blocks * BLOCK as u64
    }

    pub fn of_branch(self, branch: usize) -> SplitDifference {
        SplitDifference {
            branch,
            blocks: self.blocks,
            bytes: self.bytes(),
            ranges: self.ranges,
            complete: !self.incomplete,
        }
    }

    /// Notes a block that differs; they come in ascending order.
    fn note(&mut self, mirror: usize, offset: u64) {
        self.blocks += 1;
        let length = BLOCK as u64;
        let has_room = self.ranges.len() < MAX_RANGES;
        match self.ranges.last_mut() {
            Some(last) if last.mirror == mirror && last.offset + last.length == offset => {
                last.length += length;
            }
            _ if has_room => {
                self.ranges.push(DifferingRange { mirror, offset, length });
            }
            _ => self.incomplete = true,
        }
    }
}

/// Where a replica's data can be read.
enum Source {
    Here { file: File, offset: u64 },
    There { node: NodeId, replica: ReplicaId },
}

impl Source {
    fn of(node: &Node, replica: &Replica) -> io::Result<Self> {
        if replica.node != node.identity.node {
            return Ok(Self::There { node: replica.node, replica: replica.superblock.replica });
        }
        let file = open_data(&replica.path)?;
        Ok(Self::Here { file, offset: replica.superblock.data_offset })
    }

    async fn read(&self, node: &Arc<Node>, at: u64, length: u64) -> io::Result<Vec<u8>> {
        match self {
            Self::Here { file, offset } => {
                let (file, at) = (file.try_clone()?, offset + at);
                let read = tokio::task::spawn_blocking(move || read_piece(&file, at, length));
                read.await.map_err(io::Error::other)?
            }
            Self::There { node: id, replica } => {
                let member = node.coordinator.node(*id);
                let member = member.ok_or_else(|| io::Error::other("its node is not known"))?;
                read_data(&node.peers, &member, *replica, at, length, DEADLINE).await
            }
        }
    }
}

/// Opens a file or device whose data are to be read in order: through the page cache, which reads
/// ahead, and without what it held before.
fn open_data(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
    Ok(file)
}

/// Reads data of a file or device that may be in use. Holes of files are not read.
///
/// # Errors
/// If the disk cannot be read.
pub fn read_piece(file: &File, at: u64, length: u64) -> io::Result<Vec<u8>> {
    if at.checked_add(length).is_none_or(|end| crate::disks::length(file).is_ok_and(|l| l < end)) {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the disk is shorter"));
    }
    let mut piece = vec![0; length as usize];
    match seek(file, SeekFrom::Data(at)) {
        Ok(data) if data >= at + length => return Ok(piece),
        Err(rustix::io::Errno::NXIO) => return Ok(piece),
        _ => {}
    }
    file.read_exact_at(&mut piece, at)?;
    Ok(piece)
}

/// Compares a pair. With `save`, blocks of the lost replica that differ are written to that file at
/// the same offsets, and their list beside it; all is durable when this returns.
///
/// # Errors
/// If a replica cannot be read, or the file is there already or cannot be written.
pub(super) async fn pair(
    node: &Arc<Node>,
    pair: &Pair<'_>,
    difference: &mut Difference,
    save: Option<&Path>,
) -> io::Result<()> {
    let (kept, lost) = (Source::of(node, pair.kept)?, Source::of(node, pair.lost)?);
    let length = pair.kept.superblock.view.replica_size();
    let length = length.min(pair.lost.superblock.data_length);
    let mut saving = save.map(|path| Saving::begin(path, length)).transpose()?;
    let mut at = 0;
    while at < length {
        let count = PIECE.min(length - at);
        let both = tokio::join!(kept.read(node, at, count), lost.read(node, at, count));
        let (ours, theirs) = (both.0?, both.1?);
        for block in differing(&ours, &theirs) {
            let offset = at + (block * BLOCK) as u64;
            difference.note(pair.mirror, offset);
            if let Some(saving) = &mut saving {
                let end = theirs.len().min((block + 1) * BLOCK);
                saving.block(offset, &theirs[block * BLOCK..end])?;
            }
        }
        at += count;
    }
    saving.map_or(Ok(()), |saving| saving.end(pair))
}

/// The numbers of blocks that differ.
fn differing<'a>(ours: &'a [u8], theirs: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
    let blocks = ours.chunks(BLOCK).zip(theirs.chunks(BLOCK)).enumerate();
    blocks.filter(|(_, (ours, theirs))| ours != theirs).map(|(block, _)| block)
}

/// A file of differing blocks, and the list of them.
struct Saving {
    path: PathBuf,
    file: File,
    list_path: PathBuf,
    /// Runs of blocks: first byte and bytes. The one that grows is kept back.
    list: io::BufWriter<File>,
    run: Option<(u64, u64)>,
}

impl Saving {
    fn begin(path: &Path, length: u64) -> io::Result<Self> {
        let mut list_path = path.as_os_str().to_owned();
        list_path.push(".list");
        let list_path = PathBuf::from(list_path);
        // What a volume holds is for nobody else.
        let create =
            |path: &Path| OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        let file = create(path)?;
        file.set_len(length)?;
        let mut list = io::BufWriter::new(create(&list_path)?);
        writeln!(list, "# evenkeel differing blocks, version 1: first byte, bytes")?;
        Ok(Self { path: path.to_owned(), file, list_path, list, run: None })
    }

    fn block(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)?;
        let length = bytes.len() as u64;
        match &mut self.run {
            Some((start, run)) if *start + *run == offset => *run += length,
            _ => {
                self.end_run()?;
                self.run = Some((offset, length));
            }
        }
        Ok(())
    }

    fn end_run(&mut self) -> io::Result<()> {
        match self.run.take() {
            Some((start, length)) => writeln!(self.list, "{start} {length}"),
            None => Ok(()),
        }
    }

    /// Makes both files durable, with their names.
    fn end(mut self, pair: &Pair<'_>) -> io::Result<()> {
        self.end_run()?;
        let replica = pair.lost.superblock.replica;
        writeln!(self.list, "# end, of replica {replica}, mirror {}", pair.mirror)?;
        self.list.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
        self.file.sync_all()?;
        sync_parent(&self.path)?;
        sync_parent(&self.list_path)
    }
}

#[cfg(test)]
mod tests;
