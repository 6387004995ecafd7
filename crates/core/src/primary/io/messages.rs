//! What replicas say of operations, locks and rebuilds.

use core::ops::ControlFlow;

use super::parts::DrainAsked;
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
        replica: ReplicaId,
        link: LinkId,
        message: Message,
        payload: Option<P>,
    ) -> Flow {
        let (parts, below) = &mut self.parts(lower);
        match message {
            Message::Received { id } => return parts.received(cx, below, replica, id.sequence),
            Message::Done { id, result } => {
                return parts.done(cx, below, replica, id.sequence, result);
            }
            Message::Data { id, is_unverified } => {
                return parts.data(cx, below, replica, id.sequence, payload, is_unverified);
            }
            Message::Digests { id, digests } => {
                return parts.digests(cx, below, replica, id.sequence, digests);
            }
            Message::Extents { id, extents } => {
                return parts.extents(cx, below, replica, id.sequence, extents);
            }
            Message::Pong { generation, number, slots } => {
                return parts.pong(cx, below, replica, generation, number, slots);
            }
            Message::DiskFailed { generation, failure } => {
                parts.reported_of_failure(below, replica, generation, failure);
            }
            Message::Drain { generation, token, offset, length, source } => {
                let range = offset..offset.saturating_add(u64::from(length));
                let asked = DrainAsked { link, replica, generation, token, range, source };
                parts.drain(cx, below, asked);
            }
            Message::ClusterLock { generation, requester, number, range } => {
                self.requests
                    .cluster_lock_reported(cx, lower, generation, requester, number, range);
            }
            Message::Granted { generation, requester, number } => {
                self.requests.cluster_lock_granted(cx, lower, generation, requester, number);
            }
            Message::LogFilling { generation } => parts.log_filling(cx, below, replica, generation),
            Message::RebuildProgress { progress, .. } => {
                parts.rebuild_progress(below, replica, *progress);
            }
            Message::RebuildCopied { generation, number } => {
                parts.rebuild_copied(cx, below, replica, generation, number);
            }
            _ => debug_assert!(false, "what is said of nothing under way goes elsewhere"),
        }
        ControlFlow::Continue(())
    }
}
