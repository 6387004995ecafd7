use super::*;

const ALL: u32 = 1 << 8 | 1 << 11 | 1 << 31;

fn tag(index: u16) -> Tag {
    Tag::of(index)
}

fn events() -> Events {
    let mut events = Events::new(ALL);
    events.configure(ALL).unwrap();
    events
}

/// Which commands are answered, and by what.
fn answers(events: &mut Events) -> Vec<(usize, u64)> {
    events.check_invariants();
    let answers = events.take_answers().into_iter();
    answers
        .map(|answer| {
            assert_eq!(answer.status, Status::Success);
            (answer.tag.index(), answer.result)
        })
        .collect()
}

#[test]
fn an_event_answers_the_oldest_command() {
    let mut events = events();
    events.request(tag(5)).unwrap();
    events.request(tag(3)).unwrap();
    assert_eq!(answers(&mut events), []);
    events.raise(Notice::Namespace);
    assert_eq!(answers(&mut events), [(5, 0x04_0002)]);
    events.raise(Notice::Path);
    assert_eq!(answers(&mut events), [(3, 0x0c_0302)]);
    // One that finds no command waits for it.
    events.raise(Notice::Discovery);
    assert_eq!(answers(&mut events), []);
    events.request(tag(1)).unwrap();
    assert_eq!(answers(&mut events), [(1, 0x70_f002)]);
}

#[test]
fn what_happens_to_reservations_is_reported_without_being_asked_for() {
    let mut events = Events::new(ALL);
    assert_eq!(events.configure(1 << 30), Err(Status::InvalidField), "it has no bit there");
    events.request(tag(1)).unwrap();
    events.request(tag(2)).unwrap();
    events.raise(Notice::Reservation);
    events.raise(Notice::Reservation);
    assert_eq!(answers(&mut events), [(1, 0x80_0006)]);
    events.configure(0).unwrap();
    events.read(0x80);
    events.raise(Notice::Reservation);
    assert_eq!(answers(&mut events), [(2, 0x80_0006)]);
}

#[test]
fn what_is_reported_is_not_repeated_until_its_page_is_read() {
    let mut events = events();
    events.raise(Notice::Path);
    for index in 0..3 {
        events.request(tag(index)).unwrap();
        events.raise(Notice::Path);
    }
    assert_eq!(answers(&mut events), [(0, 0x0c_0302)]);
    events.read(0x04);
    events.raise(Notice::Path);
    assert_eq!(answers(&mut events), []);
    events.read(0x0c);
    assert_eq!(answers(&mut events), []);
    events.raise(Notice::Path);
    assert_eq!(answers(&mut events), [(1, 0x0c_0302)]);
}

#[test]
fn what_was_read_before_it_was_reported_is_not_reported() {
    let mut events = events();
    events.raise(Notice::Namespace);
    events.read(0x04);
    events.request(tag(0)).unwrap();
    assert_eq!(answers(&mut events), []);
}

#[test]
fn only_what_was_asked_for_is_reported() {
    let mut events = Events::new(ALL);
    events.request(tag(0)).unwrap();
    events.raise(Notice::Namespace);
    events.configure(1 << 11).unwrap();
    events.raise(Notice::Namespace);
    assert_eq!(answers(&mut events), []);
    events.raise(Notice::Path);
    assert_eq!(answers(&mut events), [(0, 0x0c_0302)]);
    // Warnings may be asked for, other unsupported events not.
    assert_eq!((events.configure(0x1f), events.configuration()), (Ok(()), 0x1f));
    assert_eq!(events.configure(1 << 9), Err(Status::InvalidField));
    assert_eq!(Events::new(1 << 31).configure(1 << 8), Err(Status::InvalidField));
    assert_eq!(events.configuration(), 0x1f);
}

#[test]
fn few_commands_are_kept() {
    let mut events = events();
    for index in 0..4 {
        assert_eq!(events.request(tag(index)), Ok(()));
    }
    assert_eq!(events.request(tag(4)), Err(Status::EventLimit));
    assert!(events.abort(tag(2)) && !events.abort(tag(2)) && !events.abort(tag(9)));
    let aborted =
        |index| AdminAnswer { tag: tag(index), status: Status::AbortRequested, result: 0 };
    assert_eq!(events.take_answers(), [aborted(2)]);
    assert_eq!(events.request(tag(4)), Ok(()));
    events.reset();
    assert_eq!(events.take_answers(), [0, 1, 3, 4].map(aborted));
    assert_eq!((events.configuration(), events.take_answers()), (0, vec![]));
    events.check_invariants();
}
