//! ublk: block devices whose requests come to this process through io_uring (Linux 6.5 and later,
//! where the driver `ublk_drv` is there).
//!
//! A device outlives its daemon: requests wait in the kernel until another daemon takes it over,
//! so a filesystem on it notices nothing but a pause.

mod abi;
pub(crate) mod control;
mod frontend;

pub use frontend::UblkFrontend;
