use super::*;

/// Two parts draw in turns.
fn recorded() -> Rc<Tape> {
    let mut recorder = Recorder::record(7);
    for bits in 0..10 {
        recorder.set_stream(if bits % 2 == 0 { Stream::Disk(1) } else { Stream::Client(1) });
        assert_eq!(recorder.draw(bits), bits);
    }
    Rc::new(recorder.into_tape().expect("it was recorded"))
}

#[test]
fn without_one_part_another_draws_the_same() {
    let mut replayed = Recorder::replay(&recorded());
    replayed.set_stream(Stream::Client(1));
    let drawn: Vec<_> = (0..5).map(|_| replayed.draw(99)).collect();
    assert_eq!(drawn, [1, 3, 5, 7, 9]);
}

#[test]
fn whoever_draws_more_or_at_another_time_draws_what_follows_from_the_seed() {
    let tape = recorded();
    let draw = |at: Time, times: usize| {
        let mut replayed = Recorder::replay(&tape);
        replayed.set_time(at);
        replayed.set_stream(Stream::Disk(1));
        (0..times).map(|_| replayed.draw(99)).collect::<Vec<_>>()
    };
    let (first, later) = (draw(0, 8), draw(MILLISECOND, 8));
    assert_eq!(first[..5], [0, 2, 4, 6, 8]);
    assert_eq!(first, draw(0, 8));
    assert!(first.iter().all(|bits| *bits != 99) && first != later);
}

/// A fault may strike at another time than it did: it draws the same.
#[test]
fn what_is_numbered_draws_the_same_at_any_time() {
    let mut recorder = Recorder::record(7);
    recorder.set_stream(Stream::Fault(3));
    recorder.draw(42);
    let tape = Rc::new(recorder.into_tape().expect("it was recorded"));
    let mut replayed = Recorder::replay(&tape);
    replayed.set_time(5 * MILLISECOND);
    replayed.set_stream(Stream::Fault(3));
    assert_eq!(replayed.draw(99), 42);
}
