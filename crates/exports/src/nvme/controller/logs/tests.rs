use crate::nvme::command::Refusal;
use crate::nvme::controller::tests::{Bench, VOLUME, entry};
use crate::nvme::controller::{Done, Kind, Notice, PathState};

use super::*;

const EVERYTHING: u32 = u32::MAX;

/// Reads so many bytes of a page from an offset on. Bits go into dword 10.
fn read_at(
    bench: &mut Bench,
    log: u8,
    bits: u32,
    namespace: u32,
    offset: u64,
    length: u32,
) -> Result<Vec<u8>, Refusal> {
    let dwords = length / 4 - 1;
    let words =
        [dwords << 16 | bits | u32::from(log), dwords >> 16, offset as u32, (offset >> 32) as u32];
    match bench.run(&entry(0x02, namespace, &words), Transfer::ToHost(length))? {
        Done::Data(data) => Ok(data),
        done => panic!("{done:?}"),
    }
}

fn read(bench: &mut Bench, log: u8, length: u32) -> Vec<u8> {
    read_at(bench, log, 0, EVERYTHING, 0, length).unwrap()
}

fn number(page: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(page[offset..offset + 8].try_into().unwrap())
}

#[test]
fn health_is_that_of_the_volume() {
    let mut bench = Bench::enabled(Kind::Volume);
    let page = read(&mut bench, 0x02, 512);
    // Degraded; no temperature; all space is spare.
    assert_eq!(page[..6], [4, 0, 0, 100, 0, 0]);
    assert_eq!([32, 48, 64, 80, 160].map(|offset| number(&page, offset)), [3, 1, 3, 4, 5]);
    let others = page.iter().enumerate().skip(6).filter(|(_, byte)| **byte != 0);
    assert!(others.map(|(offset, _)| offset).eq([32, 48, 64, 80, 160]));
    bench.volume.health.is_read_only = true;
    assert_eq!(read(&mut bench, 0x02, 512)[0], 12);
    assert!(read_at(&mut bench, 0x02, 0, 0, 0, 512).is_ok());
    let of_one = read_at(&mut bench, 0x02, 0, 1, 0, 512);
    assert_eq!(of_one, Err(Status::InvalidField.into()));
}

#[test]
fn the_simple_pages_are_exact() {
    let mut bench = Bench::enabled(Kind::Volume);
    let page = read(&mut bench, 0x03, 512);
    assert_eq!((page[0], &page[8..16]), (1, &b"1.2     "[..]));
    assert!(page[16..].iter().all(|byte| *byte == 0));
    assert_eq!(read(&mut bench, 0x01, 64), [0; 64]);
    let page = read(&mut bench, 0x00, 1024);
    let supported = (0..256).filter(|log| page[log * 4] == 1);
    assert!(supported.eq([0, 1, 2, 3, 4, 5, 12, 0x80]));
    assert_eq!(page.iter().map(|byte| usize::from(*byte)).sum::<usize>(), 8);
}

#[test]
fn effects_name_each_command_that_is_answered() {
    let mut bench = Bench::enabled(Kind::Volume);
    let page = read(&mut bench, 0x05, 4096);
    let word = |at: usize| u32::from_le_bytes(page[at * 4..at * 4 + 4].try_into().unwrap());
    let named = |from: usize| (0..256).filter(move |code| word(from + code) != 0);
    assert!(named(0).eq([0x02, 0x06, 0x08, 0x09, 0x0a, 0x0c, 0x18]));
    let reservations = [0x0d, 0x0e, 0x11, 0x15];
    let others = [0x00, 0x01, 0x02, 0x05, 0x08, 0x09, 0x0c];
    assert!(named(256).eq(others.into_iter().chain(reservations)));
    assert!((0..256).all(|code| word(code) <= 1));
    assert!((0..256).filter(|code| word(256 + code) == 3).eq([0x01, 0x08, 0x09]));
    assert!(page[2048..].iter().all(|byte| *byte == 0));
    bench.volume.namespace.has_reservations = false;
    let page = read(&mut bench, 0x05, 4096);
    assert!(reservations.iter().all(|code| page[(256 + code) * 4] == 0));
}

