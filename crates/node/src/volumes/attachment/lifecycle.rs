//! What a volume is on this node: how far it is attached, how it is to be attached again, what the
//! coordinator has not been told of that, and whose turn it is to change it.
//!
//! A machine without I/O, clock, lock or task: inputs change it, and [`Lifecycle::advance`] tells
//! what is to be done next. [`super::actor`] drives it. Whoever changes the volume has a turn. One
//! that lets go of its turn in the midst of a change leaves nothing half done: what was begun is
//! ended.

use evenkeel_attach::DeadDevice;
use evenkeel_core::primary::{Earlier, EndReason};
use evenkeel_core::{Incarnation, PrimaryId, VolumeId};

use crate::coordinator::{Shown, WantedNbd, WantedNvme, Wish};
use crate::volumes::Device;
use crate::volumes::remembered::{Point, Wanted};
pub(in crate::volumes) use attachment::{AskedBy, Purpose, Seen};
use attachment::{Attachment, Established, Serves};
pub use attachment::{Over, Phase};
pub(super) use turns::TurnId;
use turns::Turns;

mod attachment;
mod turns;

/// A volume that is to be attached here again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::volumes) struct Awaited {
    pub(super) how: Wanted,
    /// Why it is not attached here, as a sentence; then what it waits for.
    pub(super) why: String,
}

impl Awaited {
    /// How it is attached then.
    pub(in crate::volumes) const fn how(&self) -> &Wanted {
        &self.how
    }
}

/// What an attached volume is not shown by, though it is meant to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unshown {
    pub(super) missing: Shown,
    /// Why, as a sentence.
    pub(super) why: String,
}

/// What the state directory keeps of a volume.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Kept {
    /// How the next daemon attaches it.
    pub(super) remembered: Option<Wanted>,
    /// It is not wanted here, and the coordinator has not heard that.
    pub(super) unreported: bool,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Output {
    /// It is this one's turn.
    Granted(TurnId),
    /// The primary is to be told to end.
    End,
    /// What served a primary that is over is to be taken away, in this turn.
    Clear(TurnId),
    /// Somebody is to attach it again, or to show it as it is meant to be: [`Lifecycle::next_try`].
    Retry,
    /// Somebody is to tell the coordinator: [`Lifecycle::next_reporting`].
    Report,
    /// What is kept has changed: [`Lifecycle::take_kept`].
    Save,
}

/// Why a volume is not opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotOpened {
    /// An earlier attachment is not over.
    Listed,
    /// The daemon ends.
    Closing,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Lifecycle {
    volume: VolumeId,
    attachment: Option<Attachment>,
    awaited: Option<Awaited>,
    /// The daemon ends: so the next one attaches it, whatever becomes of it until then.
    closing: Option<Option<Wanted>>,
    /// What is certain of primaries that ran here before.
    earlier: Earlier,
    turns: Turns,
    /// The coordinator does not know how it is wanted here, or that it is not.
    unreported: bool,
    /// Somebody tries to attach it again, or to show it.
    is_tried: bool,
    /// Somebody tells the coordinator.
    is_reporting: bool,
    kept: Kept,
    /// Nobody has been told to save what is kept.
    is_unsaved: bool,
    outputs: Vec<Output>,
}

impl Lifecycle {
    pub(super) const fn new(volume: VolumeId) -> Self {
        Self {
            volume,
            attachment: None,
            awaited: None,
            closing: None,
            earlier: Earlier::MayLive,
            turns: Turns::new(),
            unreported: false,
            is_tried: false,
            is_reporting: false,
            kept: Kept { remembered: None, unreported: false },
            is_unsaved: false,
            outputs: Vec::new(),
        }
    }

    // Turns.

    /// Somebody wants to change the volume: [`Output::Granted`] tells when.
    pub(super) fn ask(&mut self) -> TurnId {
        self.turns.ask()
    }

