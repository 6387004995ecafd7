use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use evenkeel_api::ErrorCode;
use tokio::sync::oneshot;

use super::{MAX_ASKED, MAX_TASKS, Tasks, at_most};
use crate::coordinator::{Answer, CallError, CallFuture, Coordinator, Handle, Request};

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

/// A coordinator that is away at first.
#[derive(Debug, Default)]
struct Away {
    is_back: AtomicBool,
    changes: AtomicU32,
}

impl Coordinator for Away {
    fn call(&self, _: Request) -> CallFuture<'_> {
        let answer = if self.is_back.load(Ordering::Relaxed) {
            self.changes.fetch_add(1, Ordering::Relaxed);
            Ok(Answer::Done)
        } else {
            Err(CallError::Unreachable("it is away".into()))
        };
        Box::pin(async { answer })
    }
}

/// What a command that was interrupted meanwhile still does when the coordinator is back.
async fn changes_when_it_is_back(is_interrupted: bool) -> u32 {
    let (tasks, away, handle) =
        (Tasks::default(), Arc::new(Away::default()), Arc::new(Handle::default()));
    handle.set(away.clone(), None);
    let request = Request::Stop { volume: String::new(), stopped: true, revision: None };
    let mut command =
        Box::pin(tasks.carry_out(async move { handle.call_within(request, LONG).await.is_ok() }));
    assert!(tokio::time::timeout(SHORT, &mut command).await.is_err(), "it waits");
    away.is_back.store(true, Ordering::Relaxed);
    let is_done = match is_interrupted {
        true => {
            drop(command);
            None
        }
        false => Some(command.await.unwrap()),
    };
    assert_ne!(is_done, Some(false));
    assert!(tasks.finish(LONG).await);
    away.changes.load(Ordering::Relaxed)
}

#[tokio::test]
async fn an_interrupted_command_changes_nothing_when_the_coordinator_is_back() {
    assert_eq!(changes_when_it_is_back(false).await, 1, "somebody awaits it");
    assert_eq!(changes_when_it_is_back(true).await, 0);
}

/// What a fake node counts: how many are asked at once, the most that ever were, and in which
/// order.
#[derive(Default)]
struct Asked {
    now: usize,
    most: usize,
    order: Vec<usize>,
}

#[tokio::test]
async fn a_thousand_nodes_are_asked_in_order_and_few_at_a_time() {
    let asked = Arc::new(std::sync::Mutex::new(Asked::default()));
    let ask = |index: usize| {
        let asked = asked.clone();
        async move {
            {
                let mut asked = asked.lock().unwrap();
                asked.now += 1;
                asked.most = asked.most.max(asked.now);
                asked.order.push(index);
            }
            // The later ones answer sooner.
            for _ in 0..20 - index % 20 {
                tokio::task::yield_now().await;
            }
            asked.lock().unwrap().now -= 1;
            index
        }
    };
    let answers = at_most(MAX_ASKED, (0..1023).map(ask)).await;
    let answers: Vec<usize> = answers.into_iter().map(Result::unwrap).collect();
    let asked = asked.lock().unwrap();
    assert_eq!(asked.now, 0);
    assert!((MAX_ASKED / 2..=MAX_ASKED).contains(&asked.most), "{}", asked.most);
    assert!(asked.order.iter().copied().eq(0..1023) && answers.into_iter().eq(0..1023));
}
