use super::*;

#[test]
fn ranges_go_in_and_out() {
    let mut set = BlockSet::default();
    set.insert(10..20);
    set.insert(PAGE_BLOCKS - 3..PAGE_BLOCKS + 70);
    assert_eq!(set.count(), 10 + 73);
    assert_eq!(set.pages().collect::<Vec<_>>(), [0, 1]);
    assert_eq!(set.first_run(0..u64::MAX), Some(10..20));
    assert_eq!(set.first_run(12..15), Some(12..15));
    assert_eq!(set.first_run(20..u64::MAX), Some(PAGE_BLOCKS - 3..PAGE_BLOCKS + 70));
    assert_eq!(set.first_run(20..30), None);
    set.remove(0..PAGE_BLOCKS);
    assert_eq!(set.pages().collect::<Vec<_>>(), [1], "an empty page takes no memory");
    set.remove(PAGE_BLOCKS..2 * PAGE_BLOCKS);
    assert!(set.is_empty());
}

#[test]
fn it_agrees_with_a_plain_list() {
    let mut set = BlockSet::default();
    let mut list = vec![false; 3 * PAGE_BLOCKS as usize];
    let mut number = 1u64;
    for step in 0..2000 {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let start = (number >> 33) % (3 * PAGE_BLOCKS - 1);
        let end = (start + 1 + (number >> 20) % 200).min(3 * PAGE_BLOCKS);
        let insert = step % 3 != 0;
        if insert {
            set.insert(start..end)
        } else {
            set.remove(start..end)
        }
        list[start as usize..end as usize].fill(insert);
    }
    assert_eq!(set.count(), list.iter().filter(|bit| **bit).count() as u64);
    let (mut at, mut seen) = (0, vec![false; list.len()]);
    while let Some(run) = set.first_run(at..3 * PAGE_BLOCKS) {
        seen[run.start as usize..run.end as usize].fill(true);
        at = run.end;
    }
    assert_eq!(seen, list);
}

#[test]
fn pages_travel() {
    let mut set = BlockSet::default();
    set.insert(5..9);
    set.insert(PAGE_BLOCKS * 4..PAGE_BLOCKS * 4 + 1);
    let mut copy = BlockSet::default();
    let mut next = set.page_from(0);
    while let Some(page) = next {
        copy.insert_page(page, &set.page(page));
        next = set.page_from(page + 1);
    }
    assert_eq!(copy, set);
}

#[test]
fn a_long_range_is_taken_out_by_looking_at_what_there_is() {
    let mut set = BlockSet::default();
    set.insert(5..PAGE_BLOCKS + 5);
    set.insert(900 * PAGE_BLOCKS..900 * PAGE_BLOCKS + 1);
    set.remove(10..u64::MAX);
    assert_eq!(set.first_run(0..u64::MAX), Some(5..10));
    assert_eq!(set.pages().collect::<Vec<_>>(), [0]);
    set.remove(7..7);
    set.remove(6..8);
    assert_eq!(set.runs(0..u64::MAX).collect::<Vec<_>>(), [5..6, 8..10]);
    set.remove(0..10);
    assert!(set.is_empty());
}
