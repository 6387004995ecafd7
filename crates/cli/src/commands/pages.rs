//! `evenkeel completion`, `evenkeel man`: what packages ship beside the binary.

use std::fs;
use std::io;
use std::path::Path;

use clap::{Arg, ArgAction, Command, CommandFactory as _};
use clap_mangen::Man;
use roff::{Inline, Roff, bold, italic, roman};

use crate::args::{Cli, CompletionArgs, ManArgs};
use crate::failure::Failure;
use crate::output::say;

/// Values of an option that a synopsis lists; of one that has more the options' section does.
const MAX_VALUES: usize = 6;

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
    let source = concat!("evenkeel ", env!("CARGO_PKG_VERSION"));
    let man = Man::new(command.clone()).section("8").source(source).manual("evenkeel");
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    synopsis(command).to_writer(&mut text)?;
    man.render_description_section(&mut text)?;
    if command.get_arguments().any(|argument| !argument.is_hide_set()) {
        man.render_options_section(&mut text)?;
    }
    if command.has_subcommands() {
        man.render_subcommands_section(&mut text)?;
    }
    after(command).to_writer(&mut text)?;
    Ok(text)
}

/// The command with its own options and their values; the global options are below.
fn synopsis(command: &Command) -> Roff {
    let mut parts = vec![bold(command.get_bin_name().unwrap_or_else(|| command.get_name()))];
    let options = command.get_arguments().filter(|argument| {
        !argument.is_positional() && !argument.is_global_set() && !argument.is_hide_set()
    });
    for option in options.filter(|option| option.get_id() != "help") {
        let (open, close) = brackets(option);
        parts.extend([roman(open), bold(format!("--{}", option.get_long().unwrap_or_default()))]);
        if option.get_action().takes_values() {
            parts.push(roman(" "));
            parts.extend(value(option));
        }
        parts.push(roman(close));
    }
    for positional in command.get_positionals().filter(|argument| !argument.is_hide_set()) {
        let (open, close) = brackets(positional);
        parts.push(roman(open));
        parts.extend(value(positional));
        parts.push(roman(close));
    }
    if command.has_subcommands() {
        parts.extend([roman(" "), italic("COMMAND")]);
    }
    let mut roff = Roff::new();
    roff.control("SH", ["SYNOPSIS"]).text(parts);
    roff
}

fn brackets(argument: &Arg) -> (&'static str, &'static str) {
    let repeats = match argument.get_action() {
        ArgAction::Append => true,
        _ => argument.get_num_args().is_some_and(|range| range.max_values() > 1),
    };
    match (argument.is_required_set(), repeats) {
        (true, false) => (" ", ""),
        (true, true) => (" ", "..."),
        (false, false) => (" [", "]"),
        (false, true) => (" [", "]..."),
    }
}

/// The values that there are, or what stands for one.
fn value(argument: &Arg) -> Vec<Inline> {
    let possible = argument.get_possible_values();
    let shown = possible.iter().filter(|value| !value.is_hide_set());
    let shown: Vec<Inline> = shown.map(|value| bold(value.get_name())).collect();
    if (1..=MAX_VALUES).contains(&shown.len()) {
        let separated = shown.into_iter().flat_map(|value| [roman("|"), value]);
        return separated.skip(1).collect();
    }
    vec![italic(name(argument))]
}

fn name(argument: &Arg) -> String {
    let names = argument.get_value_names().unwrap_or_default();
    let names: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
    if names.is_empty() { argument.get_id().as_str().to_uppercase() } else { names.join(" ") }
}

/// What `--help` says at its end: examples as they stand, and text.
fn after(command: &Command) -> Roff {
    let mut roff = Roff::new();
    let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let paragraphs: Vec<&str> = text.split("\n\n").filter(|text| !text.is_empty()).collect();
    let (lists, notes): (Vec<&str>, Vec<&str>) =
        paragraphs.into_iter().partition(|paragraph| paragraph.contains("\n  "));
    if !lists.is_empty() {
        roff.control("SH", ["EXAMPLES"]);
    }
    for list in lists {
        let list = list.trim_start_matches("Examples:\n");
        roff.control("PP", []).control("nf", []);
        for line in list.lines() {
            roff.text([roman(line)]);
        }
        roff.control("fi", []);
    }
    if !notes.is_empty() {
        roff.control("SH", ["NOTES"]);
    }
    for note in notes {
        roff.control("PP", []).text([roman(note)]);
    }
    roff
}

#[cfg(test)]
mod tests;
