//! Volumes as people see them: the page of one, and its parts.

mod export;
mod failures;
mod layout;
mod list;
mod plan;
mod rebuild;
mod replicas;
mod words;

use std::time::Duration;

use evenkeel_api::types::{PrimaryStatus, Suspended, VolumeStatus, WaitsFor};

pub use self::export::export_line;
pub use self::list::{list, sum};
pub use self::plan::plan;
pub use self::rebuild::is_measuring;
pub use self::replicas::reached;
pub use self::words::{health, replica_state, summary};
use self::words::{health_word, painted, state, state_word, user};
use super::phrases::{date, moment};
use super::verify::verdict;
use super::{Painted as _, span};

/// What there is to know of a volume without its progress, in one line that has no colours:
/// `[UU_] degraded, serving: the replica on n3 is stale`.
pub fn line(volume: &VolumeStatus) -> String {
    let reason = volume.reason.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
    let (word, state) = (health_word(volume), state_word(volume));
    format!("{} {word}, {state}{reason}", summary(volume))
}

/// Everything about one volume.
pub fn status(volume: &VolumeStatus) -> String {
    let mut text = format!(
        "volume {} {} {}, {}\n",
        volume.name.bold(),
        painted(&summary(volume), volume.health),
        painted(&health_word(volume), volume.health),
        state(volume),
    );
    if let Some(reason) = &volume.reason {
        text.push_str(&format!("  why       {reason}\n"));
    }
    if let Some(saved) = volume.as_of {
        text.push_str(&format!("  as of     {}\n", moment(saved)));
    }
    if let Some(suspended) = &volume.suspended {
        text.push_str(&suspension(suspended));
    }
    text.push_str(&format!("  layout    {}\n", layout::layout(volume)));
    for primary in &volume.primaries {
        text.push_str(&format!("  attached  {}\n", attachment(volume, primary)));
    }
    for failed in &volume.failed {
        text.push_str(&format!("  failed    {}\n", failures::line(failed).bad()));
    }
    for failed in &volume.failed_before {
        text.push_str(&format!(
            "  earlier   failed, before it was attached: {}\n",
            failures::line(failed)
        ));
    }
    if let Some(verified) = &volume.verify {
        text.push_str(&format!("  verify    {}\n", verdict(verified, volume)));
    }
    if let Some(reservation) = &volume.reservation {
        text.push_str(&format!("  reserved  {}\n", super::reservation::line(reservation)));
    }
    for export in &volume.exports {
        text.push_str(&format!("  export    {}\n", export_line(export)));
    }
    text.push('\n');
    text.push_str(&replicas::replicas(volume));
    text
}

fn attachment(volume: &VolumeStatus, primary: &PrimaryStatus) -> String {
    let mut text = format!("on {}", user(volume, primary));
    if let Some(device) = &primary.device {
        text.push_str(&format!(" as {}", device.bold()));
    }
    if let Some(kind) = &primary.device_kind {
        text.push_str(&format!(" ({kind})"));
    }
    if !primary.alive {
        text.push_str(&", but that node does not answer".warning());
    }
    text
}

fn suspension(suspended: &Suspended) -> String {
    let waited = span(Duration::from_secs(suspended.seconds));
    let since = suspended.since.map(|at| format!(", since {}", date(at))).unwrap_or_default();
    let limit = match (suspended.fails_in, suspended.limit_seconds) {
        (Some(0), _) => ", and requests fail".to_owned(),
        (Some(left), _) => {
            format!(", and requests fail in {}", span(Duration::from_secs(left)))
        }
        (None, Some(0)) => ", and requests fail at once".to_owned(),
        (None, Some(limit)) => {
            format!(", and requests fail after {}", span(Duration::from_secs(limit)))
        }
        (None, None) if suspended.waits_for == WaitsFor::Coordinator => {
            ", and requests wait without a limit (`volume change --on-no-coordinator` sets one)"
                .into()
        }
        (None, None) => String::new(),
    };
    format!(
        "  {}   for {waited}{since}{limit}: {}\n  do        {}\n",
        "waiting".warning(),
        suspended.why,
        suspended.action,
    )
}

#[cfg(test)]
pub mod tests;
