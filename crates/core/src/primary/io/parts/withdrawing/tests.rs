use crate::primary::invariants::tests::writing;
use crate::trips::trips;

#[test]
fn nothing_is_withdrawn_that_a_replica_was_sent() {
    let mut cluster = writing();
    let (now, primary) = (cluster.now, cluster.primary(0));
    let mut effects = Vec::new();
    let cx = &mut primary.context(now, &mut effects);
    let (io, lower) = &mut primary.informed().io();
    let (parts, below) = &mut io.parts(lower);
    let part = parts.table.values().next().expect("a write is under way");
    let number = part.request();
    trips("I14", || parts.withdraw(cx, below, number));
}
