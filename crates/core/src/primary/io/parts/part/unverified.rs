//! What was read where the checksum was lost, and the search for a copy that fits its own.

use core::time::Duration;

use super::Part;
use crate::payload::Payload;
use crate::policy::ReplicaSet;
use crate::time::Instant;

/// For so many deadlines replicas are asked for a copy that fits.
const MAX_DEADLINES: u32 = 3;

/// How often the search begins anew because no read could be answered meanwhile.
const MAX_RENEWALS: u8 = 2;

/// What was read by replicas that could not vouch for it.
#[derive(Debug)]
pub(super) struct Unverified<P> {
    by: ReplicaSet,
    /// What the first of them has read, unless it was the answer.
    kept: Option<P>,
    /// Whether another one has read something else.
    differs: bool,
}

/// The search for a copy that fits its checksum.
#[derive(Debug, Clone, Copy)]
pub(super) struct Search {
    since: Instant,
    /// When it began the first time.
    began: Instant,
    /// Who was asked since.
    asked: ReplicaSet,
    renewals: u8,
}

impl Search {
    /// Who can't be asked any more. For one deadline everybody may be, then each other one once.
    fn excludes(&self, now: Instant, deadline: Duration) -> ReplicaSet {
        let searched = now.since(self.since);
        match searched {
            _ if searched < deadline => 0,
            _ if searched < deadline * MAX_DEADLINES => self.asked,
            _ => !0,
        }
    }
}

impl<P: Payload> Part<P> {
    /// A replica has read what it can't vouch for: as long as others can be asked it has failed.
    pub fn take_unverified(&mut self, bit: ReplicaSet, payload: P, now: Instant) {
        self.replicas.failed |= bit;
        self.search.get_or_insert(Search { since: now, began: now, asked: 0, renewals: 0 });
        match &mut self.unverified {
            Some(unverified) => {
                let kept = unverified.kept.as_ref();
                unverified.differs |= kept.is_some_and(|k| k.first_difference(&payload).is_some());
                unverified.by |= bit;
            }
            None => {
                let kept = Some(payload);
                self.unverified = Some(Unverified { by: bit, kept, differs: false });
            }
        }
    }

    /// Whether a replica has read what it can't vouch for, and that is not the answer.
    pub fn has_unverified(&self) -> bool {
        self.unverified.as_ref().is_some_and(|unverified| unverified.kept.is_some())
    }

    /// Of which replicas it may be read.
    #[inline]
    pub fn may_be_read_from(&self, now: Instant, deadline: Duration) -> ReplicaSet {
        let search = self.search.as_ref().filter(|_| self.has_unverified());
        !self.replicas.failed & !search.map_or(0, |search| search.excludes(now, deadline))
    }

    /// Until when it waits for replicas that can't be asked at present, if it does.
    pub fn waits_until(&self, now: Instant, deadline: Duration) -> Option<Instant> {
        self.search.map(|search| search.since + deadline).filter(|until| now < *until)
    }

    /// No read can be answered at present, whatever was read. Who can be asked later is asked as if
    /// nobody had been; not without end, because that may happen again and again.
    pub fn search_anew(&mut self, now: Instant, deadline: Duration) {
        let Some(search) = &mut self.search else { return };
        if search.asked == 0 {
            search.since = now.min(search.began + deadline * MAX_DEADLINES);
        } else if search.renewals < MAX_RENEWALS {
            let (since, began, renewals) = (now, now, search.renewals + 1);
            *search = Search { since, began, asked: 0, renewals };
        }
    }

    /// All have adopted another view, or this primary stood still. Meanwhile nobody could answer.
    pub fn excuse_search(&mut self, now: Instant) {
        if let Some(search) = &mut self.search {
            (search.since, search.began, search.asked) = (now, now, 0);
        }
    }

    /// It looks for one block of what another part has read. Each replica may be asked for that
    /// once, though all were asked for the whole.
    pub fn continues_search_of(self, other: &Self, now: Instant, deadline: Duration) -> Self {
        let once_each = Instant(now.0.saturating_sub(deadline.as_nanos() as u64));
        let search = other.search.map(|search| Search {
            since: search.since.max(once_each),
            asked: 0,
            ..search
        });
        Self { search, ..self }
    }

    /// Its read goes to this replica.
    #[inline]
    pub(super) fn note_asked(&mut self, bit: ReplicaSet) {
        if let Some(search) = &mut self.search {
            search.asked |= bit;
        }
    }

    /// The replica did not begin to read it.
    pub(super) fn note_not_asked(&mut self, bit: ReplicaSet) {
        if let Some(search) = &mut self.search {
            search.asked &= !bit;
        }
    }

    /// Whether replicas have read different things, or some of them nothing: then each block may be
    /// known to another one.
    pub fn is_undecided(&self) -> bool {
        let failed = self.failure.is_some();
        self.unverified.as_ref().is_some_and(|unverified| unverified.differs || failed)
    }

    /// Others may have changed it since: whoever has read it may be asked again.
    pub fn forget_unverified(&mut self) {
        self.search = None;
        if let Some(unverified) = self.unverified.take() {
            self.replicas.failed &= !unverified.by;
        }
    }

    /// Nobody else can be asked: the answer is what a replica has read, if any has, as if the first
    /// had answered just now, and alone.
    pub fn accept_unverified(&mut self) -> Option<P> {
        let unverified = self.unverified.as_mut()?;
        let payload = unverified.kept.take()?;
        self.replicas.failed &= !unverified.by;
        self.replicas.targets = 1 << unverified.by.trailing_zeros();
        self.replicas.written = self.replicas.targets;
        Some(payload)
    }

    /// Whether a replica has lost a checksum of what was read; if so, whether another one has
    /// vouched for it.
    pub fn is_vouched_for(&self) -> Option<bool> {
        let unverified = self.unverified.as_ref()?;
        Some(unverified.kept.is_some() && self.was_written())
    }
}
