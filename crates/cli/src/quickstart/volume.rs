//! The volume of a quickstart: how it is attached, mounted and taken apart again.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use evenkeel_api::routes;
use evenkeel_api::types::{AttachAnswer, AttachHow, AttachRequest, DetachRequest};

use super::cluster::Node;
use super::store::{Exported, Mounted, Store};
use crate::args::Filesystem;
use crate::commands::mount;
use crate::failure::Failure;
use crate::system;

/// The volume's name.
pub const NAME: &str = "quickstart";

/// How the volume can be used while it is attached.
#[derive(Debug, Clone)]
pub enum Access {
    /// A block device.
    Device {
        /// Its path.
        path: PathBuf,
        /// How it is made.
        kind: String,
    },
    /// An NBD export.
    Nbd {
        /// Its unix socket.
        socket: PathBuf,
        /// What clients connect to.
        uri: String,
    },
}

/// Attaches the volume to a node.
///
/// # Errors
/// If the node refuses.
pub fn attach(node: &Node, how: AttachHow) -> Result<Access, Failure> {
    let request = AttachRequest { how, ..AttachRequest::default() };
    let path = routes::fill(routes::ATTACH, &[NAME]);
    let answer: AttachAnswer = node.client.post(&path, &request)?.parse()?;
    if let Some(device) = answer.device {
        let kind = answer.device_kind.unwrap_or_default();
        return Ok(Access::Device { path: device.into(), kind });
    }
    let export = answer.export.and_then(|export| {
        let uri = export.uris.first().cloned().unwrap_or_default();
        Some(Access::Nbd { socket: export.socket?.into(), uri })
    });
    export.ok_or_else(|| Failure::new("the volume cannot be used", "it has no device or export"))
}

/// Detaches the volume; says whether every replica answered to the end.
///
/// # Errors
/// If the node refuses.
pub fn detach(node: &Node) -> Result<bool, Failure> {
    let path = routes::fill(routes::DETACH, &[NAME]);
    let answer: evenkeel_api::types::DetachAnswer =
        node.client.post(&path, &DetachRequest::default())?.parse()?;
    Ok(answer.clean)
}

/// The best filesystem that this machine can make.
pub fn filesystem() -> Option<Filesystem> {
    [(Filesystem::Xfs, "mkfs.xfs"), (Filesystem::Ext4, "mkfs.ext4")]
        .into_iter()
        .find(|(_, program)| system::has_program(program))
        .map(|(filesystem, _)| filesystem)
}

/// Mounts the device, or connects to the export.
///
/// # Errors
/// If that fails.
pub fn open(access: &Access, point: &Path) -> Result<Box<dyn Store>, Failure> {
    match access {
        Access::Device { path, .. } => {
            fs::create_dir_all(point)
                .map_err(|error| Failure::new(format!("cannot make {}", point.display()), error))?;
            system::run("mount", &[path.as_os_str(), point.as_os_str()])?;
            Ok(Box::new(Mounted { point: point.to_owned() }))
        }
        Access::Nbd { socket, .. } => {
            let failed = |error: io::Error| Failure::new("cannot connect to the export", error);
            Ok(Box::new(Exported::connect(socket, NAME).map_err(failed)?))
        }
    }
}

/// Makes a filesystem where there can be one. Returns its name.
///
/// # Errors
/// If mkfs fails.
pub fn format(access: &Access) -> Result<Option<&'static str>, Failure> {
    let (Access::Device { path, .. }, Some(filesystem)) = (access, filesystem()) else {
        return Ok(None);
    };
    mount::make(NAME, path, filesystem, &system::run)?;
    Ok(Some(filesystem.name()))
}
