use super::*;
use crate::oracles::registers::Read;
use crate::payload::stamp;

const OLD: EpochKey = (CoordinatorId(1), History(1));
const NEW: EpochKey = (CoordinatorId(2), History(2));

/// Two primaries, each in its line, after the second diverged; the first write was flushed before.
fn diverged(lost: bool) -> Lines {
    let mut lines = Lines::new(8, OLD);
    lines.serves(0, OLD);
    lines.of_mut(0).serving(0, 1, |_| false);
    lines.begin(0, 1, false, 0, 2);
    lines.of_mut(0).acknowledge(1, true, 3);
    lines.parts(OLD, NEW, vec![lost; 8]);
    lines.serves(1, NEW);
    lines.of_mut(1).serving(1, 4, |_| false);
    lines
}

fn read(primary: usize) -> Read {
    Read { primary, invoked: 10, answered: 11 }
}

#[test]
fn what_one_line_writes_the_other_never_sees() {
    let mut lines = diverged(false);
    lines.begin(0, 1, false, 0, 5);
    lines.of_mut(0).acknowledge(2, false, 6);
    assert!(lines.of_mut(0).read(0, stamp(2, 0), read(0)).is_ok());
    assert_eq!(lines.of_mut(1).read(0, stamp(2, 0), read(1)).unwrap_err().oracle, "I3");
    assert!(diverged(false).of_mut(1).read(0, stamp(1, 0), read(1)).is_ok());
}

#[test]
fn what_is_lost_has_to_be_explained() {
    assert_eq!(diverged(false).of_mut(1).read(0, 0, read(1)).unwrap_err().oracle, "I1");
    assert!(diverged(true).of_mut(1).read(0, 0, read(1)).is_ok());
    assert!(diverged(true).of_mut(0).read(0, 0, read(0)).is_err(), "the old line has all");
}

#[test]
fn until_somebody_serves_in_it_a_new_line_goes_on_from_the_old_one() {
    let mut lines = Lines::new(8, OLD);
    lines.serves(0, OLD);
    lines.of_mut(0).serving(0, 1, |_| false);
    lines.parts(OLD, NEW, vec![false; 8]);
    lines.begin(0, 1, false, 0, 2);
    lines.of_mut(0).acknowledge(1, true, 3);
    lines.serves(1, NEW);
    lines.of_mut(1).serving(1, 4, |_| false);
    assert!(lines.of_mut(1).read(0, stamp(1, 0), read(1)).is_ok());
    assert_eq!(lines.of_mut(1).read(0, 0, read(1)).unwrap_err().oracle, "I2");
}
