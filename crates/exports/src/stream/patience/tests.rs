use evenkeel_engine::memory::Reservation;

use super::*;

const MEMORY: usize = 64 << 20;

/// A client that holds some of a volume's memory, and others.
struct Bench {
    patience: Patience,
    context: FrontendContext,
    _held: [[Reservation; 1]; 2],
    other: FrontendContext,
}

impl Bench {
    /// One that holds so much, while another one has the rest and a third one waits.
    fn holding(bytes: usize) -> Self {
        let mut context = FrontendContext::detached(MEMORY);
        let own = context.reserve([bytes]).expect("it is empty");
        let rest = context.beside().reserve([MEMORY - bytes]).expect("it fits");
        let mut other = context.beside();
        assert!(other.allocate(4096).is_none());
        Self { patience: Patience::new(), context, _held: [own, rest], other }
    }

    fn look(&mut self, kept: Kept, is_sending: bool) -> Option<u32> {
        let at = self.patience.next_look();
        self.context.set_now(at);
        self.patience.look(kept, is_sending, &self.context)
    }

    /// After how many looks it is to end.
    fn looks(&mut self, kept: Kept, is_sending: bool) -> Option<u32> {
        (1..1000).find(|_| self.look(kept, is_sending).is_some())
    }
}

fn awaiting(mark: Mark) -> Kept {
    Kept { awaited: Some(mark), is_heard: true, is_ending: false }
}

#[test]
fn who_has_more_than_its_share_has_less_time() {
    for (mebibytes, looks) in [(32, HURRY), (16, PATIENCE + 16), (1, PATIENCE + 1)] {
        let mut bench = Bench::holding(mebibytes << 20);
        let kept = awaiting(bench.patience.mark());
        assert_eq!(bench.looks(kept, false), Some(looks));
    }
}

#[test]
fn who_is_waited_for_by_nobody_has_time() {
    let mut bench = Bench::holding(32 << 20);
    bench.other.stop_waiting();
    let kept = awaiting(bench.patience.mark());
    assert_eq!(bench.looks(kept, true), None);
}

#[test]
fn a_look_at_one_that_is_not_listened_to_does_not_count_for_its_payload() {
    let mut bench = Bench::holding(32 << 20);
    let deaf = Kept { is_heard: false, ..awaiting(bench.patience.mark()) };
    assert_eq!(bench.looks(deaf, false), None);
    // Between two of them it is the same payload that is awaited.
    let kept = Kept { is_heard: true, ..deaf };
    for _ in 1..HURRY {
        assert_eq!(bench.look(kept, false), None);
        assert_eq!(bench.look(deaf, false), None);
    }
    assert_eq!(bench.look(kept, false), Some(HURRY));
}

#[test]
fn who_takes_answers_in_time_may_go_on() {
    let mut bench = Bench::holding(32 << 20);
    let kept = Kept { awaited: None, is_heard: true, is_ending: false };
    for _ in 0..99 {
        bench.patience.takes();
        for _ in 1..HURRY {
            assert_eq!(bench.look(kept, true), None);
        }
    }
    assert_eq!(bench.look(kept, true), Some(HURRY));
}

#[test]
fn time_alone_ends_nobody() {
    let mut bench = Bench::holding(32 << 20);
    let kept = awaiting(bench.patience.mark());
    for hours in 1..u64::from(HURRY) {
        bench.context.set_now(Instant(0) + Duration::from_hours(hours));
        assert_eq!(bench.patience.look(kept, true, &bench.context), None);
        assert_eq!(bench.patience.next_look(), bench.context.now() + LOOK);
    }
}

#[test]
fn who_is_being_ended_takes_its_answers_in_time_whoever_waits() {
    let mut bench = Bench::holding(32 << 20);
    bench.other.stop_waiting();
    let kept = Kept { awaited: None, is_heard: false, is_ending: true };
    assert_eq!(bench.looks(kept, true), Some(PATIENCE));
}
