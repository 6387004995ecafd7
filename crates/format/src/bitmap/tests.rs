use evenkeel_core::ReplicaId;
use evenkeel_core::block_set::PAGE_WORDS;

use super::*;

fn page() -> MissingPage {
    let mut bits = Box::new([0; PAGE_WORDS]);
    (bits[0], bits[PAGE_WORDS - 1]) = (0xF0, 1 << 63);
    MissingPage { place: 3, replica: ReplicaId(9), since: Generation(70), page: 5, bits }
}

#[test]
fn a_page_survives_the_trip() {
    let bytes = encode_page(&page());
    assert_eq!(bytes.len(), PAGE_LENGTH);
    assert_eq!(decode_page(&bytes, 3, 5), Some(FoundPage::Whole(page())));
}

#[test]
fn every_changed_byte_is_noticed() {
    let bytes = encode_page(&page());
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        assert_eq!(decode_page(&damaged, 3, 5), Some(FoundPage::Damaged { place: 3, page: 5 }));
    }
    assert_eq!(
        decode_page(&bytes, 3, 6),
        Some(FoundPage::Damaged { place: 3, page: 6 }),
        "a page in another one's place"
    );
}

#[test]
fn an_empty_place_holds_nothing() {
    assert_eq!(decode_page(&[0; PAGE_LENGTH], 0, 0), None);
}

#[test]
fn places_do_not_overlap() {
    for size in [1, 4096, 126 << 20, (126 << 20) + 1, 10 << 30] {
        let mut end = 0;
        for place in 0..MAX_REPLICAS as u8 {
            for page in 0..pages_per_bitmap(size) as u32 {
                assert_eq!(page_offset(size, place, page), end);
                end += PAGE_LENGTH as u64;
            }
        }
        assert_eq!(bitmaps_length(size), end);
    }
}