    /// Somebody has changed it, or has gone. What is half done is ended.
    pub(super) fn let_go(&mut self, turn: TurnId) {
        if !self.turns.let_go(turn) {
            return;
        }
        // Nothing is attached that could be half done.
        let Some(attachment) = &self.attachment else { return };
        match attachment.phase() {
            Phase::Making | Phase::Opening | Phase::Serving | Phase::Withdrawing => self.end(),
            // Of what was not taken away by now, an attach takes care.
            Phase::Closed(_) if attachment.is_cleared_in(turn) => self.cleared(),
            Phase::Unwanted | Phase::Detaching | Phase::Attached | Phase::Closed(_) => {}
        }
        // Nobody waits for its end any more, and it may take long.
        if self.attachment.as_ref().is_some_and(|it| it.is_for_use() && it.is_ending()) {
            self.unreported |= !self.is_kept();
        }
    }

    // An attachment, in the order of its life.

    /// A primary is about to be made.
    ///
    /// # Errors
    /// If another one is not over, or the daemon ends.
    pub(super) fn open(
        &mut self,
        primary: Incarnation,
        name: &str,
        purpose: Purpose,
    ) -> Result<(), NotOpened> {
        if self.closing.is_some() {
            return Err(NotOpened::Closing);
        }
        if self.attachment.is_some() {
            return Err(NotOpened::Listed);
        }
        self.attachment = Some(Attachment::new(primary, name, purpose));
        Ok(())
    }

    /// The view that its first one replaces.
    pub(super) fn replaces(&mut self, primary: Incarnation, point: Point) {
        if let Some(attachment) = self.of(primary) {
            attachment.replaces(point);
        }
    }

    /// The engine has made the primary, or not.
    pub(super) fn made(&mut self, primary: Incarnation, is_made: bool) {
        if self.of(primary).is_some_and(|attachment| attachment.made(is_made)) {
            self.outputs.push(Output::End);
        }
    }

    /// The primary serves.
    pub(super) fn serves(&mut self, primary: Incarnation, follows: Option<PrimaryId>) {
        // It says so of an attachment that is gone by now, or for the second time.
        let Some(attachment) = self.of(primary) else { return };
        let Serves::Now { ends } = attachment.serves(follows) else { return };
        if ends {
            self.outputs.push(Output::End);
        }
        self.earlier = Earlier::OneEnded(primary);
    }

    /// A block device is made. What was asked for without a mount is never made a mount's.
    pub(super) fn device(&mut self, primary: Incarnation, device: Device, asked_by: AskedBy) {
        let is_new = self.of(primary).is_some_and(|it| it.set_device(device, asked_by));
        self.unreported |= is_new;
    }

    /// Its block device is gone.
    pub(super) fn no_device(&mut self, primary: Incarnation) {
        let is_new = self.of(primary).is_some_and(Attachment::clear_device);
        self.unreported |= is_new;
    }

    /// A mount has found the block device, which may have been made for another one: the last of
    /// them takes it away, or an unmount.
    pub(super) fn add_mount(&mut self, primary: Incarnation, token: String) {
        let is_new = self.of(primary).is_some_and(|attachment| attachment.add_mount(token));
        self.unreported |= is_new;
    }

    /// The mount with this token has failed, and what was made for it stays, for others.
    pub(super) fn remove_mount(&mut self, token: &str) {
        let mount = self.awaited.as_mut().and_then(|awaited| awaited.how.mount.as_mut());
        if let Some(mount) = mount {
            mount.remove(token);
            self.unreported = true;
        } else if let Some(attachment) = &mut self.attachment {
            self.unreported |= attachment.remove_mount(token);
        }
    }

    /// A command wants it attached that is no mount, with its block device if `device`: no unmount
    /// takes that away.
    pub(super) fn claim(&mut self, primary: Incarnation, device: bool) {
        let is_new = self.of(primary).is_some_and(|attachment| attachment.claim(device));
        self.unreported |= is_new;
    }

    /// It is exported by NBD, or not any more.
    pub(super) fn export(&mut self, primary: Incarnation, nbd: Option<WantedNbd>) {
        let is_new = self.of(primary).is_some_and(|attachment| attachment.set_nbd(nbd));
        self.unreported |= is_new;
    }

