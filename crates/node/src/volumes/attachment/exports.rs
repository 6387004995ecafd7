//! The exports of a volume, of all kinds: their end, and how they are told.

use std::sync::Arc;

use evenkeel_api::types::{DoneAnswer, Export, VERSION};
use evenkeel_api::{ApiError, ErrorCode, routes};
use evenkeel_engine::FrontendId;
use hyper::Method;

use super::actor::turn;
use super::exporting::{self, Place, place};
use super::{export, nvme};
use crate::volumes::Attached;
use crate::volumes::Node;
use crate::volumes::lookup::moved;

/// Which exports end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// That by NBD.
    Nbd,
    /// That by NVMe over TCP.
    Nvme,
    /// All.
    All,
}

impl Ended {
    const fn route(self) -> &'static str {
        match self {
            Self::Nbd => routes::EXPORT_NBD,
            Self::Nvme => routes::EXPORT_NVME,
            Self::All => routes::EXPORTS,
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Self::Nbd => " by NBD",
            Self::Nvme => " by NVMe",
            Self::All => "",
        }
    }
}

/// Ends exports of a volume: their clients are disconnected.
///
/// # Errors
/// If it is not exported like that.
pub async fn end(
    node: &Arc<Node>,
    volume: &str,
    ended: Ended,
    forwarded: bool,
) -> Result<DoneAnswer, ApiError> {
    let what = format!("cannot end the export of volume {volume}");
    let place = place(node, &what, volume, forwarded).await.map_err(|error| match error.code {
        ErrorCode::NotAttached => {
            let action = "There is no export to end: see `evenkeel volume status`".to_owned();
            ApiError { action, ..error }
        }
        _ => error,
    })?;
    match place {
        Place::Here(attached) => end_here(node, &attached, ended).await,
        Place::There(elsewhere) => {
            elsewhere.ask::<(), _>(node, Method::DELETE, ended.route(), None, &what).await
        }
    }
}

async fn end_here(
    node: &Arc<Node>,
    attached: &Arc<Attached>,
    ended: Ended,
) -> Result<DoneAnswer, ApiError> {
    let what = format!("cannot end the export of volume {}", attached.name());
    let turn = turn(node, attached.id).await;
    if !node.volumes.holds(attached) {
        return Err(moved(&what));
    }
    let by_nvme = ended != Ended::Nbd && nvme::stop(node, &turn, attached);
    let by_nbd = ended != Ended::Nvme && export::stop(node, &turn, attached).await;
    if !by_nvme && !by_nbd {
        let why = format!("it is not exported{}", ended.words());
        let advice = "See `evenkeel volume status`";
        return Err(ApiError::new(ErrorCode::NoSuchExport, what, why, advice));
    }
    exporting::changed(node, &turn).await;
    let by = ended.words();
    let message = format!("volume {} is not exported{by} any more", attached.name());
    Ok(DoneAnswer { version: VERSION, message })
}

/// What would cut off these clients is refused.
pub(in crate::volumes) fn in_use(what: &str, clients: usize) -> ApiError {
    let why = match clients {
        1 => "a client is connected to its export".to_owned(),
        clients => format!("{clients} clients are connected to its export"),
    };
    let advice = "Disconnect first, or end the export, and with it these connections, by `evenkeel unexport`; then try again";
    ApiError::new(ErrorCode::DeviceBusy, what, why, advice)
}

/// The exports of a volume, for its status.
pub(in crate::volumes) fn of(
    node: &Node,
    attached: &Attached,
    frontends: &[(FrontendId, String)],
) -> Vec<Export> {
    let by_nbd = export::of(node, attached, frontends);
    by_nbd.into_iter().chain(nvme::of(node, attached)).collect()
}
