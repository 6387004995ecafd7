use super::*;

#[test]
fn a_flush_covers_what_was_written_before_it_began() {
    let mut disk = Disk::new(4, &[]);
    disk.put(0, 10);
    let mark = disk.flush_mark();
    disk.put(0, 11);
    disk.put(1, 12);
    disk.flushed(mark);
    assert_eq!(disk.durable_content(0), 10);
    assert_eq!(disk.durable_content(1), ZERO);
    assert_eq!(disk.content(0), 11);
}

#[test]
fn a_power_cut_takes_back_only_what_no_flush_covers() {
    let mut seen = [false; 3];
    for seed in 0..64 {
        let mut disk = Disk::new(1, &[]);
        disk.put(0, 10);
        disk.flushed(disk.flush_mark());
        disk.put(0, 11);
        disk.put(0, 12);
        let lost = disk.power_cut(&mut Random::new(seed));
        let cell = disk.cell(0);
        assert!((10..=12).contains(&cell));
        assert_eq!(lost.is_empty(), cell == 12);
        seen[(cell - 10) as usize] = true;
    }
    assert_eq!(seen, [true; 3], "every content that the sector had is possible");
}
