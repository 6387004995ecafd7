use crate::primary::invariants::tests::breaks;

#[test]
fn nobody_writes_where_replicas_are_compared() {
    breaks("I9", |primary| {
        let mut effects = Vec::new();
        let cx = &mut primary.context(primary.clock.tick_at, &mut effects);
        let primary = primary.informed();
        primary.io.must_repair(0, 0..4096);
        primary.advance_check(cx);
        let number = primary.scrub.check.as_ref().expect("it is begun").number();
        primary.io.end_kept(number);
    });
}
