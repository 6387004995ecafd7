//! What lies on a disk beside superblocks and data: tables of open regions, pages of bitmaps, of
//! the allocation map and of checksums, and blocks of the journal. Either what the fuzzer says, or
//! a sound one with some bytes changed and its checksum made right again. What is accepted is the
//! same when it is written again.
#![no_main]

use std::sync::LazyLock;

use evenkeel_core::ReplicaId;
use evenkeel_core::replica::FoundPage;
use evenkeel_format::{
    AllocationMap, ChecksumPage, IntentTable, JournalBlock, decode_page, encode_page,
};
use evenkeel_fuzz::{patch, seal, tables};
use libfuzzer_sys::fuzz_target;

const REPLICA: ReplicaId = ReplicaId(2);
static SOUND: LazyLock<Vec<(&str, Vec<u8>)>> = LazyLock::new(tables);

fuzz_target!(|input: &[u8]| {
    let Some((mode, rest)) = input.split_first() else { return };
    let (name, mut bytes) = SOUND[usize::from(mode / 2) % SOUND.len()].clone();
    if mode & 1 == 0 {
        bytes = rest.to_vec();
    } else {
        patch(&mut bytes, rest);
        seal(&mut bytes, if name == "intents" { 16 } else { 8 });
    }
    match name {
        "intents" => {
            if let Some(table) = IntentTable::decode(&bytes, REPLICA, 3) {
                assert_eq!(IntentTable::decode(&table.encode(), REPLICA, 3), Some(table));
            }
        }
        "bitmap" => {
            if let Some(FoundPage::Whole(page)) = decode_page(&bytes, 1, 2) {
                let again = decode_page(&encode_page(&page), 1, 2);
                assert_eq!(again, Some(FoundPage::Whole(page)));
            }
        }
        "allocation" => {
            if let Some(map) = AllocationMap::decode(&bytes, REPLICA) {
                assert!(map.unit.is_power_of_two());
                assert_eq!(AllocationMap::decode(&map.encode(REPLICA), REPLICA), Some(map));
            }
        }
        "checksums" => {
            if let Some(page) = ChecksumPage::decode(&bytes, REPLICA, 5) {
                assert_eq!(ChecksumPage::decode(&page.encode(REPLICA, 5), REPLICA, 5), Some(page));
            }
        }
        _ => {
            if let Some(block) = JournalBlock::decode(&bytes, REPLICA, 7) {
                assert_eq!(JournalBlock::decode(&block.encode(REPLICA), REPLICA, 7), Some(block));
            }
        }
    }
});
