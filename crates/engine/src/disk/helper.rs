//! A thread for what the ring can't do on a disk: whatever may block there, and has no operation of
//! its own.
//!
//! Each disk has one, from when it is first needed until the disk is closed. So a disk that hangs
//! holds up what is asked of that disk, one after the other, and nothing else: threads that all
//! share could all be held up by one disk.
//!
//! A file can't stay open because the system has no thread left, and closing it may wait for its
//! disk, so each worker begins with one thread for that case, and for its own end: the [`Closer`].

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use evenkeel_core::Extent;

use super::space::SpaceFailure;
use crate::ring::Key;

/// What has been done, which the worker takes note of.
pub(crate) enum Done {
    /// Which parts of a range hold data: the answer to a disk action.
    Mapped { replica: Key, job: Key, extents: io::Result<Vec<Extent>> },
    /// A step of making room is written.
    SpaceMade { replica: Key, result: Result<(), SpaceFailure> },
    /// A file is closed.
    Closed { report: Closed },
}

/// Tells whoever awaits it that a file is closed.
pub(crate) type Closed = Box<dyn FnOnce() + Send>;

/// Tells the worker what has been done. It is called on threads of disks.
pub(crate) type Reporter = Arc<dyn Fn(Done) + Send + Sync>;

/// What is to be done.
pub(crate) type Task = Box<dyn FnOnce() -> Done + Send>;

/// Closes files of disks that have no helper and get none, one after the other. One that hangs
/// keeps the files waiting that are to be closed in the same way, and nothing else.
#[derive(Debug, Clone)]
pub(crate) struct Closer(Sender<Task>);

impl Closer {
    /// Starts its thread, which answers by this teller, and ends when nobody has the closer any
    /// more.
    ///
    /// # Errors
    /// If the system has no thread: then no worker starts.
    pub(crate) fn start(reporter: Reporter) -> io::Result<Self> {
        thread("closer", reporter).map(Self)
    }
}

/// A thread that carries out tasks until nobody can send any more.
fn thread(name: &str, reporter: Reporter) -> io::Result<Sender<Task>> {
    let (sender, tasks) = channel::<Task>();
    let run = move || tasks.into_iter().for_each(|task| reporter(task()));
    std::thread::Builder::new().name(name.to_owned()).spawn(run)?;
    Ok(sender)
}

fn close_on(thread: &Sender<Task>, file: impl Send + 'static, report: Closed) {
    let task: Task = Box::new(move || {
        drop(file);
        Done::Closed { report }
    });
    // A thread lives as long as this end of its channel.
    let _ = thread.send(task);
}

/// See the module's documentation. A clone of one that was not needed yet has a thread of its own.
#[derive(Clone)]
pub(crate) struct Helper {
    reporter: Reporter,
    closer: Closer,
    /// `None`: nothing was needed yet.
    tasks: Option<Sender<Task>>,
}

impl Helper {
    /// One that answers by this teller.
    pub(crate) fn new(reporter: Reporter, closer: Closer) -> Self {
        Self { reporter, closer, tasks: None }
    }

    /// One whose tasks somebody else carries out, and those of its clones.
    #[cfg(test)]
    pub(crate) fn with_tasks(tasks: Sender<Task>) -> Self {
        Self { reporter: Arc::new(drop), closer: Closer(tasks.clone()), tasks: Some(tasks) }
    }

    /// Makes sure that there is a thread.
    ///
    /// # Errors
    /// If the system has none.
    pub(super) fn prepare(&mut self) -> io::Result<()> {
        if self.tasks.is_none() {
            self.tasks = Some(thread("disk-helper", self.reporter.clone())?);
        }
        Ok(())
    }

    /// Has something done after what was asked before. Without a thread it is dropped.
    pub(super) fn ask(&self, task: impl FnOnce() -> Done + Send + 'static) {
        if let Some(tasks) = &self.tasks {
            // The thread ends after this end of the channel.
            let _ = tasks.send(Box::new(task));
        }
    }

    /// Closes a file, which waits for what the system still does with it, and has that told then.
    pub(crate) fn close(mut self, file: impl Send + 'static, report: Closed) {
        // After all that was asked of the helper, if there is one.
        let thread = match self.prepare() {
            Ok(()) => self.tasks.as_ref().unwrap_or(&self.closer.0),
            Err(_) => &self.closer.0,
        };
        close_on(thread, file, report);
    }

    /// Closes a file because the worker ends: many are closed then, and no thread is begun for
    /// that.
    pub(super) fn close_at_end(self, file: impl Send + 'static) {
        let thread = self.tasks.as_ref().unwrap_or(&self.closer.0);
        close_on(thread, file, Box::new(|| ()));
    }
}
