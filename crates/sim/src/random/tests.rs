use super::*;

#[test]
fn one_seed_gives_one_sequence() {
    let draw = |seed| {
        let mut random = Random::new(seed);
        (0..8).map(|_| random.bits()).collect::<Vec<_>>()
    };
    assert_eq!(draw(7), draw(7));
    assert_ne!(draw(7), draw(8));
}

#[test]
fn draws_stay_within_their_bounds() {
    let mut random = Random::new(1);
    for _ in 0..1000 {
        assert!(random.below(3) < 3);
        assert!((5..=9).contains(&random.between(5, 9)));
        assert!((10..=1000).contains(&random.magnitude(10, 1000)));
        assert!(random.waiting(100) <= 1000);
    }
}
