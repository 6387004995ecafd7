use super::*;

const LINK: LinkId = LinkId(1);
const OTHER: LinkId = LinkId(2);
const ADOPTER: PrimaryId = PrimaryId { node: NodeId(1), incarnation: Incarnation(1) };
const ADOPTED: Generation = Generation(5);

fn view(generation: u64) -> View {
    View { generation: Generation(generation), ..crate::view::tests::view(1, 2) }
}

/// The view of generation 6 is being saved, and that of generation 7 waits.
fn saving() -> Adoption {
    let mut adoption = Adoption::default();
    assert_eq!(adoption.turn(LINK, &view(6)), Turn::Now);
    adoption.begin(view(6), ADOPTER, LINK);
    assert!(adoption.begin_save().is_some());
    assert_eq!(adoption.turn(OTHER, &view(6)), Turn::Waits);
    assert_eq!(adoption.turn(OTHER, &view(7)), Turn::Waits);
    adoption.check_invariants(ADOPTED);
    adoption
}

fn pending(adoption: &mut Adoption) -> &mut Pending {
    adoption.pending.as_mut().expect("a view is being saved")
}

#[test]
fn a_view_that_comes_during_a_save_is_next() {
    let saved = saving().saved(ADOPTED, true).expect("a view was being saved");
    assert_eq!((saved.view, saved.reply_to), (view(6), vec![LINK, OTHER]));
    assert_eq!(saved.next, Some((OTHER, view(7))));
}

#[test]
fn a_view_that_could_not_be_saved_is_refused_until_another_one_is() {
    let mut adoption = saving();
    adoption.saved(ADOPTED, false);
    adoption.check_invariants(Generation(6));
    assert_eq!(adoption.unsaved_over(), Some(ADOPTED));
    adoption.begin(view(6), ADOPTER, LINK);
    adoption.check_invariants(Generation(6));
    adoption.saved(Generation(6), true);
    assert_eq!(adoption.unsaved_over(), None);
}

#[test]
#[should_panic(expected = "I3: ")]
fn no_view_is_adopted_again() {
    saving().check_invariants(Generation(6));
}

#[test]
#[should_panic(expected = "I3: ")]
fn what_could_not_be_saved_is_above_what_is_adopted() {
    let mut adoption = saving();
    adoption.saved(ADOPTED, false);
    adoption.check_invariants(ADOPTED);
}

#[test]
#[should_panic(expected = "I3: ")]
fn nothing_waits_for_a_view_that_is_not_being_saved() {
    let mut adoption = saving();
    pending(&mut adoption).phase = Phase::Draining;
    adoption.check_invariants(ADOPTED);
}

#[test]
#[should_panic(expected = "I3: ")]
fn what_waits_is_above_what_is_being_saved() {
    let mut adoption = saving();
    pending(&mut adoption).next = Some((OTHER, view(6)));
    adoption.check_invariants(ADOPTED);
}

#[test]
#[should_panic(expected = "I11: ")]
fn nobody_is_answered_twice() {
    let mut adoption = saving();
    pending(&mut adoption).reply_to.push(LINK);
    adoption.check_invariants(ADOPTED);
}
