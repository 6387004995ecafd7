use super::*;
use crate::pool::Pool;

fn filled(length: usize) -> Slot {
    let mut slot = Pool::new(1 << 20).take(length);
    for (index, byte) in slot.iter_mut().enumerate() {
        *byte = index as u8;
    }
    slot.freeze()
}

#[test]
fn parts_share_the_bytes() {
    let slot = filled(8192);
    let part = slot.slice(4000, 200).slice(10, 5);
    assert_eq!(&part[..], &slot[4010..4015]);
    assert_eq!(part.length(), 5);
}

#[test]
fn checksums_are_those_of_the_part() {
    let slot = filled(8192);
    let part = slot.slice(4096, 4096);
    assert_eq!(part.checksum(), evenkeel_wire::payload_crc(&slot[4096..]));
    assert_eq!(slot.checksum(), evenkeel_wire::payload_crc(&slot));
    assert_eq!(part.checksum(), evenkeel_wire::payload_crc(&slot[4096..]));
}

#[test]
fn zeroes_are_found() {
    let mut slot = Pool::new(1 << 20).take(4100);
    slot.fill(0);
    let mut other = Pool::new(1 << 20).take(4100);
    other.fill(0);
    other[4099] = 1;
    assert!(slot.freeze().is_zero());
    let other = other.freeze();
    assert!(!other.is_zero());
    assert!(other.slice(0, 4099).is_zero());
}

#[test]
#[should_panic(expected = "inside the payload")]
fn a_part_outside_is_refused() {
    let _ = filled(512).slice(500, 13);
}
