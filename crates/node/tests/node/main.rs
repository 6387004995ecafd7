//! Whole daemons in one process, on unix sockets in a directory of their own.

mod again;
mod bad_input;
mod cluster;
mod copies;
mod crowds;
mod cut_off;
mod detached;
mod devices;
mod disk_errors;
mod disks_alone;
mod exchanged;
mod late_disks;
mod life;
mod log;
mod nbd_clients;
mod plans;
mod refusals;
mod rename;
mod retire;
mod support;
mod texts;
mod tls;
mod told;
mod trust;
mod unclean;
mod verdict;