    /// It is exported by NVMe over TCP, or not any more.
    pub(super) fn export_nvme(&mut self, primary: Incarnation, nvme: Option<WantedNvme>) {
        let is_new = self.of(primary).is_some_and(|attachment| attachment.set_nvme(nvme));
        self.unreported |= is_new;
    }

    /// It is shown as it is meant to be from now on, and stays attached. Returns false if its
    /// primary does not serve any more.
    #[must_use]
    pub(super) fn establish(&mut self, primary: Incarnation) -> bool {
        let mut shown = self.seen().map(Seen::shown).unwrap_or_default();
        let asked = self.of(primary).and_then(|attachment| attachment.asked());
        shown.mount = asked.and_then(|asked| asked.mount.clone()).filter(|_| shown.device);
        self.establish_as(primary, shown)
    }

    /// The same, though it is not shown by all that was asked for, and why: the rest is tried until
    /// it is.
    #[must_use]
    pub(super) fn establish_unshown(&mut self, primary: Incarnation, why: &str) -> bool {
        let Some(attachment) = self.of(primary) else { return false };
        let Some(asked) = attachment.asked().cloned() else { return false };
        why.clone_into(attachment.why_unshown_mut());
        self.establish_as(primary, asked)
    }

    fn establish_as(&mut self, primary: Incarnation, meant: Shown) -> bool {
        let Some(attachment) = self.of(primary) else { return false };
        match attachment.establish(meant) {
            Established::Now { as_asked } => {
                self.awaited = None;
                self.unreported |= !as_asked;
                true
            }
            Established::Before => true,
            Established::Not => false,
        }
    }

    /// Somebody detaches it: its device is gone, if it had one; its exports are about to go, then
    /// its primary. If that was evicted meanwhile, it is not attached again.
    pub(super) fn withdraw(&mut self, primary: Incarnation) {
        if self.closing.is_none() && self.awaited.take().is_some() {
            self.unreported = true;
        }
        if let Some(attachment) = self.of(primary) {
            attachment.withdraw();
        }
    }

    /// Its primary is to end. Whoever asks again has it told again.
    pub(super) fn end(&mut self) {
        if self.attachment.as_mut().is_some_and(Attachment::end) {
            self.outputs.push(Output::End);
        }
    }

    /// The primary has ended; why, as a sentence. Returns true if it is to be attached again.
    pub(super) fn ended(&mut self, primary: Incarnation, reason: EndReason, why: &str) -> bool {
        let (volume, is_closing) = (self.volume, self.closing.is_some());
        let Some(attachment) = self.of(primary) else { return false };
        let Some(before) = attachment.ended(reason) else { return false };
        // Nobody has taken the volume from this node: the others go on, and it may join them.
        let comes_back = before == Phase::Attached && reason == EndReason::Evicted && !is_closing;
        let how = attachment.wanted(volume).filter(|_| comes_back);
        let is_for_use = attachment.is_for_use();
        if reason == EndReason::Detached {
            // No view names it any more.
            self.earlier = Earlier::MayLive;
        }
        if let Some(how) = how {
            self.awaited = Some(Awaited { how, why: why.to_owned() });
        } else if is_for_use && reason != EndReason::Detached {
            // What its last view says is not known.
            self.unreported |= !self.is_kept();
        }
        comes_back
    }

    /// What served the primary that is over is taken away.
    pub(super) fn cleared(&mut self) {
        self.attachment.take_if(|it| it.is_over());
    }

    // What is wanted.

    /// It is to be attached here again, as soon as it may. Not if it is attached.
    pub(super) fn await_again(&mut self, how: Wanted, why: &str) {
        if self.closing.is_none()
            && self.attachment.as_ref().and_then(Attachment::established).is_none()
        {
            self.awaited = Some(Awaited { how, why: why.to_owned() });
        }
    }

    /// When it is attached again, no block device is made.
    pub(super) fn await_no_device(&mut self) {
        if let Some(awaited) = &mut self.awaited {
            (awaited.how.device, awaited.how.mount) = (false, None);
            self.unreported = true;
        }
    }

