use std::sync::Mutex;

use super::*;

/// A replica that is served just at the limit is not called slow for good.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_done_is_not_late_after_that() {
    let reported: Arc<Mutex<Vec<&str>>> = Arc::default();
    let report = |what| {
        let reported = reported.clone();
        move || reported.lock().unwrap().push(what)
    };
    let done = report("done");
    let _ = spawn_until(Instant::now(), async move { done() }, report("late")).await;
    assert_eq!(*reported.lock().unwrap(), ["done"], "it was done at the limit");

    let (done, (answer, answers)) = (report("done"), oneshot::channel::<()>());
    let work = async move {
        let _ = answers.await;
        done();
    };
    let end = Instant::now() + Duration::from_millis(20);
    let _ = spawn_until(end, work, report("late")).await;
    assert_eq!(*reported.lock().unwrap(), ["done", "late"], "nobody waits for what is late");
    drop(answer);
    while reported.lock().unwrap().len() < 3 {
        tokio::task::yield_now().await;
    }
    assert_eq!(*reported.lock().unwrap(), ["done", "late", "done"]);
}
