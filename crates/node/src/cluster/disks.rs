//! The disks of all nodes, and of which nodes they are not known.

use evenkeel_api::types::{Disk, DisksAnswer};
use evenkeel_api::{ApiError, ErrorCode, routes};
use hyper::Method;

use super::{Cluster, QUESTION, of_silent};
use crate::coordinator::{NodeLiveness, NodeRecord};
use crate::tasks;

/// The disks of the nodes that have told theirs.
#[derive(Debug, Default)]
pub struct Listed {
    /// By node and name.
    pub disks: Vec<Disk>,
    /// A sentence for each node whose disks are missing, and if nodes may be.
    pub warnings: Vec<String>,
    silent: Vec<Silent>,
}

/// A node whose disks are not known, and what a command ends with that names one of them.
#[derive(Debug)]
struct Silent {
    node: NodeRecord,
    refusal: ApiError,
}

impl Listed {
    /// Refuses a place, `NODE` or `NODE:DISK`, on a node that has not told its disks.
    ///
    /// # Errors
    /// Says so, and why.
    pub fn refuse_silent(&self, place: &str, what: &str) -> Result<(), ApiError> {
        let name = place.rsplit_once(':').map_or(place, |(node, _)| node);
        let mut silent = self.silent.iter();
        match silent.find(|silent| silent.node.name == name || silent.node.id == name) {
            Some(Silent { refusal, .. }) => {
                Err(ApiError { what: what.to_owned(), ..refusal.clone() })
            }
            None => Ok(()),
        }
    }

    fn add_silent(&mut self, node: NodeRecord, warning: String, refusal: ApiError) {
        self.warnings.push(warning);
        self.silent.push(Silent { node, refusal });
    }
}

impl Cluster {
    /// The disks of all nodes.
    ///
    /// # Errors
    /// If this node's own cannot be listed.
    pub async fn disks(&self) -> Result<Listed, ApiError> {
        let own = self.disks.clone();
        let disks = tasks::blocking(move || Ok(own.list())).await?;
        let here = self.identity.node.to_string();
        let members = self.nodes().await;
        // A node that is in no cluster has no others to ask for.
        let reaches_coordinator =
            !self.coordinator.is_joined() || self.coordinator.status().reachable;
        let warnings = unlisted(reaches_coordinator).into_iter().collect();
        let mut listed = Listed { disks, warnings, silent: Vec::new() };
        let others = members.into_iter().filter(|member| member.node.id != here);
        let (asked, silent): (Vec<_>, Vec<_>) = others.partition(|member| member.may_live);
        for NodeLiveness { node, .. } in silent {
            let (warning, refusal) = unseen(&node.name, reaches_coordinator);
            listed.add_silent(node, warning, refusal);
        }
        let ask = |member: NodeLiveness| {
            let at = self.clone();
            async move {
                let (method, path) = (Method::GET, routes::DISKS);
                let answer = at.forward::<(), DisksAnswer>(&member, method, path, None, QUESTION);
                (answer.await, member.node)
            }
        };
        for answer in tasks::at_most(tasks::MAX_ASKED, asked.into_iter().map(ask)).await {
            match answer {
                Ok((Ok(answer), _)) => listed.disks.extend(answer.disks),
                Ok((Err(error), node)) => {
                    let warning =
                        format!("the disks of node {} are not listed: {}", node.name, error.why);
                    let why =
                        format!("the disks of node {} are not known: {}", node.name, error.why);
                    listed.add_silent(node, warning, ApiError { why, ..error });
                }
                Err(e) => listed.warnings.push(format!("the disks of a node are not listed: {e}")),
            }
        }
        listed.disks.sort_by(|a, b| (&a.node.name, &a.name).cmp(&(&b.node.name, &b.name)));
        Ok(listed)
    }
}

/// That nodes may be missing, of which only the coordinator knows.
fn unlisted(reaches_coordinator: bool) -> Option<String> {
    (!reaches_coordinator).then(|| {
        "the coordinator does not answer: of other nodes only those are asked that were known before"
            .to_owned()
    })
}

/// Why a node was not asked for its disks, and what a command ends with that names one of them.
fn unseen(name: &str, reaches_coordinator: bool) -> (String, ApiError) {
    let silence = match reaches_coordinator {
        true => format!("the coordinator does not hear node {name}"),
        false => format!("the coordinator did not hear node {name} when it last answered"),
    };
    let why = match reaches_coordinator {
        true => format!("node {name} counts as dead, for {silence}: its disks are not known"),
        false => format!("{silence}: its disks are not known"),
    };
    let action = of_silent(name, false, reaches_coordinator);
    let refusal = ApiError::new(ErrorCode::NodeUnreachable, "", why, action);
    (format!("{silence}: its disks are not listed"), refusal)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str) -> NodeRecord {
        serde_json::from_value(serde_json::json!({
            "id": format!("{name}-id"), "name": name, "addresses": [], "software": "",
            "incarnation": 0,
        }))
        .unwrap()
    }

    #[test]
    fn of_a_node_that_is_not_asked_it_is_said_who_does_not_hear_it() {
        let (warning, refusal) = unseen("n2", true);
        assert_eq!(warning, "the coordinator does not hear node n2: its disks are not listed");
        assert_eq!(
            refusal.why,
            "node n2 counts as dead, for the coordinator does not hear node n2: its disks are not known"
        );
        assert!(refusal.action.starts_with("Start node n2, "), "{refusal}");
        let (warning, refusal) = unseen("n2", false);
        assert!(warning.contains("did not hear node n2 when it last answered"), "{warning}");
        assert!(!refusal.why.contains("dead"), "{refusal}");
        assert_eq!(unlisted(true), None);
        assert!(unlisted(false).unwrap().contains("the coordinator does not answer"));
    }

    #[test]
    fn a_place_on_a_node_that_does_not_answer_is_no_place_that_is_not_there() {
        let mut listed = Listed::default();
        let (warning, refusal) = unseen("n4", true);
        listed.add_silent(node("n4"), warning, refusal);
        for place in ["n4", "n4:other", "n4-id:other"] {
            let refused = listed.refuse_silent(place, "cannot add a replica").unwrap_err();
            assert_eq!(refused.code, ErrorCode::NodeUnreachable, "{place}");
            assert_eq!(refused.what, "cannot add a replica");
        }
        for other in ["n3:other", "n9"] {
            listed.refuse_silent(other, "").unwrap();
        }
    }
}
