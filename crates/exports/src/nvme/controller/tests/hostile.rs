//! Any commands in any order: nothing panics, and what has to hold does after each.

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Step {
    Admin { opcode: u8, namespace: u32, words: [u32; 6], length: u32 },
    Set(u32),
    Add(u16),
    Gone(u16),
    Disconnect(u16),
    Notify(usize),
    Persisted(u64),
    Wait(u64),
    Flushed,
}

fn word() -> impl Strategy<Value = u32> {
    prop_oneof![
        0..16u32,
        0x80..0x84u32,
        Just(0x70),
        Just(0x0b),
        (0..16u32, 0..2048u32).prop_map(|(low, high)| high << 16 | low),
        any::<u32>(),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let opcode = prop_oneof![
        6 => proptest::sample::select(vec![0x02, 0x06, 0x08, 0x09, 0x0a, 0x0c, 0x18, 0x7f]),
        1 => any::<u8>(),
    ];
    let length =
        prop_oneof![Just(0), Just(16), Just(4096), (1..2000u32).prop_map(|dwords| dwords * 4)];
    let words = proptest::array::uniform6(word());
    let admin = (opcode, 0..10u32, words, length).prop_map(|(opcode, namespace, words, length)| {
        Step::Admin { opcode, namespace, words, length }
    });
    let configuration = prop_oneof![Just(LINUX), Just(LINUX | NORMAL), Just(0), any::<u32>()];
    prop_oneof![
        20 => admin,
        4 => configuration.prop_map(Step::Set),
        4 => (1..5u16).prop_map(Step::Add),
        2 => (1..5u16).prop_map(Step::Gone),
        1 => (1..5u16).prop_map(Step::Disconnect),
        4 => (0..4usize).prop_map(Step::Notify),
        2 => (0..9u64).prop_map(Step::Persisted),
        1 => (0..130u64).prop_map(Step::Wait),
        2 => Just(Step::Flushed),
    ]
}

impl Bench {
    /// Returns how many commands are kept.
    fn hostile(&mut self, step: Step) -> usize {
        match step {
            Step::Admin { opcode, namespace, words, length } => {
                let transfer = match (length, opcode & 3) {
                    (0, _) | (_, 0) => Transfer::None,
                    (_, 1) => Transfer::InCapsule(length),
                    _ => Transfer::ToHost(length),
                };
                let result = self.run(&entry(opcode, namespace, &words), transfer);
                if let Ok(Done::Data(data)) = &result {
                    assert_eq!(data.len(), transfer.length() as usize);
                }
                return usize::from(result == Ok(Done::Kept));
            }
            Step::Set(value) => {
                let _ = self.run(&entry(0x7f, 0, &[0, 0x14, value]), Transfer::None);
            }
            Step::Add(queue) if self.controller.is_ready() => {
                let _ = self.controller.queues.add(queue);
            }
            Step::Add(_) => {}
            Step::Gone(queue) => self.controller.gone(queue),
            Step::Disconnect(queue) => self.controller.disconnect(queue),
            Step::Notify(3) => {
                self.controller.notify_reservation(ReservationNotice::ReservationReleased);
            }
            Step::Persisted(number) => {
                self.controller.take_persisting();
                self.controller.persisted(number, Status::Success);
            }
            Step::Notify(which) => {
                let notices = [Notice::Namespace, Notice::Path, Notice::Discovery];
                self.controller.notify(notices[which]);
            }
            Step::Wait(seconds) => {
                self.after(seconds);
                self.controller.expire(self.now);
            }
            Step::Flushed => self.controller.shut_down(),
        }
        0
    }
}

proptest! {
    #[test]
    fn each_command_is_answered_once(
        is_discovery: bool,
        steps in proptest::collection::vec(step(), 0..60),
    ) {
        let mut bench = Bench::enabled(if is_discovery { Kind::Discovery } else { Kind::Volume });
        let mut kept = 0;
        for step in steps {
            kept += bench.hostile(step);
            bench.controller.check_invariants();
            kept -= bench.controller.take_answers().len();
            // Four wait for events, four for queues, also while these end, and four for the volume.
            prop_assert!(kept <= 12);
            if bench.controller.has_ended() {
                break;
            }
            prop_assert!(bench.controller.is_ready() || kept == 0);
            if bench.controller.queues.are_idle() {
                prop_assert!(bench.controller.is_ready() || kept == 0);
            }
            bench.controller.take_closing();
            for (queue, command) in bench.controller.take_aborts() {
                if command & 1 == 0 {
                    bench.controller.aborted(queue, command, command & 2 == 0);
                }
            }
        }
    }
}
