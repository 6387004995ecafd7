//! Files and directories in which nobody else may interfere: each is looked at before it is used.

pub mod own_directory;
pub mod own_file;
