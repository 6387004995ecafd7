use super::*;

fn space(free: u64) -> Space {
    Space { size: 10, free, ..Space::default() }
}

/// A hung disk keeps a bounded number of threads, and nobody who asks for good.
#[test]
fn a_disk_that_hangs_is_asked_by_a_few_and_told_as_it_was() {
    let sampler = Arc::new(Sampler::default());
    let soon = || Instant::now() + Duration::from_millis(1);
    let late = || Instant::now() + Duration::from_secs(60);
    assert_eq!(sampler.ask(|| space(5)).until(late()), space(5));
    let mut hung = Vec::new();
    for _ in 0..MAX_QUESTIONS {
        let (answer, waits) = mpsc::channel::<Space>();
        let asked = sampler.ask(move || waits.recv().unwrap());
        assert_eq!(asked.until(soon()), space(5));
        hung.push(answer);
    }
    assert_eq!(sampler.ask(|| space(4)).until(late()), space(5), "it is not asked");
    for answer in hung {
        answer.send(space(3)).unwrap();
    }
    while sampler.lock().under_way > 0 {
        std::thread::yield_now();
    }
    assert_eq!(sampler.ask(|| space(2)).until(late()), space(2));
}
