//! Sockets of peers: how they are set up for the ring.

use std::time::Duration;

use rustix::fs::{FileType, OFlags, fcntl_getfl, fcntl_setfl, fstat};
use rustix::net::sockopt;

use crate::ring::SharedFile;

/// A silent TCP peer is asked for a sign of life after this, and then at this interval.
const KEEPALIVE: (Duration, Duration) = (Duration::from_secs(15), Duration::from_secs(5));
/// So many unanswered questions end the connection.
const KEEPALIVE_COUNT: u32 = 4;
/// Data that a TCP peer does not acknowledge for so long ends the connection.
const UNACKNOWLEDGED: Duration = Duration::from_secs(35);

/// Sets a socket up; whether it is one. A peer that has vanished without a word is noticed after
/// about 35 s at the latest, so that it does not hold memory for ever; the core notices earlier
/// where it waits for an answer.
pub(crate) fn prepare_socket(file: &SharedFile) -> bool {
    let is_socket =
        fstat(file).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Socket);
    if !is_socket {
        return false;
    }
    // The ring itself waits; with this flag it would report that nothing is there.
    if let Ok(flags) = fcntl_getfl(file) {
        let _ = fcntl_setfl(file, flags - OFlags::NONBLOCK);
    }
    // A unix socket has none of these options, nor a need for them.
    if sockopt::set_tcp_nodelay(file, true).is_ok() {
        let _ = sockopt::set_socket_keepalive(file, true);
        let _ = sockopt::set_tcp_keepidle(file, KEEPALIVE.0);
        let _ = sockopt::set_tcp_keepintvl(file, KEEPALIVE.1);
        let _ = sockopt::set_tcp_keepcnt(file, KEEPALIVE_COUNT);
        let _ = sockopt::set_tcp_user_timeout(file, UNACKNOWLEDGED.as_millis() as u32);
    }
    true
}
