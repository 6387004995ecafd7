//! Tests of the engine that change a limit of the whole process, use up its threads, or measure:
//! one after the other, whatever the number of threads that run them.

#![allow(missing_docs)]

use std::sync::{Mutex, MutexGuard, PoisonError};

#[path = "../common/mod.rs"]
mod common;
mod failed_flushes;
mod failed_saves;
mod hung_disk;
mod no_space;
mod no_thread;

/// Held by the one test that runs.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