    /// These devices of it give errors, and are used.
    pub(super) fn note_dead(&mut self, devices: impl Iterator<Item = DeadDevice>) {
        if let Some(awaited) = &mut self.awaited {
            awaited.how.dead.extend(devices);
        }
    }

    /// Why it is not attached again, or not shown as it is meant to be, yet. Returns true if this
    /// is news.
    pub(super) fn waits_for(&mut self, why: &str) -> bool {
        let unshown = self.attachment.as_mut().filter(|it| it.unshown().is_some());
        let unshown = unshown.map(Attachment::why_unshown_mut);
        let reported = self.awaited.as_mut().map(|awaited| &mut awaited.why).or(unshown);
        reported.is_some_and(|reported| {
            let is_new = reported != why;
            why.clone_into(reported);
            is_new
        })
    }

    /// For whoever tries to attach it again, or to show it. `false`: that is over.
    pub(super) fn next_try(&mut self) -> bool {
        self.is_tried = self.is_to_be_tried();
        self.is_tried
    }

    fn is_to_be_tried(&self) -> bool {
        self.closing.is_none() && (self.awaited.is_some() || self.unshown().is_some())
    }

    /// It is not wanted here any more, and the coordinator does not know. Returns true if it was to
    /// be attached again.
    pub(super) fn unwant(&mut self) -> bool {
        self.unreported = true;
        self.awaited.take().is_some()
    }

    /// For whoever tells the coordinator. `false`: that is over.
    pub(super) const fn next_reporting(&mut self) -> bool {
        self.is_reporting = self.unreported;
        self.is_reporting
    }

    /// What the coordinator is to be told: how it is wanted here, or that it is not. `None`: what
    /// it knows is to stay.
    pub(super) fn news(&self) -> Option<Option<Shown>> {
        match (&self.closing, &self.awaited) {
            (Some(Some(_)), _) => return None,
            (None, Some(awaited)) => return Some(Some(awaited.how.shown())),
            _ => {}
        }
        let attached = self.attachment.as_ref().filter(|it| it.phase() == Phase::Attached);
        Some(attached.and_then(Attachment::established).cloned())
    }

    /// The coordinator knows.
    pub(super) const fn reported(&mut self) {
        self.unreported = false;
    }

    /// What a swap of the view says of where it is wanted, if the next view has its primary or not.
    pub(super) fn wish(&self, has_primary: bool) -> Wish {
        let Some((attachment, asked)) =
            self.attachment.as_ref().and_then(|it| Some((it, it.asked()?)))
        else {
            return Wish::AsBefore;
        };
        match (has_primary, self.is_kept()) {
            (true, _) => Wish::Here(attachment.established().unwrap_or(asked).clone()),
            (false, true) => Wish::AsBefore,
            (false, false) => Wish::NoMore,
        }
    }

    /// The daemon ends: what is attached now, or is to be again, is for the next one.
    pub(super) fn close(&mut self) {
        if self.closing.is_none() {
            self.closing = Some(self.remembered());
        }
    }

    /// The last primary here has provably ended.
    pub(super) const fn note_earlier(&mut self, incarnation: Incarnation) {
        self.earlier = Earlier::OneEnded(incarnation);
    }

    // What it is.

    /// What others see of its attachment.
    pub(super) fn seen(&self) -> Option<&Seen> {
        self.attachment.as_ref().map(Attachment::seen)
    }

    pub(super) const fn awaited(&self) -> Option<&Awaited> {
        self.awaited.as_ref()
    }

    pub(super) fn unshown(&self) -> Option<Unshown> {
        let attachment = self.attachment.as_ref()?;
        let why = || attachment.why_unshown().to_owned();
        attachment.unshown().map(|missing| Unshown { missing, why: why() })
    }

    /// The hosts that may use its NVMe export, which is there or is to come: after a restart, an
    /// eviction, or what keeps it from being made.
    pub(super) fn nvme_hosts(&self) -> Option<Vec<String>> {
        let nvme = self.remembered().and_then(|wanted| wanted.nvme);
        nvme.map(|nvme| nvme.hosts)
    }

    /// How it is meant to be shown, once it is attached.
    pub(super) fn meant(&self) -> Option<Shown> {
        self.attachment.as_ref().and_then(Attachment::established).cloned()
    }

