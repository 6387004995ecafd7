//! What of one volume is on this worker.

use evenkeel_core::primary::{EndReason, PrimaryConfig};
use evenkeel_core::{Instant, PrimaryId, ReplicaId, VolumeId};

use super::primary::PrimaryHost;
use super::requests::Requests;
use crate::memory::Budget;
use crate::ring::Key;

/// See the module's documentation.
pub(super) struct Volume {
    id: VolumeId,
    /// Of its clients.
    budget: Budget,
    attachment: Attachment,
    /// The replicas that are open here.
    replicas: Vec<(ReplicaId, Key)>,
    frontends: Vec<Key>,
    requests: Requests,
}

/// Whether the volume has a primary here.
enum Attachment {
    Detached,
    Attached(Box<PrimaryHost>),
    /// This primary has ended, and front ends are closing.
    Ending(PrimaryId, EndReason),
}

impl Volume {
    /// One that is not attached.
    pub fn new(id: VolumeId, budget: Budget) -> Self {
        Self {
            id,
            budget,
            attachment: Attachment::Detached,
            replicas: Vec::new(),
            frontends: Vec::new(),
            requests: Requests::new(),
        }
    }

    #[inline]
    pub const fn id(&self) -> VolumeId {
        self.id
    }

    pub const fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Whether nothing of it is here.
    pub fn is_unused(&self) -> bool {
        !self.is_attached() && self.replicas.is_empty() && self.frontends.is_empty()
    }

    /// Whether it is attached here, or its end is not complete.
    pub const fn is_attached(&self) -> bool {
        !matches!(self.attachment, Attachment::Detached)
    }

    /// Makes its primary, which is to be started.
    pub fn attach(&mut self, config: PrimaryConfig, budget: Budget, now: Instant) {
        self.attachment = Attachment::Attached(Box::new(PrimaryHost::new(config, now)));
        self.budget = budget;
        self.requests.count_anew();
    }

    /// Its primary, unless that has ended.
    #[inline]
    pub fn primary(&self) -> Option<&PrimaryHost> {
        match &self.attachment {
            Attachment::Attached(primary) => Some(primary),
            Attachment::Detached | Attachment::Ending(..) => None,
        }
    }

    #[inline]
    pub fn primary_mut(&mut self) -> Option<&mut PrimaryHost> {
        match &mut self.attachment {
            Attachment::Attached(primary) => Some(primary),
            Attachment::Detached | Attachment::Ending(..) => None,
        }
    }

    /// Its primary has ended.
    pub fn end(&mut self, reason: EndReason) {
        match std::mem::replace(&mut self.attachment, Attachment::Detached) {
            Attachment::Attached(primary) => {
                self.attachment = Attachment::Ending(primary.end(), reason);
            }
            attachment => {
                debug_assert!(false, "a primary ends once");
                self.attachment = attachment;
            }
        }
    }

    /// Which primary has ended and why, if the last front end has gone: it is detached by this.
    pub fn take_ended(&mut self) -> Option<(PrimaryId, EndReason)> {
        match std::mem::replace(&mut self.attachment, Attachment::Detached) {
            Attachment::Ending(primary, reason) if self.frontends.is_empty() => {
                Some((primary, reason))
            }
            attachment => {
                self.attachment = attachment;
                None
            }
        }
    }

    pub fn replica(&self, id: ReplicaId) -> Option<Key> {
        self.replicas.iter().find(|(replica, _)| *replica == id).map(|(_, key)| *key)
    }

    /// The replicas that are open here, in the order in which they were opened.
    pub fn replicas(&self) -> impl Iterator<Item = Key> {
        self.replicas.iter().map(|(_, key)| *key)
    }

    pub fn add_replica(&mut self, id: ReplicaId, key: Key) {
        self.replicas.push((id, key));
    }

    pub fn remove_replica(&mut self, key: Key) {
        self.replicas.retain(|(_, replica)| *replica != key);
    }

    /// Its front ends, in the order in which they were added.
    pub fn frontends(&self) -> &[Key] {
        &self.frontends
    }

    pub fn add_frontend(&mut self, key: Key) {
        self.frontends.push(key);
    }

    pub fn remove_frontend(&mut self, key: Key) {
        self.frontends.retain(|frontend| *frontend != key);
    }

    #[inline]
    pub const fn requests(&self) -> &Requests {
        &self.requests
    }

    #[inline]
    pub const fn requests_mut(&mut self) -> &mut Requests {
        &mut self.requests
    }
}
