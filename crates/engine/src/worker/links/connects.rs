//! Connections that the control plane is asked for.

use std::collections::HashMap;

use evenkeel_core::{NodeId, VolumeId};

use super::{Call, End};
use crate::api::{ConnectRequest, EngineEvent};
use crate::worker::context::Context;

/// See the module's documentation.
#[derive(Default)]
pub(super) struct Connects {
    last: u64,
    /// Those that have not been answered, with the node that each is to reach.
    asked: HashMap<ConnectRequest, (Call, NodeId)>,
}

impl Connects {
    /// Asks for a connection to a replica on this node.
    pub fn ask(&mut self, cx: &Context, call: Call, node: NodeId) {
        self.last += 1;
        let request = ConnectRequest(self.last);
        self.asked.insert(request, (call, node));
        let Call { volume, caller, replica, .. } = call;
        cx.report(EngineEvent::Connect { volume, request, caller, replica, node });
    }

    /// Who has asked for that, and for which node; `None` if they have gone.
    pub fn answered(
        &mut self,
        volume: VolumeId,
        request: ConnectRequest,
    ) -> Option<(Call, NodeId)> {
        self.asked.get(&request).filter(|(call, _)| call.volume == volume)?;
        self.asked.remove(&request)
    }

    /// Nobody waits any more for what was asked by this owner.
    pub fn forget(&mut self, end: End) {
        self.asked.retain(|_, (call, _)| call.end != end);
    }
}
