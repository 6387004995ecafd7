use proptest::prelude::*;

use super::*;

/// What Linux sets: entries of 64 and 16 bytes, enabled.
const LINUX: u64 = 0x0046_0001;
/// A normal shutdown.
const NORMAL: u64 = 0x4000;

fn status(properties: &Properties) -> u64 {
    properties.get(0x1c, false).unwrap()
}

fn set(properties: &mut Properties, value: u64) -> Change {
    properties.set(0x14, false, value).unwrap()
}

#[test]
fn linux_reads_what_it_needs_and_enables() {
    let mut properties = Properties::new(127, true);
    // MQES 127, CQR, 15 s, NVM command set; 4 KiB pages; no stride, no ready modes.
    assert_eq!(properties.get(0, true), Ok(0x20_1e01_007f));
    assert_eq!(properties.get(8, false), Ok(0x2_0100));
    assert_eq!((properties.get(0x14, false), status(&properties)), (Ok(0), 0));
    assert!(!properties.is_ready());
    assert_eq!(set(&mut properties, LINUX), Change::Enabled);
    assert_eq!((properties.get(0x14, false), status(&properties)), (Ok(LINUX), 1));
    assert!(properties.is_ready());
    assert_eq!(set(&mut properties, LINUX), Change::None);
}

#[test]
fn a_shutdown_is_done_when_it_is_said_to_be() {
    let mut properties = Properties::new(127, true);
    set(&mut properties, LINUX);
    properties.shut_down();
    assert_eq!(status(&properties), 1);
    assert_eq!(set(&mut properties, LINUX | NORMAL), Change::Shutdown);
    assert_eq!((status(&properties), properties.is_ready()), (0b0101, false));
    // Asked for again, in another way: it is under way.
    assert_eq!(set(&mut properties, LINUX | 0x8000), Change::None);
    properties.shut_down();
    assert_eq!((status(&properties), properties.is_ready()), (0b1001, false));
    // Only a reset leads back.
    assert_eq!(set(&mut properties, LINUX), Change::None);
    assert_eq!(status(&properties), 0b1001);
    assert_eq!(set(&mut properties, 0), Change::Reset);
    assert_eq!(status(&properties), 1);
    properties.reset_done();
    assert_eq!(status(&properties), 0);
    assert_eq!(set(&mut properties, LINUX), Change::Enabled);
    assert!(properties.is_ready());
}

#[test]
fn a_reset_takes_all_that_was_enabled() {
    let mut properties = Properties::new(127, true);
    set(&mut properties, LINUX);
    properties.reset_done();
    assert!(properties.is_ready());
    assert_eq!(set(&mut properties, LINUX & !1), Change::Reset);
    // It is idle only when all that was under way has ended.
    assert_eq!((status(&properties), properties.is_ready()), (1, false));
    properties.reset_done();
    assert_eq!((status(&properties), properties.is_ready()), (0, false));
    // A shutdown of a controller that is disabled has to be answered as well.
    assert_eq!(set(&mut properties, NORMAL), Change::Shutdown);
    assert!(properties.is_shutting_down());
    properties.shut_down();
    assert_eq!((status(&properties), properties.is_shutting_down()), (0b1000, false));
}

#[test]
fn a_host_that_does_not_await_the_end_of_a_reset_makes_it_fail() {
    let mut properties = Properties::new(127, true);
    set(&mut properties, LINUX);
    set(&mut properties, 0);
    assert_eq!(set(&mut properties, LINUX), Change::None);
    assert_eq!((status(&properties), properties.is_ready()), (2, false));
    properties.reset_done();
    assert_eq!(status(&properties), 2);
    assert_eq!(set(&mut properties, 0), Change::Reset);
    properties.reset_done();
    assert_eq!(set(&mut properties, LINUX), Change::Enabled);
}

#[test]
fn what_is_not_possible_fails_until_a_reset() {
    for value in [
        // Another command set, pages, arbitration; entries of other sizes; with a shutdown.
        LINUX | 0x10,
        LINUX | 0x80,
        LINUX | 0x800,
        1,
        0x0047_0001,
        0x0056_0001,
        LINUX | NORMAL,
    ] {
        let mut properties = Properties::new(31, true);
        assert_eq!(set(&mut properties, value), Change::None, "{value:x}");
        assert_eq!((status(&properties), properties.is_ready()), (2, false));
        assert_eq!(set(&mut properties, 0), Change::Reset);
        properties.reset_done();
        assert_eq!(set(&mut properties, LINUX), Change::Enabled);
    }
    // A discovery controller has no entries whose size would matter.
    assert_eq!(set(&mut Properties::new(31, false), 1), Change::Enabled);
}

#[test]
fn there_are_no_other_properties() {
    let mut properties = Properties::new(127, true);
    for (offset, is_wide) in
        [(0, false), (8, true), (0x14, true), (0x1c, true), (0x20, false), (4, false)]
    {
        assert_eq!(properties.get(offset, is_wide), Err(Status::InvalidField));
        assert_eq!(properties.set(offset, is_wide, LINUX), Err(Status::InvalidField));
    }
    for offset in [8, 0x1c] {
        assert_eq!(properties.set(offset, false, 0), Err(Status::InvalidField));
    }
}

proptest! {
    #[test]
    fn it_is_ready_only_as_its_status_says(
        steps in proptest::collection::vec(
            prop_oneof![
                proptest::sample::select(vec![0, 1, LINUX, LINUX | NORMAL, NORMAL]).prop_map(Some),
                any::<u64>().prop_map(Some),
                Just(None),
            ],
            0..30,
        ),
    ) {
        let mut properties = Properties::new(127, true);
        for step in steps {
            match step {
                Some(value) => {
                    let change = set(&mut properties, value);
                    prop_assert_eq!(properties.get(0x14, false), Ok(value & 0xffff_ffff));
                    prop_assert!(change != Change::Enabled || properties.is_ready());
                    prop_assert!(change != Change::Reset || status(&properties) == 1);
                    prop_assert!(change != Change::Reset || !properties.is_ready());
                }
                None => {
                    properties.shut_down();
                    properties.reset_done();
                    prop_assert_eq!(properties.is_ready(), status(&properties) == 1);
                }
            }
            prop_assert!(!properties.is_ready() || status(&properties) == 1);
        }
    }
}