#[test]
fn the_path_is_in_one_group() {
    let mut bench = Bench::enabled(Kind::Volume);
    let mut expected = vec![0; 52];
    (expected[0], expected[8], expected[16], expected[20]) = (7, 1, 1, 1);
    (expected[24], expected[32], expected[48]) = (7, 1, 1);
    assert_eq!(read(&mut bench, 0x0c, 52), expected);
    for (state, byte) in [
        (PathState::NonOptimized, 2),
        (PathState::Inaccessible, 3),
        (PathState::PersistentLoss, 4),
        (PathState::Transition, 15),
    ] {
        bench.volume.path.state = state;
        assert_eq!(read(&mut bench, 0x0c, 52)[32], byte);
    }
    // Only groups: there is no namespace in them.
    let page = read_at(&mut bench, 0x0c, 1 << 8, EVERYTHING, 0, 52).unwrap();
    assert_eq!((page[16], page[20], page[48]), (1, 0, 0));
}

#[test]
fn a_page_is_read_in_parts() {
    let mut bench = Bench::enabled(Kind::Volume);
    let whole = read(&mut bench, 0x02, 512);
    let parts: Vec<u8> = [(0, 4), (4, 60), (64, 448)]
        .into_iter()
        .flat_map(|(at, length)| read_at(&mut bench, 0x02, 0, EVERYTHING, at, length).unwrap())
        .collect();
    assert_eq!(parts, whole);
    // Behind the end are zeroes, but nothing begins there.
    let last = read_at(&mut bench, 0x02, 0, EVERYTHING, 508, 16).unwrap();
    assert_eq!(last, [0; 16]);
    assert!(read_at(&mut bench, 0x02, 0, EVERYTHING, 512, 4).is_ok());
    for offset in [2, 516, 1 << 32, u64::MAX - 3] {
        let result = read_at(&mut bench, 0x02, 0, EVERYTHING, offset, 4);
        assert_eq!(result, Err(Status::InvalidField.into()), "{offset}");
    }
}

#[test]
fn wrong_questions_are_refused() {
    let mut bench = Bench::enabled(Kind::Volume);
    for log in [0x06, 0x07, 0x0d, 0x12, 0x70, 0x81, 0xc0, 0xff] {
        let result = read_at(&mut bench, log, 0, EVERYTHING, 0, 512);
        assert_eq!(result, Err(Status::InvalidLogPage.into()), "{log:x}");
    }
    let ask = entry(0x02, EVERYTHING, &[127 << 16 | 0x02]);
    for transfer in [Transfer::None, Transfer::ToHost(508), Transfer::ToHost(516)] {
        assert_eq!(bench.run(&ask, transfer), Err(Status::DataLength.into()));
    }
    // The offset is an index.
    let ask = entry(0x02, EVERYTHING, &[127 << 16 | 0x02, 0, 0, 0, 1 << 23]);
    let result = bench.run(&ask, Transfer::ToHost(512));
    assert_eq!(result, Err(Status::InvalidField.into()));
    let mut bench = Bench::enabled(Kind::Discovery);
    assert_eq!(read(&mut bench, 0x00, 1024)[0x70 * 4], 1);
    for log in OF_VOLUMES.into_iter().skip(1) {
        let result = read_at(&mut bench, log, 0, 0, 0, 64);
        assert_eq!(result, Err(Status::InvalidLogPage.into()));
    }
}

#[test]
fn a_changed_namespace_is_named_until_the_page_is_read() {
    let mut bench = Bench::enabled(Kind::Volume);
    bench.run(&entry(0x09, 0, &[0x0b, 1 << 8]), Transfer::None).unwrap();
    assert_eq!(read(&mut bench, 0x04, 4096), vec![0; 4096]);
    for _ in 0..3 {
        bench.run(&entry(0x0c, 0, &[]), Transfer::None).unwrap();
    }
    bench.controller.notify(Notice::Namespace);
    bench.controller.notify(Notice::Namespace);
    assert_eq!(bench.controller.take_answers().len(), 1);
    // RAE: the host will read it again.
    let page = read_at(&mut bench, 0x04, 1 << 15, EVERYTHING, 0, 4096).unwrap();
    assert_eq!((page[0], page[4]), (1, 0));
    bench.controller.notify(Notice::Namespace);
    assert_eq!(bench.controller.take_answers(), []);
    assert_eq!(read(&mut bench, 0x04, 4096)[..8], [1, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(read(&mut bench, 0x04, 4096), vec![0; 4096]);
    bench.controller.notify(Notice::Namespace);
    assert_eq!(bench.controller.take_answers().len(), 1);
    assert_eq!(bench.volume, VOLUME);
}
