//! The coordinator on another node, asked over control connections.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_api::ErrorCode;

use super::{Answer, CallError, CallFuture, Coordinator, Request};
use crate::config::Address;
use crate::peer::Peers;

/// The path at which a node serves its coordinator to peers.
pub const PATH: &str = "/peer/v1/coordinator";
/// How long one attempt may take. The coordinator's disk is the slowest part of it.
const DEADLINE: Duration = Duration::from_secs(3);

/// The coordinator at an address.
pub struct Remote {
    peers: Arc<Peers>,
    address: Address,
}

impl Remote {
    /// The coordinator that the node at this address serves.
    #[must_use]
    pub fn new(peers: Arc<Peers>, address: Address) -> Self {
        Self { peers, address }
    }
}

impl Coordinator for Remote {
    fn call(&self, request: Request) -> CallFuture<'_> {
        Box::pin(async move {
            let answer = self.peers.post_json(&self.address, PATH, &request, DEADLINE).await;
            answer.map_err(|e| CallError::Unreachable(e.to_string())).and_then(
                |answer| match answer {
                    Ok(answer) => Ok(answer),
                    Err(error) if error.code == ErrorCode::NodeRemoved => {
                        Ok(Answer::NodeRemoved { why: error.why })
                    }
                    Err(error) => Err(CallError::Refused(error.why)),
                },
            ) as Result<Answer, CallError>
        })
    }
}
