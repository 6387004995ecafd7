//! Two slots: either what the fuzzer says, or sound ones with some bytes changed and the checksums
//! made right again. What is accepted must be sound.
#![no_main]

use evenkeel_format::{SUPERBLOCK_LENGTH, envelope, newest};
use evenkeel_fuzz::{patch, seal, superblock};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((mode, rest)) = input.split_first() else { return };
    let (for_a, for_b) = rest.split_at(rest.len() / 2);
    let mut sound = superblock();
    let mut slots = [vec![0; SUPERBLOCK_LENGTH], vec![0; SUPERBLOCK_LENGTH]];
    for (slot, patches) in slots.iter_mut().zip([for_a, for_b]) {
        if mode & 1 == 0 {
            slot[..patches.len().min(SUPERBLOCK_LENGTH)]
                .copy_from_slice(&patches[..patches.len().min(SUPERBLOCK_LENGTH)]);
        } else {
            slot.copy_from_slice(&sound.encode().unwrap().0);
            patch(slot, patches);
            if mode & 2 == 0 {
                let view_length = u32::from_le_bytes(slot[216..220].try_into().unwrap()) as usize;
                if let Some(view) = slot[512..].get_mut(..view_length) {
                    seal(view, 12);
                }
            }
            seal(slot, 24);
        }
        sound.sequence += 1;
    }
    let _ = envelope(&slots[0]);
    if let Ok(found) = newest(&slots[0], &slots[1]) {
        assert!(found.superblock.view.is_valid());
        assert!(found.superblock.encode().is_ok());
    }
});
