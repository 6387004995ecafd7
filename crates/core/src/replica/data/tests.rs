use crate::replica::invariants::tests::{breaks, writing};

#[test]
fn nothing_is_under_way_when_no_view_is_adopted() {
    breaks("I3", writing(), |replica| {
        let (next, adopter) = (replica.view().successor(), replica.view().primaries[0].id);
        replica.views.begin(next, adopter, crate::LinkId(99));
        replica.views.begin_save();
        replica.views.saved(false);
    });
}
