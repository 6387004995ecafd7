use std::sync::Mutex;

use super::*;

/// A replica that is served just at the limit is not called slow for good.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_done_is_not_late_after_that() {
    let told: Arc<Mutex<Vec<&str>>> = Arc::default();
    let tell = |what| {
        let told = told.clone();
        move || told.lock().unwrap().push(what)
    };
    let done = tell("done");
    let _ = spawn_until(Instant::now(), async move { done() }, tell("late")).await;
    assert_eq!(*told.lock().unwrap(), ["done"], "it was done at the limit");

    let (done, (answer, answers)) = (tell("done"), oneshot::channel::<()>());
    let work = async move {
        let _ = answers.await;
        done();
    };
    let end = Instant::now() + Duration::from_millis(20);
    let _ = spawn_until(end, work, tell("late")).await;
    assert_eq!(*told.lock().unwrap(), ["done", "late"], "nobody waits for what is late");
    drop(answer);
    while told.lock().unwrap().len() < 3 {
        tokio::task::yield_now().await;
    }
    assert_eq!(*told.lock().unwrap(), ["done", "late", "done"]);
}
