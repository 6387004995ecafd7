//! `evenkeel completion`, `evenkeel man`: what packages ship beside the binary.

use std::fs;
use std::io;
use std::path::Path;

use clap::{Command, CommandFactory as _};

use crate::args::{Cli, CompletionArgs, ManArgs};
use crate::failure::Failure;
use crate::output::say;

/// Prints the completion script of a shell.
pub fn completion(args: &CompletionArgs) {
    // Into memory first: the generator panics on a pipe whose reader has gone.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "evenkeel", &mut script);
    say(&String::from_utf8_lossy(&script));
}

/// Writes the manual pages: all of them into a directory, or the main one to standard output.
///
/// # Errors
/// If they cannot be written.
pub fn man(args: &ManArgs) -> Result<(), Failure> {
    let mut command = Cli::command();
    command.build();
    let written = match &args.to {
        None => page(&command).map(|text| say(&String::from_utf8_lossy(&text))),
        Some(directory) => fs::create_dir_all(directory).and_then(|()| pages(&command, directory)),
    };
    written.map_err(|error| Failure::new("cannot write the manual pages", error))
}

/// Writes the page of a command, and those of the commands below it.
fn pages(command: &Command, directory: &Path) -> io::Result<()> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    fs::write(directory.join(format!("{name}.8")), page(command)?)?;
    command.get_subcommands().try_for_each(|sub| pages(sub, directory))
}

fn page(command: &Command) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    clap_mangen::Man::new(command.clone()).section("8").manual("evenkeel").render(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page() {
        let scratch = tempfile::tempdir().unwrap();
        man(&ManArgs { to: Some(scratch.path().to_owned()) }).unwrap();
        for name in ["evenkeel", "evenkeel-volume", "evenkeel-volume-create", "evenkeel-attach"] {
            let text = fs::read_to_string(scratch.path().join(format!("{name}.8"))).unwrap();
            assert!(text.contains(".SH NAME"), "{name}: {text}");
        }
    }
}
