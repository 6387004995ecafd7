//! NBD exports of attached volumes.

use std::sync::Arc;

use evenkeel_api::types::{Export, ExportAnswer, ExportNbdRequest, VERSION};
use evenkeel_api::{ApiError, ErrorCode, routes};
use evenkeel_engine::FrontendId;
use evenkeel_exports::nbd;
use evenkeel_trust::names;

use super::actor::Turn;
use super::exporting::{self, Asked, Begun};
use crate::config::{Config, check};
use crate::coordinator::WantedNbd;
use crate::nbd::FRONTEND;
use crate::peer::tls;
use crate::volumes::Attached;
use crate::volumes::Node;
use crate::volumes::lookup::moved;

/// Most names of clients of one export: they are kept beside the volume's view.
const MAX_CLIENT_NAMES: usize = 64;

/// Serves an attached volume by NBD, on the node where it is attached.
///
/// # Errors
/// If it is not attached, or TCP is asked for and no address is configured.
pub async fn export(
    node: &Arc<Node>,
    volume: &str,
    request: ExportNbdRequest,
    forwarded: bool,
) -> Result<ExportAnswer, ApiError> {
    let Begun { attached, turn, what } =
        match exporting::begin(node, volume, routes::EXPORT_NBD, &request, forwarded).await? {
            Asked::Here(begun) => begun,
            Asked::There(answer) => return Ok(*answer),
        };
    let ExportNbdRequest { tcp, read_only, clients } = request;
    start(node, &turn, &attached, WantedNbd { tcp, read_only, clients }, &what).await?;
    exporting::changed(node, &turn).await;
    let status = node.data.volume_status(attached.id).await;
    let frontends = status.map(|status| status.frontends).unwrap_or_default();
    let export = of(node, &attached, &frontends).ok_or_else(|| moved(&what))?;
    Ok(ExportAnswer { version: VERSION, export, nvme_secrets: Vec::new() })
}

/// Makes the export's sockets.
pub(in crate::volumes) async fn start(
    node: &Arc<Node>,
    turn: &Turn,
    attached: &Attached,
    shown: WantedNbd,
    what: &str,
) -> Result<(), ApiError> {
    if shown.tcp && node.nbd.tcp().is_empty() {
        return Err(ApiError::new(
            ErrorCode::NotSupported,
            what,
            format!("node {} has no TCP address for NBD", node.identity.name),
            "Set `listen` under [nbd] and restart the node, or export on the unix socket only",
        ));
    }
    refuse_clients(node, &shown, what)?;
    let export = nbd::Export {
        volume: attached.id,
        name: attached.name().to_owned(),
        description: format!("evenkeel volume {}", attached.id),
        size: attached.size(),
        block_size: attached.block_size,
        read_only: shown.read_only,
        fast_zeroes: false,
    };
    let permitted = shown.tcp.then(|| shown.clients.clone());
    let served = node.nbd.export(export, permitted).await;
    served.map_err(|why| {
        let advice = "Repair what is in the way, then export again";
        ApiError::new(ErrorCode::System, what, why, advice)
    })?;
    turn.export(attached, Some(shown));
    Ok(())
}

/// Refuses clients whose names nobody could check, and an export that other machines reach and
/// that is for nobody in particular.
fn refuse_clients(node: &Node, shown: &WantedNbd, what: &str) -> Result<(), ApiError> {
    let refuse = |code, why: String, advice: &str| Err(ApiError::new(code, what, why, advice));
    let WantedNbd { tcp, read_only: _, clients } = shown;
    if let Some(bad) = clients.iter().find(|name| !is_client_name(&node.config, name)) {
        let why = format!("{bad:?} is no name that a client's certificate has");
        return refuse(ErrorCode::BadRequest, why, "Name clients as their certificates do");
    }
    if clients.len() > MAX_CLIENT_NAMES {
        let why =
            format!("{} clients are named, and {MAX_CLIENT_NAMES} are possible", clients.len());
        let advice = "Sign one more name into the certificates of several clients, and name that";
        return refuse(ErrorCode::BadRequest, why, advice);
    }
    let nbd = &node.config.nbd;
    let is_compared = *tcp && check::shows_nbd_certificates(&node.config);
    if !clients.is_empty() && !is_compared {
        let why = match tcp {
            true => format!("NBD clients of node {} show no certificates", node.identity.name),
            false => "clients are named, and it is not exported on TCP".to_owned(),
        };
        let advice = "Listen for NBD on an address that other machines reach, or set `authority` under [nbd.tls]; restart the node, and export it on TCP";
        return refuse(ErrorCode::NotSupported, why, advice);
    }
    match nbd.listen.iter().find(|text| !check::is_local(text)) {
        Some(address) if *tcp && clients.is_empty() && !nbd.insecure => {
            let why = format!(
                "nbd.listen = {address:?} is reachable from other machines, and whoever has a certificate of a client could use the volume"
            );
            let advice = "Name who may, by `--client NAME`, as the client's certificate does; or say `insecure = true` under [nbd] if all of them may use every volume";
            refuse(ErrorCode::BadRequest, why, advice)
        }
        _ => Ok(()),
    }
}

/// Whether a client can be called so in a certificate: by the cluster's authority as nodes are,
/// else as hosts are.
fn is_client_name(config: &Config, name: &str) -> bool {
    match check::is_nbd_by_cluster(config) {
        true => names::check(name).is_ok(),
        false => tls::is_dns_name(name),
    }
}

/// Ends the export: no new clients, and those that are connected are closed.
pub(in crate::volumes) async fn stop(node: &Node, turn: &Turn, attached: &Attached) -> bool {
    node.nbd.unexport(attached.name());
    // Nor is one made any more that could not be made yet.
    let is_missing = node.volumes.unshown(attached.id).is_some_and(|it| it.missing.nbd.is_some());
    let was = attached.nbd().is_some() || is_missing;
    turn.export(attached, None);
    let status = node.data.volume_status(attached.id).await;
    for (frontend, name) in status.map(|status| status.frontends).unwrap_or_default() {
        if name.starts_with(FRONTEND) {
            // It may have ended by itself meanwhile.
            let _ = node.data.remove_frontend(attached.id, frontend).await;
        }
    }
    was
}

/// The NBD export of a volume, for its status.
pub(in crate::volumes) fn of(
    node: &Node,
    attached: &Attached,
    frontends: &[(FrontendId, String)],
) -> Option<Export> {
    let wanted = attached.nbd()?;
    let socket = node.nbd.socket(attached.name()).display().to_string();
    let tcp = if wanted.tcp { node.nbd.tcp().to_vec() } else { Vec::new() };
    let tls = wanted.tcp && node.nbd.is_tls();
    let scheme = if tls { "nbds" } else { "nbd" };
    let name = attached.name();
    let mut uris = vec![format!("nbd+unix:///{name}?socket={socket}")];
    uris.extend(tcp.iter().map(|address| format!("{scheme}://{address}/{name}")));
    Some(Export {
        kind: "nbd".into(),
        node: node.reference(),
        socket: Some(socket),
        tcp,
        tls,
        read_only: wanted.read_only,
        client_names: wanted.clients,
        uris,
        clients: frontends.iter().filter(|(_, name)| name.starts_with(FRONTEND)).count(),
        nvme: None,
    })
}
