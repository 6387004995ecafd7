use super::*;

#[test]
fn a_node_is_behind_until_it_has_fetched_what_it_heard_of() {
    let epoch = Epoch::default();
    epoch.learn("a", 0);
    assert!(!epoch.is_behind(), "software that knows none says 0");
    epoch.learn("a", 3);
    assert!(epoch.is_behind());
    epoch.fetched(3, epoch.ask());
    assert_eq!((epoch.known(), epoch.is_behind()), (3, false));
    epoch.learn("a", 2);
    assert!(!epoch.is_behind());
    // Heard while the list of another one was on its way.
    let asked = epoch.ask();
    epoch.learn("a", 5);
    epoch.fetched(4, asked);
    assert!(epoch.is_behind());
    epoch.fetched(5, epoch.ask());
    assert!(!epoch.is_behind());
}

#[test]
fn an_epoch_that_the_coordinator_does_not_know_hides_no_real_one() {
    let epoch = Epoch::default();
    epoch.learn("liar", u64::MAX);
    let asked = epoch.ask();
    // Said while the coordinator answers, and true.
    epoch.learn("b", 8);
    epoch.fetched(7, asked);
    assert!(epoch.is_behind());
    epoch.fetched(8, epoch.ask());
    assert!(!epoch.is_behind());
    epoch.learn("b", 9);
    assert!(epoch.is_behind());
}

#[test]
fn who_makes_epochs_up_is_not_heard_for_a_while_and_holds_up_nobody() {
    let (epoch, now) = (Epoch::default(), Instant::now());
    for round in 0..3u32 {
        let now = now + DEAF * round;
        epoch.learn_at("liar", 100, now);
        assert!(epoch.is_behind(), "once in a while the coordinator is asked");
        epoch.fetched_at(7, epoch.ask(), now);
        for newer in 101..200 {
            epoch.learn_at("liar", newer, now + DEAF / 2);
            assert!(!epoch.is_behind());
        }
    }
    epoch.learn_at("b", 8, now);
    assert!(epoch.is_behind(), "what others say still counts");
}

#[test]
fn who_goes_on_talking_while_the_coordinator_is_asked_is_judged_all_the_same() {
    let (epoch, now) = (Epoch::default(), Instant::now());
    // The first was true, the second not.
    epoch.learn_at("liar", 3, now);
    let asked = epoch.ask();
    epoch.learn_at("liar", 100, now);
    epoch.fetched_at(3, asked, now);
    assert!(epoch.is_behind());
    let asked = epoch.ask();
    epoch.learn_at("liar", 101, now);
    epoch.fetched_at(3, asked, now);
    epoch.learn_at("liar", 102, now);
    assert!(!epoch.is_behind());
}

#[test]
fn what_is_kept_of_others_is_bounded() {
    let epoch = Epoch::default();
    for number in 0..2 * MAX_SAID {
        epoch.learn(&number.to_string(), 9);
    }
    assert_eq!(epoch.said().news.len(), MAX_SAID);
    epoch.fetched(1, epoch.ask());
    assert!(!epoch.is_behind());
    epoch.learn("another", 9);
    let said = epoch.said();
    assert_eq!((said.news.len(), said.deaf.len()), (0, MAX_SAID));
}
