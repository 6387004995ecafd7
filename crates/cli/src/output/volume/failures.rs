//! Requests of a volume that have failed.

use evenkeel_api::types::{FailedRequests, VolumeStatus};

use crate::output::phrases::{count, date, moment};

/// The write, flush or other change that failed last for a reason that was the volume's own, if the
/// volume's reason does not tell it: whoever has it mounted has to look.
pub(super) fn last_failed_write(volume: &VolumeStatus) -> Option<&FailedRequests> {
    let is_reported = |reason: &String| reason.contains("requests fail");
    if volume.reason.as_ref().is_some_and(is_reported) {
        return None;
    }
    let is_own = |failed: &&FailedRequests| {
        let cause = failed.cause.as_str();
        let is_others = matches!(cause, "fenced" | "detached" | "reserved" | "invalid");
        !is_others && !matches!(failed.kind.as_str(), "read" | "map")
    };
    volume.failed.iter().filter(is_own).max_by_key(|failed| failed.last)
}

/// `3 writes, the first 2026-11-24 02:30:01, the last 2026-11-24 02:31:07, 5 min ago: …`.
pub(super) fn line(failed: &FailedRequests) -> String {
    let number = usize::try_from(failed.count).unwrap_or(usize::MAX);
    let last = match failed.count {
        1 => moment(failed.last),
        _ => format!("the first {}, the last {}", date(failed.first), moment(failed.last)),
    };
    format!("{}, {last}: {}", count(number, &failed.kind), failed.why)
}
