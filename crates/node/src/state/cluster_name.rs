//! The cluster's name, which may change while the nodes run.
//!
//! A node starts with the name in its configuration. A rename is stored by the coordinator; the
//! nodes learn of it by a heartbeat, and keep it in their state directories together with the
//! configured name that it replaces: only another configured name counts against it.

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use serde::{Deserialize, Serialize};

use super::directory::{StateDirectory, StateError};

/// Where a name is kept that is not the configured one.
const FILE: &str = "cluster-name.json";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    /// The cluster's name.
    name: String,
    /// The configured one that it replaces.
    configured: String,
}

/// The cluster's name as this node knows it; clones share it.
#[derive(Debug, Clone)]
pub struct ClusterName(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    kept: RwLock<Kept>,
    /// Held while the name is changed, so that what is newer is saved later. Only by threads that
    /// may block, and before the other.
    saving: Mutex<()>,
}

impl ClusterName {
    /// The configured name, or the one that has replaced it.
    ///
    /// # Errors
    /// If the state directory cannot be read.
    pub fn load(state: &StateDirectory, configured: &str) -> Result<Self, StateError> {
        let kept = state.load::<Kept>(FILE)?.filter(|kept| kept.configured == configured);
        Ok(kept.map_or_else(|| configured.into(), Self::new))
    }

    /// The name.
    #[must_use]
    pub fn get(&self) -> String {
        self.0.kept.read().unwrap_or_else(PoisonError::into_inner).name.clone()
    }

    /// The cluster is called so from now on. Returns whether that is news. It blocks on the state
    /// directory.
    ///
    /// # Errors
    /// If the state directory cannot be written: then it is so until the node restarts.
    pub fn set(&self, state: &StateDirectory, name: &str) -> Result<bool, StateError> {
        let _alone = self.0.saving.lock().unwrap_or_else(PoisonError::into_inner);
        let mut kept = self.0.kept.write().unwrap_or_else(PoisonError::into_inner);
        if kept.name == name {
            return Ok(false);
        }
        name.clone_into(&mut kept.name);
        let now = kept.clone();
        // Without it: who asks for the name must not wait for the disk.
        drop(kept);
        state.save(FILE, &now)?;
        Ok(true)
    }

    fn new(kept: Kept) -> Self {
        Self(Arc::new(Shared { kept: RwLock::new(kept), saving: Mutex::default() }))
    }
}

impl From<&str> for ClusterName {
    fn from(name: &str) -> Self {
        let kept = Kept { name: name.to_owned(), configured: name.to_owned() };
        Self::new(kept)
    }
}

#[cfg(test)]
mod tests;
