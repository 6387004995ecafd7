//! The actor of each volume on this node: drives its [`Lifecycle`].
//!
//! All that becomes of a volume here is an input of its machine, one after the other: nothing is
//! awaited in between. What the machine wants done goes to the engine, or is a task that comes back
//! with the next input. Others see what is published after each step.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_attach::DeadDevice;
use evenkeel_core::primary::{Command, Earlier, EndReason};
use evenkeel_core::{Incarnation, PrimaryId, View, VolumeId};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::again::until_attached;
use super::end::take_away;
use super::lifecycle::{AskedBy, Awaited, Kept, Lifecycle, NotOpened, Output, TurnId, Unshown};
use super::wanted::until_reported;
use crate::coordinator::{Shown, WantedNbd, WantedNvme, Wish};
use crate::nvme::Exported;
use crate::volumes::Node;
use crate::volumes::remembered::Wanted;
use crate::volumes::{Attached, Device, Volumes, lock};

/// The actors of all volumes that are more than names here.
#[derive(Debug, Default)]
pub(in crate::volumes) struct Actors {
    of: BTreeMap<VolumeId, Actor>,
    /// The daemon ends.
    is_closing: bool,
}

#[derive(Debug)]
struct Actor {
    machine: Lifecycle,
    /// What is attached, as long as the machine has it.
    attached: Option<Arc<Attached>>,
    waiting: BTreeMap<TurnId, oneshot::Sender<()>>,
}

/// The right to change a volume. Letting go of it, and of all its clones, ends what is half done.
#[derive(Clone)]
#[must_use]
pub struct Turn(Arc<Held>);

struct Held {
    node: Arc<Node>,
    volume: VolumeId,
    id: TurnId,
}

/// Waits until nobody else changes the volume: whoever asked before.
pub async fn turn(node: &Arc<Node>, volume: VolumeId) -> Turn {
    let (sender, granted) = oneshot::channel();
    let id = step(node, volume, |actor| {
        let id = actor.machine.ask();
        actor.waiting.insert(id, sender);
        id
    });
    // Whoever stops waiting here lets go of it.
    let turn = Turn::new(node, volume, id);
    // The other end is dropped only with the daemon.
    let _ = granted.await;
    turn
}

/// Whether somebody waits for its turn to change the volume.
pub fn is_turn_awaited(node: &Node, volume: VolumeId) -> bool {
    lock(&node.volumes.actors).of.get(&volume).is_some_and(|actor| !actor.waiting.is_empty())
}

/// One input of a volume's machine, and what follows from it.
fn step<T>(node: &Arc<Node>, volume: VolumeId, input: impl FnOnce(&mut Actor) -> T) -> T {
    let mut actors = lock(&node.volumes.actors);
    let is_closing = actors.is_closing;
    let actor = actors.of.entry(volume).or_insert_with(|| Actor::new(volume, is_closing));
    let answer = input(actor);
    let outputs = actor.machine.advance();
    actor.publish();
    let later: Vec<Output> =
        outputs.into_iter().filter_map(|output| actor.give(node, volume, output)).collect();
    if actor.machine.is_idle() {
        actors.of.remove(&volume);
    }
    drop(actors);
    later.into_iter().for_each(|output| begin(node, volume, output));
    answer
}

impl Actor {
    fn new(volume: VolumeId, is_closing: bool) -> Self {
        let mut machine = Lifecycle::new(volume);
        if is_closing {
            machine.close();
        }
        Self { machine, attached: None, waiting: BTreeMap::new() }
    }

    /// What others see.
    fn publish(&mut self) {
        // Nobody looks at what is not attached.
        let Some(attached) = &self.attached else { return };
        match self.machine.seen() {
            Some(now) => attached.publish(now),
            None => self.attached = None,
        }
    }

    /// What is done before the next step. Returns what is not.
    fn give(&mut self, node: &Node, volume: VolumeId, output: Output) -> Option<Output> {
        match output {
            Output::Granted(turn) => {
                // Whoever has gone lets go of it by itself.
                let _ = self.waiting.remove(&turn).map(|waits| waits.send(()));
                None
            }
            Output::End => {
                // Before another primary can be made, which this is not meant for.
                // Its answer is its end.
                node.data.engine().command(volume, Command::Detach, |_| {});
                None
            }
            later => Some(later),
        }
    }
}

