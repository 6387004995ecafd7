//! Making, taking over and removing devices: commands to `/dev/ublk-control`.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};

use super::abi::{self, ControlCommand, DeviceInformation, Parameters, control, feature, state};

/// The device that takes control commands of the driver.
const CONTROL: &str = "/dev/ublk-control";
/// The most that one command may take. Starting a device takes until it is served.
const MAX_COMMAND_TIME: Timespec = Timespec::new().sec(30);
/// The most that the kernel may take to notice that the former server is dead.
const MAX_QUIESCE_TIME: Duration = Duration::from_secs(10);
/// The most that a device manager may take to make a device's node.
const MAX_NODE_TIME: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);

/// A connection to the driver.
pub struct Control {
    device: File,
    ring: IoUring<squeue::Entry128, cqueue::Entry>,
}

/// A device of the driver, as it is at present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Device {
    /// The process that serves it, or did.
    pub server: u32,
    /// Whether it is there for its users: served, or waiting for another server.
    pub outlives: bool,
}

impl Control {
    /// Connects to the driver. `None`: there is none, or it lacks what is needed.
    #[must_use]
    pub fn open() -> Option<Self> {
        let device = open(Path::new(CONTROL)).ok()?;
        let ring = IoUring::<squeue::Entry128, cqueue::Entry>::builder().build(4).ok()?;
        let mut control = Self { device, ring };
        let features = control.features().ok()?;
        (features & feature::NEEDED == feature::NEEDED).then_some(control)
    }

    fn features(&mut self) -> io::Result<u64> {
        self.with_buffer(control::GET_FEATURES, u32::MAX, 0u64)
    }

    /// Makes a device, which has no requests yet, and returns its number.
    pub fn add(&mut self, size: u64, block_size: u32) -> io::Result<u32> {
        let wanted = DeviceInformation {
            queues: 1,
            queue_depth: abi::QUEUE_DEPTH,
            max_transfer: abi::MAX_TRANSFER,
            device: u32::MAX,
            server: -1,
            flags: feature::NEEDED,
            ..DeviceInformation::default()
        };
        let made = self.with_buffer(control::ADD, u32::MAX, wanted)?;
        let parameters = Parameters::of(size, block_size);
        match self.with_buffer(control::SET_PARAMETERS, made.device, parameters) {
            Ok(_) => Ok(made.device),
            Err(error) => {
                // Nobody has seen it yet; if it stays, it is only a number that is not used.
                let _ = self.delete(made.device);
                Err(error)
            }
        }
    }

    /// Starts a new device. Returns when the front end serves it and its block device is there.
    pub fn start(&mut self, number: u32) -> io::Result<()> {
        self.plain(control::START, number, u64::from(std::process::id()))
    }

    /// Begins to take over a device whose server has died. The kernel may take a moment to notice.
    pub fn start_recovery(&mut self, number: u32) -> io::Result<()> {
        let deadline = Instant::now() + MAX_QUIESCE_TIME;
        loop {
            match self.plain(control::START_RECOVERY, number, 0) {
                Err(error)
                    if error.raw_os_error() == Some(libc::EBUSY) && Instant::now() < deadline =>
                {
                    std::thread::sleep(PAUSE);
                }
                other => return other,
            }
        }
    }

    /// Ends the taking over. Returns when the front end serves the device.
    pub fn end_recovery(&mut self, number: u32) -> io::Result<()> {
        self.plain(control::END_RECOVERY, number, u64::from(std::process::id()))
    }

