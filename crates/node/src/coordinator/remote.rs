//! The coordinator on another node, asked over control connections.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_api::{ApiError, ErrorCode};

use super::{Answer, CallError, CallFuture, Coordinator, Request};
use crate::config::Address;
use crate::peer::{Destination, Peers, Wanted};

/// The path at which a node serves its coordinator to peers.
pub const PATH: &str = "/peer/v1/coordinator";
/// How long one attempt may take. The coordinator's disk is the slowest part of it.
const DEADLINE: Duration = Duration::from_secs(3);

/// The coordinator at an address.
pub struct Remote {
    peers: Arc<Peers>,
    address: Address,
    /// Whether an operator has given the address just now: nobody is wanted there then.
    is_first: bool,
}

impl Remote {
    /// The coordinator that the node at this address serves: the one that is known to, or anyone if
    /// none is.
    #[must_use]
    pub const fn new(peers: Arc<Peers>, address: Address) -> Self {
        Self { peers, address, is_first: false }
    }

    /// The coordinator at an address that an operator has given to `node join`: whoever serves it.
    #[must_use]
    pub const fn first(peers: Arc<Peers>, address: Address) -> Self {
        Self { peers, address, is_first: true }
    }
}

impl Coordinator for Remote {
    fn call(&self, request: Request) -> CallFuture<'_> {
        Box::pin(async move {
            let wanted = match self.is_first {
                true => Wanted::Anyone,
                false => self.peers.coordinator(),
            };
            let to = Destination { address: &self.address, wanted: &wanted };
            let answer = self.peers.post_json(to, PATH, &request, DEADLINE).await;
            answer.map_err(|e| CallError::Unreachable(e.to_string())).and_then(meant)
        })
    }
}

/// What the node of the coordinator means. Only these codes are a no of the coordinator; by all
/// others that node says why it has not asked it, or that its database failed (`System` with older
/// software). A code that this software does not know is no answer at all.
fn meant(answer: Result<Answer, ApiError>) -> Result<Answer, CallError> {
    answer.or_else(|error| match error.code {
        ErrorCode::NodeRemoved => Ok(Answer::NodeRemoved { why: error.why }),
        ErrorCode::BadRequest | ErrorCode::WrongCluster => Err(CallError::Refused(error.why)),
        _ => Err(CallError::Unreachable(error.why)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_coordinator_could_not_do_is_not_refused() {
        let of = |code| meant(Err(ApiError::new(code, "", "the disk is full", "")));
        let failed = [ErrorCode::CoordinatorFailed, ErrorCode::System];
        // A certificate has expired; its node has too much to do, or ends.
        let not_asked = [ErrorCode::NoSuchPath, ErrorCode::WrongState, ErrorCode::Stopping];
        for code in failed.into_iter().chain(not_asked) {
            assert!(matches!(of(code), Err(CallError::Unreachable(why)) if why.contains("full")));
        }
        // What older software can't read is refused, and asked for otherwise.
        for code in [ErrorCode::BadRequest, ErrorCode::WrongCluster] {
            assert!(matches!(of(code), Err(CallError::Refused(_))));
        }
        assert!(matches!(of(ErrorCode::NodeRemoved), Ok(Answer::NodeRemoved { .. })));
    }
}
