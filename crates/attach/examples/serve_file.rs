//! Attaches a file as a block device, without replication: to try, test and measure the way from
//! the kernel to a front end by itself.
//!
//!     serve_file attach RUNTIME NAME FILE [loop|ublk] [resume|silent|unflushed]
//!     serve_file clean RUNTIME NAME
//!     serve_file waits RUNTIME NAME
//!
//! Prints the device's path, and serves until a line comes on standard input: then it detaches, or
//! says why not and goes on. At the end of its input it goes on until it is killed. With `silent`
//! it answers no request, with `unflushed` no flush once it is attached, and prints `asked` at each
//! of these. `waits` fails, with who uses it, if a device that a killed daemon has left is in use.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, Seek, SeekFrom, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use evenkeel_attach::{Filesystems, Kind, Options, Place};
use evenkeel_core::{Extent, Operation, Reply, RequestError};
use evenkeel_engine::frontend::FrontendAction;
use evenkeel_engine::{
    Buffer, BufferMut, Descriptor, DescriptorToken, Frontend, FrontendContext, FrontendEvent,
    FrontendMaker, RequestToken,
};
use io_uring::types::Fd;
use io_uring::{IoUring, opcode, squeue};

/// More than all requests that a front end can have open.
const MEMORY: usize = 2 << 30;
const ENTRIES: u32 = 1024;

fn main() -> Result<(), Box<dyn Error>> {
    evenkeel_attach::serve_if_asked();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["attach", runtime, name, file, ref more @ ..] => attach(runtime, name, file, more),
        ["clean", runtime, name] => {
            let place = Place::new(Path::new(runtime));
            let cleaned = evenkeel_attach::clean_up_stale(&place, name, Filesystems::Unmount)?;
            println!("{cleaned:?}");
            Ok(())
        }
        ["waits", runtime, name] => {
            Ok(evenkeel_attach::refuse_waiting(&Place::new(Path::new(runtime)), name)?)
        }
        _ => Err(
            "serve_file attach RUNTIME NAME FILE [loop|ublk] [resume|silent|unflushed] | clean RUNTIME NAME | waits RUNTIME NAME"
                .into(),
        ),
    }
}

fn attach(runtime: &str, name: &str, file: &str, more: &[&str]) -> Result<(), Box<dyn Error>> {
    for missing in evenkeel_attach::prepare_data_path() {
        eprintln!("{missing}");
    }
    let open = |flags| OpenOptions::new().read(true).write(true).custom_flags(flags).open(file);
    // A file on tmpfs has no direct input and output.
    let mut backing = open(libc::O_DIRECT).or_else(|_| open(0))?;
    let length = backing.seek(SeekFrom::End(0))?;
    let place = Place::new(Path::new(runtime));
    let size = length / 4096 * 4096;
    let options = Options {
        name: name.to_owned(),
        size: Arc::new(AtomicU64::new(size)),
        block_size: 512,
        kind: match more {
            ["loop", ..] => Some(Kind::Loop),
            ["ublk", ..] => Some(Kind::Ublk),
            _ => None,
        },
        resume: more.contains(&"resume"),
    };
    let is_attached = Arc::new(AtomicBool::new(false));
    let unanswered = match more {
        [.., "silent"] => Unanswered::All,
        [.., "unflushed"] => Unanswered::Flushes { once: is_attached.clone() },
        _ => Unanswered::None,
    };
    let serve = move |maker: FrontendMaker| {
        let spawned = std::thread::Builder::new().spawn(move || {
            let ended =
                Driver::new(backing, size, unanswered).and_then(|driver| driver.run(maker()));
            eprintln!("the front end has ended: {ended:?}");
        });
        spawned.map(|_| ()).map_err(|error| error.to_string())
    };
    let attached = evenkeel_attach::attach(&place, &options, serve)?;
    is_attached.store(true, Ordering::Release);
    println!("{} {}", attached.link.display(), attached.device.display());
    io::stdout().flush()?;
    for line in io::stdin().lock().lines() {
        line?;
        match evenkeel_attach::detach(&place, name) {
            Ok(()) => return Ok(()),
            Err(error) => println!("{error}"),
        }
    }
    loop {
        std::thread::park();
    }
}

/// The requests that are not answered.
enum Unanswered {
    None,
    /// The kernel flushes a device also while it is made: this is answered.
    Flushes {
        once: Arc<AtomicBool>,
    },
    All,
}

impl Unanswered {
    fn includes(&self, operation: &Operation<Buffer>) -> bool {
        match self {
            Self::None => false,
            Self::Flushes { once } => {
                matches!(operation, Operation::Flush) && once.load(Ordering::Acquire)
            }
            Self::All => true,
        }
    }
}

/// What is under way, with the memory that the kernel uses for it.
enum Operating {
    Wait(Descriptor),
    Command(DescriptorToken),
    Read(RequestToken, BufferMut),
    Write(RequestToken, #[expect(dead_code, reason = "it is kept for the kernel")] Buffer),
    Other(RequestToken),
}

/// A worker for one front end over one file.
struct Driver {
    ring: IoUring,
    file: File,
    size: u64,
    unanswered: Unanswered,
    context: FrontendContext,
    descriptors: BTreeMap<Descriptor, OwnedFd>,
    operating: Vec<Option<Operating>>,
    free: Vec<usize>,
    ended: Option<String>,
}

impl Driver {
    fn new(file: File, size: u64, unanswered: Unanswered) -> io::Result<Self> {
        Ok(Self {
            ring: IoUring::builder().setup_single_issuer().setup_coop_taskrun().build(ENTRIES)?,
            file,
            size,
            unanswered,
            context: FrontendContext::detached(MEMORY),
            descriptors: BTreeMap::new(),
            operating: Vec::new(),
            free: Vec::new(),
            ended: None,
        })
    }

