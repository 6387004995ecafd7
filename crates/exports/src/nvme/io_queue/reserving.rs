//! Commands about reservations. The control plane carries them out, since they change the volume's
//! view; the queue keeps each until it has answered. A queue that ends waits for them as it waits
//! for the volume: none takes effect when it is gone.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use evenkeel_engine::FrontendContext;

use super::{Phase, Queue};
use crate::nvme::command::Status;
use crate::nvme::connection::{Tag, Transfer};
use crate::nvme::io::Ask;
use crate::nvme::reservation::Wanted;

/// How a command about reservations ended: with the report, if it asked for one.
type Answered = Result<Vec<u8>, Status>;

/// Who carries out commands about reservations for a queue.
pub struct Reserving {
    /// Is given each command with a number, and answers by [`ReservationAnswers::answer`]. It must
    /// not block.
    pub ask: Box<dyn FnMut(u16, Wanted) + Send>,
    /// Where the answers come.
    pub answers: ReservationAnswers,
    /// Whether the host may not write, as far as is known. Only what the volume itself does not
    /// refuse is refused by this: flushes, and hints.
    pub excluded: Arc<AtomicBool>,
}

impl fmt::Debug for Reserving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reserving").field("excluded", &self.excluded).finish_non_exhaustive()
    }
}

/// Answers that the queue has not taken. It takes them when it is told
/// [`super::RESERVATIONS_ANSWERED`].
#[derive(Debug, Clone, Default)]
pub struct ReservationAnswers(Arc<Mutex<Vec<(u16, Answered)>>>);

impl ReservationAnswers {
    /// Answers the command of this number. The queue has to be told.
    pub fn answer(&self, number: u16, answer: Result<Vec<u8>, Status>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((number, answer));
    }

    fn take(&self) -> Vec<(u16, Answered)> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Queue {
    /// Whether a command counts among those that write, the volume does not refuse it, and the host
    /// may not write.
    pub(super) fn is_excluded(&self, ask: &Ask) -> bool {
        matches!(ask, Ask::Flush | Ask::Manage { .. })
            && self.queue.reserving.as_ref().is_some_and(|it| it.excluded.load(Ordering::Relaxed))
    }

    /// Takes room for a report, and asks for it. Returns whether there was room.
    pub(super) fn report(
        &mut self,
        tag: Tag,
        length: u32,
        transfer: Transfer,
        context: &mut FrontendContext,
    ) -> bool {
        let Some(room) = self.reserve(tag, length, transfer, context) else { return false };
        let mut buffer = room.into_buffer(length as usize);
        buffer.fill(0);
        self.ask(tag, Wanted::Report, Phase::Asked(Some(buffer)));
        true
    }

    /// Asks the control plane.
    pub(super) fn ask(&mut self, tag: Tag, wanted: Wanted, phase: Phase) {
        let (Some(reserving), Some(open)) =
            (&mut self.queue.reserving, &mut self.open[tag.index()])
        else {
            return self.answer(tag, Status::InvalidOpcode);
        };
        open.phase = phase;
        // A queue has fewer tags than the number has values.
        (reserving.ask)(tag.index() as u16, wanted);
    }

    /// The control plane has answered commands.
    pub(super) fn reservations_answered(&mut self, context: &mut FrontendContext) {
        let answers = self.queue.reserving.as_ref().map(|it| it.answers.take());
        for (number, answer) in answers.unwrap_or_default() {
            let open = self.open.get_mut(usize::from(number)).and_then(Option::as_mut);
            // None after the end of the volume, which has answered it.
            let Some(open) = open else { continue };
            let Phase::Asked(buffer) = &mut open.phase else { continue };
            let (tag, buffer) = (open.tag, buffer.take());
            match (answer, buffer) {
                (Ok(report), Some(mut buffer)) => {
                    let length = report.len().min(buffer.len());
                    buffer[..length].copy_from_slice(&report[..length]);
                    self.data(tag, vec![(0, buffer.freeze())], context);
                }
                (Ok(_), None) => self.answer(tag, Status::Success),
                (Err(status), _) => self.answer(tag, status),
            }
        }
        self.end_drained();
    }
}
