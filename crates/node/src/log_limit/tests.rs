use super::*;

fn user(number: usize) -> Source {
    Source::User(number as u32)
}

fn line(of_source: u64, of_others: u64) -> Option<LeftOut> {
    Some(LeftOut { of_source, of_others })
}

#[test]
fn a_source_gets_one_line_in_a_period_and_the_next_one_counts() {
    let (mut limit, began) = (Limit::default(), Instant::now());
    assert_eq!(limit.line(user(1), began), line(0, 0));
    for moment in 0..99 {
        assert_eq!(limit.line(user(1), began + PERIOD * moment / 100), None);
    }
    // Another one is not held up by that.
    assert_eq!(limit.line(user(2), began + PERIOD / 2), line(0, 0));
    assert_eq!(limit.line(user(1), began + PERIOD), line(99, 0));
    assert_eq!(limit.line(user(1), began + PERIOD * 3 / 2), None);
    assert_eq!(limit.line(user(2), began + PERIOD * 3 / 2), line(0, 0));
}

#[test]
fn of_more_sources_than_fit_those_beyond_are_counted() {
    let (mut limit, began) = (Limit::default(), Instant::now());
    for number in 0..MAX_SOURCES {
        assert_eq!(limit.line(user(number), began), line(0, 0));
        assert_eq!(limit.line(user(number), began), None);
    }
    for number in 0..1000 {
        assert_eq!(limit.line(user(MAX_SOURCES + number), began + PERIOD / 2), None);
    }
    assert_eq!(limit.reported.len(), MAX_SOURCES);
    // One whose period is over gives way; what was left out about it is not forgotten.
    let later = began + PERIOD;
    assert_eq!(limit.line(user(MAX_SOURCES), later), line(0, 1001));
    assert_eq!(limit.reported.len(), MAX_SOURCES);
    let mut written = 0;
    for number in 0..1000 {
        written += usize::from(limit.line(user(number), later).is_some());
    }
    assert_eq!(written, MAX_SOURCES - 1);
}

#[test]
fn every_line_is_written_or_counted() {
    let (mut limit, began) = (Limit::default(), Instant::now());
    let (mut written, mut counted, mut state) = (0, 0, 1u32);
    let all = 20_000;
    for moment in 0..all {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let source = user((state >> 16) as usize % (2 * MAX_SOURCES));
        if let Some(left_out) = limit.line(source, began + PERIOD * moment / 1000) {
            written += 1;
            counted += left_out.of_source + left_out.of_others;
        }
    }
    counted +=
        limit.of_others + limit.reported.values().map(|reported| reported.left_out).sum::<u64>();
    assert_eq!(written + counted, u64::from(all));
    // Twenty periods, and the first lines of the next one.
    assert!(written <= 21 * MAX_SOURCES as u64, "{written}");
}

#[test]
fn what_was_left_out_is_said_if_something_was() {
    let reported = |of_source, of_others| LeftOut { of_source, of_others }.to_string();
    assert_eq!(reported(0, 0), "");
    assert_eq!(reported(7, 0), " (7 lines about this source were left out)");
    assert_eq!(reported(0, 9), " (9 lines about other sources were left out)");
}
