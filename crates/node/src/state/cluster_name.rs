//! The cluster's name, which may change while the nodes run.
//!
//! A node starts with the name in its configuration. A rename is stored by the coordinator; the
//! nodes learn of it by a heartbeat, and keep it in their state directories together with the
//! configured name that it replaces: only another configured name counts against it.

use std::sync::{Arc, PoisonError, RwLock};

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
pub struct ClusterName(Arc<RwLock<Kept>>);

impl ClusterName {
    /// The configured name, or the one that has replaced it.
    ///
    /// # Errors
    /// If the state directory cannot be read.
    pub fn load(state: &StateDirectory, configured: &str) -> Result<Self, StateError> {
        let kept = state.load::<Kept>(FILE)?.filter(|kept| kept.configured == configured);
        Ok(kept.map_or_else(|| configured.into(), |kept| Self(Arc::new(RwLock::new(kept)))))
    }

    /// The name.
    #[must_use]
    pub fn get(&self) -> String {
        self.0.read().unwrap_or_else(PoisonError::into_inner).name.clone()
    }

    /// The cluster is called so from now on. Returns whether that is news.
    ///
    /// # Errors
    /// If the state directory cannot be written: then it is so until the node restarts.
    pub fn set(&self, state: &StateDirectory, name: &str) -> Result<bool, StateError> {
        let mut kept = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if kept.name == name {
            return Ok(false);
        }
        name.clone_into(&mut kept.name);
        state.save(FILE, &*kept)?;
        Ok(true)
    }
}

impl From<&str> for ClusterName {
    fn from(name: &str) -> Self {
        let kept = Kept { name: name.to_owned(), configured: name.to_owned() };
        Self(Arc::new(RwLock::new(kept)))
    }
}

#[cfg(test)]
mod tests;
