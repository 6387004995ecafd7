//! What seeds have that was added later: drawn apart, so that seeds without it keep their story.

use evenkeel_core::{IntentLayout, Settings};

use super::{Fault, vary};
use crate::random::Random;

/// Kinds of faults with their weights.
type Faults = Vec<(Fault, u64)>;

/// The settings of each node: of some seeds, each has others.
pub(super) fn own_settings(
    seed: u64,
    settings: Settings,
    nodes: usize,
    faults: &mut Faults,
) -> Vec<Settings> {
    let mut times = Random::new(seed ^ 0x6c65_6173);
    let differ = times.chance(250);
    if differ && !faults.is_empty() {
        faults.push((Fault::Lease, times.between(20, 120)));
    }
    (0..nodes).map(|_| if differ { vary(&mut times, settings) } else { settings }).collect()
}

/// Adds faults to a seed that has some. Returns whether disks are assembled by force.
pub(super) fn faults(seed: u64, placement: &[Vec<usize>], faults: &mut Faults) -> bool {
    let mut epoch = Random::new(seed ^ 0x6572_6173);
    if !faults.is_empty() {
        if Random::new(seed ^ 0x6c61_796f).chance(150) {
            faults.push((Fault::Layout, 5));
        }
        if Random::new(seed ^ 0x726f_7400).chance(250) {
            faults.push((Fault::Damage, 12));
        }
        add_copies(seed, &mut epoch, faults);
        let can_go_on = |mirror: &Vec<usize>| mirror.iter().any(|node| *node != mirror[0]);
        if placement.iter().all(can_go_on) {
            add_replacements(seed, faults);
        }
        let mut reserving = Random::new(seed ^ 0x7265_7376);
        if reserving.chance(300) {
            faults.push((Fault::Reserve, reserving.between(20, 150)));
        }
    }
    epoch.chance(500)
}

/// Disks from elsewhere. Never both: what a restored coordinator has forgotten can't tell an old
/// disk.
fn add_copies(seed: u64, epoch: &mut Random, faults: &mut Faults) {
    let mut copies = Random::new(seed ^ 0x636f_7079);
    if epoch.chance(400) {
        faults.push((Fault::Assembly, epoch.between(2, 15)));
    } else if copies.chance(500) {
        faults.push((Fault::StaleClone, copies.between(60, 200)));
    }
}

/// A node that stands still or is there twice, where others can go on.
fn add_replacements(seed: u64, faults: &mut Faults) {
    // By this number no seed is struck that was kept for another reason. A database that forgets,
    // as after a restore, could not tell which of two primaries of a node was first.
    let mut cloning = Random::new(seed ^ 0x636c_6f7f_b9ab);
    let forgets = faults.iter().any(|(fault, _)| *fault == Fault::Assembly);
    if !forgets && cloning.chance(150) {
        faults.push((Fault::CloneNode, cloning.between(40, 200)));
    }
    // By this number no seed is struck that was kept for another reason.
    let mut suspending = Random::new(seed ^ 0x7375_7370_0036_97be);
    if suspending.chance(100) {
        faults.push((Fault::Suspend, suspending.between(60, 300)));
    }
}

/// The layout of an intent log that may have several slots, or be too short for some requests.
pub(super) fn layout(seed: u64, mut layout: IntentLayout) -> IntentLayout {
    let mut slots = Random::new(seed ^ 0x736c_6f74);
    if slots.chance(250) {
        layout.slots = slots.pick(&[2, 4, 32]);
    }
    let mut short = Random::new(seed ^ 0x7368_6f72);
    if short.chance(100) {
        layout.places = short.between(1, 4) as u16;
    }
    layout
}

/// How many primaries share the volume, `most` at most.
pub(super) fn primaries(seed: u64, most: usize, faults: &mut Faults) -> usize {
    let mut sharing = Random::new(seed ^ 0x7368_6172);
    let most = most.min(4);
    if most < 2 || !sharing.chance(600) {
        return 1;
    }
    let primaries = sharing.between(2, most as u64) as usize;
    if !faults.is_empty() && sharing.chance(500) {
        faults.push((Fault::Verify, sharing.between(5, 40)));
    }
    primaries
}

/// How many of a thousand requests compare and write instead.
pub(super) fn compares(seed: u64, is_shared: bool) -> u64 {
    let mut compares = Random::new(seed ^ 0x636f_6d70);
    // To keep several primaries apart is what it is for.
    let does_compare = compares.chance(if is_shared { 700 } else { 400 });
    if does_compare { compares.magnitude(10, 400) } else { 0 }
}

/// At how many of a thousand requests a client gives others up.
pub(super) fn cancels(seed: u64) -> u64 {
    // By this number no seed is struck that was kept for another reason.
    let mut cancels = Random::new(seed ^ 0x6361_6e63_0678_00db);
    if cancels.chance(150) { cancels.magnitude(5, 200) } else { 0 }
}
