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

/// A disk that holds nothing is read by nobody else.
#[test]
fn a_disk_that_cannot_be_read_is_told_though_nothing_is_on_it() {
    let directory = tempfile::tempdir().unwrap();
    let gone = directory.path().join("gone");
    let of = |question: Question| question.answer().trouble.unwrap_or_default();
    assert_eq!(of(Question::Directory(directory.path().into(), Vec::new())), "");
    let reported = of(Question::Directory(gone.clone(), Vec::new()));
    assert!(reported.starts_with("it cannot be looked into: "), "{reported}");
    std::fs::write(&gone, vec![0; 1 << 20]).unwrap();
    assert_eq!(of(Question::Device(File::open(&gone).unwrap(), true)), "");
    // What can be opened and not be read, as a disk that fails.
    let reported = of(Question::Device(File::open(directory.path()).unwrap(), true));
    assert!(reported.starts_with("it cannot be read: "), "{reported}");
}
