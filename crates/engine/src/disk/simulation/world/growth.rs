//! Making room as the control plane does, and closing: beside all that is asked of the disk.

use std::sync::mpsc::{TryRecvError, channel};

use super::*;
use crate::disk::device::Access;
use crate::disk::{SpaceFailure, SpaceRequest, SpaceStep, SpaceTask};
use crate::error::EngineError;

/// A replica is given room for so many bytes of data.
#[derive(Debug)]
pub(super) struct Growing {
    length: u64,
    step: SpaceStep,
    stage: Stage,
    /// How often checksums were copied.
    copies: u32,
}

#[derive(Debug)]
enum Stage {
    ToAsk,
    Asked(Receiver<Answer>),
    /// This is to be done before the next step.
    Task(SpaceTask),
}

type Answer = Result<Option<SpaceTask>, EngineError>;

impl Growing {
    const fn begin(length: u64) -> Self {
        Self { length, step: SpaceStep::Plan, stage: Stage::ToAsk, copies: 0 }
    }

    fn next(self, is_small: bool) -> Self {
        let step = match self.step {
            SpaceStep::Plan => SpaceStep::CarryChecksums { anew: true },
            SpaceStep::CarryChecksums { anew } if anew || (!is_small && self.copies < 4) => {
                SpaceStep::CarryChecksums { anew: false }
            }
            SpaceStep::CarryChecksums { .. } => SpaceStep::MoveMetadata,
            SpaceStep::MoveMetadata | SpaceStep::Use => SpaceStep::Use,
        };
        Self { step, stage: Stage::ToAsk, copies: self.copies + 1, ..self }
    }
}

impl World {
    /// Whether somebody waits for the answer to a step.
    pub(super) fn waits_for_room(&self) -> bool {
        self.growing.as_ref().is_some_and(|growing| matches!(growing.stage, Stage::Asked(_)))
    }

    /// Begins to make room, or goes on with it.
    pub(super) fn grow(&mut self) -> Result<(), Violation> {
        let Some(Growing { length, step, stage, copies }) = self.growing.take() else {
            let more = self.plan.growth(&mut self.aside);
            self.growing = more.map(|more| Growing::begin(self.plan.length + more));
            return Ok(());
        };
        let asked = |stage| Growing { length, step, stage, copies };
        match stage {
            Stage::ToAsk => {
                let (sender, receiver) = channel();
                self.growing = Some(asked(Stage::Asked(receiver)));
                self.ask_for_space(length, step, sender)
            }
            Stage::Asked(receiver) => match receiver.try_recv() {
                Ok(answer) => self.space_answered(asked(Stage::ToAsk), answer),
                Err(TryRecvError::Empty) => {
                    self.growing = Some(asked(Stage::Asked(receiver)));
                    Ok(())
                }
                Err(TryRecvError::Disconnected) => {
                    Err(("I11", format!("{step:?} of a growth is never answered")))
                }
            },
            Stage::Task(task) => {
                self.do_task(asked(Stage::ToAsk), &task);
                Ok(())
            }
        }
    }

    fn ask_for_space(
        &mut self,
        length: u64,
        step: SpaceStep,
        sender: std::sync::mpsc::Sender<Answer>,
    ) -> Result<(), Violation> {
        self.report(|| format!("-- room for {length} bytes: {step:?}"));
        if step == SpaceStep::Use {
            self.asked_length = Some(length);
            self.model.may_be_longer(true);
        }
        let answer = Box::new(move |answer| drop(sender.send(answer)));
        let request = SpaceRequest { length, step, spare_in: None, answer };
        let ended = self.with_disk(|disk, means| Some(disk.make_space(means, request)));
        self.all_ended(ended.unwrap_or_default())
    }

    /// The disk's helper is to write a step, or has something else to do: what will have moved
    /// counts no more.
    fn expect_moves(&mut self) {
        let Some(Growing { length, step, .. }) = self.growing else { return };
        self.expected.forget_pages();
        if step == SpaceStep::MoveMetadata && !self.carries_checksums(length) {
            self.model.forget(0..u64::MAX);
        }
    }

    /// Whether the new place for the checksums does not overlap with where they are.
    fn carries_checksums(&self, length: u64) -> bool {
        let old = &self.superblock;
        let end =
            old.metadata_offset + disk_length(old.data_length) - metadata_offset(old.data_length);
        metadata_offset(length) + bitmaps_length(length) >= end
    }

