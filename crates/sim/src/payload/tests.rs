use super::*;

#[test]
fn bytes_and_sectors_are_the_same_data() {
    let sectors = Sectors::new([stamp(3, 9), ZERO, HOLE, stamp(4, 10)].into_iter());
    let mut bytes = Vec::new();
    sectors.slice(SECTOR, 3 * SECTOR).write_bytes(&mut bytes);
    let read = Sectors::from_bytes(&bytes).expect("whole sectors");
    assert_eq!(read.cells(), [ZERO, ZERO, stamp(4, 10)]);
    bytes[700] ^= 1;
    assert!(Sectors::from_bytes(&bytes).is_none());
    assert_eq!(stamped(stamp(4, 10)), (4, 10));
}
