//! What each command does: one file for each group.

mod agree;
pub mod assemble;
pub mod attach;
pub mod bench;
pub mod clients;
pub mod config;
pub mod disk;
pub mod examine;
pub mod look;
pub mod mount;
pub mod node;
mod nvme;
pub mod pages;
pub mod replica;
pub mod reservation;
mod verify;
pub mod volume;
pub mod wait;

use serde::de::DeserializeOwned;

use crate::args::Global;
use crate::client::{Answer, Client};
use crate::failure::Failure;
use crate::output::say;

/// What every command works with.
#[derive(Debug)]
pub struct Context {
    /// The node on this machine.
    pub client: Client,
    /// Options of every command.
    pub global: Global,
}

impl Context {
    /// For the node that the options name.
    ///
    /// # Errors
    /// If the system refuses a runtime.
    pub fn new(global: Global) -> Result<Self, Failure> {
        let client = Client::new(&global.socket)?;
        let client = if global.json || global.quiet { client } else { client.reporting() };
        Ok(Self { client, global })
    }

    /// Shows an answer: as it is with `--json`, else as `render` puts it.
    ///
    /// # Errors
    /// If the answer has an unexpected shape.
    pub fn show<T: DeserializeOwned>(
        &self,
        answer: &Answer,
        render: impl FnOnce(&T) -> String,
    ) -> Result<(), Failure> {
        if self.global.json {
            say(&answer.text());
        } else if !self.global.quiet {
            say(&render(&answer.parse()?));
        }
        Ok(())
    }
}