/// Begins what takes time, as a task of its own.
fn begin(node: &Arc<Node>, volume: VolumeId, output: Output) {
    // Without a runtime the daemon has ended: the next one goes on.
    let Ok(runtime) = Handle::try_current() else { return };
    let at = node.clone();
    match output {
        Output::Clear(id) => {
            let turn = Turn::new(node, volume, id);
            drop(runtime.spawn(async move { take_away(&at, &turn).await }));
        }
        Output::Retry => drop(runtime.spawn(until_attached(at, volume))),
        Output::Report => drop(runtime.spawn(until_reported(at, volume))),
        Output::Save => node.volumes.save_soon(node, &runtime),
        Output::Granted(_) | Output::End => {}
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        step(&self.node, self.volume, |actor| {
            actor.waiting.remove(&self.id);
            actor.machine.let_go(self.id);
        });
    }
}

impl Turn {
    fn new(node: &Arc<Node>, volume: VolumeId, id: TurnId) -> Self {
        Self(Arc::new(Held { node: node.clone(), volume, id }))
    }

    /// Whose turn it is.
    pub(in crate::volumes) fn volume(&self) -> VolumeId {
        self.0.volume
    }

    fn step<T>(&self, input: impl FnOnce(&mut Lifecycle) -> T) -> T {
        step(&self.0.node, self.0.volume, |actor| input(&mut actor.machine))
    }

    /// A primary is about to be made. Returns what is certain of those before it.
    ///
    /// # Errors
    /// If an earlier one is not over, or the daemon ends.
    pub(super) fn open(&self, attached: &Arc<Attached>) -> Result<Earlier, NotOpened> {
        // By itself, as after an eviction: its clients have not been told yet what failed.
        let comes_back = self.0.node.volumes.awaited(attached.id).is_some();
        let earlier = step(&self.0.node, self.0.volume, |actor| {
            let incarnation = attached.primary.incarnation;
            actor.machine.open(incarnation, attached.name(), attached.purpose().clone())?;
            actor.machine.replaces(incarnation, attached.replaces().clone());
            actor.attached = Some(attached.clone());
            Ok(actor.machine.earlier())
        })?;
        match comes_back {
            _ if attached.in_passing() => {}
            true => self.0.node.volumes.failed.begin_anew(attached.id),
            false => self.0.node.volumes.failed.forget(attached.id),
        }
        Ok(earlier)
    }

    /// See [`Lifecycle::establish`].
    #[must_use]
    pub(super) fn establish(&self, attached: &Attached) -> bool {
        self.step(|machine| machine.establish(attached.primary.incarnation))
    }

    /// See [`Lifecycle::establish_unshown`].
    #[must_use]
    pub(super) fn establish_unshown(&self, attached: &Attached, why: &str) -> bool {
        self.step(|machine| machine.establish_unshown(attached.primary.incarnation, why))
    }

    /// See [`Lifecycle::device`].
    pub(super) fn device(&self, attached: &Attached, device: Device, asked_by: AskedBy) {
        self.step(|machine| machine.device(attached.primary.incarnation, device, asked_by));
    }

    /// See [`Lifecycle::no_device`].
    pub(super) fn no_device(&self, attached: &Attached) {
        self.step(|machine| machine.no_device(attached.primary.incarnation));
    }

    /// See [`Lifecycle::add_mount`].
    pub(in crate::volumes) fn add_mount(&self, attached: &Attached, token: String) {
        self.step(|machine| machine.add_mount(attached.primary.incarnation, token));
    }

    /// See [`Lifecycle::remove_mount`].
    pub(in crate::volumes) fn remove_mount(&self, token: &str) {
        self.step(|machine| machine.remove_mount(token));
    }

    /// See [`Lifecycle::claim`].
    pub(in crate::volumes) fn claim(&self, attached: &Attached, device: bool) {
        self.step(|machine| machine.claim(attached.primary.incarnation, device));
    }

    /// See [`Lifecycle::export`].
    pub(super) fn export(&self, attached: &Attached, nbd: Option<WantedNbd>) {
        self.step(|machine| machine.export(attached.primary.incarnation, nbd));
    }

    /// See [`Lifecycle::export_nvme`].
    pub(super) fn export_nvme(&self, attached: &Attached, nvme: Option<WantedNvme>) {
        self.step(|machine| machine.export_nvme(attached.primary.incarnation, nvme));
    }

    /// See [`Lifecycle::withdraw`].
    pub(in crate::volumes) fn withdraw(&self, attached: &Attached) {
        self.step(|machine| machine.withdraw(attached.primary.incarnation));
    }