    /// What the driver knows of a device. `None`: there is none of this number.
    pub fn device(&mut self, number: u32) -> io::Result<Option<Device>> {
        match self.with_buffer(control::GET_DEVICE, number, DeviceInformation::default()) {
            Ok(information) => Ok(Some(Device {
                server: information.server.cast_unsigned(),
                outlives: matches!(information.state, state::QUIESCED | state::LIVE),
            })),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Ends a device: its block device goes, and requests that wait for it get errors.
    pub fn stop(&mut self, number: u32) -> io::Result<()> {
        ignore_missing(self.plain(control::STOP, number, 0))
    }

    /// Removes a stopped device, as soon as the last one has closed it. Kernels before 6.9 make
    /// this call wait for that.
    pub fn delete(&mut self, number: u32) -> io::Result<()> {
        let deleted = match self.plain(control::DELETE_LATER, number, 0) {
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                self.plain(control::DELETE, number, 0)
            }
            other => other,
        };
        ignore_missing(deleted)
    }

    fn plain(&mut self, operation: u32, number: u32, data: u64) -> io::Result<()> {
        let command =
            ControlCommand { device: number, queue: u16::MAX, data, ..Default::default() };
        self.run(operation, &command)
    }

    /// Runs a command that reads or fills a buffer, and returns the buffer.
    fn with_buffer<T: Copy>(&mut self, operation: u32, number: u32, buffer: T) -> io::Result<T> {
        let mut buffer = Box::new(buffer);
        let command = ControlCommand {
            device: number,
            queue: u16::MAX,
            length: size_of::<T>() as u16,
            address: std::ptr::from_mut::<T>(&mut buffer) as u64,
            ..Default::default()
        };
        match self.run(operation, &command) {
            Err(error) if error.raw_os_error() == Some(libc::ETIME) => {
                // The kernel may still write to it.
                Box::leak(buffer);
                Err(error)
            }
            result => result.map(|()| *buffer),
        }
    }

    fn run(&mut self, operation: u32, command: &ControlCommand) -> io::Result<()> {
        let file = Fd(self.device.as_raw_fd());
        let entry = opcode::UringCmd80::new(file, operation).cmd(command.bytes()).build();
        // SAFETY: the buffer that the command names lives until the command has ended, or for
        // ever if waiting for that was given up; the command itself is copied into the entry.
        unsafe { self.ring.submission().push(&entry) }
            .map_err(|_| io::Error::other("the ring for commands is full"))?;
        let arguments = SubmitArgs::new().timespec(&MAX_COMMAND_TIME);
        loop {
            match self.ring.submitter().submit_with_args(1, &arguments) {
                Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
                Err(error) => return Err(error),
                Ok(_) => {
                    if let Some(completion) = self.ring.completion().next() {
                        let result = completion.result();
                        let failed = || io::Error::from_raw_os_error(-result);
                        return if result < 0 { Err(failed()) } else { Ok(()) };
                    }
                }
            }
        }
    }
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENODEV | libc::EINVAL | libc::ENOENT))
}

fn ignore_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(()),
        other => other,
    }
}

/// The path of the block device of this number.
#[must_use]
pub fn block_path(number: u32) -> PathBuf {
    PathBuf::from(format!("/dev/ublkb{number}"))
}

/// The number of a block device of this driver.
#[must_use]
pub fn number_of(device: &Path) -> Option<u32> {
    device.to_str()?.strip_prefix("/dev/ublkb")?.parse().ok()
}

/// Opens the character device through which a front end serves this device.
pub fn open_server_side(number: u32) -> io::Result<File> {
    let path = PathBuf::from(format!("/dev/ublkc{number}"));
    wait_for(|| open(&path))
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).custom_flags(libc::O_CLOEXEC).open(path)
}

/// Waits until the block device's node is there.
pub fn wait_for_block_device(number: u32) -> io::Result<()> {
    let path = block_path(number);
    wait_for(|| std::fs::metadata(&path).map(|_| ()))
}

/// Takes the kernel's I/O scheduler off a device: the disks below have their own, and without a
/// second one a write costs 6 % fewer of the kernel's instructions (decision 44). With one queue,
/// Linux gives it mq-deadline. A device that keeps it works as well.
pub fn leave_order_to_the_disks(number: u32) {
    let setting = format!("/sys/block/ublkb{number}/queue/scheduler");
    if let Err(error) = std::fs::write(&setting, "none") {
        tracing::debug!(setting, %error, "the device keeps its I/O scheduler");
    }
}

/// Tries until a node is there: a device manager may make it a moment after the device.
fn wait_for<T>(attempt: impl Fn() -> io::Result<T>) -> io::Result<T> {
    let deadline = Instant::now() + MAX_NODE_TIME;
    loop {
        match attempt() {
            Err(error) if error.kind() == io::ErrorKind::NotFound && Instant::now() < deadline => {
                std::thread::sleep(PAUSE);
            }
            other => return other,
        }
    }
}
