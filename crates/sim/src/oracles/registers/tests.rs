use super::*;
use crate::payload::stamp;

/// One volume of four sectors; moments count up by themselves.
struct History {
    registers: Registers,
    now: Moment,
}

impl History {
    fn new() -> Self {
        let mut registers = Registers::new(4);
        registers.serving(0, 1, |_| false);
        Self { registers, now: 1 }
    }

    fn tick(&mut self) -> Moment {
        self.now += 1;
        self.now
    }

    fn begin(&mut self, primary: usize, zero: bool) -> u32 {
        let now = self.tick();
        let write = self.registers.next_number();
        self.registers.begin(0, 1, zero, primary, now);
        write
    }

    fn acknowledge(&mut self, write: u32, durable: bool) {
        let now = self.tick();
        self.registers.acknowledge(write, durable, now);
    }

    fn write(&mut self, primary: usize) -> u32 {
        let write = self.begin(primary, false);
        self.acknowledge(write, false);
        write
    }

    fn flush(&mut self, primary: usize) {
        let invoked = self.tick();
        self.registers.flushed(primary, invoked);
    }

    fn read(&mut self, primary: usize, cell: Cell) -> Result<(), &'static str> {
        let invoked = self.tick();
        self.read_since(primary, cell, invoked)
    }

    fn read_since(
        &mut self,
        primary: usize,
        cell: Cell,
        invoked: Moment,
    ) -> Result<(), &'static str> {
        let answered = self.tick();
        let read = Read { primary, invoked, answered };
        self.registers.read(0, cell, read).map_err(|violation| violation.oracle)
    }

    fn serve(&mut self, primary: usize, lost: bool) {
        let now = self.tick();
        self.registers.serving(primary, now, |_| lost);
    }
}

#[test]
fn a_read_of_an_older_write_is_stale() {
    let mut history = History::new();
    let old = history.write(0);
    let new = history.write(0);
    assert_eq!(history.read(0, stamp(new, 0)), Ok(()));
    assert_eq!(history.read(0, stamp(old, 0)), Err("I2"));
    assert_eq!(history.read(0, ZERO), Err("I2"));
}

#[test]
fn a_read_may_see_a_concurrent_write_or_not_but_not_go_back() {
    let mut history = History::new();
    let old = history.write(0);
    let new = history.begin(0, false);
    assert_eq!(history.read(0, stamp(old, 0)), Ok(()));
    assert_eq!(history.read(0, stamp(new, 0)), Ok(()));
    assert_eq!(history.read(0, stamp(old, 0)), Err("I2"));
}

#[test]
fn two_concurrent_writes_have_one_order() {
    let mut history = History::new();
    let (a, b) = (history.begin(0, false), history.begin(0, false));
    history.acknowledge(a, false);
    history.acknowledge(b, false);
    assert_eq!(history.read(0, stamp(a, 0)), Ok(()));
    assert_eq!(history.read(0, stamp(b, 0)), Err("I2"));
}

#[test]
fn a_long_read_may_see_what_was_there_when_it_began() {
    let mut history = History::new();
    let old = history.write(0);
    let began = history.tick();
    let _new = history.write(0);
    assert_eq!(history.read_since(0, stamp(old, 0), began), Ok(()));
}

#[test]
fn zeroes_need_a_zeroing() {
    let mut history = History::new();
    assert_eq!(history.read(0, ZERO), Ok(()));
    let write = history.write(0);
    assert_eq!(history.read(0, ZERO), Err("I2"));
    let zero = history.begin(0, true);
    assert_eq!(history.read(0, ZERO), Ok(()));
    history.acknowledge(zero, false);
    assert_eq!(history.read(0, stamp(write, 0)), Err("I2"));
}

#[test]
fn data_of_another_sector_is_wrong() {
    let mut history = History::new();
    let write = history.write(0);
    assert_eq!(history.read(0, stamp(write, 1)), Err("I2"));
    assert_eq!(history.read(0, stamp(99, 0)), Err("I2"));
}

#[test]
fn a_takeover_without_a_loss_keeps_everything_acknowledged() {
    let mut history = History::new();
    let old = history.write(0);
    let new = history.write(0);
    history.serve(1, false);
    assert_eq!(history.read(1, stamp(old, 0)), Err("I2"));
    let mut history = History::new();
    let _old = history.write(0);
    let _new = history.write(0);
    history.flush(0);
    history.serve(1, false);
    assert_eq!(history.read(1, stamp(old, 0)), Err("I1"));
    assert_eq!(new, 2);
}

#[test]
fn a_crash_may_take_back_only_what_no_flush_covers() {
    let mut history = History::new();
    let _first = history.write(0);
    let flushed = history.write(0);
    history.flush(0);
    let _unflushed = history.write(0);
    history.serve(1, true);
    assert_eq!(history.read(1, stamp(flushed, 0)), Ok(()));
    let mut history = History::new();
    let first = history.write(0);
    let _flushed = history.write(0);
    history.flush(0);
    history.serve(1, true);
    assert_eq!(history.read(1, stamp(first, 0)), Err("I1"));
}

#[test]
fn what_a_takeover_found_is_fixed() {
    let mut history = History::new();
    let old = history.write(0);
    let unanswered = history.begin(0, false);
    history.serve(1, true);
    assert_eq!(history.read(1, stamp(old, 0)), Ok(()));
    assert_eq!(history.read(1, stamp(unanswered, 0)), Err("I2"));
}

#[test]
fn an_ended_primary_neither_writes_nor_reads_new_data() {
    let mut history = History::new();
    history.serve(1, false);
    let late = history.begin(0, false);
    assert_eq!(history.read(1, stamp(late, 0)), Err("I3"));
    let new = history.write(1);
    assert_eq!(history.read(0, stamp(new, 0)), Err("I3"));
}

#[test]
fn a_stale_read_at_an_ended_primary_is_found() {
    let mut history = History::new();
    let old = history.write(0);
    history.serve(1, false);
    let _new = history.write(1);
    assert_eq!(history.read(0, stamp(old, 0)), Err("I2"));
}
