use super::*;
use crate::memory::Pool;

fn filled(length: usize) -> Buffer {
    let mut buffer = Pool::new(1 << 20).take(length);
    for (index, byte) in buffer.iter_mut().enumerate() {
        *byte = index as u8;
    }
    buffer.freeze()
}

#[test]
fn parts_share_the_bytes() {
    let buffer = filled(8192);
    let part = buffer.slice(4000, 200).slice(10, 5);
    assert_eq!(&part[..], &buffer[4010..4015]);
    assert_eq!(part.length(), 5);
}

#[test]
fn checksums_are_those_of_the_part() {
    let buffer = filled(8192);
    let part = buffer.slice(4096, 4096);
    assert_eq!(part.checksum(), evenkeel_wire::payload_crc(&buffer[4096..]));
    assert_eq!(buffer.checksum(), evenkeel_wire::payload_crc(&buffer));
    assert_eq!(part.checksum(), evenkeel_wire::payload_crc(&buffer[4096..]));
}

#[test]
fn zeroes_are_found() {
    let mut buffer = Pool::new(1 << 20).take(4100);
    buffer.fill(0);
    let mut other = Pool::new(1 << 20).take(4100);
    other.fill(0);
    other[4099] = 1;
    assert!(buffer.freeze().is_zero());
    let other = other.freeze();
    assert!(!other.is_zero());
    assert!(other.slice(0, 4099).is_zero());
}

#[test]
#[should_panic(expected = "inside the payload")]
fn a_part_outside_is_refused() {
    let _ = filled(512).slice(500, 13);
}
