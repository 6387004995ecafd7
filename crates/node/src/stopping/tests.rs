use std::future::{pending, ready};

use super::*;

#[tokio::test]
async fn a_pause_ends_with_its_time_or_with_the_daemon() {
    let stopping = Stopping::default();
    assert!(stopping.pause(Duration::from_millis(1)).await);
    let waits = stopping.pause(Duration::from_secs(3600));
    let (went_on, ()) = tokio::join!(waits, async { stopping.begin() });
    assert!(!went_on && stopping.has_begun());
    assert!(!stopping.pause(Duration::from_secs(3600)).await, "and so do later ones");
}

#[tokio::test]
async fn work_is_left_when_the_daemon_is_to_end() {
    let stopping = Stopping::default();
    assert_eq!(stopping.unless_begun(ready(7)).await, Some(7));
    stopping.begin();
    assert_eq!(stopping.unless_begun(pending::<u8>()).await, None);
}
