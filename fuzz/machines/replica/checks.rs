//! What is true of a replica whatever it hears.

use evenkeel_core::message::CopyContent;
use evenkeel_core::*;

use super::Bench;

impl Bench {
    /// What it says over a link.
    pub(super) fn check_said(&mut self, link: LinkId, message: &Message) {
        assert!(self.links.contains_key(&link), "{message:?} is said over a closed link");
        match message {
            // I3: whoever hears an answer hears it in the generation that is on the disk.
            Message::Done { id, .. }
            | Message::Data { id, .. }
            | Message::Digests { id, .. }
            | Message::Extents { id, .. } => {
                self.check_generation(id.generation, message);
                self.link(link).answered(id.sequence);
            }
            Message::Received { id } => {
                self.check_generation(id.generation, message);
                let awaits = self.link(link).awaits(id.sequence);
                assert!(awaits, "{message:?} is no answer to anything");
            }
            Message::Refused { sequence, adopted } => {
                assert!(*adopted >= self.disk.saved().generation);
                if let Some(sequence) = sequence {
                    self.link(link).answered(*sequence);
                }
            }
            Message::Copied { token, content } => {
                self.link(link).copied(*token);
                let is_source = self.disk.state_of(self.id) == Some(ReplicaState::InSync);
                assert!(is_source || *content == CopyContent::Refused, "no source: {message:?}");
            }
            Message::Pong { generation, .. } => self.check_generation(*generation, message),
            Message::Adopted { generation } => {
                assert_eq!(*generation, self.disk.saved().generation, "it is not on the disk");
            }
            Message::SessionOpened { report, .. } => {
                assert_eq!(report.generation, self.disk.saved().generation);
                assert_eq!(report.incarnation.0, self.incarnation);
                self.link(link).was_seen = true;
            }
            other => self.check_rebuild_says(other),
        }
    }

    fn link(&mut self, link: LinkId) -> &mut super::Link {
        self.links.get_mut(&link).expect("an open link")
    }

    fn check_generation(&self, generation: Generation, message: &Message) {
        assert_eq!(generation, self.disk.saved().generation, "not the adopted one: {message:?}");
        assert!(!self.disk.is_saving_view(), "a newer view is being saved: {message:?}");
    }

    fn check_rebuild_says(&self, message: &Message) {
        let size = self.disk.saved().replica_size();
        let adopted = self.disk.saved().generation;
        let is_inside = |offset: u64, length: u64| length > 0 && offset + length <= size;
        match *message {
            Message::Drain { generation, offset, length, source, .. } => {
                assert_eq!(generation, adopted, "not the adopted one: {message:?}");
                assert!(is_inside(offset, length.into()), "{message:?} of {size}");
                assert_eq!(self.disk.state_of(source), Some(ReplicaState::InSync));
            }
            Message::Copy { generation, offset, length, .. } => {
                assert_eq!(generation, adopted, "not the adopted one: {message:?}");
                assert!(is_inside(offset, length.into()), "{message:?} of {size}");
            }
            Message::ClearBits { generation, offset, length } => {
                assert_eq!(generation, adopted, "not the adopted one: {message:?}");
                assert!(is_inside(offset, length), "{message:?} of {size}");
            }
            Message::ClusterLock { generation, requester, .. }
            | Message::Granted { generation, requester, .. } => {
                assert_eq!(generation, adopted, "not the adopted one: {message:?}");
                assert!(self.disk.saved().has_primary(requester), "{message:?} of nobody");
            }
            Message::RebuildProgress { generation, ref progress } => {
                assert_eq!(generation, adopted, "not the adopted one: {message:?}");
                assert!(progress.done <= progress.total);
            }
            Message::RebuildCopied { generation, .. }
            | Message::RebuildDone { generation }
            | Message::AskMissing { generation, .. } => {
                assert_eq!(generation, adopted, "not the adopted one: {message:?}");
                assert_eq!(self.disk.state_of(self.id), Some(ReplicaState::Rebuilding));
            }
            _ => {}
        }
    }

    /// What it has under way is what was asked of it, is on its disk, or is held by its rebuild.
    pub(super) fn check_state(&self) {
        let status = self.core.status();
        let asked: usize = self.links.values().map(super::Link::unanswered).sum();
        let holds = Settings::default().concurrent_copies;
        let most = asked + self.disk.under_way() + holds;
        assert!(status.operations <= most, "{} operations of {most}", status.operations);
        assert!(status.sessions.len() <= self.links.len());
        assert_eq!(status.id, self.id);
        assert!(status.view.generation >= self.disk.saved().generation);
        if !status.is_adopting {
            assert_eq!(
                status.view,
                *self.disk.saved(),
                "it works by a view that is not on its disk"
            );
        }
        if let Some(progress) = status.rebuild {
            assert!(progress.done <= progress.total);
        }
    }
}