    pub(super) const fn earlier(&self) -> Earlier {
        self.earlier
    }

    pub(super) const fn is_unreported(&self) -> bool {
        self.unreported
    }

    /// Nothing is known of it, and nobody has its turn: it may be forgotten.
    pub(super) fn is_idle(&self) -> bool {
        self.attachment.is_none()
            && self.awaited.is_none()
            && self.earlier == Earlier::MayLive
            && self.turns.is_free()
            && !(self.unreported || self.is_tried || self.is_reporting)
            && self.remembered().is_none()
    }

    /// What the state directory is to keep, which whoever asks saves.
    pub(super) fn take_kept(&mut self) -> Kept {
        self.kept = self.to_keep();
        self.is_unsaved = false;
        self.kept.clone()
    }

    fn to_keep(&self) -> Kept {
        let remembered = self.remembered();
        Kept { unreported: self.unreported && remembered.is_none(), remembered }
    }

    fn remembered(&self) -> Option<Wanted> {
        if let Some(frozen) = &self.closing {
            return frozen.clone();
        }
        let awaited = self.awaited.as_ref().map(|awaited| awaited.how.clone());
        awaited.or_else(|| self.attachment.as_ref()?.wanted(self.volume))
    }

    /// Whether it is attached here again if it is detached now: by the next daemon, or by this one.
    fn is_kept(&self) -> bool {
        self.closing.as_ref().map_or(self.awaited.is_some(), Option::is_some)
    }

    fn of(&mut self, primary: Incarnation) -> Option<&mut Attachment> {
        self.attachment.as_mut().filter(|attachment| attachment.primary() == primary)
    }

    /// What is to be done now. Whoever has changed the machine asks.
    pub(super) fn advance(&mut self) -> Vec<Output> {
        let mut outputs = std::mem::take(&mut self.outputs);
        if self.turns.is_free()
            && let Some(over) = &mut self.attachment
            && over.is_over()
        {
            // Before whoever waits: nobody finds a volume half taken away.
            let turn = self.turns.take();
            over.clear_in(turn);
            outputs.push(Output::Clear(turn));
        }
        outputs.extend(self.turns.grant().map(Output::Granted));
        if self.is_to_be_tried() && !self.is_tried {
            self.is_tried = true;
            outputs.push(Output::Retry);
        }
        if self.to_keep() != self.kept {
            self.kept = self.to_keep();
            self.is_unsaved = true;
        }
        // Whoever has the turn may see to both before it answers.
        if self.turns.is_free() {
            if self.unreported && !self.is_reporting {
                self.is_reporting = true;
                outputs.push(Output::Report);
            }
            if self.is_unsaved {
                self.is_unsaved = false;
                outputs.push(Output::Save);
            }
        }
        self.check_invariants();
        outputs
    }

    /// What holds after each step.
    fn check_invariants(&self) {
        let phase = self.seen().map(Seen::phase);
        let attached = self.attachment.as_ref();
        if self.turns.is_free() {
            debug_assert!(
                matches!(phase, None | Some(Phase::Attached | Phase::Detaching | Phase::Unwanted)),
                "nobody changes it, and it is half done: {self:?}"
            );
            debug_assert!(!self.unreported || self.is_reporting, "nobody tells: {self:?}");
            debug_assert!(!self.is_unsaved, "nobody saves: {self:?}");
        }
        debug_assert!(!self.is_to_be_tried() || self.is_tried, "nobody tries: {self:?}");
        debug_assert!(
            attached.is_none_or(|it| it.established().is_some() || phase != Some(Phase::Attached)),
            "it is attached, and not known how: {self:?}"
        );
        debug_assert!(
            phase != Some(Phase::Attached) || self.awaited.is_none(),
            "attached, and to be attached again: {self:?}"
        );
        debug_assert!(
            !phase.is_some_and(Phase::is_opening)
                || self.seen().is_none_or(|seen| seen.shown() == Shown::default()),
            "shown before it serves: {self:?}"
        );
    }
}

#[cfg(test)]
mod tests;
