//! How the clients of a volume share its memory: each front end has an [`Account`] in the volume's
//! budget.
//!
//! Nobody takes so much that less is left free than he then holds, unless that is a portion: what
//! each would have if there were one client more. Who holds nothing may take whatever fits. So one
//! client that keeps memory back, because it has sent half a payload or takes no answers, has half
//! of it at most, and others do not wait for it. Several of them may have all. Whoever waits within
//! his portion then waits for one that has more than its share, and who that is can be told
//! ([`Account::is_above_share`]): a front end ends it if it keeps memory back for too long.
//!
//! For [`STRICT`] after somebody has waited so, the number of clients does not fall, nobody takes
//! more than his portion, and who holds nothing takes more only if a portion is left. So those that
//! were ended, and come back at once, do not have the others wait again.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use evenkeel_core::Instant;

use super::pool::{Budget, Reservation, buffer_size};

/// How long after somebody has waited within his portion all are kept to theirs.
const STRICT: Duration = Duration::from_secs(60);

/// What a budget knows of those who have accounts in it.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    /// How many hold or wait.
    active: Cell<usize>,
    /// How many wait for others, and how many of these within their portions.
    waiting: Cell<usize>,
    waiting_within: Cell<usize>,
    /// Until when all are kept to their portions, and of how many clients these are at least.
    strict: Cell<Option<(Instant, usize)>>,
}

/// One client's account in a budget. Cloning it shares it.
#[derive(Clone, Debug)]
pub(crate) struct Account(Rc<State>);

#[derive(Debug)]
struct State {
    budget: Budget,
    held: Cell<usize>,
    waits: Cell<Waits>,
}

/// Whether an account was refused because of what others hold, and has not given up since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waits {
    No,
    /// For so much that it would hold its portion at most.
    Within,
    /// For more.
    Beyond,
}

impl Account {
    /// An account that holds nothing.
    pub(crate) fn new(budget: Budget) -> Self {
        Self(Rc::new(State { budget, held: Cell::new(0), waits: Cell::new(Waits::No) }))
    }

    /// The budget.
    pub(crate) fn budget(&self) -> &Budget {
        &self.0.budget
    }

    /// Reserves room for buffers of all these lengths, or for none of them: see
    /// [`Budget::reserve_all`].
    pub(crate) fn reserve_all<const N: usize>(
        &self,
        lengths: [usize; N],
        now: Instant,
    ) -> Option<[Reservation; N]> {
        let bytes = lengths.map(buffer_size).iter().sum();
        if self.may_take(bytes, now) {
            return Some(self.0.budget.take_all(lengths, Some(self)));
        }
        self.refused(bytes, now);
        None
    }

    fn may_take(&self, bytes: usize, now: Instant) -> bool {
        let (budget, portion) = (&self.0.budget, self.portion(now));
        if budget.used() == 0 {
            // Who is within his portion has been told by now that he may try again.
            return bytes <= portion || !self.others_wait_within();
        }
        if !budget.has_room(bytes) {
            return false;
        }
        let (held, left) = (self.held(), budget.limit() - budget.used() - bytes);
        if held + bytes <= portion {
            return true;
        }
        let least = match (self.strict(now), held) {
            (None, 0) => 0,
            (None, _) => held + bytes,
            (Some(_), 0) => portion,
            (Some(_), _) => return false,
        };
        left >= least
    }

    /// It was refused: because of what others hold, unless it is for what it holds itself.
    fn refused(&self, bytes: usize, now: Instant) {
        if self.held() + bytes <= self.portion(now) {
            self.set_waits(Waits::Within);
            let clients = self.clients(now);
            self.accounts().strict.set(Some((now + STRICT, clients)));
        } else if self.held() == 0 {
            self.set_waits(Waits::Beyond);
        } else {
            self.set_waits(Waits::No);
        }
    }

    /// It wants nothing any more, or what it wants is to wait for something else.
    pub(crate) fn stop_waiting(&self) {
        self.set_waits(Waits::No);
    }

    /// Whether another one waits, and not for what it holds itself.
    pub(crate) fn others_wait(&self) -> bool {
        self.accounts().waiting.get() > usize::from(self.waits())
    }

    fn others_wait_within(&self) -> bool {
        let is_within = self.0.waits.get() == Waits::Within;
        self.accounts().waiting_within.get() > usize::from(is_within)
    }

    /// Whether it waits so itself.
    pub(crate) fn waits(&self) -> bool {
        self.0.waits.get() != Waits::No
    }

    /// Whether it holds more than it would have if all that hold or wait had the same.
    pub(crate) fn is_above_share(&self) -> bool {
        self.held() > self.0.budget.limit() / self.accounts().active.get().max(1)
    }

    /// Bytes that it holds.
    pub(crate) fn held(&self) -> usize {
        self.0.held.get()
    }

    /// What each client would have, if there were one more.
    fn portion(&self, now: Instant) -> usize {
        self.0.budget.limit() / (self.clients(now) + 1)
    }

    /// How many clients there are to be shared with, itself included.
    fn clients(&self, now: Instant) -> usize {
        let active = self.accounts().active.get() + usize::from(!self.is_active());
        active.max(self.strict(now).unwrap_or_default())
    }

    /// Of how many clients the portions are at least to which all are kept, if they are.
    fn strict(&self, now: Instant) -> Option<usize> {
        self.accounts().strict.get().filter(|(until, _)| now < *until).map(|(_, clients)| clients)
    }

    fn accounts(&self) -> &Accounts {
        self.0.budget.accounts()
    }

    fn is_active(&self) -> bool {
        self.held() > 0 || self.waits()
    }

    fn set_waits(&self, waits: Waits) {
        let waited = self.0.waits.get();
        if waits == waited {
            return;
        }
        let was_waiting = self.waits();
        self.change(|state| state.waits.set(waits));
        let Accounts { waiting, waiting_within, .. } = self.accounts();
        waiting.set(waiting.get() + usize::from(self.waits()) - usize::from(was_waiting));
        let [is_within, was_within] = [waits, waited].map(|it| usize::from(it == Waits::Within));
        waiting_within.set(waiting_within.get() + is_within - was_within);
        // Who waits for more may have been refused because of it.
        if was_within > is_within && waiting.get() > waiting_within.get() {
            self.0.budget.pool().wake();
        }
    }

    /// It holds so much more.
    pub(super) fn add(&self, bytes: usize) {
        self.change(|state| state.held.set(state.held.get() + bytes));
    }

    /// It holds so much less.
    pub(super) fn subtract(&self, bytes: usize) {
        self.change(|state| state.held.set(state.held.get() - bytes));
    }

    fn change(&self, change: impl FnOnce(&State)) {
        let was_active = self.is_active();
        change(&self.0);
        let active = &self.accounts().active;
        active.set(active.get() + usize::from(self.is_active()) - usize::from(was_active));
    }
}

#[cfg(test)]
mod tests;
