//! An export is asked for, or its end: where the volume is attached, and what precedes and follows
//! what is done there, whatever the protocol.

use std::sync::Arc;

use evenkeel_api::types::ExportAnswer;
use evenkeel_api::{ApiError, ErrorCode, routes};
use hyper::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::actor::{Turn, turn};
use super::wanted;
use crate::cluster;
use crate::coordinator::NodeLiveness;
use crate::volumes::Node;
use crate::volumes::lookup::{Found, There, find, forward, member, moved, primary_elsewhere};
use crate::volumes::{Attached, Phase};

/// Where a volume is attached.
pub(super) enum Place {
    Here(Arc<Attached>),
    There(Elsewhere),
}

/// A volume that another node has attached.
pub(super) struct Elsewhere(Box<(Found, NodeLiveness)>);

pub(super) async fn place(
    node: &Node,
    what: &str,
    volume: &str,
    forwarded: bool,
) -> Result<Place, ApiError> {
    if let Some(attached) = node.volumes.by_name(volume) {
        return Ok(Place::Here(attached));
    }
    let found = find(node, what, volume).await?;
    match primary_elsewhere(node, &found.view) {
        Some(_) if forwarded => Err(moved(what)),
        Some(elsewhere) => {
            let target = member(node, what, elsewhere)?;
            Ok(Place::There(Elsewhere(Box::new((found, target)))))
        }
        None => Err(ApiError::new(
            ErrorCode::NotAttached,
            what,
            "the volume is not attached",
            "Attach it first, by `evenkeel attach`",
        )),
    }
}

impl Elsewhere {
    /// Has that node do it.
    pub(super) async fn ask<Q: Serialize, A: DeserializeOwned>(
        &self,
        node: &Node,
        method: Method,
        route: &str,
        body: Option<&Q>,
        what: &str,
    ) -> Result<A, ApiError> {
        let (found, target) = &*self.0;
        let path = routes::fill(route, &[&found.stored.record.id]);
        forward(node, There { found, target, what }, method, &path, body, cluster::COMMAND).await
    }
}

/// What comes of it that an export is asked for.
pub(super) enum Asked {
    /// It is to be made here.
    Here(Begun),
    /// The node has answered that has the volume attached.
    There(Box<ExportAnswer>),
}

/// An export that is to be made here, in its turn.
pub(super) struct Begun {
    pub(super) attached: Arc<Attached>,
    pub(super) turn: Turn,
    /// What is said to fail.
    pub(super) what: String,
}

/// Begins an export where the volume is attached.
///
/// # Errors
/// If it is not attached, or those of the node that has it.
pub(super) async fn begin<Q: Serialize>(
    node: &Arc<Node>,
    volume: &str,
    route: &str,
    request: &Q,
    forwarded: bool,
) -> Result<Asked, ApiError> {
    let what = format!("cannot export volume {volume}");
    match place(node, &what, volume, forwarded).await? {
        Place::Here(attached) => {
            let what = format!("cannot export volume {}", attached.name());
            let turn = turn(node, attached.id).await;
            if !node.volumes.holds(&attached) || attached.phase() != Phase::Attached {
                return Err(moved(&what));
            }
            Ok(Asked::Here(Begun { attached, turn, what }))
        }
        Place::There(elsewhere) => {
            let asked = elsewhere.ask(node, Method::POST, route, Some(request), &what);
            Ok(Asked::There(Box::new(asked.await?)))
        }
    }
}

/// What is exported of a volume has changed here: the node and the coordinator remember it.
pub(super) async fn changed(node: &Arc<Node>, turn: &Turn) {
    turn.save().await;
    wanted::changed(node, turn).await;
}
