//! What must hold of operations is broken by hand, and found.

use super::*;
use crate::disk::device::Writes;
use crate::disk::filters::Request;
use crate::disk::filters::bench::Bench;
use crate::disk::filters::raw::zero::Zeroing;
use crate::disk::simulation::queue::Queue;
use crate::disk::trips::trips;

/// That this change of a request that is under way is found, in these words.
fn breaks(words: &str, request: Request, change: impl FnOnce(&mut Operation)) {
    let mut bench = Bench::new();
    let (file, layout, flushes) = bench.disk();
    let mut raw: RawDisk<Queue, ()> = RawDisk::new(file, layout, flushes);
    raw.begin(&mut bench.means(), request, ());
    raw.check_invariants();
    let key = raw.operations.keys()[0];
    change(&mut raw.operations.get_mut(key).expect("it is under way").operation);
    trips(words, || raw.check_invariants());
}

fn zeroing() -> Request {
    Request::Zero { offset: 0, length: 4096, unmap: true }
}

#[test]
fn what_is_done_is_not_under_way() {
    breaks("reads as zeroes", zeroing(), |operation| {
        *operation = Operation::Zero(Zeroing::simulated(4096, true));
    });
    let superblock = crate::disk::simulation::plan::superblock_of(8 << 20, true);
    let bytes = superblock.encode().expect("it is sound");
    breaks("a superblock", Request::WriteSuperblock { place: 0, bytes }, |operation| {
        *operation = Operation::Superblock { place: 0, done: SUPERBLOCK_LENGTH };
    });
    let failures = Bench::new().disk().2.failed();
    let writes = || Box::new(Writes::new(vec![(0, vec![1; 4096])]));
    breaks("all is written", Request::WriteMetadata(writes(), failures), |operation| {
        let Operation::Metadata(writes, _) = operation else { panic!("it is of metadata") };
        writes.wrote(Some(4096), 4096);
    });
}

#[test]
fn a_hole_is_punched_as_a_whole() {
    breaks("in part by Punch", zeroing(), |operation| {
        *operation = Operation::Zero(Zeroing::simulated(512, false));
    });
}

#[test]
fn nothing_is_believed_beside_a_flush_that_fails() {
    let failures = Bench::new().disk().2.failed();
    let (_, _, mut more) = Bench::new().disk();
    more.flush_failed(&std::io::Error::from_raw_os_error(libc::EIO));
    breaks("have not failed yet", Request::Flush(failures), |operation| {
        *operation = Operation::Flush(more.failed());
    });
}
