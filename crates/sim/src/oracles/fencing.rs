//! I3: a replica that adopted a generation neither serves nor applies a lower one.

use evenkeel_core::Generation;

use super::Violation;

/// What one replica has promised.
#[derive(Debug, Default)]
pub struct Fence {
    answered: Generation,
}

impl Fence {
    /// The replica answers the adoption of `generation` while changes of the data that began under
    /// the generations `under_way` are not over on its disk.
    ///
    /// # Errors
    /// If one of them is older.
    pub fn answers(
        &mut self,
        replica: usize,
        generation: Generation,
        under_way: impl Iterator<Item = Generation>,
    ) -> Result<(), Violation> {
        self.answered = self.answered.max(generation);
        match under_way.min().filter(|oldest| *oldest < generation) {
            None => Ok(()),
            Some(oldest) => Err(Violation::new(
                "I3",
                format!(
                    "replica {replica} answers the adoption of generation {generation} while work of generation {oldest} is still on its disk"
                ),
            )),
        }
    }

    /// The replica begins a change that was last sent to it under `sent`, having adopted `adopted`.
    ///
    /// # Errors
    /// If it was sent under a lower generation.
    pub fn changes(
        &self,
        replica: usize,
        sent: Generation,
        adopted: Generation,
    ) -> Result<(), Violation> {
        if sent >= adopted.max(self.answered) {
            return Ok(());
        }
        Err(Violation::new(
            "I3",
            format!(
                "replica {replica} applies a write of generation {sent}, but has adopted {adopted} and answered {}",
                self.answered
            ),
        ))
    }

    /// The replica answers a read of generation `asked`, having adopted `adopted`.
    ///
    /// # Errors
    /// If the two differ.
    pub fn reads(
        &self,
        replica: usize,
        asked: Generation,
        adopted: Generation,
    ) -> Result<(), Violation> {
        if asked == adopted && asked >= self.answered {
            return Ok(());
        }
        Err(Violation::new(
            "I3",
            format!(
                "replica {replica} serves a read of generation {asked}, but has adopted {adopted} and answered {}",
                self.answered
            ),
        ))
    }

    /// The replica starts with the view of `found` in its superblocks.
    ///
    /// # Errors
    /// If it had answered a higher one.
    pub fn starts(&self, replica: usize, found: Generation) -> Result<(), Violation> {
        if found >= self.answered {
            return Ok(());
        }
        Err(Violation::new(
            "I3",
            format!(
                "replica {replica} starts with generation {found} in its superblocks, but had answered the adoption of {}",
                self.answered
            ),
        ))
    }
}

#[cfg(test)]
mod tests;