    /// See [`Lifecycle::end`].
    pub(super) fn end(&self) {
        self.step(Lifecycle::end);
    }

    /// See [`Lifecycle::cleared`].
    pub(super) fn cleared(&self) {
        self.step(Lifecycle::cleared);
    }

    /// See [`Lifecycle::unwant`].
    pub(in crate::volumes) fn unwant(&self) -> bool {
        self.step(Lifecycle::unwant)
    }

    /// See [`Lifecycle::await_no_device`].
    pub(in crate::volumes) fn await_no_device(&self) {
        self.step(Lifecycle::await_no_device);
    }

    /// See [`Lifecycle::await_again`].
    pub(super) fn await_again(&self, how: Wanted, why: &str) {
        self.step(|machine| machine.await_again(how, why));
    }

    /// See [`Lifecycle::news`].
    pub(super) fn news(&self) -> Option<Option<Shown>> {
        self.step(|machine| machine.news())
    }

    /// See [`Lifecycle::reported`].
    pub(super) fn reported(&self) {
        self.step(Lifecycle::reported);
    }

    /// Saves what has changed, before it is said that it has.
    pub(in crate::volumes) async fn save(&self) {
        self.0.node.volumes.save(&self.0.node).await;
    }
}

/// The engine has made a primary, or not.
pub(super) fn made(node: &Arc<Node>, volume: VolumeId, primary: Incarnation, is_made: bool) {
    step(node, volume, |actor| actor.machine.made(primary, is_made));
}

/// A primary serves.
pub(in crate::volumes) fn serves(
    node: &Arc<Node>,
    attached: &Attached,
    follows: Option<PrimaryId>,
) {
    let primary = attached.primary.incarnation;
    step(node, attached.id, |actor| actor.machine.serves(primary, follows));
}

/// See [`Lifecycle::ended`].
pub(in crate::volumes) fn ended(
    node: &Arc<Node>,
    attached: &Attached,
    reason: EndReason,
    why: &str,
) -> bool {
    let primary = attached.primary.incarnation;
    step(node, attached.id, |actor| actor.machine.ended(primary, reason, why))
}

/// See [`Lifecycle::next_try`].
pub(super) fn next_try(node: &Arc<Node>, volume: VolumeId) -> bool {
    step(node, volume, |actor| actor.machine.next_try())
}

/// See [`Lifecycle::next_reporting`].
pub(super) fn next_reporting(node: &Arc<Node>, volume: VolumeId) -> bool {
    step(node, volume, |actor| actor.machine.next_reporting())
}

/// See [`Lifecycle::waits_for`].
pub(super) fn waits_for(node: &Arc<Node>, volume: VolumeId, why: &str) -> bool {
    step(node, volume, |actor| actor.machine.waits_for(why))
}

/// What the last daemon remembered of a volume: it is to be attached again. `earlier`: its last
/// primary, which has ended.
pub(super) fn remembered(
    node: &Arc<Node>,
    volume: VolumeId,
    how: Wanted,
    why: &str,
    earlier: Option<Incarnation>,
) {
    step(node, volume, |actor| {
        if let Some(earlier) = earlier {
            actor.machine.note_earlier(earlier);
        }
        actor.machine.await_again(how, why);
    });
}

/// The last daemon had not told the coordinator that this is not wanted here.
pub(super) fn unreported(node: &Arc<Node>, volume: VolumeId) {
    step(node, volume, |actor| actor.machine.unwant());
}

impl Volumes {
    /// What is asked of a machine without changing it. `None`: nothing is known of the volume.
    fn ask<T>(&self, volume: VolumeId, question: impl FnOnce(&Lifecycle) -> T) -> Option<T> {
        lock(&self.actors).of.get(&volume).map(|actor| question(&actor.machine))
    }

    /// One by its identity.
    #[must_use]
    pub fn get(&self, volume: VolumeId) -> Option<Arc<Attached>> {
        lock(&self.actors).of.get(&volume)?.attached.clone()
    }

    /// The same, if this is its primary.
    #[must_use]
    pub fn of(&self, volume: VolumeId, primary: PrimaryId) -> Option<Arc<Attached>> {
        self.get(volume).filter(|attached| attached.primary == primary)
    }

