//! The `evenkeel` command.

mod args;
mod client;
mod commands;
mod failure;
mod interrupt;
mod output;
mod quickstart;
mod selection;
mod system;

use std::process::ExitCode;

use clap::Parser as _;
use evenkeel_api::exit;

use crate::args::{Cli, ClusterCommand, Command, NodeCommand};
use crate::commands::{
    Context, attach, bench, clients, config, disk, examine, mount, node, pages, replica,
    reservation, volume,
};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::say;

fn main() -> ExitCode {
    config::serve_if_asked();
    output::decide_colours();
    let cli = Cli::parse();
    let json = cli.global.json;
    let exit = match run(cli) {
        Ok(exit) => exit,
        Err(failure) => {
            match (json, &failure.json) {
                (true, Some(text)) => say(text),
                (true, None) => say(&failure.as_json()),
                (false, _) => eprint!("{}", failure.render()),
            }
            failure.exit
        }
    };
    ExitCode::from(exit.code())
}

fn run(cli: Cli) -> Result<Exit, Failure> {
    let context = Context::new(cli.global)?;
    match cli.command {
        Command::Node(NodeCommand::Run(args)) => config::run_node(&args)?,
        Command::Cluster(ClusterCommand::Init(args)) => config::init_cluster(&context, &args)?,
        Command::Cluster(ClusterCommand::Rename(args)) => node::rename(&context, &args)?,
        Command::Node(NodeCommand::Invite(args)) => node::invite(&context, &args)?,
        Command::Node(NodeCommand::Join(args)) => node::join(&context, &args)?,
        Command::Node(NodeCommand::Remove(args)) => node::remove(&context, &args)?,
        Command::Node(NodeCommand::Status) => return node::status(&context),
        Command::Disk(command) => return disk::run(&context, &command),
        Command::Volume(command) => return volume::run(&context, &command),
        Command::Attach(args) => attach::attach(&context, &args)?,
        Command::Detach(args) => return attach::detach(&context, &args),
        Command::Mount(args) => mount::mount(&context, &args)?,
        Command::Umount(args) => mount::umount(&context, &args)?,
        Command::Export(command) => return attach::export(&context, &command),
        Command::Client(command) => clients::run(&context, &command)?,
        Command::Unexport(args) => attach::unexport(&context, &args)?,
        Command::Replica(command) => replica::run(&context, &command)?,
        Command::Reservation(command) => reservation::run(&context, &command)?,
        Command::Examine(args) => return examine::run(&context, &args),
        Command::Config(command) => config::run(&context, &command)?,
        Command::Quickstart(args) => return quickstart::run(&args),
        Command::Bench(command) => bench::run(&context, &command)?,
        Command::Completion(args) => pages::completion(&args),
        Command::Man(args) => pages::man(&args)?,
        Command::Version => node::version(&context),
    }
    Ok(Exit::Done)
}
