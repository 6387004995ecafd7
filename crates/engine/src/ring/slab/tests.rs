use super::*;

#[test]
fn a_key_names_one_life() {
    let mut slab = Slab::new();
    let first = slab.insert("first");
    assert_eq!(slab.remove(first), Some("first"));
    let second = slab.insert("second");
    assert_ne!(first, second);
    assert_eq!(slab.get(first), None);
    assert_eq!(slab.remove(first), None);
    assert_eq!(slab.get(second), Some(&"second"));
    assert_eq!(Key::from_number(second.number()), second);
    assert_eq!(slab.keys(), [second]);
    slab.remove(second);
    assert!(slab.is_empty());
    assert_ne!(first.number(), 0);
}
