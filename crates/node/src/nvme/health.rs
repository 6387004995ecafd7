//! The health of a volume, as the log page of its controllers says it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use evenkeel_core::{ReplicaState, RequestError};
use evenkeel_engine::VolumeStatus;
use evenkeel_engine::counters::Kind;
use evenkeel_exports::nvme::controller::Health;

use super::target::Target;
use crate::nvme::NvmeServer;

/// So old it may be.
const AGE: Duration = Duration::from_secs(1);
/// How long an admin queue waits for it, and then says what was so before.
const PATIENCE: Duration = Duration::from_millis(500);

/// When an admin queue has looked last.
#[derive(Debug, Default)]
pub(super) struct Looked(Option<Instant>);

impl Looked {
    /// Has the controllers of a volume know how that is, unless they have just looked.
    pub(super) async fn look(&mut self, server: &NvmeServer, target: &Arc<Target>) {
        // Discovery is always well.
        let Some(volume) = target.of() else { return };
        if self.0.is_some_and(|at| at.elapsed() < AGE) {
            return;
        }
        self.0 = Some(Instant::now());
        let status = tokio::time::timeout(PATIENCE, server.data.volume_status(volume)).await;
        if let Ok(Some(status)) = status {
            target.know_health(of(&status));
            if let Some(view) = status.primary.and_then(|primary| primary.view) {
                target.know_reservations(view.generation, &view.reservations);
            }
        }
    }
}

fn of(status: &VolumeStatus) -> Health {
    let view = status.primary.as_ref().and_then(|primary| primary.view.as_ref());
    // A spare is nobody's copy yet.
    let is_well = |state: ReplicaState| matches!(state, ReplicaState::InSync | ReplicaState::Spare);
    let mut replicas = view.iter().flat_map(|view| &view.mirrors).flat_map(|it| &it.replicas);
    let counted = |kind: Kind| &status.counters.kinds[kind as usize];
    let is_medium =
        |error: RequestError| matches!(error, RequestError::Medium | RequestError::LostWrites);
    let failures = status.counters.failures.iter().filter(|it| is_medium(it.error));
    Health {
        is_degraded: view.is_none() || replicas.any(|replica| !is_well(replica.state)),
        is_read_only: false,
        read: counted(Kind::Read).bytes,
        written: counted(Kind::Write).bytes,
        reads: counted(Kind::Read).latency.count(),
        writes: counted(Kind::Write).latency.count(),
        media_errors: failures.map(|failure| failure.count).sum(),
    }
}

#[cfg(test)]
mod tests;
