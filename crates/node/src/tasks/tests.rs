use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::{MAX_TASKS, Tasks};
use crate::api::ErrorCode;

const SHORT: Duration = Duration::from_millis(20);
const LONG: Duration = Duration::from_secs(10);

#[tokio::test]
async fn a_change_goes_on_without_whoever_asked() {
    let (tasks, (go, gone)) = (Tasks::default(), oneshot::channel::<()>());
    let (done, is_done) = oneshot::channel();
    let change = tasks.carry_out(async move {
        gone.await.unwrap();
        done.send(()).unwrap();
    });
    assert!(tokio::time::timeout(SHORT, change).await.is_err(), "whoever asked has gone");
    go.send(()).unwrap();
    is_done.await.unwrap();
}

#[tokio::test]
async fn the_end_waits_for_changes_and_takes_no_more() {
    let tasks = Arc::new(Tasks::default());
    let (go, gone) = oneshot::channel::<()>();
    let asked = tasks.clone();
    let change = tokio::spawn(async move { asked.carry_out(async { gone.await.is_ok() }).await });
    tokio::task::yield_now().await;
    assert!(!tasks.finish(SHORT).await, "one is under way");
    let refused = tasks.carry_out(async {}).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::Stopping);
    go.send(()).unwrap();
    assert!(change.await.unwrap().unwrap(), "what is under way goes on");
    assert!(Tasks::default().finish(LONG).await, "nothing is under way");
}

#[tokio::test]
async fn changes_are_bounded() {
    let (tasks, mut begun) = (Tasks::default(), Vec::new());
    for _ in 0..MAX_TASKS {
        let (go, gone) = oneshot::channel::<()>();
        begun.push(go);
        let asked = tasks.carry_out(async { gone.await.is_ok() });
        assert!(tokio::time::timeout(Duration::ZERO, asked).await.is_err());
    }
    let refused = tasks.carry_out(async {}).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::WrongState);
    drop(begun);
    assert!(tasks.finish(LONG).await);
}
