//! What a test keeps from the kernel, to decide which operation ends next, and how.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use io_uring::squeue::Entry;
use rustix::event::{PollFd, PollFlags, poll};

use super::{Completion, Inflight, Key, Owner, Purpose, Ring, SharedFile};

/// Operations that were submitted and that the kernel was not given, the oldest first.
#[derive(Default)]
pub(super) struct Held(Vec<(Key, Entry)>);

impl Ring {
    /// From now on what is submitted waits for [`Ring::end_held`] or [`Ring::fail_held`].
    pub(crate) fn hold_all(&mut self) {
        self.held = Some(Held::default());
    }

    /// Keeps an operation from the kernel, or gives it back.
    pub(super) fn hold(&mut self, key: Key, entry: Entry) -> Option<Entry> {
        let Some(held) = &mut self.held else { return Some(entry) };
        held.0.push((key, entry));
        None
    }

    /// Whose the operations are that are held, in the order in which they were submitted.
    pub(crate) fn held(&self) -> Vec<Owner> {
        self.held_operations().map(|it| it.owner).collect()
    }

    fn held_operations(&self) -> impl Iterator<Item = &Inflight> {
        let held = self.held.iter().flat_map(|held| &held.0);
        held.map(|(key, _)| self.inflight.get(*key).expect("it is under way"))
    }

    /// The places of those that the kernel would end at once.
    pub(crate) fn can_end(&self) -> Vec<usize> {
        let operations: Vec<_> = self.held_operations().collect();
        let file = |it: &&Inflight| it._file.clone().expect("each has a descriptor");
        let files: Vec<SharedFile> = operations.iter().map(file).collect();
        let mut polled: Vec<_> = (operations.iter().zip(&files))
            .map(|(it, file)| PollFd::from_borrowed_fd(file.as_fd(), awaited(it.owner)))
            .collect();
        poll(&mut polled, Some(&rustix::event::Timespec::default())).expect("looks");
        let is_ready = |place: &usize| {
            awaited(operations[*place].owner).is_empty() || !polled[*place].revents().is_empty()
        };
        (0..operations.len()).filter(is_ready).collect()
    }

    fn take_held(&mut self, place: usize) -> (Key, Entry) {
        self.held.as_mut().expect("it holds").0.remove(place)
    }

    /// Has the kernel carry out the operation at this place. Of a disk's the end is waited for; one
    /// that waits for a peer may go on for longer, and ends when that one takes or sends the rest.
    pub(crate) fn end_held(&mut self, place: usize) {
        let owner = self.held()[place];
        if owner == Owner::Nobody {
            return self.end_cancel(place);
        }
        let (key, entry) = self.take_held(place);
        self.push(&entry);
        if !matches!(owner, Owner::Disk { .. }) {
            return self.collect();
        }
        let until = Instant::now() + Duration::from_secs(20);
        while self.inflight.get(key).is_some() {
            self.enter(1, Some(Duration::from_secs(20))).expect("the ring works");
            self.reap();
            assert!(Instant::now() < until, "{entry:?} ends");
        }
    }

    /// Takes what has ended meanwhile of the operations that the kernel has.
    pub(crate) fn collect(&mut self) {
        self.enter(0, None).expect("the ring works");
        self.reap();
    }

    /// How many operations the kernel has.
    pub(crate) fn given(&self) -> usize {
        self.count - self.held.as_ref().map_or(0, |held| held.0.len())
    }

    /// A cancellation ends what is held of the same descriptor.
    fn end_cancel(&mut self, place: usize) {
        let number = |it: &Inflight| it._file.as_ref().map(SharedFile::raw);
        let operations: Vec<_> = self.held_operations().map(|it| (it.owner, number(it))).collect();
        let (owner, file) = operations[place];
        for (at, other) in operations.iter().enumerate().rev() {
            if at == place {
                self.end_unseen(at, 0);
            } else if *other != (owner, file) && other.1 == file {
                self.end_unseen(at, -libc::ECANCELED);
            }
        }
    }

    /// The operation at this place fails with this error, and the kernel does not see it.
    pub(crate) fn fail_held(&mut self, place: usize, error: i32) {
        self.end_unseen(place, -error);
    }

    fn end_unseen(&mut self, place: usize, raw: i32) {
        let (key, _) = self.take_held(place);
        let Inflight { owner, kept, _file } = self.inflight.remove(key).expect("it is under way");
        self.count -= 1;
        let result = usize::try_from(raw).map_err(|_| io::Error::from_raw_os_error(-raw));
        self.ready.push_back(Completion { owner, result, raw, kept });
    }

    /// Nothing is held any more, and nobody is told of what was.
    pub(crate) fn forget_held(&mut self) {
        while !self.held().is_empty() {
            self.fail_held(0, libc::ECANCELED);
        }
        self.ready.clear();
    }
}

/// What an operation waits for in the kernel; nothing: it ends by itself.
fn awaited(owner: Owner) -> PollFlags {
    match owner {
        Owner::Waker | Owner::LinkReceive { .. } => PollFlags::IN,
        Owner::LinkSend { .. } => PollFlags::OUT,
        Owner::Frontend { purpose, .. } => match purpose {
            Purpose::Receive | Purpose::Readable | Purpose::Read(_) => PollFlags::IN,
            Purpose::Send | Purpose::Write(_) => PollFlags::OUT,
            Purpose::Command(_) => PollFlags::empty(),
        },
        Owner::Disk { .. } | Owner::Nobody => PollFlags::empty(),
    }
}
