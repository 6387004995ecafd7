use super::*;

#[test]
fn sizes_and_classes_agree() {
    for class in 0..CLASSES {
        let size = size_of(class);
        assert_eq!(class_of(size), class);
        assert_eq!(buffer_size(size), size);
        assert_eq!(buffer_size(size - 1), size);
    }
    assert_eq!(size_of(CLASSES - 1), MAX_BUFFER);
}

#[test]
fn buffers_are_aligned_and_reused() {
    let pool = Pool::new(1 << 20);
    let first = pool.take(512);
    let address = first.address(0);
    assert_eq!(address as usize % BUFFER_ALIGNMENT, 0);
    drop(first);
    assert_eq!(pool.take(4096).address(0), address);
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn a_budget_is_kept_and_returns() {
    let pool = Pool::new(1 << 20);
    let budget = Budget::new(pool.clone(), 8192);
    let first = budget.allocate(4096).expect("fits");
    let second = budget.allocate(1).expect("fits");
    assert!(budget.allocate(1).is_none());
    assert!(!pool.take_released());
    let shared = first.freeze();
    let part = evenkeel_core::Payload::slice(&shared, 0, 512);
    drop(shared);
    assert!(budget.allocate(1).is_none());
    drop(part);
    assert!(pool.take_released());
    assert!(budget.allocate(1).is_some());
    drop(second);
    assert_eq!(pool.reserved(), 0);
}

#[test]
fn one_budget_cannot_starve_another_for_good() {
    let pool = Pool::new(8192);
    let (greedy, modest) = (Budget::new(pool.clone(), 8192), Budget::new(pool.clone(), 8192));
    let _all = (greedy.allocate(4096), greedy.allocate(4096));
    let one = modest.allocate(32 << 20).expect("an empty budget admits one request");
    assert!(modest.allocate(512).is_none());
    drop(one);
    assert!(modest.allocate(512).is_some());
}

#[test]
fn unused_memory_stays_within_the_limit() {
    let pool = Pool::new(64 << 10);
    let many: Vec<_> = (0..32).map(|_| pool.take(4096)).collect();
    drop(many);
    assert_eq!(pool.0.cached.get(), 64 << 10);
    let large = pool.take(32 << 10);
    assert_eq!(pool.0.cached.get(), 32 << 10);
    drop(large);
    assert_eq!(pool.0.cached.get(), 64 << 10);
}

#[test]
fn a_reservation_is_split_between_the_pieces_of_an_answer() {
    let budget = Budget::new(Pool::new(1 << 20), 1 << 20);
    let mut all = budget.reserve(64 << 10).expect("fits");
    let part = all.split(16 << 10);
    drop(all);
    assert_eq!(budget.used(), 16 << 10);
    drop(part);
    assert_eq!(budget.used(), 0);
}

#[test]
fn room_for_several_buffers_is_reserved_at_once_or_not_at_all() {
    let pool = Pool::new(1 << 20);
    let budget = Budget::new(pool.clone(), 16 << 10);
    let held = budget.reserve(4096).expect("fits");
    assert!(budget.reserve_all([4096, 1, 4097]).is_none());
    assert_eq!((budget.used(), pool.reserved()), (4096, 4096));
    assert!(!pool.take_released(), "nothing has returned that could wake who waits");
    let [first, second, third] = budget.reserve_all([4096, 1, 512]).expect("fits");
    assert_eq!((budget.used(), pool.reserved()), (16 << 10, 16 << 10));
    assert!(!pool.take_released());
    drop((held, second));
    assert!(pool.take_released());
    let buffer = first.into_buffer(4000);
    assert_eq!((buffer.len(), budget.used()), (4000, 8192));
    drop((buffer, third));
    assert_eq!((budget.used(), pool.reserved()), (0, 0));
}

#[test]
#[should_panic(expected = "fits in the room")]
fn a_buffer_is_not_longer_than_its_room() {
    let budget = Budget::new(Pool::new(1 << 20), 1 << 20);
    let _ = budget.reserve(4096).expect("fits").into_buffer(4097);
}
