//! NVMe exports of attached volumes.

use std::sync::Arc;

use evenkeel_api::types::{
    Export, ExportAnswer, ExportNvmeRequest, NvmeAuthenticated, NvmeExport, VERSION,
};
use evenkeel_api::{ApiError, ErrorCode, routes};

use super::actor::Turn;
use super::exporting::{self, Asked, Begun};
use super::nvme_secrets;
use crate::coordinator::WantedNvme;
use crate::nvme::{self, names};
use crate::volumes::Attached;
use crate::volumes::Node;
use crate::volumes::lookup::moved;

/// Most hosts of one export: they are kept beside the volume's view.
const MAX_HOSTS: usize = 64;

/// Serves an attached volume by NVMe over TCP, on the node where it is attached.
///
/// # Errors
/// If it is not attached, no host is named, or the node has no address for NVMe.
pub async fn export(
    node: &Arc<Node>,
    volume: &str,
    request: ExportNvmeRequest,
    forwarded: bool,
) -> Result<ExportAnswer, ApiError> {
    let Begun { attached, turn, what } =
        match exporting::begin(node, volume, routes::EXPORT_NVME, &request, forwarded).await? {
            Asked::Here(begun) => begun,
            Asked::There(answer) => return Ok(*answer),
        };
    let before = attached.nvme().or_else(|| missing(node, &attached));
    let (shown, nvme_secrets) = nvme_secrets::wanted(request, before.as_ref(), &what)?;
    start(node, &turn, &attached, shown, &what).await?;
    exporting::changed(node, &turn).await;
    let export = of(node, &attached).ok_or_else(|| moved(&what))?;
    Ok(ExportAnswer { version: VERSION, export, nvme_secrets })
}

/// Makes the export. Hosts that it is not for any more are disconnected.
pub(in crate::volumes) async fn start(
    node: &Arc<Node>,
    turn: &Turn,
    attached: &Attached,
    shown: WantedNvme,
    what: &str,
) -> Result<(), ApiError> {
    refuse_hosts(&shown.hosts, what)?;
    refuse_unproved(node, &shown, what)?;
    let keys = nvme_secrets::keys(&shown, what)?;
    if node.nvme.listen().is_empty() {
        return Err(ApiError::new(
            ErrorCode::NotSupported,
            what,
            format!("node {} has no address for NVMe", node.identity.name),
            "Set `listen` under [nvme] and restart the node",
        ));
    }
    refuse_shared(node, attached, what).await?;
    let as_namespace = nvme::Shown {
        size: attached.shared_size(),
        block_size: attached.block_size,
        best_write: attached.best_write,
        is_read_only: shown.read_only,
    };
    let generation = attached.began_after();
    let exported = node.nvme.export(attached.id, generation, &shown.hosts, keys, as_namespace);
    exported.map_err(|why| {
        let advice = "End other exports, or export it on another node";
        ApiError::new(ErrorCode::NotSupported, what, why, advice)
    })?;
    turn.export_nvme(attached, Some(shown));
    Ok(())
}

/// Refuses an export that is for nobody, or for hosts that cannot be called so.
fn refuse_hosts(hosts: &[String], what: &str) -> Result<(), ApiError> {
    let refuse = |why: String, advice| Err(ApiError::new(ErrorCode::BadRequest, what, why, advice));
    if hosts.is_empty() {
        let advice =
            "Name who may use it, by `--host NQN`: a Linux host has its own in /etc/nvme/hostnqn";
        return refuse("no host is named, and nobody may use it by default".into(), advice);
    }
    if hosts.len() > MAX_HOSTS {
        let why = format!("{} hosts are named, and {MAX_HOSTS} are possible", hosts.len());
        return refuse(why, "Name fewer hosts");
    }
    match hosts.iter().find_map(|host| names::check(host).err()) {
        Some(why) => refuse(why, "Name hosts as they name themselves"),
        None => Ok(()),
    }
}

/// Where other machines reach the node, a name alone lets nobody in.
fn refuse_unproved(node: &Node, shown: &WantedNvme, what: &str) -> Result<(), ApiError> {
    let unproved = shown.hosts.iter().find(|host| !shown.keys.contains_key(*host));
    // As they are bound: a name in the configuration may mean another address by now.
    let open = node.nvme.listen().iter().find(|bound| !bound.ip().to_canonical().is_loopback());
    let (Some(host), Some(address)) = (unproved, open) else {
        return Ok(());
    };
    if node.config.nvme.insecure {
        return Ok(());
    }
    let why = format!(
        "{address} in nvme.listen is reachable from other machines, and {} has no key: whoever called itself so could use the volume",
        names::shown(host)
    );
    let advice = "Give it a key, by `--generate-key` or `--secrets FILE`; or say `insecure = true` under [nvme] if the network itself keeps strangers out, and restart the node";
    Err(ApiError::new(ErrorCode::NotSupported, what, why, advice))
}

/// A host that reached one volume through two nodes would take them for two paths, and after one is
/// lost an old write could come after a new one.
async fn refuse_shared(node: &Node, attached: &Attached, what: &str) -> Result<(), ApiError> {
    let status = node.data.volume_status(attached.id).await;
    let view = status.and_then(|status| status.primary).and_then(|primary| primary.view);
    match view.is_some_and(|view| view.is_shared()) {
        true => Err(ApiError::new(
            ErrorCode::NotSupported,
            what,
            "several nodes may attach it, and hosts of NVMe could use it through one node only",
            "Permit one primary (`evenkeel volume change NAME --primaries 1`), or export it by NBD",
        )),
        false => Ok(()),
    }
}

/// The export that could not be made yet.
fn missing(node: &Node, attached: &Attached) -> Option<WantedNvme> {
    node.volumes.unshown(attached.id).and_then(|unshown| unshown.missing.nvme)
}

/// Ends the export: its hosts are disconnected, after what the volume has begun for them. Returns
/// whether there was one, or one was to be made.
pub(in crate::volumes) fn stop(node: &Node, turn: &Turn, attached: &Attached) -> bool {
    let was = attached.nvme().is_some() || missing(node, attached).is_some();
    turn.export_nvme(attached, None);
    node.nvme.unexport(attached.id);
    was
}

/// The export of a volume, for its status.
pub(in crate::volumes) fn of(node: &Node, attached: &Attached) -> Option<Export> {
    let WantedNvme { hosts, read_only, keys } = attached.nvme()?;
    let subsystem = names::subsystem(attached.id);
    let authenticated = keys
        .into_iter()
        .map(|(nqn, keys)| NvmeAuthenticated { nqn, both_ways: keys.controller.is_some() })
        .collect();
    let connected = node.nvme.hosts(attached.id);
    Some(Export {
        kind: "nvme".into(),
        node: node.reference(),
        socket: None,
        tcp: node.nvme.listen().iter().map(ToString::to_string).collect(),
        tls: false,
        read_only,
        uris: Vec::new(),
        clients: connected.len(),
        client_names: Vec::new(),
        nvme: Some(NvmeExport { subsystem, hosts, authenticated, connected }),
    })
}
