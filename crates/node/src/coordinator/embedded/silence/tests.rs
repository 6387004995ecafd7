use super::*;

const EXPIRY: Duration = Duration::from_secs(10);

/// A coordinator that looks each second, for so many seconds, and hears `alpha` each time.
fn listen(silence: &mut Silence, now: &mut Instant, seconds: u32) {
    for _ in 0..seconds {
        *now += Duration::from_secs(1);
        silence.heard("alpha", *now);
        if let Some(silent) = silence.due(*now) {
            silence.saved(silent);
        }
    }
}

fn with_beta(now: Instant) -> Silence {
    let mut silence = Silence::new(EXPIRY, now, BTreeMap::new());
    silence.heard("alpha", now);
    silence.heard("beta", now);
    silence
}

#[test]
fn a_node_is_dead_when_it_was_silent_for_the_expiry() {
    let mut now = Instant::now();
    let mut silence = with_beta(now);
    listen(&mut silence, &mut now, 9);
    assert!(silence.may_live("beta", now));
    listen(&mut silence, &mut now, 1);
    assert!(!silence.may_live("beta", now));
    assert!(silence.may_live("alpha", now));
    assert!(silence.heard("beta", now), "it was saved as silent");
    assert!(silence.may_live("beta", now));
}

#[test]
fn what_was_counted_outlives_restarts_and_each_gives_time_to_be_heard() {
    let mut now = Instant::now();
    let mut silence = with_beta(now);
    listen(&mut silence, &mut now, 9);
    // Down for an hour: nobody could be heard.
    now += Duration::from_secs(3600);
    let mut silence = Silence::new(EXPIRY, now, silence.saved);
    listen(&mut silence, &mut now, 2);
    assert!(silence.may_live("beta", now), "it has had no time to be heard");
    listen(&mut silence, &mut now, 1);
    assert!(!silence.may_live("beta", now));
    let mut silence = Silence::new(EXPIRY, now, silence.saved);
    assert!(silence.may_live("beta", now));
    silence.heard("beta", now);
    listen(&mut silence, &mut now, 9);
    assert!(silence.may_live("beta", now), "it has its whole time again");
}

#[test]
fn a_frozen_coordinator_does_not_take_others_for_dead() {
    let mut now = Instant::now();
    let mut silence = with_beta(now);
    now += Duration::from_secs(60);
    assert!(silence.may_live("beta", now), "nobody listened");
    listen(&mut silence, &mut now, 7);
    assert!(silence.may_live("beta", now));
    listen(&mut silence, &mut now, 1);
    assert!(!silence.may_live("beta", now));
}

#[test]
fn nothing_is_saved_while_all_are_heard_or_dead() {
    let mut now = Instant::now();
    let mut silence = with_beta(now);
    for _ in 0..5 {
        now += Duration::from_secs(1);
        silence.heard("alpha", now);
        silence.heard("beta", now);
        assert_eq!(silence.due(now), None);
    }
    listen(&mut silence, &mut now, 11);
    assert_eq!(silence.saved, BTreeMap::from([("beta".to_owned(), 10_000)]));
    now += Duration::from_secs(1);
    silence.heard("alpha", now);
    assert_eq!(silence.due(now), None);
}
