use std::sync::mpsc;

use super::*;

#[tokio::test]
async fn one_that_panics_takes_no_thread_away() {
    let threads = Threads::start().unwrap();
    for _ in 0..THREADS * 2 {
        let cut_off = threads.run(true, || assert!(std::hint::black_box(false)), || ()).await;
        assert_eq!(cut_off, Err(ThreadError::CutOff));
    }
    assert_eq!(threads.run(true, || 7, || ()).await, Ok(7));
}

#[tokio::test]
async fn what_waits_is_bounded_and_changes_keep_no_question_waiting() {
    let threads = Threads::start().unwrap();
    let (go, gone) = mpsc::channel::<()>();
    let gone = Arc::new(Mutex::new(gone));
    let mut begun = Vec::new();
    let refused = loop {
        let gone = gone.clone();
        let hangs = move || drop(gone.lock().map(|gone| gone.recv()));
        let mut work = Box::pin(threads.run(false, hangs, || ()));
        match futures_poll(&mut work).await {
            Some(answer) => break answer,
            None => begun.push(work),
        }
        assert!(begun.len() <= MAX_WAITING + THREADS, "there is no bound");
    };
    assert_eq!(refused, Err(ThreadError::Full));
    assert_eq!(threads.run(true, || 7, || ()).await, Ok(7), "a question waits for changes");
    drop(go);
    for work in begun {
        assert_eq!(work.await, Ok(()));
    }
}

/// Polls once.
async fn futures_poll<T>(work: &mut (impl Future<Output = T> + Unpin)) -> Option<T> {
    let polled = std::future::poll_fn(|cx| {
        let polled = std::pin::Pin::new(&mut *work).poll(cx);
        std::task::Poll::Ready(polled)
    });
    match polled.await {
        std::task::Poll::Ready(answer) => Some(answer),
        std::task::Poll::Pending => None,
    }
}
