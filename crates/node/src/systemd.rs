//! What the daemon reports to systemd: ready, what goes on, that it is alive, that it stops.
//!
//! Outside of systemd nothing happens.

use std::sync::Arc;

use sd_notify::NotifyState;

use crate::volumes::Node;

/// The daemon serves.
pub fn ready(status: &str) {
    report(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// The daemon ends.
pub fn stopping() {
    report(&[NotifyState::Stopping, NotifyState::Status("detaching volumes")]);
}

fn report(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::debug!(%error, "cannot notify systemd");
    }
}

/// Tells the watchdog that the daemon is alive, for as long as the data path answers too.
pub async fn watchdog(node: Arc<Node>) {
    // Nobody watches.
    let Some(limit) = sd_notify::watchdog_enabled() else { return };
    while node.pause(limit / 3).await {
        let alive = tokio::time::timeout(limit / 3, node.data.survey()).await.is_ok();
        if alive {
            let attached = node.volumes.names();
            let status = match attached.len() {
                0 => "no volume attached".to_owned(),
                count => format!("{count} volume(s) attached: {}", attached.join(", ")),
            };
            report(&[NotifyState::Watchdog, NotifyState::Status(&status)]);
        } else {
            tracing::error!("the data path does not answer");
        }
    }
}