    fn run(mut self, mut frontend: Box<dyn Frontend>) -> io::Result<String> {
        frontend.handle(FrontendEvent::Started, &mut self.context);
        let mut completions = Vec::new();
        loop {
            for action in self.context.take_actions() {
                if let Some(event) = self.act(action) {
                    frontend.handle(event, &mut self.context);
                }
            }
            if let Some(reason) = self.ended {
                return Ok(reason);
            }
            match self.ring.submit_and_wait(1) {
                Err(error) if error.raw_os_error() != Some(libc::EINTR) => return Err(error),
                _ => {}
            }
            completions.extend(self.ring.completion().map(|c| (c.user_data(), c.result())));
            for (index, result) in completions.drain(..) {
                let event = self.completed(index as usize, result);
                frontend.handle(event, &mut self.context);
            }
        }
    }

    /// Does what the front end wants; what is done at once returns its event.
    fn act(&mut self, action: FrontendAction) -> Option<FrontendEvent> {
        match action {
            FrontendAction::Open { descriptor, file } => {
                self.descriptors.insert(descriptor, file);
            }
            FrontendAction::WaitReadable { descriptor } => {
                let file = self.raw(descriptor);
                let entry = opcode::PollAdd::new(file, libc::POLLIN as u32).build();
                self.push(entry, Operating::Wait(descriptor));
            }
            FrontendAction::Command { descriptor, token, operation, argument } => {
                let file = self.raw(descriptor);
                let entry = opcode::UringCmd16::new(file, operation).cmd(argument).build();
                self.push(entry, Operating::Command(token));
            }
            FrontendAction::Submit { operation, .. } if self.unanswered.includes(&operation) => {
                println!("asked");
            }
            FrontendAction::Submit { token, operation, .. } => {
                return self.submit(token, operation);
            }
            FrontendAction::End { reason } => self.ended = Some(reason),
            other => self.ended = Some(format!("wanted {other:?}")),
        }
        None
    }

    fn submit(
        &mut self,
        token: RequestToken,
        operation: Operation<Buffer>,
    ) -> Option<FrontendEvent> {
        let file = Fd(self.file.as_raw_fd());
        match operation {
            Operation::Read { offset, length } => {
                let mut memory = self.context.allocate_fixed(length as usize);
                let entry = opcode::Read::new(file, memory.as_mut_ptr(), length);
                self.push(entry.offset(offset).build(), Operating::Read(token, memory));
            }
            Operation::Write { offset, payload, durable } => {
                let flags = if durable { libc::RWF_DSYNC } else { 0 };
                let entry = opcode::Write::new(file, payload.as_ptr(), payload.len() as u32);
                let entry = entry.offset(offset).rw_flags(flags).build();
                self.push(entry, Operating::Write(token, payload));
            }
            Operation::CompareAndWrite { .. } => {
                let result = Err(RequestError::Invalid);
                return Some(FrontendEvent::Reply { token, result });
            }
            Operation::Flush => {
                let entry = opcode::Fsync::new(file).flags(io_uring::types::FsyncFlags::DATASYNC);
                self.push(entry.build(), Operating::Other(token));
            }
            Operation::Zero { offset, length, unmap, .. } => {
                let mode =
                    if unmap { libc::FALLOC_FL_PUNCH_HOLE } else { libc::FALLOC_FL_ZERO_RANGE };
                let entry = opcode::Fallocate::new(file, length).offset(offset);
                let entry = entry.mode(mode | libc::FALLOC_FL_KEEP_SIZE).build();
                self.push(entry, Operating::Other(token));
            }
            Operation::Map { offset, length } => {
                let length = length.min(self.size - offset);
                let extents = vec![Extent { length, allocated: true }];
                return Some(FrontendEvent::Reply { token, result: Ok(Reply::Extents(extents)) });
            }
        }
        None
    }

    fn raw(&self, descriptor: Descriptor) -> Fd {
        Fd(self.descriptors.get(&descriptor).map_or(-1, AsRawFd::as_raw_fd))
    }

    fn push(&mut self, entry: squeue::Entry, operating: Operating) {
        let index = self.free.pop().unwrap_or_else(|| {
            self.operating.push(None);
            self.operating.len() - 1
        });
        self.operating[index] = Some(operating);
        let entry = entry.user_data(index as u64);
        // SAFETY: the memory that the entry names is kept in `operating` until it has ended.
        while unsafe { self.ring.submission().push(&entry) }.is_err() {
            if let Err(error) = self.ring.submit() {
                self.ended = Some(error.to_string());
                return;
            }
        }
    }

    fn completed(&mut self, index: usize, result: i32) -> FrontendEvent {
        self.free.push(index);
        let outcome = if result < 0 { Err(RequestError::Medium) } else { Ok(Reply::Done) };
        match self.operating[index].take() {
            Some(Operating::Wait(descriptor)) => FrontendEvent::Readable { descriptor },
            Some(Operating::Command(token)) => FrontendEvent::Command { token, result },
            Some(Operating::Read(token, memory)) => {
                let data = Reply::Data(vec![(0, memory.freeze())]);
                FrontendEvent::Reply { token, result: outcome.map(|_: Reply<Buffer>| data) }
            }
            Some(Operating::Write(token, _) | Operating::Other(token)) => {
                FrontendEvent::Reply { token, result: outcome }
            }
            None => FrontendEvent::MemoryAvailable,
        }
    }
}
