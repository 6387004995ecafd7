use super::*;

#[test]
fn a_node_is_behind_until_it_has_fetched_what_it_heard_of() {
    let epoch = Epoch::default();
    assert!(!epoch.is_behind(), "software that knows none says 0");
    epoch.hear(3);
    assert!(epoch.is_behind());
    epoch.fetched(3, epoch.heard());
    assert_eq!((epoch.known(), epoch.is_behind()), (3, false));
    epoch.hear(2);
    assert!(!epoch.is_behind());
    // Heard while the list of another one was on its way.
    let heard = epoch.heard();
    epoch.hear(5);
    epoch.fetched(4, heard);
    assert!(epoch.is_behind());
}

#[test]
fn an_epoch_that_the_coordinator_does_not_know_hides_no_real_one() {
    let epoch = Epoch::default();
    epoch.hear(u64::MAX);
    epoch.fetched(7, epoch.heard());
    assert!(!epoch.is_behind());
    epoch.hear(8);
    assert!(epoch.is_behind());
}
