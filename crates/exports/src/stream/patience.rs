//! For how long a client may keep memory that others wait for: a payload that does not arrive,
//! answers that it does not take.
//!
//! It is looked at once a second. A look counts if others wait at that moment; for payloads, if the
//! client is also listened to. Time alone counts nothing: a node that stood still must not end its
//! clients for that. What arrives counts nothing either, but only that the payload is complete:
//! whoever sends a byte now and then keeps memory as one that sends nothing.

use std::time::Duration;

use evenkeel_core::Instant;
use evenkeel_engine::FrontendContext;

/// How often a client is looked at that keeps memory.
pub const LOOK: Duration = Duration::from_secs(1);
/// After how many looks a client ends that holds more than its share of the volume's memory.
pub const HURRY: u32 = 5;
/// After how many looks one ends that does not, with one more for each [`PART`] that it holds. So
/// many may pass as well until a client that is being ended has taken its last answers.
pub const PATIENCE: u32 = 30;
/// Bytes. A line over which so many come in a second is fast enough.
const PART: usize = 1 << 20;

/// The looks that counted before something began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark(u32);

/// What a client keeps at the moment, and what is wrong with it.
#[derive(Debug, Clone, Copy)]
pub struct Kept {
    /// From when its oldest payload has been awaited, if any is.
    pub awaited: Option<Mark>,
    /// Whether it is listened to.
    pub is_heard: bool,
    /// Whether it is being ended, so that it keeps its place from others, whoever needs memory.
    pub is_ending: bool,
}

/// See the module.
#[derive(Debug)]
pub struct Patience {
    /// When the client was last looked at.
    looked: Instant,
    /// The looks that counted for answers.
    looks: Mark,
    /// The looks that counted for payloads.
    heard: Mark,
    /// From when on it has taken nothing, while there were answers for it.
    untaken: Mark,
}

impl Patience {
    pub const fn new() -> Self {
        Self { looked: Instant(0), looks: Mark(0), heard: Mark(0), untaken: Mark(0) }
    }

    /// From now on a payload is awaited.
    pub const fn mark(&self) -> Mark {
        self.heard
    }

    /// There are answers for it from now on, or it has taken some.
    pub const fn takes(&mut self) {
        self.untaken = self.looks;
    }

    /// When it is to be looked at.
    pub fn next_look(&self) -> Instant {
        self.looked + LOOK
    }

    /// Looks at a client, which has answers to take or not. Returns for how many looks it has kept
    /// memory, if these are too many.
    pub fn look(&mut self, kept: Kept, is_sending: bool, context: &FrontendContext) -> Option<u32> {
        self.looked = context.now();
        if kept.is_ending || context.others_wait() {
            self.looks.0 += 1;
            self.heard.0 += u32::from(kept.is_heard);
        }
        let awaited = kept.awaited.map_or(0, |mark| self.heard.0 - mark.0);
        let untaken = if is_sending { self.looks.0 - self.untaken.0 } else { 0 };
        let most = match kept.is_ending {
            true => PATIENCE,
            false if context.is_above_share() => HURRY,
            false => PATIENCE.saturating_add((context.held() / PART) as u32),
        };
        let age = awaited.max(untaken);
        (age >= most).then_some(age)
    }
}

#[cfg(test)]
mod tests;
