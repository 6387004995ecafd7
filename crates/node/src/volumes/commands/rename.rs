//! Giving a volume another name: one transaction of the coordinator. Superblocks keep the name that
//! the volume had when they were made.

use std::sync::Arc;

use evenkeel_api::types::{ChangeAnswer, VERSION};
use evenkeel_api::{ApiError, ErrorCode};
use evenkeel_format::{NEW_NAME_RULE, is_new_name};

use crate::coordinator::{Answer, Request};
use crate::volumes::Node;
use crate::volumes::attachment::actor::turn;
use crate::volumes::lookup::{Found, find, moved, unexpected};
use crate::volumes::status;

/// Gives a volume another name.
///
/// # Errors
/// If there is no such volume, it is attached or meant to be, or the name is taken or none.
pub async fn rename(
    node: &Arc<Node>,
    volume: &str,
    name: String,
) -> Result<ChangeAnswer, ApiError> {
    let what = format!("cannot rename volume {volume}");
    if !is_new_name(&name) {
        let why = format!("{name:?} cannot be its name");
        return Err(ApiError::new(ErrorCode::BadRequest, what, why, NEW_NAME_RULE));
    }
    let found = find(node, &what, volume).await?;
    let _turn = turn(node, found.view.volume).await;
    let id = found.stored.record.id.clone();
    let before = &found.stored.record.name;
    let request =
        |revision| Request::RenameVolume { volume: id.clone(), name: name.clone(), revision };
    let revision = Some(found.stored.record.revision);
    match node.coordinator.change(&what, &id, revision, request).await? {
        Answer::Done => {}
        Answer::NameInUse => {
            let why = format!("there is another volume {name}");
            let advice = "Choose another name; see `evenkeel volume list`";
            return Err(ApiError::new(ErrorCode::NameInUse, what, why, advice));
        }
        Answer::Changed(_) => return Err(moved(&what)),
        Answer::UsedOn { nodes } => return Err(used(node, &found, &nodes, &what)),
        Answer::NoVolume => {
            return Err(find(node, &what, &id).await.err().unwrap_or_else(|| {
                ApiError::new(
                    ErrorCode::NoSuchVolume,
                    what,
                    "it was deleted meanwhile",
                    "See `evenkeel volume list`",
                )
            }));
        }
        other => return Err(unexpected(&what, &other)),
    }
    let changed = *before != name;
    let message = match changed {
        true => format!("volume {before} is volume {name} now"),
        false => "it was so already".to_owned(),
    };
    tracing::info!(%id, "{message}");
    let volume = status::one(node, &id, false).await?;
    Ok(ChangeAnswer { version: VERSION, changed, message, volume })
}

/// Devices, exports and mounts have its name: it is detached first.
fn used(node: &Node, found: &Found, nodes: &[String], what: &str) -> ApiError {
    let name = &found.stored.record.name;
    let is_attached =
        |id: &String| found.view.primaries.iter().any(|primary| primary.id.node.to_string() == *id);
    let reported = |id: &String| {
        let node = id.parse().map_or_else(|_| id.clone(), |id| node.coordinator.node_ref(id).name);
        let verb = if is_attached(id) { "attached" } else { "to be attached again" };
        (format!("it is {verb} on node {node}"), format!("evenkeel detach {name} --node {node}"))
    };
    let (why, advice): (Vec<String>, Vec<String>) = nodes.iter().map(reported).unzip();
    let advice = format!("Unmount and detach it first, then rename it:\n{}", advice.join("\n"));
    ApiError::new(ErrorCode::Attached, what, why.join("; "), advice)
}
