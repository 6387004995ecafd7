//! `evenkeel bench`: measures evenkeel, the raw disk and other replicated storage side by side.
//!
//! It measures from outside: it runs the `evenkeel` command like a user does, and the tools that
//! people know (fio, dd, hdparm, bonnie++), and shares no code with what it measures.
//!
//! - [`result`]: the result format, which measuring, importing, reporting and comparing share.
//! - [`stats`]: medians, spreads and ratios.
//! - [`target`]: configurations, set up and torn down.
//! - [`profile`]: which configurations and workloads belong together.
//! - [`runner`] measures in rounds.
//! - [`load`]: a client of NBD and of NVMe, both over TCP.
//! - [`import`]: reads the text output of tools, also from old reports.
//! - [`report`]: pages and tables for people.

pub mod command;
pub mod facts;
pub mod failure;
pub mod fio;
pub mod import;
pub mod interrupt;
pub mod load;
pub mod process;
pub mod profile;
pub mod report;
pub mod result;
pub mod runner;
pub mod scratch;
pub mod stats;
pub mod target;
pub mod tools;
pub mod units;
pub mod workload;

pub use command::{BenchCommand, Manner};
pub use failure::{Failure, Kind};
