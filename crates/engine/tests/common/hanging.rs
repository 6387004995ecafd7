//! A file that hangs, is slow to be zeroed, or can't be read in parts, when a test wants it to:
//! served through FUSE by threads, over the file itself.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::ops::Range;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// What the server answers are, in one of the kernel's requests: bytes, or an error's number.
type Answer = Result<Vec<u8>, i32>;

/// See the module's documentation.
pub struct HangingFile {
    path: PathBuf,
    gate: Arc<Gate>,
}

#[derive(Default)]
struct Gate {
    is_shut: Mutex<bool>,
    /// Bytes that can't be read.
    lost: Mutex<Range<u64>>,
    opened: Condvar,
    zeroing: Mutex<Zeroing>,
}

/// How long it takes to zero a range, however long that is, and how many have been begun.
#[derive(Default, Clone, Copy)]
struct Zeroing {
    takes: Duration,
    begun: u32,
}

impl HangingFile {
    /// Mounts it over a file. `None` without the right to.
    pub fn over(path: &Path) -> Option<Self> {
        let backing = OpenOptions::new().read(true).write(true).open(path).expect("opens");
        let device = OpenOptions::new().read(true).write(true).open("/dev/fuse").ok()?;
        mount(path, device.as_raw_fd()).ok()?;
        let gate = Arc::new(Gate::default());
        for _ in 0..2 {
            let (device, backing) = (device.try_clone().expect("a copy"), backing.try_clone());
            let (gate, backing) = (gate.clone(), backing.expect("a copy"));
            std::thread::spawn(move || serve(device, &backing, &gate));
        }
        Some(Self { path: path.to_owned(), gate })
    }

    /// From now on nothing is answered, or all is again.
    pub fn hang(&self, hangs: bool) {
        *self.gate.is_shut.lock().expect("held by nobody who panicked") = hangs;
        self.gate.opened.notify_all();
    }

    /// From now on zeroing a range takes so long.
    pub fn slow_zeroing(&self, takes: Duration) {
        self.gate.zeroing.lock().expect("held by nobody who panicked").takes = takes;
    }

    /// How many ranges it has begun to zero.
    pub fn zeroings(&self) -> u32 {
        self.gate.zeroing.lock().expect("held by nobody who panicked").begun
    }

    /// Takes it away from its path, where the file itself is again. Who has it open keeps it.
    pub fn unmount(&self) {
        self.unmount_with(libc::MNT_DETACH);
    }

    fn unmount_with(&self, flags: libc::c_int) {
        let path = CString::new(self.path.as_os_str().as_bytes()).expect("a path");
        // SAFETY: it is a string that ends with a zero.
        unsafe { libc::umount2(path.as_ptr(), flags) };
    }

    /// From now on a read that touches these bytes fails.
    pub fn lose(&self, bytes: Range<u64>) {
        *self.gate.lost.lock().expect("held by nobody who panicked") = bytes;
    }
}

impl Drop for HangingFile {
    fn drop(&mut self) {
        self.hang(false);
        // Requests that are under way fail now. A process can't end while one of its threads waits
        // for an answer that another one of its threads would have given.
        self.unmount_with(libc::MNT_FORCE);
        self.unmount();
    }
}

