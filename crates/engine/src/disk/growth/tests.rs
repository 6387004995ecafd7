//! What must hold of a step of a growth is broken by hand, and found.

use evenkeel_core::OperationNumber;

use super::*;
use crate::disk::invariants::tests::breaks;

#[test]
fn actions_wait_for_a_step_only() {
    breaks("no step of a growth", |disk| {
        let ticket = DiskTicket::Operation(OperationNumber(9));
        disk.growth.hold(Instant(1), ticket, DiskAction::Flush { with_checksums: false });
    });
}

#[test]
fn nothing_is_under_way_while_a_step_is_written() {
    breaks("may change meanwhile", |disk| {
        let superblock = disk.superblocks.newest().clone();
        let checksums = Sums::Extended(superblock.data_length);
        let after = After { superblock, checksums, task: None };
        let (length, answer) = (1 << 30, Box::new(|_| ()));
        let request = SpaceRequest { length, step: SpaceStep::Use, spare_in: None, answer };
        disk.growth.phase = Phase::Writing(Box::new(after), request);
    });
}