    /// One by its name or identity.
    #[must_use]
    pub fn by_name(&self, name: &str) -> Option<Arc<Attached>> {
        let all = self.all();
        let by_id = all.iter().find(|attached| attached.id.to_string() == name);
        by_id.or_else(|| all.iter().find(|attached| attached.name() == name)).cloned()
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Attached>> {
        lock(&self.actors).of.values().filter_map(|actor| actor.attached.clone()).collect()
    }

    /// Whether this is the volume's attachment still: whoever waited for a turn asks first.
    pub(in crate::volumes) fn holds(&self, attached: &Attached) -> bool {
        self.of(attached.id, attached.primary).is_some()
    }

    /// Whether a primary that ran on this node has provably ended.
    pub(in crate::volumes) fn has_ended(&self, volume: VolumeId, primary: Incarnation) -> bool {
        let earlier = self.ask(volume, Lifecycle::earlier);
        earlier.is_some_and(|earlier| match earlier {
            Earlier::Ended => true,
            Earlier::OneEnded(ended) => ended == primary,
            Earlier::MayLive => false,
        })
    }

    /// How a volume is to be attached here again, and why it is not yet.
    pub(in crate::volumes) fn awaited(&self, volume: VolumeId) -> Option<Awaited> {
        self.ask(volume, |machine| machine.awaited().cloned()).flatten()
    }

    /// Whether it is still to be attached here, or to be shown as it is meant to be.
    pub(crate) fn is_to_be_shown(&self, volume: VolumeId) -> bool {
        self.awaited(volume).is_some() || self.unshown(volume).is_some()
    }

    /// How a volume that is attached here is meant to be shown.
    pub(in crate::volumes) fn meant(&self, volume: VolumeId) -> Option<Shown> {
        self.ask(volume, Lifecycle::meant).flatten()
    }

    /// What a volume is not shown by that is attached here, and why.
    pub(super) fn unshown(&self, volume: VolumeId) -> Option<Unshown> {
        self.ask(volume, Lifecycle::unshown).flatten()
    }

    /// The volume of this name or identity that is to be attached here again.
    pub(in crate::volumes) fn awaited_by_name(&self, name: &str) -> Option<VolumeId> {
        let actors = lock(&self.actors);
        let is = |awaited: &Awaited| awaited.how.name == name || awaited.how.volume == name;
        let mut volumes = actors.of.iter();
        volumes.find(|(_, actor)| actor.machine.awaited().is_some_and(is)).map(|(id, _)| *id)
    }

    /// Whether the coordinator still has to be told how this is wanted here.
    pub(super) fn is_unreported(&self, volume: VolumeId) -> bool {
        self.ask(volume, Lifecycle::is_unreported).unwrap_or(false)
    }

    /// What a swap to this view says of where its volume is meant to be attached.
    pub(crate) fn wish(&self, view: &View) -> Wish {
        let actors = lock(&self.actors);
        let Some(actor) = actors.of.get(&view.volume) else { return Wish::AsBefore };
        let has = |attached: &Arc<Attached>| view.has_primary(attached.primary);
        actor.machine.wish(actor.attached.as_ref().is_some_and(has))
    }

    /// Devices of it give errors, and are used.
    pub(super) fn note_dead(&self, volume: VolumeId, devices: impl Iterator<Item = DeadDevice>) {
        if let Some(actor) = lock(&self.actors).of.get_mut(&volume) {
            actor.machine.note_dead(devices);
        }
    }

    /// From now on what is attached here, or is to be, is for the next daemon.
    pub(in crate::volumes) fn close(&self) {
        let mut actors = lock(&self.actors);
        actors.is_closing = true;
        actors.of.values_mut().for_each(|actor| actor.machine.close());
    }

    /// What the state directory is to have: how the next daemon attaches volumes, and which ones
    /// the coordinator does not know to be wanted here no more. Whoever asks saves it.
    pub(super) fn take_kept(&self) -> (Vec<Wanted>, Vec<VolumeId>) {
        let (mut remembered, mut unreported) = (Vec::new(), Vec::new());
        lock(&self.actors).of.retain(|volume, actor| {
            let kept: Kept = actor.machine.take_kept();
            remembered.extend(kept.remembered);
            unreported.extend(kept.unreported.then_some(*volume));
            !actor.machine.is_idle()
        });
        (remembered, unreported)
    }
}

impl Exported for Volumes {
    fn is_wanted(&self, volume: VolumeId, host: &str) -> bool {
        let hosts = self.ask(volume, Lifecycle::nvme_hosts).flatten().unwrap_or_default();
        hosts.iter().any(|permitted| permitted == host)
    }

    fn name(&self, volume: VolumeId) -> Option<String> {
        self.get(volume).map(|attached| attached.name().to_owned())
    }
}
