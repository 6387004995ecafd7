//! Whether this start of the daemon speaks for its node.
//!
//! The coordinator decides ([`evenkeel_coordinator::starts`]). Until it has admitted this start,
//! the node attaches nothing, and serves replicas only if it goes on in place of an admitted start
//! that has provably ended. Once another start has superseded it, it ends at once: its identity is
//! that of somebody else.

use std::time::Duration;

use evenkeel_api::{ApiError, ErrorCode};
use tokio::sync::watch;

use crate::coordinator::removed::{JOIN_ANEW, without_identities};
use crate::own::Own;

/// How long a command waits for the coordinator's first answer about this start.
const FIRST_ANSWER: Duration = Duration::from_secs(5);

/// What the coordinator has said of this start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// It is not admitted yet; why, if that is known.
    Waiting(Option<String>),
    /// It speaks for the node.
    Admitted,
    /// Another one does; why this one ends.
    Superseded(String),
}

/// What the coordinator has said of this start, and what this start has to tell of it.
pub struct Admission {
    own: Own,
    standing: watch::Sender<Standing>,
}

impl Admission {
    /// Of a start of which the coordinator has said nothing yet.
    #[must_use]
    pub fn new(own: Own) -> Self {
        Self { own, standing: watch::Sender::new(Standing::Waiting(None)) }
    }

    /// The coordinator has admitted this start.
    pub fn admit(&self) {
        let was = self.standing.send_replace(Standing::Admitted);
        if was == Standing::Admitted {
            return;
        }
        tracing::info!(
            counter = self.own.identity.start.id().counter,
            "this start speaks for the node"
        );
        if let Err(error) = self.own.identity.start.save_admitted(&self.own.state) {
            self.own
                .warnings
                .warn(format!("cannot remember that this start was admitted: {error}"));
        }
    }

    /// The coordinator does not admit this start yet. One that was admitted by another state of the
    /// coordinator's database goes on meanwhile: nobody has taken its place.
    pub fn waits(&self, seconds: u64) {
        if self.is_admitted() {
            return;
        }
        let why = format!(
            "this node waits until its predecessor has been silent for {seconds} s more: the last daemon with this state directory has not said goodbye, and may still run on a machine that this one is a copy of"
        );
        self.hold(why);
    }

    /// The coordinator has found that this start and another one speak for the node.
    pub fn is_copy(&self, at: &str) {
        let may_have_served = self.own.identity.start.continues_admitted() || self.is_admitted();
        let why = format!(
            "another machine runs with this node's identity, at {at}: one of the two has a copy of the other's state directory {}. This one is refused and serves nothing. To make it a node of its own, stop it, empty that directory and leave the copies of the other's disks away; to go on with this one in place of the other, stop the other and say `evenkeel node join ADDRESS` here, with the coordinator's address",
            self.own.state.path().display()
        );
        match may_have_served {
            true => self.supersede(why),
            false => self.hold(why),
        }
    }

    /// A later start of the node was admitted.
    pub fn is_superseded(&self, at: &str) {
        let why = format!(
            "a later start of this node was admitted, at {at}: this daemon ends, so that no two speak for the node. If that one runs from a copy of this state directory, stop it there, then say `evenkeel node join ADDRESS` here"
        );
        self.supersede(why);
    }

    /// This node was removed from the cluster: it serves nothing any more, and says why for as long
    /// as it runs.
    pub fn is_removed(&self, why: &str) {
        let directory = self.own.state.path().display();
        let why = without_identities(why);
        self.hold(format!(
            "this node is refused by the coordinator: {why}. {JOIN_ANEW} ({directory})"
        ));
    }

    /// A copy of this node speaks; the coordinator refuses it.
    pub fn warn_of_copy(&self, at: &str) {
        self.own.warnings.warn(format!(
        "another machine runs with this node's identity, seen at {at}: it has a copy of this state directory and is refused. Stop it there; to make it a node of its own, empty its state directory"
    ));
    }

    /// Whether this start speaks for the node.
    #[must_use]
    pub fn is_admitted(&self) -> bool {
        *self.standing.borrow() == Standing::Admitted
    }

    fn hold(&self, why: String) {
        let was = self.standing.send_replace(Standing::Waiting(Some(why.clone())));
        let begin = |why: &str| why.split(' ').take(3).map(str::to_owned).collect::<Vec<_>>();
        // The seconds that are left are no news.
        if !matches!(was, Standing::Waiting(Some(before)) if begin(&before) == begin(&why)) {
            tracing::warn!(node = self.own.identity.name, "{why}");
        }
    }

    fn supersede(&self, why: String) {
        tracing::error!(node = self.own.identity.name, "{why}");
        if let Err(error) = self.own.identity.start.save_superseded(&self.own.state) {
            tracing::error!(%error, "cannot remember that this start was superseded");
        }
        self.standing.send_replace(Standing::Superseded(why));
    }

    /// Whether replicas of this node may be served to primaries.
    #[must_use]
    pub fn may_serve_replicas(&self) -> bool {
        match &*self.standing.borrow() {
            Standing::Admitted => true,
            Standing::Waiting(None) => self.own.identity.start.continues_admitted(),
            Standing::Waiting(Some(_)) | Standing::Superseded(_) => false,
        }
    }

    /// Waits until this start is admitted. `false`: the daemon ends before.
    pub async fn admitted(&self) -> bool {
        let mut standing = self.standing.subscribe();
        let admitted = standing.wait_for(|standing| *standing == Standing::Admitted);
        self.own.stopping.unless_begun(admitted).await.is_some_and(|found| found.is_ok())
    }

    /// Waits until the coordinator has said something of this start, but not for long: right after
    /// the daemon's start somebody may ask for what only an admitted start may do.
    pub async fn learned_of(&self) {
        let mut standing = self.standing.subscribe();
        let answered = standing.wait_for(|standing| *standing != Standing::Waiting(None));
        // Without an answer it goes on as it is.
        let _ = tokio::time::timeout(FIRST_ANSWER, answered).await;
    }

    /// Waits until another start has superseded this one; why.
    pub async fn superseded(&self) -> String {
        let mut standing = self.standing.subscribe();
        loop {
            if let Standing::Superseded(why) = &*standing.borrow_and_update() {
                return why.clone();
            }
            if standing.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    /// Refuses what only a node's present start may do.
    ///
    /// # Errors
    /// If this start is not admitted.
    pub fn demand(&self, what: &str) -> Result<(), ApiError> {
        let why = match &*self.standing.borrow() {
            Standing::Admitted => return Ok(()),
            Standing::Waiting(None) => {
                "this start of the node has not reached the coordinator yet".to_owned()
            }
            Standing::Waiting(Some(why)) | Standing::Superseded(why) => why.clone(),
        };
        let advice = "See `evenkeel node status`";
        Err(ApiError::new(ErrorCode::NotJoined, what, why, advice))
    }

    /// A sentence for the node's status while it is not admitted.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        match &*self.standing.borrow() {
            Standing::Admitted | Standing::Waiting(None) => None,
            Standing::Waiting(Some(why)) | Standing::Superseded(why) => Some(why.clone()),
        }
    }
}
