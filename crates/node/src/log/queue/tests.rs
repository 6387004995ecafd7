use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Instant;

use super::*;

const LINE: [u8; 1024] = [b'x'; 1024];

/// A reader that takes what it is given only when it is told to.
struct Held {
    go_on: Receiver<()>,
    read: Sender<usize>,
}

impl Write for Held {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // At the end of the test nobody holds it any more.
        if self.go_on.recv().is_err() {
            std::thread::park();
        }
        self.read.send(bytes.len()).unwrap();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Log {
    queue: Arc<Queue>,
    go_on: Sender<()>,
    read: Receiver<usize>,
    reported: Receiver<u64>,
}

fn log() -> Log {
    let queue = Arc::new(Queue::default());
    let ((go_on, held), (wrote, read)) = (mpsc::channel(), mpsc::channel());
    let (report, reported) = mpsc::channel();
    let of_thread = queue.clone();
    std::thread::spawn(move || {
        let out = Held { go_on: held, read: wrote };
        of_thread.write_to(out, |lost| report.send(lost).unwrap_or(()));
    });
    Log { queue, go_on, read, reported }
}

/// More than there is room for, of which the first line is on its way out already.
fn overfill(log: &Log) {
    log.queue.push(&LINE);
    while log.queue.lock().count > 0 {
        std::thread::yield_now();
    }
    for _ in 0..MAX_BYTES / LINE.len() + 7 {
        log.queue.push(&LINE);
    }
}

#[test]
fn nobody_waits_for_a_reader_that_hangs_and_what_is_lost_is_told_when_it_reads_again() {
    let log = log();
    overfill(&log);
    assert_eq!(log.queue.lost(), 7);
    assert!(log.queue.lock().waiting.len() <= MAX_BYTES);
    log.go_on.send(()).unwrap();
    assert_eq!(log.read.recv().unwrap(), LINE.len());
    assert_eq!(log.reported.recv().unwrap(), 7);
    log.go_on.send(()).unwrap();
    assert_eq!(log.read.recv().unwrap(), MAX_BYTES, "all that was taken in comes out");
    log.queue.push(&LINE);
    log.go_on.send(()).unwrap();
    assert_eq!(log.read.recv().unwrap(), LINE.len());
    assert!(log.reported.try_recv().is_err(), "each is told of once");
}

#[test]
fn the_end_waits_for_what_can_be_written_and_not_for_long() {
    let log = log();
    log.queue.push(&LINE);
    let begin = Instant::now();
    log.queue.flush(Duration::from_millis(50));
    assert!(begin.elapsed() >= Duration::from_millis(50));
    log.go_on.send(()).unwrap();
    log.queue.flush(Duration::from_secs(60));
    assert_eq!(log.read.try_recv().unwrap(), LINE.len());
}

#[test]
fn what_cannot_be_written_is_lost() {
    struct Broken;
    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let queue = Arc::new(Queue::default());
    let of_thread = queue.clone();
    std::thread::spawn(move || of_thread.write_to(Broken, |_| ()));
    queue.push(&LINE);
    queue.flush(Duration::from_secs(60));
    assert_eq!(queue.lost(), 1);
}
