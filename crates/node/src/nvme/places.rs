//! Who gives way when all places for discovery are taken.
//!
//! Anybody may discover, by any name, and keep a connection for as long as it likes. So a place is
//! never refused to a host that an export names, and taken from those that are least likely to need
//! theirs: first from hosts that discover nothing here, and of these (or, if there are none, of the
//! others) from the source that has most, its oldest connection.

use std::collections::HashMap;

use evenkeel_exports::nvme::controller::QueueName;

use crate::seats::Source;

/// A connection that discovers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Occupant {
    pub(super) name: QueueName,
    pub(super) source: Source,
    /// Whether an export names its host.
    pub(super) is_known: bool,
    /// Lower for those that came earlier.
    pub(super) number: u64,
}

/// Whose place a host gets, which an export names or not, and of how many from there. `None`: a
/// host that no export names takes no place of one that is named.
pub(super) fn who_gives_way(occupants: &[Occupant], is_known: bool) -> Option<(&Occupant, usize)> {
    let strangers = || occupants.iter().filter(|occupant| !occupant.is_known);
    if strangers().next().is_some() {
        return oldest_of_most(strangers());
    }
    is_known.then(|| oldest_of_most(occupants.iter())).flatten()
}

fn oldest_of_most<'a>(
    among: impl Iterator<Item = &'a Occupant> + Clone,
) -> Option<(&'a Occupant, usize)> {
    let mut counts: HashMap<Source, usize> = HashMap::new();
    for occupant in among.clone() {
        *counts.entry(occupant.source).or_default() += 1;
    }
    let most = counts.values().max().copied()?;
    let of_most = among.filter(|occupant| counts.get(&occupant.source) == Some(&most));
    Some((of_most.min_by_key(|occupant| occupant.number)?, most))
}
