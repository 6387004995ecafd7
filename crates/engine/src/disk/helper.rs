//! A thread for what the ring can't do on a disk: whatever may block there, and has no operation of its
//! own.
//!
//! Each disk has one, from when it is first needed until the disk is closed. So a disk that hangs holds up
//! what is asked of that disk, one after the other, and nothing else: threads that all share could all be
//! held up by one disk.

use std::io;
use std::sync::mpsc::{Sender, channel};

use crate::api::EngineError;
use crate::engine::Answer;
use crate::mailbox::{Mailbox, Order};

/// What is done, and what the worker is told then.
pub(super) type Task = Box<dyn FnOnce() -> Order + Send>;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Helper {
    mailbox: Mailbox,
    /// `None`: nothing was needed yet.
    tasks: Option<Sender<Task>>,
}

impl Helper {
    /// One that answers to this mailbox.
    pub(crate) const fn new(mailbox: Mailbox) -> Self {
        Self { mailbox, tasks: None }
    }

    /// One whose tasks somebody else carries out.
    #[cfg(test)]
    pub(super) const fn with_tasks(mailbox: Mailbox, tasks: Sender<Task>) -> Self {
        Self { mailbox, tasks: Some(tasks) }
    }

    /// Makes sure that there is a thread.
    ///
    /// # Errors
    /// If the system has none.
    pub(super) fn prepare(&mut self) -> io::Result<()> {
        if self.tasks.is_some() {
            return Ok(());
        }
        let (sender, tasks) = channel::<Task>();
        let mailbox = self.mailbox.clone();
        std::thread::Builder::new()
            .name("disk-helper".to_owned())
            .spawn(move || tasks.into_iter().for_each(|task| mailbox.send(task())))?;
        self.tasks = Some(sender);
        Ok(())
    }

    /// Has something done after what was asked before. Without a thread it is dropped.
    pub(super) fn ask(&self, task: impl FnOnce() -> Order + Send + 'static) {
        if let Some(tasks) = &self.tasks {
            // The thread ends after this end of the channel.
            let _ = tasks.send(Box::new(task));
        }
    }

    /// Closes a file, which waits for what the system still does with it, and has this answered then.
    pub(crate) fn close(
        mut self,
        file: impl Send + 'static,
        result: Result<(), EngineError>,
        answer: Answer<Result<(), EngineError>>,
    ) {
        if self.prepare().is_err() {
            drop(file);
            return answer(result);
        }
        self.ask(move || {
            drop(file);
            Order::Closed { result, answer }
        });
    }
}
