//! Where the data of a quickstart goes: a mounted filesystem, or an NBD export used directly.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use super::nbd::NbdClient;
use super::source::SourceFile;

/// Bytes that the load goes round in.
pub const LOAD_SPAN: u64 = 64 << 20;

/// Where files are put and read back.
pub trait Store {
    /// Puts the next file; returns its place, for [`Store::get`].
    ///
    /// # Errors
    /// If it cannot be written.
    fn put(&mut self, file: &SourceFile, content: &[u8]) -> io::Result<Place>;

    /// Makes everything put so far durable.
    ///
    /// # Errors
    /// If that fails.
    fn flush(&mut self) -> io::Result<()>;

    /// Reads back what was put.
    ///
    /// # Errors
    /// If it cannot be read.
    fn get(&mut self, place: &Place) -> io::Result<Vec<u8>>;

    /// A second way in, for the load.
    ///
    /// # Errors
    /// If it cannot be opened.
    fn load_target(&self) -> io::Result<Box<dyn LoadTarget>>;
}

/// Where a file was put.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A file.
    Path(PathBuf),
    /// Bytes of the volume itself.
    Range {
        /// The first byte.
        offset: u64,
        /// How many bytes it has.
        length: u64,
    },
}

/// What the load writes to: [`LOAD_SPAN`] bytes.
pub trait LoadTarget: Send {
    /// Writes and makes it durable.
    ///
    /// # Errors
    /// If that fails.
    fn write_durably(&mut self, offset: u64, content: &[u8]) -> io::Result<()>;
}

/// A mounted filesystem.
#[derive(Debug)]
pub struct Mounted {
    /// Where it is mounted.
    pub point: PathBuf,
}

impl Store for Mounted {
    fn put(&mut self, file: &SourceFile, content: &[u8]) -> io::Result<Place> {
        let path = self.point.join(file.path.strip_prefix("/").unwrap_or(&file.path));
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)?;
        }
        File::create(&path)?.write_all(content)?;
        Ok(Place::Path(path))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(File::open(&self.point)?)?)
    }

    fn get(&mut self, place: &Place) -> io::Result<Vec<u8>> {
        match place {
            Place::Path(path) => fs::read(path),
            Place::Range { .. } => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    fn load_target(&self) -> io::Result<Box<dyn LoadTarget>> {
        Ok(Box::new(File::create(self.point.join("load"))?))
    }
}

impl LoadTarget for File {
    fn write_durably(&mut self, offset: u64, content: &[u8]) -> io::Result<()> {
        self.write_all_at(content, offset)?;
        self.sync_data()
    }
}

/// An NBD export.
#[derive(Debug)]
pub struct Exported {
    socket: PathBuf,
    export: String,
    client: NbdClient,
    next: u64,
}

impl Exported {
    /// Connects to an export.
    ///
    /// # Errors
    /// If it is not there.
    pub fn connect(socket: &Path, export: &str) -> io::Result<Self> {
        let client = NbdClient::connect(socket, export)?;
        Ok(Self { socket: socket.to_owned(), export: export.to_owned(), client, next: 0 })
    }
}

impl Store for Exported {
    fn put(&mut self, _file: &SourceFile, content: &[u8]) -> io::Result<Place> {
        let length = content.len() as u64;
        let offset = self.next;
        if offset + length > self.client.size.saturating_sub(LOAD_SPAN) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let mut padded = content.to_vec();
        padded.resize(content.len().next_multiple_of(4096), 0);
        self.client.write(offset, &padded)?;
        self.next += padded.len() as u64;
        Ok(Place::Range { offset, length })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.client.flush()
    }

    fn get(&mut self, place: &Place) -> io::Result<Vec<u8>> {
        let Place::Range { offset, length } = place else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let length = usize::try_from(*length).map_err(io::Error::other)?;
        let mut content = vec![0; length.next_multiple_of(4096)];
        self.client.read(*offset, &mut content)?;
        content.truncate(length);
        Ok(content)
    }

    fn load_target(&self) -> io::Result<Box<dyn LoadTarget>> {
        let client = NbdClient::connect(&self.socket, &self.export)?;
        Ok(Box::new(ExportedLoad { start: client.size - LOAD_SPAN, client }))
    }
}

struct ExportedLoad {
    client: NbdClient,
    start: u64,
}

impl LoadTarget for ExportedLoad {
    fn write_durably(&mut self, offset: u64, content: &[u8]) -> io::Result<()> {
        self.client.write(self.start + offset, content)?;
        self.client.flush()
    }
}
