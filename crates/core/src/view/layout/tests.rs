use super::*;

const MIB: u64 = 1 << 20;

#[test]
fn what_is_laid_out_by_itself_can_be_asked_for() {
    for size in [1, 4096, MIB, 4 << 30, (4 << 30) - 1, 1 << 40, 1 << 54, 1 << 60] {
        let layout = IntentLayout::for_size(size);
        assert!(layout.is_valid(size), "{size}");
        assert_eq!(layout.check(size), Ok(()), "{size}");
    }
}

#[test]
fn a_log_holds_the_longest_request_wherever_it_begins() {
    let layout = |region, places| IntentLayout { region, places, slots: 1 }.check(1 << 40);
    assert_eq!(layout(MIB, 128), Err(LayoutError::TooShort { needed: 129 }));
    assert_eq!(layout(MIB, 129), Ok(()));
    assert_eq!(layout(1 << 30, 2), Ok(()));
    assert_eq!(layout(128 << 10, 2032), Ok(()));
    assert_eq!(layout(64 << 10, 2032), Err(LayoutError::Region));
    assert_eq!(layout(128 << 10, 1024), Err(LayoutError::TooShort { needed: 1025 }));
    assert_eq!(layout(128 << 10, 2032), Ok(()));
}

#[test]
fn impossible_sizes_are_told_apart() {
    let layout = |region, places, size| IntentLayout { region, places, slots: 1 }.check(size);
    for region in [0, 3 * MIB, 4096, 2 << 30] {
        assert_eq!(layout(region, 1024, MIB), Err(LayoutError::Region), "{region}");
    }
    for places in [0, 2033, u16::MAX] {
        assert_eq!(layout(MIB, places, MIB), Err(LayoutError::Places), "{places}");
    }
    let needed = 512 * MIB;
    assert_eq!(layout(4 * MIB, 1024, 1 << 60), Err(LayoutError::TooSmall { needed }));
    assert_eq!(layout(needed, 1024, 1 << 60), Ok(()));
}

#[test]
fn slots_are_counted_from_one_to_the_most_primaries() {
    let layout = |slots| IntentLayout { slots, ..IntentLayout::for_size(MIB) };
    for slots in [1, 2, 32] {
        assert_eq!(layout(slots).check(MIB), Ok(()));
    }
    for slots in [0, 33, 255] {
        assert_eq!(layout(slots).check(MIB), Err(LayoutError::Slots));
        assert!(!layout(slots).is_valid(MIB));
    }
}
