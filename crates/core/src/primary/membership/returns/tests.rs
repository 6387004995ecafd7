use super::*;

const SECOND: Duration = Duration::from_secs(1);
const HERE: Option<Incarnation> = Some(Incarnation(5));
const SETTINGS: ReturnSettings = ReturnSettings {
    within: Duration::from_secs(60),
    pause: Pauses::new(SECOND.saturating_mul(5), SECOND.saturating_mul(60)),
};

fn at(seconds: u64) -> Instant {
    Instant(0) + Duration::from_secs(seconds)
}

/// It is taken in, and leaves after so long: for how long it stays away.
fn stays(returns: &mut Returns, cause: Cause, after: u64) -> Option<u64> {
    returns.taken_in(HERE, at(100));
    returns.left(cause, &SETTINGS, at(100 + after)).map(|pause| pause.as_secs())
}

#[test]
fn from_the_third_time_it_stays_away_longer_and_longer() {
    let mut returns = Returns::default();
    // The first one leaves whoever was good until then.
    assert_eq!(returns.left(Cause::Late, &SETTINGS, at(1)), None);
    let pauses: Vec<_> = (0..8).map(|_| stays(&mut returns, Cause::Late, 5)).collect();
    let expected = [None, None, Some(5), Some(10), Some(20), Some(40), Some(60), Some(60)];
    assert_eq!(pauses, expected);
    let reported = [at(164), at(165)].map(|now| returns.stays_away_after(now));
    assert_eq!(reported, [Some(8), None]);
    for _ in 0..100 {
        assert_eq!(stays(&mut returns, Cause::Disconnected, 5), Some(60));
    }
}

#[test]
fn one_that_stays_for_a_minute_begins_anew() {
    let mut returns = Returns::default();
    for _ in 0..5 {
        stays(&mut returns, Cause::Late, 59);
    }
    assert_eq!(returns.stays_away_after(at(159)), Some(5));
    assert_eq!(stays(&mut returns, Cause::Late, 60), None);
    assert_eq!(returns.stays_away_after(at(160)), None);
    assert_eq!(stays(&mut returns, Cause::Late, 5), None);
}

#[test]
fn one_that_has_restarted_or_that_an_operator_has_brought_begins_anew() {
    let mut returns = Returns::default();
    for _ in 0..5 {
        stays(&mut returns, Cause::Late, 5);
    }
    returns.taken_in(Some(Incarnation(6)), at(100));
    assert_eq!(returns.left(Cause::Late, &SETTINGS, at(105)), None);
    for cause in [Cause::Operator, Cause::Medium, Cause::SourceFailed, Cause::Restarted] {
        let mut returns = Returns::default();
        for _ in 0..5 {
            stays(&mut returns, Cause::Late, 5);
        }
        assert_eq!(stays(&mut returns, cause, 5), None);
        assert_eq!(stays(&mut returns, Cause::Late, 5), None, "{cause:?}");
    }
}
