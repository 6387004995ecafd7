//! A FUSE filesystem that records: its files are those of another directory, and each write, zeroed
//! range and flush goes to the tape. It takes the place of the disk below the shipped engine.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem,
    FopenFlags, Generation, INodeNo, LockOwner, MountOption, OpenFlags, RenameFlags, ReplyAttr,
    ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen,
    ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek, statvfs};

use crate::tape::{Action, Tape};

/// The kernel keeps nothing: sizes change below it.
const KEPT: Duration = Duration::ZERO;

/// An open file of the directory.
#[derive(Debug, Clone)]
struct Known {
    name: Arc<str>,
    file: Arc<File>,
}

/// See the module's documentation.
#[derive(Debug)]
struct Recorder {
    disk: usize,
    directory: PathBuf,
    tape: Arc<Tape>,
    known: Mutex<HashMap<u64, Known>>,
}

/// Shows `directory` at `mount_point`, and records what is done there as done to this disk.
///
/// # Errors
/// If it can't be mounted (no FUSE, not root).
pub fn mount(
    disk: usize,
    directory: &Path,
    mount_point: &Path,
    tape: Arc<Tape>,
) -> io::Result<BackgroundSession> {
    let recorder =
        Recorder { disk, directory: directory.to_owned(), tape, known: Mutex::default() };
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName("evenkeel-powercut".into())];
    fuser::spawn_mount(recorder, mount_point, &config)
}

impl Recorder {
    fn known(&self) -> MutexGuard<'_, HashMap<u64, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn of(&self, inode: INodeNo) -> io::Result<Known> {
        let found = self.known().get(&inode.0).cloned();
        found.ok_or_else(|| io::Error::from_raw_os_error(rustix::io::Errno::STALE.raw_os_error()))
    }

    /// Opens a file of the directory, and remembers it by its inode.
    fn meet(&self, name: &OsStr, create: bool) -> io::Result<FileAttr> {
        let path = self.directory.join(name);
        let file = OpenOptions::new().read(true).write(true).create(create).open(&path)?;
        let attributes = attributes(&file.metadata()?);
        let name: Arc<str> = name.to_string_lossy().into();
        let known = Known { name, file: Arc::new(file) };
        self.known().insert(attributes.ino.0, known);
        Ok(attributes)
    }

    fn look(&self, inode: INodeNo) -> io::Result<FileAttr> {
        match inode {
            INodeNo::ROOT => {
                let found = attributes(&fs::metadata(&self.directory)?);
                Ok(FileAttr { ino: INodeNo::ROOT, ..found })
            }
            inode => Ok(attributes(&self.of(inode)?.file.metadata()?)),
        }
    }

    fn resize(&self, inode: INodeNo, size: Option<u64>) -> io::Result<FileAttr> {
        if let Some(size) = size {
            self.of(inode)?.file.set_len(size)?;
        }
        self.look(inode)
    }

    fn load(&self, inode: INodeNo, offset: u64, size: u32) -> io::Result<Vec<u8>> {
        let file = self.of(inode)?.file;
        let mut data = vec![0; size as usize];
        let mut done = 0;
        while done < data.len() {
            match file.read_at(&mut data[done..], offset + done as u64)? {
                0 => break,
                count => done += count,
            }
        }
        data.truncate(done);
        Ok(data)
    }

    fn store(&self, inode: INodeNo, offset: u64, data: &[u8], durable: bool) -> io::Result<()> {
        let (known, begun) = (self.of(inode)?, self.tape.now());
        known.file.write_all_at(data, offset)?;
        let action = Action::Write { offset, data: data.into(), durable };
        self.tape.record(self.disk, &known.name, begun, action);
        Ok(())
    }

    fn flush(&self, inode: INodeNo) -> io::Result<()> {
        let (known, begun) = (self.of(inode)?, self.tape.now());
        self.tape.record(self.disk, &known.name, begun, Action::Flush);
        Ok(())
    }

    fn allocate(&self, inode: INodeNo, mode: i32, offset: u64, length: u64) -> io::Result<()> {
        let (known, begun) = (self.of(inode)?, self.tape.now());
        let mode = FallocateFlags::from_bits_retain(mode.cast_unsigned());
        fallocate(&*known.file, mode, offset, length)?;
        if mode.intersects(FallocateFlags::PUNCH_HOLE | FallocateFlags::ZERO_RANGE) {
            self.tape.record(self.disk, &known.name, begun, Action::Zero { offset, length });
        }
        Ok(())
    }

    fn seek_to(&self, inode: INodeNo, offset: i64, whence: i32) -> io::Result<i64> {
        let known = self.of(inode)?;
        let offset = u64::try_from(offset).map_err(io::Error::other)?;
        let to = match whence {
            3 => SeekFrom::Data(offset),
            4 => SeekFrom::Hole(offset),
            _ => return Err(io::ErrorKind::Unsupported.into()),
        };
        Ok(seek(&*known.file, to)?.cast_signed())
    }

    fn names(&self) -> io::Result<Vec<(u64, String)>> {
        let entries = fs::read_dir(&self.directory)?.map(|entry| {
            let entry = entry?;
            Ok((entry.metadata()?.ino(), entry.file_name().to_string_lossy().into_owned()))
        });
        entries.collect()
    }

    /// Gives a file another name.
    fn move_file(&self, name: &OsStr, new: &OsStr) -> io::Result<()> {
        let inode = fs::metadata(self.directory.join(name))?.ino();
        fs::rename(self.directory.join(name), self.directory.join(new))?;
        if let Some(known) = self.known().get_mut(&inode) {
            known.name = new.to_string_lossy().into();
        }
        Ok(())
    }
}

