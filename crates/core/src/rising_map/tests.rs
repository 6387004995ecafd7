use std::collections::BTreeMap;

use super::*;

/// Numbers that look random, the same in each run (Marsaglia's xorshift).
fn numbers(mut state: u64) -> impl FnMut(u64) -> u64 {
    move |below| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    }
}

fn assert_same(map: &RisingMap<u64, u64>, model: &BTreeMap<u64, u64>) {
    assert!(map.iter().eq(model.iter()));
    assert!(map.iter().map(|(key, _)| key).rev().eq(model.keys().rev()));
    assert!(map.values().eq(model.values()));
    assert_eq!((map.len(), map.is_empty()), (model.len(), model.is_empty()));
}

#[test]
fn it_holds_what_a_tree_holds_whatever_is_left_out_or_removed_first() {
    for seed in 1..200 {
        let mut random = numbers(seed);
        // Some leave many numbers out, some remove nearly in order, some keep the oldest for long.
        let (step, depth, spread) = (1 + random(4), 1 + random(100), 1 + random(100));
        let (mut map, mut model) = (RisingMap::default(), BTreeMap::new());
        let mut last = random(1000);
        for _ in 0..600 {
            last += 1 + random(step);
            map.insert(last, last * 3);
            model.insert(last, last * 3);
            while model.len() as u64 > depth {
                let place = random(spread.min(model.len() as u64)) as usize;
                let key = *model.keys().nth(place).unwrap();
                assert_eq!(map.remove(&key), model.remove(&key));
                assert_eq!((map.remove(&key), map.get(&key)), (None, None));
            }
            let any = last.saturating_sub(random(300));
            assert_eq!(map.get(&any), model.get(&any));
            assert_eq!(map.get_mut(&any), model.get_mut(&any));
            assert_eq!(map.contains_key(&any), model.contains_key(&any));
            assert!(map.keys.len() <= 2 * map.len() + MAX_GAPS);
            assert_same(&map, &model);
        }
        map.values_mut().for_each(|value| *value += 1);
        model.values_mut().for_each(|value| *value += 1);
        assert_same(&map, &model);
        assert_eq!((map.get(&(last + 1)), map.get(&u64::MAX)), (None, None));
        map.clear();
        assert_same(&map, &BTreeMap::new());
    }
}

#[test]
fn what_stays_for_ever_does_not_keep_what_came_after_it() {
    let mut map = RisingMap::default();
    map.insert(0u64, ());
    for number in 1..100_000 {
        map.insert(number, ());
        map.remove(&number);
        assert!(map.keys.len() <= 2 + MAX_GAPS);
    }
    assert_eq!(map.iter().map(|(key, _)| *key).collect::<Vec<_>>(), [0]);
}
