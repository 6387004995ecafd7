use std::pin::pin;
use std::task::{Context, Poll, Waker};

use super::*;

fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[tokio::test]
async fn one_holds_a_key_and_another_key_is_free() {
    let locks = KeyedLock::default();
    let first = locks.lock(1).await;
    let mut second = pin!(locks.lock(1));
    assert!(poll(second.as_mut()).is_pending());
    assert!(locks.try_lock(1).is_none());
    assert!(locks.try_lock(2).is_some());
    drop(first);
    drop(second.await);
    assert!(locks.try_lock(1).is_some(), "free again");
}

#[tokio::test]
async fn only_a_recall_asks_the_holder_to_give_it_up_and_only_this_one() {
    let locks = KeyedLock::default();
    let (held, other) = (locks.lock(1).await, locks.lock(2).await);
    let mut waits = pin!(locks.lock(1));
    assert!(poll(waits.as_mut()).is_pending());
    assert!(!held.recall().is_asked());
    let mut recalls = pin!(locks.recall(1));
    assert!(poll(recalls.as_mut()).is_pending());
    assert!(held.recall().is_asked() && !other.recall().is_asked());
    // Whoever was quicker than the one that asked is asked, too.
    drop(held);
    let Poll::Ready(quicker) = poll(waits.as_mut()) else { panic!("it is free") };
    assert!(poll(recalls.as_mut()).is_pending());
    assert!(quicker.recall().is_asked());
    drop(quicker);
    assert!(!recalls.await.recall().is_asked());
}

#[tokio::test]
async fn who_stops_waiting_holds_nothing() {
    let locks = KeyedLock::default();
    let held = locks.lock(1).await;
    {
        let mut waits = pin!(locks.lock(1));
        assert!(poll(waits.as_mut()).is_pending());
    }
    drop(held);
    assert!(locks.try_lock(1).is_some());
}