fn attributes(found: &fs::Metadata) -> FileAttr {
    let is_directory = found.is_dir();
    FileAttr {
        ino: INodeNo(found.ino()),
        size: found.size(),
        blocks: found.blocks(),
        atime: SystemTime::UNIX_EPOCH,
        mtime: SystemTime::UNIX_EPOCH,
        ctime: SystemTime::UNIX_EPOCH,
        crtime: SystemTime::UNIX_EPOCH,
        kind: if is_directory { FileType::Directory } else { FileType::RegularFile },
        perm: if is_directory { 0o755 } else { 0o600 },
        nlink: 1,
        uid: found.uid(),
        gid: found.gid(),
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

impl Filesystem for Recorder {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.meet(name, false) {
            Ok(found) => reply.entry(&KEPT, &found, Generation(0)),
            Err(error) => reply.error(error.into()),
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.look(inode) {
            Ok(found) => reply.attr(&KEPT, &found),
            Err(error) => reply.error(error.into()),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        inode: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        match self.resize(inode, size) {
            Ok(found) => reply.attr(&KEPT, &found),
            Err(error) => reply.error(error.into()),
        }
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn create(
        &self,
        _: &Request,
        _: INodeNo,
        name: &OsStr,
        _: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        let direct = FopenFlags::FOPEN_DIRECT_IO;
        match self.meet(name, true) {
            Ok(found) => reply.created(&KEPT, &found, Generation(0), FileHandle(0), direct),
            Err(error) => reply.error(error.into()),
        }
    }

    fn read(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.load(inode, offset, size) {
            Ok(data) => reply.data(&data),
            Err(error) => reply.error(error.into()),
        }
    }

    fn write(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let durable = flags.0 & libc::O_DSYNC != 0;
        match self.store(inode, offset, data, durable) {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(error.into()),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, inode: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        answer(reply, self.flush(inode));
    }

    fn fallocate(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        answer(reply, self.allocate(inode, mode, offset, length));
    }

    fn lseek(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        match self.seek_to(inode, offset, whence) {
            Ok(offset) => reply.offset(offset),
            Err(error) => reply.error(error.into()),
        }
    }

    fn rename(
        &self,
        _: &Request,
        _: INodeNo,
        name: &OsStr,
        _: INodeNo,
        new: &OsStr,
        _: RenameFlags,
        reply: ReplyEmpty,
    ) {
        answer(reply, self.move_file(name, new));
    }

    fn unlink(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(reply, fs::remove_file(self.directory.join(name)));
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    fn readdir(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let names = match self.names() {
            Ok(names) => names,
            Err(error) => return reply.error(error.into()),
        };
        for (place, (inode, name)) in names.into_iter().enumerate().skip(offset as usize) {
            if reply.add(INodeNo(inode), place as u64 + 1, FileType::RegularFile, name) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        match statvfs(&self.directory) {
            Ok(found) => reply.statfs(
                found.f_blocks,
                found.f_bfree,
                found.f_bavail,
                found.f_files,
                found.f_ffree,
                found.f_bsize as u32,
                255,
                found.f_frsize as u32,
            ),
            Err(error) => reply.error(Errno::from_i32(error.raw_os_error())),
        }
    }
}

fn answer(reply: ReplyEmpty, result: io::Result<()>) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error.into()),
    }
}
