//! Drives the core with io_uring: disks, sockets, buffers.
