//! Reservations of a volume, as hosts of NVMe ask for them, and what hosts are told of changes
//! (`docs/decisions/0096-the-reservations-of-nvme-are-the-volumes-own.md`).

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::primary::{Command, CommandError};
use evenkeel_core::view::{Change, ReservationChange, Reservations};
use evenkeel_core::{HostId, VolumeId};
use evenkeel_exports::nvme::command::Status;
use evenkeel_exports::nvme::reservation::{Wanted, notices, refused, report};

use super::NvmeServer;
use super::target::Target;
use crate::cluster;

/// How long the primary may take to say which reservations there are.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a command may wait for those before it. It is short, since a host that has given it up
/// may rely on that it has no effect any more.
const TURN: Duration = Duration::from_secs(5);

impl NvmeServer {
    /// Has a change of a volume's reservations made by another way, and tells hosts of it that use
    /// the volume by NVMe here.
    pub async fn reservations_change<T>(
        &self,
        volume: VolumeId,
        change: &ReservationChange,
        make: impl Future<Output = T>,
    ) -> T {
        let target = self.lock().get(&volume).map(|served| served.target.clone());
        let Some(target) = target else { return make.await };
        let _turn = target.reserve().await;
        let before = look(self, &target).await;
        let made = make.await;
        if let Some(before) = before {
            notify(self, &target, change, &before).await;
        }
        made
    }
}

/// Looks which reservations there are; `None` if the volume is not attached here any more.
pub(super) async fn look(server: &NvmeServer, target: &Target) -> Option<Reservations> {
    let _turn = target.look_up().await;
    let status = server.data.volume_status(target.of()?);
    let status = tokio::time::timeout(PATIENCE, status).await.ok()??;
    let view = status.primary?.view?;
    target.know_reservations(view.generation, &view.reservations);
    Some(view.reservations)
}

/// Tells hosts what a change has made of these reservations.
async fn notify(
    server: &NvmeServer,
    target: &Target,
    change: &ReservationChange,
    before: &Reservations,
) {
    // The volume is not attached here any more: its hosts are disconnected.
    let Some(after) = look(server, target).await else { return };
    target.report_reservations(&notices(change, before, &after));
}

/// Carries out what a host wants; the report, if it wants one.
///
/// # Errors
/// What to answer instead. After [`Status::Interrupted`] the change may be made.
pub(super) async fn carry_out(
    server: &NvmeServer,
    target: &Arc<Target>,
    host: HostId,
    wanted: Wanted,
) -> Result<Vec<u8>, Status> {
    let volume = target.of().ok_or(Status::InvalidOpcode)?;
    if wanted == Wanted::Report {
        return Ok(report(&look(server, target).await.ok_or(Status::InternalPath)?));
    }
    let turn = tokio::time::timeout(TURN, target.reserve()).await;
    let _turn = turn.map_err(|_| Status::Interrupted)?;
    let before = look(server, target).await.ok_or(Status::InternalPath)?;
    let Some(change) = wanted.change(host, &before)? else { return Ok(Vec::new()) };
    let command = Command::Change(Change::Reservation(change));
    let done = tokio::time::timeout(cluster::COMMAND, server.data.command(volume, command)).await;
    notify(server, target, &change, &before).await;
    match done {
        Ok(Ok(())) => Ok(Vec::new()),
        Ok(Err(CommandError::View(error))) => Err(refused(error)),
        Ok(Err(CommandError::Ended)) => Err(Status::InternalPath),
        Ok(Err(_)) | Err(_) => Err(Status::Interrupted),
    }
}
