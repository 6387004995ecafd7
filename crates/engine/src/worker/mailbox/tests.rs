use super::*;

/// Whoever gives orders may hold a lock that others need to go on.
#[test]
fn nobody_waits_for_a_worker_that_takes_no_orders() {
    const MANY: u128 = 5000;
    let (mailbox, worker) = mailbox().expect("a mailbox");
    (0..MANY).for_each(|node| mailbox.send(Order::Disconnect { node: NodeId(node) }));
    for expected in 0..MANY {
        match worker.take() {
            Some(Order::Disconnect { node }) => assert_eq!(node, NodeId(expected)),
            _ => panic!("orders are taken as they were given"),
        }
    }
    assert!(worker.take().is_none());
}
