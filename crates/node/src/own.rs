//! What every part of the daemon has of this start of it.

use std::sync::Arc;

use crate::config::Config;
use crate::state::StateDirectory;
use crate::state::identity::Identity;
use crate::stopping::Stopping;
use crate::warnings::Warnings;

/// This start of the daemon.
#[derive(Clone)]
pub struct Own {
    /// As configured.
    pub config: Arc<Config>,
    /// Who it is.
    pub identity: Arc<Identity>,
    /// Its memory across restarts.
    pub state: Arc<StateDirectory>,
    /// Whether it is to end.
    pub stopping: Stopping,
    /// What was unusual since it began.
    pub warnings: Warnings,
}

impl Own {
    /// A start that has just begun.
    #[must_use]
    pub fn new(config: Arc<Config>, identity: Arc<Identity>, state: Arc<StateDirectory>) -> Self {
        let (stopping, warnings) = (Stopping::default(), Warnings::default());
        Self { config, identity, state, stopping, warnings }
    }
}
