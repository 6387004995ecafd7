//! What replicas say of operations, locks and rebuilds.

use core::ops::ControlFlow;

use super::rebuilds::DrainAsked;
use super::{Flow, Io, Lower};
use crate::ids::*;
use crate::message::Message;
use crate::payload::Payload;
use crate::primary::Context;

impl<P: Payload> Io<P> {
    /// A replica says something, over this link, of what is under way.
    pub fn message(
        &mut self,
        cx: &mut Context<'_, P>,
        lower: &mut Lower<'_>,
        (replica, link): (ReplicaId, LinkId),
        message: Message,
        payload: Option<P>,
    ) -> Flow {
        match message {
            Message::Received { id } => return self.received(cx, lower, replica, id.sequence),
            Message::Done { id, result } => {
                return self.done(cx, lower, replica, id.sequence, result);
            }
            Message::Data { id, is_unverified } => {
                return self.data(cx, lower, replica, id.sequence, payload, is_unverified);
            }
            Message::Digests { id, digests } => {
                return self.digests(cx, lower, replica, id.sequence, digests);
            }
            Message::Extents { id, extents } => {
                return self.extents(cx, lower, replica, id.sequence, extents);
            }
            Message::Pong { generation, number, slots } => {
                return self.pong(cx, lower, replica, (generation, number), slots);
            }
            Message::DiskFailed { generation, failure } => {
                self.told_of_failure(lower, replica, generation, failure);
            }
            Message::Drain { generation, token, offset, length, source } => {
                let range = offset..offset.saturating_add(u64::from(length));
                let asked = DrainAsked { link, replica, generation, token, range, source };
                self.drain(cx, lower, asked);
            }
            Message::ClusterLock { generation, requester, number, range } => {
                self.cluster_lock_told(cx, lower, generation, requester, number, range);
            }
            Message::Granted { generation, requester, number } => {
                self.cluster_lock_granted(cx, lower, generation, requester, number);
            }
            Message::LogFilling { generation } => self.log_filling(cx, lower, replica, generation),
            Message::RebuildProgress { progress, .. } => {
                self.rebuild_progress(lower, replica, progress);
            }
            Message::RebuildCopied { generation, number } => {
                self.rebuild_copied(cx, lower, replica, generation, number);
            }
            _ => debug_assert!(false, "what is said of nothing under way goes elsewhere"),
        }
        ControlFlow::Continue(())
    }
}