    fn space_answered(&mut self, growing: Growing, answer: Answer) -> Result<(), Violation> {
        self.report(|| format!("-- room: {answer:?}"));
        let step = growing.step;
        match answer {
            Ok(Some(task)) => self.growing = Some(Growing { stage: Stage::Task(task), ..growing }),
            Ok(None) => {
                self.note("growths");
                self.asked_length = None;
                self.set_length(growing.length);
            }
            Err(EngineError::Busy) => self.growing = Some(growing),
            Err(error) => {
                let state = self.device.state();
                if state.failures == 0 && state.refused == 0 {
                    return Err(("I11", format!("{step:?} fails without a cause: {error}")));
                }
                drop(state);
                self.model.may_be_longer(false);
                self.note("growths that failed");
            }
        }
        Ok(())
    }

    /// What has to be done between two steps, by somebody else, and durably. If it fails, the
    /// growth is given up.
    fn do_task(&mut self, growing: Growing, task: &SpaceTask) {
        let (done, is_small) = match task {
            SpaceTask::Zero(range) => (self.zero_space(range.clone()), true),
            SpaceTask::Carry(_) if self.sabotage == Sabotage::LoseCarried => (Ok(()), true),
            SpaceTask::Carry(carry) => (carry.carry_out_on(&self.device), carry.is_small()),
        };
        self.forget_unread();
        match done {
            Ok(()) => self.growing = Some(growing.next(is_small)),
            Err(_) => self.note("growths that failed"),
        }
    }

    fn zero_space(&self, range: Range<u64>) -> std::io::Result<()> {
        if self.sabotage != Sabotage::SkipZeroing {
            self.device.state().zero(range, true);
        }
        Access::flush(&self.device)
    }

    /// The helper has written a step, or has failed to.
    pub(super) fn space_made(&mut self, result: Result<(), SpaceFailure>) -> Result<(), Violation> {
        self.forget_unread();
        let ended = self.with_disk(|disk, means| Some(disk.space_made(means, result)));
        self.note("steps of growths");
        if let Some(disk) = &self.disk {
            self.superblock = disk.superblocks.newest().clone();
            self.lay_out();
            self.set_length(self.superblock.data_length);
        }
        self.all_ended(ended.unwrap_or_default())
    }

    pub(super) fn all_ended(&mut self, ended: Vec<Ended>) -> Result<(), Violation> {
        ended.into_iter().try_for_each(|ended| self.ended(ended))
    }

    /// The data have this length.
    pub(super) fn set_length(&mut self, length: u64) {
        self.plan.length = length;
        self.plan.bitmap_pages = pages_per_bitmap(length).min(4);
        self.model.set_length(length);
    }

    /// Where things lie on the device.
    pub(super) fn lay_out(&self) {
        self.device.state().places = places_of(&self.superblock);
    }

    /// The replica is closed, whatever is under way, and opened again in a new process.
    pub(super) fn close(&mut self) -> Result<(), Violation> {
        self.report(|| "-- close".to_owned());
        self.note(if self.queue.is_idle() { "closes" } else { "closes with operations under way" });
        let at_once = self.sabotage == Sabotage::CloseAtOnce;
        let mut stands_still = 0;
        while !at_once && self.disk.as_ref().is_some_and(|disk| !disk.is_idle()) {
            // What is left may be a task of the helper, and what follows from it.
            stands_still = if self.queue.is_idle() { stands_still + 1 } else { 0 };
            if stands_still > 8 {
                return Err(("I11", format!("it never closes: {:?}", self.growing)));
            }
            self.now += 1000;
            self.advance()?;
        }
        let asked: Vec<_> = self.pending.values().collect();
        if !self.queue.is_idle() || !asked.is_empty() {
            return Err(("I11", format!("it closes while there is something to do: {asked:?}")));
        }
        let (sender, receiver) = channel();
        let report = Box::new(move || {
            // It is awaited below.
            let _ = sender.send(());
        });
        if let Some(disk) = self.disk.take() {
            disk.close(report);
        }
        while let Some(task) = self.tasks.as_ref().and_then(|tasks| tasks.try_recv().ok()) {
            if let Done::Closed { report } = task() {
                report();
            }
        }
        if receiver.try_recv() != Ok(()) {
            return Err(("I11", "closing is not answered".to_owned()));
        }
        self.lose(false);
        self.start()
    }

    /// Has the helper do something. The power may be cut meanwhile.
    pub(super) fn run_task(&mut self, task: Task) -> Result<Option<Done>, Violation> {
        if self.waits_for_room() {
            self.expect_moves();
        }
        let is_cut = self.plan.cuts > 0 && self.waits_for_room() && self.aside.chance(150);
        if is_cut {
            self.device.state().calls_left = Some(self.aside.below(12));
        }
        let done = task();
        let left = self.device.state().calls_left.take();
        if is_cut && left == Some(0) {
            self.note("power cuts while room is made");
            self.crash(true)?;
            return Ok(None);
        }
        Ok(Some(done))
    }
}
