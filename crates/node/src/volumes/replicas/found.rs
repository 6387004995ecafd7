//! All replicas that can be found: on this node's disks, at the paths that were named, and on the
//! disks of the cluster's other nodes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use evenkeel_api::ApiError;
use evenkeel_core::{NodeId, VolumeId};
use evenkeel_format::{SUPERBLOCK_LENGTH, Superblock};
use hyper::Method;

use crate::cluster;
use crate::coordinator::{NodeLiveness, from_hex};
use crate::examine::{Found, examine, examine_one};
use crate::peer::requests::{FOUND, PeerFound};
use crate::tasks;
use crate::volumes::Node;

/// A replica, wherever it is.
#[derive(Debug, Clone)]
pub(in crate::volumes) struct Replica {
    /// What its disk says.
    pub superblock: Superblock,
    /// The node that has it.
    pub node: NodeId,
    /// That node's name.
    pub node_name: String,
    /// The disk there; `None`: it lies at a path that is no disk of this node yet.
    pub disk: Option<String>,
    /// The file or device on that node.
    pub path: PathBuf,
    /// What has to be given to this node as a disk, so that it can serve the replica.
    pub needs: Option<PathBuf>,
}

impl Replica {
    /// Where it is, for people.
    pub fn place(&self) -> String {
        match &self.disk {
            Some(disk) => format!("{}:{disk}", self.node_name),
            None => self.path.display().to_string(),
        }
    }
}

/// What was found in the cluster.
#[derive(Debug, Default)]
pub(in crate::volumes) struct Everything {
    pub replicas: Vec<Replica>,
    /// Volumes that are attached, with the name of the node.
    pub attached: Vec<(String, String)>,
    pub warnings: Vec<String>,
}

/// Looks everywhere.
pub(in crate::volumes) async fn everything(
    node: &Arc<Node>,
    paths: &[String],
) -> Result<Everything, ApiError> {
    let mut all = Everything::default();
    let here = here(node, None).await?;
    take(&mut all, node.identity.node, &node.identity.name, here);
    let own = node.identity.node.to_string();
    for member in node.cluster.nodes().await {
        if member.node.id != own {
            ask(&mut all, node, &member).await;
        }
    }
    let named: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
    let (found, warnings) = node.blocking(move |_| Ok(at_paths(&named))).await?;
    all.warnings.extend(warnings);
    for (superblock, path, needs) in found {
        if all
            .replicas
            .iter()
            .any(|replica| replica.path == path && replica.node == node.identity.node)
        {
            continue;
        }
        let (id, name) = (node.identity.node, node.identity.name.clone());
        all.replicas.push(Replica {
            superblock,
            node: id,
            node_name: name,
            disk: None,
            path,
            needs: Some(needs),
        });
    }
    Ok(all)
}

/// What the other nodes have of volumes, many asked at the same time; each may take so long. Who
/// does not answer in time has nothing to say.
pub(in crate::volumes) async fn elsewhere(
    node: &Arc<Node>,
    only: Option<VolumeId>,
    patience: impl Fn(&NodeLiveness) -> Duration,
) -> Everything {
    let own = node.identity.node.to_string();
    let path = only.map_or_else(|| FOUND.to_owned(), |volume| format!("{FOUND}?volume={volume}"));
    let others = node.coordinator.nodes().into_iter().filter(|member| member.node.id != own);
    let asked = others.map(|member| {
        let (node, path, patience) = (node.clone(), path.clone(), patience(&member));
        async move {
            let answer =
                node.cluster.forward::<(), PeerFound>(&member, Method::GET, &path, None, patience);
            let found = tokio::time::timeout(patience, answer).await.ok()?.ok()?;
            Some((member.node.id.parse::<NodeId>().ok()?, member.node.name, found))
        }
    });
    let mut all = Everything::default();
    for answer in tasks::at_most(tasks::MAX_ASKED, asked).await {
        if let Ok(Some((id, name, found))) = answer {
            take(&mut all, id, &name, found);
        }
    }
    all
}

/// The replicas on this node's disks, of one volume or of all, and the volumes attached here.
///
/// # Errors
/// If the work was cut off.
pub async fn here(node: &Arc<Node>, only: Option<VolumeId>) -> Result<PeerFound, ApiError> {
    let replicas = node.blocking(move |node| {
        let is_wanted = |it: &Superblock| only.is_none_or(|volume| it.volume == volume);
        let places = match only {
            None => node.disks.places(),
            Some(_) => node.disks.places_of(is_wanted),
        };
        Ok(places
            .into_iter()
            .filter_map(|place| {
                let superblock = examine_one(&place.path).superblock.filter(is_wanted)?;
                let bytes = superblock.encode().ok()?;
                Some((crate::coordinator::to_hex(without_zeroes(&bytes.0)), place.disk, place.path))
            })
            .collect())
    });
    let attached = node.volumes.all().iter().map(|attached| attached.id.to_string()).collect();
    Ok(PeerFound { replicas: replicas.await?, attached })
}

async fn ask(all: &mut Everything, node: &Arc<Node>, member: &NodeLiveness) {
    let name = member.node.name.clone();
    if !member.may_live {
        let warning = format!("node {name} does not answer: its disks were not looked at");
        return all.warnings.push(warning);
    }
    let answer =
        node.cluster.forward::<(), PeerFound>(member, Method::GET, FOUND, None, cluster::COMMAND);
    match (answer.await, member.node.id.parse()) {
        (Ok(found), Ok(id)) => take(all, id, &name, found),
        (Err(e), _) => {
            all.warnings.push(format!("the disks of node {name} were not looked at: {}", e.why))
        }
        (Ok(_), Err(_)) => all.warnings.push(format!("node {name} has no proper identity")),
    }
}

fn take(all: &mut Everything, id: NodeId, name: &str, found: PeerFound) {
    let attached = found.attached.into_iter();
    all.attached.extend(attached.map(|volume| (volume, name.to_owned())));
    for (superblock, disk, path) in found.replicas {
        let superblock = from_hex(&superblock).map(|mut bytes| {
            bytes.resize(SUPERBLOCK_LENGTH, 0);
            Superblock::decode(&bytes)
        });
        match superblock {
            Some(Ok(superblock)) => all.replicas.push(Replica {
                superblock,
                node: id,
                node_name: name.to_owned(),
                disk: Some(disk),
                path,
                needs: None,
            }),
            _ => all.warnings.push(format!(
                "a replica on node {name} cannot be understood: compare the nodes' versions"
            )),
        }
    }
}

/// The usable replicas at paths, each with what would have to be a disk, and what is wrong.
fn at_paths(paths: &[PathBuf]) -> (Vec<(Superblock, PathBuf, PathBuf)>, Vec<String>) {
    let (mut found, mut warnings) = (Vec::new(), Vec::new());
    for path in paths {
        let path = path.canonicalize().unwrap_or_else(|_| path.clone());
        for Found { examined, superblock } in examine(&path) {
            for problem in &examined.problems {
                warnings.push(format!("{}: {}", examined.path, problem.why));
            }
            let file = PathBuf::from(&examined.path);
            let needs = if examined.device { file.clone() } else { directory_of(&file) };
            found.extend(superblock.map(|superblock| (superblock, file, needs)));
        }
    }
    (found, warnings)
}

/// Without the zeroes at its end, which are most of a superblock.
fn without_zeroes(bytes: &[u8]) -> &[u8] {
    let length = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    &bytes[..length]
}

fn directory_of(file: &Path) -> PathBuf {
    file.parent().unwrap_or(Path::new("/")).to_owned()
}
