//! What becomes of the replicas that the engine has, or is to have.

use std::sync::Arc;
use std::time::Instant;

use evenkeel_core::ReplicaId;
use evenkeel_engine::counters::Kind;

use super::Known;
use super::errors::LeftOut;
use super::listed::Listed;
use super::states::Trouble;

/// See the module's documentation.
#[derive(Debug)]
pub struct InEngine(Arc<Listed>);

impl InEngine {
    pub(super) const fn new(listed: Arc<Listed>) -> Self {
        Self(listed)
    }

    /// The engine has a replica.
    pub fn note_served(&self, replica: ReplicaId) {
        self.change_open(replica, Known::note_served);
    }

    /// The engine does not have a replica yet, as its disk does not answer.
    pub fn note_slow(&self, replica: ReplicaId) {
        self.change_open(replica, Known::note_slow);
    }

    /// The engine could not read a replica, and its file is closed: it is tried again.
    pub fn note_trouble(&self, replica: ReplicaId, error: std::io::Error) {
        let trouble = Trouble::from(error);
        self.change_open(replica, |known| known.note_trouble(trouble, Instant::now()));
        self.0.wake();
    }

    /// Notes that a replica is not served, so that [`super::Disks::list`] tells why.
    pub fn note_problem(&self, replica: ReplicaId, problem: &str) {
        self.change_open(replica, |known| known.refuse(problem));
    }

    fn change_open(&self, replica: ReplicaId, change: impl FnOnce(&mut Known)) {
        self.change_known(replica, |known| {
            if known.state().is_open() {
                change(known);
            }
        });
    }

    /// Changes what is known of a replica, if it is here.
    pub(super) fn change_known(&self, replica: ReplicaId, change: impl FnOnce(&mut Known)) {
        let mut entries = self.0.lock();
        let found = entries.holder_mut(replica);
        if let Some((entry, position)) = found {
            change(&mut entry.replicas_mut()[position]);
        }
    }

    /// An operation of a replica has failed, as `why` says. It is told until the replica is opened
    /// anew. Returns whether a line of the log is to tell it; `None`: enough others do.
    pub fn note_error(
        &self,
        replica: ReplicaId,
        kind: Kind,
        why: &str,
        now: Instant,
    ) -> Option<LeftOut> {
        let mut entries = self.0.lock();
        let known = entries.holder_mut(replica);
        // One that was deleted meanwhile.
        let Some((entry, position)) = known else { return Some(LeftOut::NONE) };
        entry.replicas_mut()[position].note_error(why);
        entry.line(kind, now)
    }

    /// Notes that a replica has so many bytes of data now.
    pub fn note_length(&self, replica: ReplicaId, length: u64) {
        for entry in self.0.lock().iter_mut() {
            if let Some(position) = entry.position(replica) {
                entry.replicas_mut()[position].note_length(length);
            }
        }
    }
}
