//! How this node becomes a member.

use std::sync::Arc;

use evenkeel_api::types::NodeAnswer;
use evenkeel_api::{ApiError, ErrorCode, routes};
use hyper::Method;
use hyper::body::Bytes;

use super::{Member, cluster_full, registration};
use crate::cluster;
use crate::config::Address;
use crate::coordinator::remote::Remote;
use crate::coordinator::{Answer, CallError, Coordinator as _, Request, removed};
use crate::peer::{Destination, Wanted};

impl Member {
    /// Makes this node a member of the cluster whose coordinator's node is at this address.
    /// `is_chosen`: an operator says that this node counts, should it have been found to be a copy
    /// of another.
    ///
    /// # Errors
    /// If it is a member of another one, or is refused there.
    pub async fn join(self: &Arc<Self>, address: &str, is_chosen: bool) -> Result<(), ApiError> {
        let what = format!("cannot join the cluster of {address}");
        let mut parsed = Address::parse(address).map_err(|why| bad_address(&what, why))?;
        if self.own.config.coordinator.here {
            let why =
                "this node serves a coordinator of its own (`here = true` under [coordinator])";
            let advice = "Join the others to this node, or take that key away and restart it";
            return Err(ApiError::new(ErrorCode::AlreadyJoined, what, why, advice));
        }
        parsed = self.coordinator_by(parsed, &what).await?;
        let mut remote = self.remote_at(&parsed);
        let mut answer = self.register_at(&remote, is_chosen).await;
        if let Err(CallError::Refused(_)) = &answer
            && let Some(named) = self.coordinator_of(&parsed).await
        {
            tracing::info!(asked = %parsed, coordinator = %named, "going on to the coordinator's node");
            (parsed, remote) = (named.clone(), self.remote_at(&named));
            answer = self.register_at(&remote, is_chosen).await;
        }
        let what = match parsed.to_string() {
            named if named == address => what,
            named => format!("{what}, whose coordinator is said to be at {named}"),
        };
        // It waits, and was admitted meanwhile: nothing more is to be done.
        let Some(registered) = self.registered(answer, &what).await? else { return Ok(()) };
        self.cluster.peers().forget_coordinator();
        let remote = Arc::new(Remote::new(self.cluster.peers().clone(), parsed.clone()));
        self.cluster.coordinator().set(remote, Some(&parsed));
        self.cluster.coordinator().set_id(registered.coordinator);
        self.admit().await;
        self.cluster.nodes().await;
        self.save().await.map_err(|why| {
            let advice = "Repair the state directory's file system, then join again";
            ApiError::new(ErrorCode::System, what, why, advice)
        })?;
        tracing::info!(%address, cluster = %registered.cluster, "joined the cluster");
        Ok(())
    }

    /// What the coordinator has answered to a registration.
    ///
    /// # Errors
    /// If it does not take this node in; what is to be done about that.
    async fn registered(
        self: &Arc<Self>,
        answer: Result<Answer, CallError>,
        what: &str,
    ) -> Result<Option<Registered>, ApiError> {
        match answer {
            Ok(Answer::Registered { coordinator, cluster }) => {
                Ok(Some(Registered { coordinator, cluster }))
            }
            Ok(Answer::NameInUse) => Err(self.name_in_use(what.to_owned())),
            Ok(Answer::ClusterFull { most }) => Err(cluster_full(what.to_owned(), most)),
            Ok(
                refusal @ (Answer::Waits { .. } | Answer::Copy { .. } | Answer::Superseded { .. }),
            ) => {
                self.note_refusal(refusal).await;
                self.admission.demand(what).map(|()| None)
            }
            Ok(Answer::NodeRemoved { why }) => {
                self.admission.is_removed(&why);
                Err(removed::refusal(what, &why))
            }
            Ok(other) => Err(bad_address(what, format!("it answered {other:?}"))),
            Err(CallError::Refused(why)) => {
                let advice = "Give the address of the node with `here = true` under [coordinator]";
                Err(ApiError::new(ErrorCode::WrongCluster, what, why, advice))
            }
            Err(CallError::Unreachable(why)) => Err(unreachable(what, why)),
        }
    }

    /// Checks an address before anything else is asked there.
    ///
    /// # Errors
    /// If it is none, or this node is a member already and that is not an address of its cluster.
    pub async fn is_of_its_cluster(&self, address: &str) -> Result<(), ApiError> {
        // One that serves the coordinator joins nobody: `join` refuses that.
        if self.own.config.coordinator.here {
            return Ok(());
        }
        let what = format!("cannot join the cluster of {address}");
        let parsed = Address::parse(address)
            .map_err(|why| ApiError::new(ErrorCode::BadRequest, &what, why, "Check the address"))?;
        self.coordinator_by(parsed, &what).await.map(drop)
    }

    /// Where to ask for the coordinator whose cluster is to be joined at this address. A node that
    /// is a member already asks where its own coordinator is, and nowhere else.
    async fn coordinator_by(&self, address: Address, what: &str) -> Result<Address, ApiError> {
        let membership = self.cluster.coordinator().membership();
        let known = membership.address.as_ref().and_then(|known| Address::parse(known).ok());
        if membership.coordinator.is_none() || known.as_ref() == Some(&address) {
            return Ok(address);
        }
        // By another node of the same cluster.
        match self.coordinator_of(&address).await {
            Some(named) if Some(&named) == known.as_ref() => Ok(named),
            _ => Err(already_joined(what, membership.address)),
        }
    }

    fn remote_at(&self, address: &Address) -> Remote {
        Remote::first(self.cluster.peers().clone(), address.clone())
    }

    async fn register_at(&self, remote: &Remote, is_chosen: bool) -> Result<Answer, CallError> {
        let request = registration(&self.own.identity, &self.addresses, is_chosen);
        remote.call(Request::Register(request)).await
    }

    /// Where the node at an address, which serves no coordinator, says that the one of its cluster
    /// is. Both have to prove that they belong to the cluster, as with every connection.
    async fn coordinator_of(&self, address: &Address) -> Option<Address> {
        let (path, deadline) = (routes::NODE, cluster::QUESTION);
        // Nobody is wanted: an operator has given the address.
        let to = Destination { address, wanted: &Wanted::Anyone };
        let answer =
            self.cluster.peers().request(to, Method::GET, path, Bytes::new(), deadline).await;
        let (_, body) = answer.ok().filter(|(status, _)| status.is_success())?;
        let status = serde_json::from_slice::<NodeAnswer>(&body).ok()?.node;
        let named = Address::parse(&status.coordinator.address?).ok()?;
        // A path on another machine is none of this one.
        let is_elsewhere = named.is_unix() && !address.is_unix();
        (named != *address && !is_elsewhere).then_some(named)
    }
}

/// What a coordinator tells a node that it takes in.
struct Registered {
    coordinator: String,
    cluster: String,
}

fn bad_address(what: &str, why: String) -> ApiError {
    ApiError::new(ErrorCode::BadRequest, what, why, "Check the address")
}

fn unreachable(what: &str, why: String) -> ApiError {
    let is_refused = why.contains("refused the connection:");
    let code = if is_refused { ErrorCode::NotAuthorised } else { ErrorCode::NodeUnreachable };
    let advice = "Check the address, and that the coordinator's node runs and lets this one in";
    ApiError::new(code, what, why, advice)
}

fn already_joined(what: &str, address: Option<String>) -> ApiError {
    let why = format!("it belongs to the one of {}", address.unwrap_or_default());
    let advice = "A node keeps its cluster; use another state directory for another cluster";
    ApiError::new(ErrorCode::AlreadyJoined, what, why, advice)
}
