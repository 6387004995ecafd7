//! What must hold of bitmaps is broken by hand, and found by its label.

use super::*;
use crate::replica::invariants::tests::{breaks, writing};

/// That this change of the bitmap of a replica that is absent, and of the others, breaks this rule.
fn breaks_of(label: &str, change: impl FnOnce(&mut BTreeMap<ReplicaId, Bitmap>)) {
    breaks(label, writing(), |replica| change(&mut replica.log.missing.bitmaps));
}

fn absent(bitmaps: &mut BTreeMap<ReplicaId, Bitmap>) -> &mut Bitmap {
    bitmaps.values_mut().next().expect("one is absent")
}

#[test]
fn each_absent_replica_has_its_bitmap() {
    breaks_of("W7", BTreeMap::clear);
    breaks_of("W7", |bitmaps| absent(bitmaps).since = Generation(99));
    breaks_of("W7", |bitmaps| absent(bitmaps).is_absent = false);
    breaks_of("W7", |bitmaps| {
        let Bitmap { place, since, .. } = *absent(bitmaps);
        bitmaps.insert(ReplicaId(99), Bitmap::new(place, since));
    });
}