fn mount(path: &Path, device: RawFd) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let options = CString::new(format!("fd={device},rootmode=100600,user_id=0,group_id=0"))?;
    let (name, kind) = (c"hanging".as_ptr(), c"fuse".as_ptr());
    // SAFETY: all are strings that end with a zero.
    match unsafe { libc::mount(name, path.as_ptr(), kind, 0, options.as_ptr().cast()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Answers the kernel's requests until the file is unmounted.
fn serve(mut device: File, backing: &File, gate: &Gate) {
    let mut request = vec![0; (1 << 20) + 4096];
    while let Ok(length) = device.read(&mut request) {
        let request = &request[..length];
        let (operation, unique) = (u32_at(request, 4), u64_at(request, 8));
        // FORGET, BATCH_FORGET and INTERRUPT have no answer.
        if matches!(operation, 2 | 42 | 36) {
            continue;
        }
        let shut = gate.is_shut.lock().expect("held by nobody who panicked");
        drop(gate.opened.wait_while(shut, |is_shut| *is_shut));
        if operation == 43 {
            gate.zero();
        }
        let is_lost = operation == 15 && gate.loses(&request[40..]);
        let answer = match is_lost {
            true => Err(libc::EIO),
            false => answer(operation, &request[40..], backing),
        };
        let (error, bytes) = answer.map_or_else(|error| (-error, Vec::new()), |bytes| (0, bytes));
        let mut reply = Vec::new();
        reply.extend((16 + bytes.len() as u32).to_ne_bytes());
        reply.extend(error.to_ne_bytes());
        reply.extend(unique.to_ne_bytes());
        reply.extend(bytes);
        // The request may have been interrupted.
        let _ = device.write(&reply);
    }
}

impl Gate {
    fn zero(&self) {
        let mut zeroing = self.zeroing.lock().expect("held by nobody who panicked");
        zeroing.begun += 1;
        let takes = zeroing.takes;
        drop(zeroing);
        std::thread::sleep(takes);
    }

    /// Whether a read, of which this is the body, touches what is lost.
    fn loses(&self, body: &[u8]) -> bool {
        let (offset, length) = (u64_at(body, 8), u64::from(u32_at(body, 16)));
        let lost = self.lost.lock().expect("held by nobody who panicked");
        offset < lost.end && lost.start < offset + length
    }
}

fn answer(operation: u32, body: &[u8], backing: &File) -> Answer {
    let failed = |error: io::Error| error.raw_os_error().unwrap_or(libc::EIO);
    match operation {
        // GETATTR and SETATTR.
        3 | 4 => Ok(attributes(backing.metadata().map_err(failed)?.len())),
        // OPEN: input and output pass the page cache by.
        14 => Ok([&0u64.to_ne_bytes()[..], &1u32.to_ne_bytes(), &[0; 4]].concat()),
        // READ
        15 => {
            let mut bytes = vec![0; u32_at(body, 16) as usize];
            let count = backing.read_at(&mut bytes, u64_at(body, 8)).map_err(failed)?;
            bytes.truncate(count);
            Ok(bytes)
        }
        // WRITE
        16 => {
            let length = u32_at(body, 16);
            let data = &body[40..40 + length as usize];
            backing.write_all_at(data, u64_at(body, 8)).map_err(failed)?;
            Ok([length.to_ne_bytes(), [0; 4]].concat())
        }
        // RELEASE, FSYNC and FLUSH.
        18 | 20 | 25 => Ok(Vec::new()),
        // INIT: version 7.31, writes of up to 1 MiB, many requests at once.
        26 => {
            let mut out = [7u32, 31, 1 << 20, 1 << 5 | 1 << 22, 0x0040_0040, 1 << 20, 1, 256];
            out[4] = 0x0400_0400;
            let mut bytes: Vec<u8> = out.iter().flat_map(|word| word.to_ne_bytes()).collect();
            bytes.resize(64, 0);
            Ok(bytes)
        }
        // FALLOCATE
        43 => {
            let mode = rustix::fs::FallocateFlags::from_bits_retain(u32_at(body, 24));
            let done = rustix::fs::fallocate(backing, mode, u64_at(body, 8), u64_at(body, 16));
            done.map(|()| Vec::new()).map_err(|error| error.raw_os_error())
        }
        // LSEEK
        46 => {
            let whence = if u32_at(body, 16) == libc::SEEK_DATA as u32 {
                rustix::fs::SeekFrom::Data(u64_at(body, 8))
            } else {
                rustix::fs::SeekFrom::Hole(u64_at(body, 8))
            };
            let at = rustix::fs::seek(backing, whence).map_err(|error| error.raw_os_error())?;
            Ok(at.to_ne_bytes().to_vec())
        }
        _ => Err(libc::ENOSYS),
    }
}

fn attributes(size: u64) -> Vec<u8> {
    let mut bytes = vec![0; 16];
    bytes.extend([1, size, size / 512, 0, 0, 0].iter().flat_map(|word: &u64| word.to_ne_bytes()));
    let rest = [0, 0, 0, libc::S_IFREG | 0o600, 1, 0, 0, 0, 4096, 0];
    bytes.extend(rest.iter().flat_map(|word: &u32| word.to_ne_bytes()));
    bytes
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
