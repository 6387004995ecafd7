//! The descriptions of requests, which the driver writes into memory that both sides see.

use std::io;
use std::os::fd::OwnedFd;
use std::ptr::{self, NonNull};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::ublk::abi::{self, Description, QUEUE_DEPTH};

/// The descriptions of one device's requests, by tag.
pub struct Descriptions(NonNull<Description>);

impl Descriptions {
    /// Maps those of the device behind this character device.
    pub fn map(device: &OwnedFd) -> io::Result<Self> {
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing.
        let address = unsafe {
            mmap(
                ptr::null_mut(),
                abi::descriptions_length(),
                ProtFlags::READ,
                MapFlags::SHARED | MapFlags::POPULATE,
                device,
                0,
            )
        }?;
        let address = NonNull::new(address.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Self(address))
    }

    /// The description of a tag's request. Only while the tag has one is it sure not to change.
    pub fn get(&self, tag: u16) -> Description {
        let index = usize::from(tag % QUEUE_DEPTH);
        // SAFETY: the mapping has room for `QUEUE_DEPTH` descriptions and lives as long as
        // `self`; any bytes are a valid description. It is read as volatile because the kernel
        // writes it, which it does not while the tag is ours.
        unsafe { self.0.add(index).read_volatile() }
    }
}

impl Drop for Descriptions {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and no reference into it was ever made.
        if let Err(error) = unsafe { munmap(self.0.as_ptr().cast(), abi::descriptions_length()) } {
            tracing::error!(%error, "could not unmap the descriptions of a ublk device");
        }
    }
}
