//! Replicas that return and leave again at once, time after time.
//!
//! A disk or a link may answer whatever is asked to find out if it is there, and not what clients
//! ask for. Such a replica would be taken in and thrown out again for ever, and each time clients
//! would wait for its deadline. So it stays away for a while, longer from time to time.

use core::time::Duration;

use crate::ids::*;
use crate::settings::{Pauses, ReturnSettings};
use crate::time::Instant;
use crate::view::Cause;

/// So often in a row a replica may leave soon after its return; from then on it stays away.
const MAX_IN_A_ROW: u32 = 2;

/// How a replica has fared since it was last known to be good.
#[derive(Debug, Default)]
pub(in crate::primary) struct Returns {
    /// When it was taken in, and in which incarnation.
    last: Option<(Instant, Option<Incarnation>)>,
    /// How often in a row it has left soon after it was taken in.
    in_a_row: u32,
    /// Until when it stays away for that.
    away_until: Option<Instant>,
}

impl Returns {
    /// It is a member again. One whose process is another one has not failed yet.
    pub fn taken_in(&mut self, incarnation: Option<Incarnation>, now: Instant) {
        if self.last.is_none_or(|(_, before)| before != incarnation) {
            self.in_a_row = 0;
        }
        self.last = Some((now, incarnation));
    }

    /// It has left: how long it is to stay away, if for longer than others.
    pub fn left(
        &mut self,
        cause: Cause,
        settings: &ReturnSettings,
        now: Instant,
    ) -> Option<Duration> {
        let is_soon = self.last.is_some_and(|(at, _)| now.since(at) < settings.within);
        // Of all others an operator decides, or they are another process then.
        let counts = matches!(cause, Cause::Late | Cause::Disconnected | Cause::Lagging);
        self.in_a_row = if is_soon && counts { self.in_a_row.saturating_add(1) } else { 0 };
        let pause = self.pause(settings);
        self.away_until = pause.map(|pause| now + pause);
        pause
    }

    fn pause(&self, settings: &ReturnSettings) -> Option<Duration> {
        let doublings = self.in_a_row.checked_sub(MAX_IN_A_ROW + 1)?;
        let Pauses { first, longest } = settings.pause;
        let pause = first.saturating_mul(1u32.checked_shl(doublings).unwrap_or(u32::MAX));
        Some(pause.min(longest))
    }

    /// How often in a row it has left soon after it was taken in, if it stays away for that.
    pub fn stays_away_after(&self, now: Instant) -> Option<u32> {
        self.away_until.filter(|until| now < *until).map(|_| self.in_a_row)
    }
}

#[cfg(test)]
mod tests;
