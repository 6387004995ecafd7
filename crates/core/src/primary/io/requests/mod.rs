//! What clients ask, and the primary itself: from the request to its answer. What is asked and how
//! far it is ([`table`]), what becomes of it ([`requesting`]), who has which range ([`ranges`],
//! [`cluster_locks`], [`exclusions`]), what hosts may ask ([`reservations`]), what requests wait
//! for ([`waiting`]), and when nothing of a path is under way any more ([`draining`]).
//!
//! Of the rooms of [`super::Io`] it uses none. What a request has its range for it tells its caller
//! ([`Next`]), who cuts it into parts and tells what becomes of these.

mod cluster_locking;
mod cluster_locks;
mod compare;
mod draining;
mod exclusions;
mod invariants;
mod ranges;
mod requesting;
mod reservations;
mod suspension;
mod table;
mod waiting;

pub(in crate::primary) use self::table::{Asked, Client, Origin, RequestNumber};
pub(super) use self::table::{Failed, Next};
pub(super) use self::waiting::Overdue;

use self::cluster_locks::ClusterLocks;
use self::exclusions::Exclusions;
use self::ranges::Ranges;
use self::suspension::Suspension;
use self::table::RequestTable;
use crate::ids::*;
use crate::operation::Extent;
use crate::payload::Payload;
use crate::primary::PresentWait;
use crate::time::Instant;
use core::time::Duration;

/// How long a request keeps rebuilds slow.
const BUSY_FOR: Duration = Duration::from_millis(100);

/// The requests that are under way, and what they have and wait for.
#[derive(Debug)]
pub(super) struct Requests<P> {
    table: RequestTable<P>,
    ranges: Ranges,
    cluster_locks: ClusterLocks,
    exclusions: Exclusions,
    suspension: Suspension,
    /// Over which paths nothing is to be under way, which is to be told.
    draining: Vec<PathNumber>,
}

impl<P> Default for Requests<P> {
    fn default() -> Self {
        Self {
            table: RequestTable::default(),
            ranges: Ranges::default(),
            cluster_locks: ClusterLocks::default(),
            exclusions: Exclusions::default(),
            suspension: Suspension::default(),
            draining: Vec::new(),
        }
    }
}

impl<P: Payload> Requests<P> {
    /// Whether none is under way.
    #[inline]
    pub fn are_over(&self) -> bool {
        self.table.are_over()
    }

    /// Whether a request is under way.
    pub fn is_under_way(&self, number: RequestNumber) -> bool {
        self.table.is_under_way(number)
    }

    /// What requests wait for, and since when.
    pub fn waiting(&self) -> Option<PresentWait> {
        self.suspension.waiting()
    }

    /// How many requests of clients wait.
    pub fn waits(&self) -> usize {
        self.table.waits().count()
    }

    /// Whether clients have asked for anything lately.
    pub fn are_busy(&self, now: Instant) -> bool {
        self.table.came_within(BUSY_FOR, now)
    }

    /// The requests that are under way for these clients.
    pub fn of_clients(&self, which: impl Fn(&Client) -> bool) -> Vec<RequestNumber> {
        self.table.of_clients(which)
    }

    /// The request that is under way for this client.
    pub fn of_client(&self, request: RequestId) -> Option<RequestNumber> {
        self.table.of_client(request)
    }

    /// Whether nothing of a request was sent yet, or only the read of what it is to compare.
    pub fn changes_nothing_yet(&self, number: RequestNumber) -> bool {
        self.table.changes_nothing_yet(number)
    }

    /// Whether every member has carried out a part of what a request sends now.
    pub fn has_ended_part(&self, number: RequestNumber) -> bool {
        self.table.has_ended_part(number)
    }

    /// What was asked over this path, has been answered, and is not over.
    pub fn answered_over(&self, path: PathNumber) -> Vec<RequestNumber> {
        self.table.answered_over(path)
    }

    /// Those that were not sent yet.
    pub fn unsent(&self) -> impl Iterator<Item = RequestNumber> {
        self.table.unsent()
    }

    /// This primary joins others: it serves when it has had the whole volume for itself once.
    #[inline]
    pub fn are_joining(&self) -> bool {
        self.exclusions.are_joining()
    }

    /// The commands that wait until others keep out.
    pub fn commands(&self) -> impl Iterator<Item = CommandId> {
        self.exclusions.commands()
    }

    /// Parts of a request are sent next: these many.
    #[inline]
    pub fn expect_parts(&mut self, number: RequestNumber, parts: usize) {
        self.table.expect_parts(number, parts);
    }

    /// So many parts take the place of one.
    pub fn expect_pieces(&mut self, number: RequestNumber, pieces: usize) {
        self.table.expect_pieces(number, pieces);
    }

    /// Whether parts of a request are under way.
    pub fn has_parts(&self, number: RequestNumber) -> bool {
        self.table.has_parts(number)
    }

    /// Whether a part of a request has failed.
    pub fn has_failed(&self, number: RequestNumber) -> bool {
        self.table.has_failed(number)
    }

    /// Whether a request keeps its range.
    pub fn is_kept(&self, number: RequestNumber) -> bool {
        self.table.is_kept(number)
    }

    /// Takes what a round of parts has read. What they could not read is no failure of the next
    /// round.
    pub fn take_data(&mut self, number: RequestNumber) -> Vec<(u32, P)> {
        self.table.take_data(number)
    }

    /// A part of a request, which begins there, has read this.
    pub fn keep_data(&mut self, number: RequestNumber, from: u64, payload: P) {
        self.table.keep_data(number, from, payload);
    }

    /// A part of a request, which begins there, has this map.
    pub fn keep_extents(&mut self, number: RequestNumber, from: u64, extents: Vec<Extent>) {
        self.table.keep_extents(number, from, extents);
    }

    /// What its part has read that begins there is read anew.
    pub fn forget_read(&mut self, number: RequestNumber, from: u64) {
        self.table.forget_read(number, from);
    }

    /// Nobody waits for the answer of a part any more.
    pub fn part_forgotten(&mut self, number: RequestNumber) {
        self.table.part_forgotten(number);
    }

    /// Whether all parts but one have been answered, with success.
    #[inline]
    pub fn awaits_last_part(&self, number: RequestNumber) -> bool {
        self.table.awaits_last_part(number)
    }

    /// The primary has ended: gives back what they held. What they waited for stays for its status.
    pub fn forget(&mut self) {
        self.table.forget();
        self.ranges.forget();
        self.cluster_locks.forget();
        self.exclusions.forget();
        self.draining.clear();
    }
}
