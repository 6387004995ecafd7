//! Block devices on this machine: ublk, or a FUSE file with a loop device over it.
