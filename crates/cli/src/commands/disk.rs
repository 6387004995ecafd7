//! `evenkeel disk …`

use std::path::absolute;

use evenkeel_api::routes;
use evenkeel_api::types::{AddDiskRequest, DiskAnswer, DisksAnswer, DoneAnswer};

use super::Context;
use super::agree::{self, Question};
use crate::args::{DiskAddArgs, DiskCommand, DiskRemoveArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output;

/// Runs one of them.
///
/// # Errors
/// If the node refuses or cannot be reached.
pub fn run(context: &Context, command: &DiskCommand) -> Result<Exit, Failure> {
    match command {
        DiskCommand::Add(args) => add(context, args)?,
        DiskCommand::List => return list(context),
        DiskCommand::Remove(args) => remove(context, args)?,
    }
    Ok(Exit::Done)
}

fn add(context: &Context, args: &DiskAddArgs) -> Result<(), Failure> {
    let path = absolute(&args.path)
        .map_err(|error| Failure::new(format!("cannot find {}", args.path.display()), error))?;
    let Some(path) = path.to_str() else {
        return Err(Failure::usage(
            format!("the path {} is not UTF-8", path.display()),
            "give the disk a path in plain letters",
        ));
    };
    // Who takes it by force has agreed to lose what is there.
    if (args.agree.dry_run || !args.force) && !is_agreed(context, args, path)? {
        return Ok(());
    }
    let request =
        AddDiskRequest { path: path.to_owned(), name: args.name.clone(), force: args.force };
    let answer = context.client.post(routes::DISKS, &request)?;
    context.show(&answer, |answer: &DiskAnswer| {
        output::node::added(&answer.disk) + &output::phrases::warnings(&answer.warnings)
    })
}

/// Shows what would be deleted, and asks if anything would. `false`: it was a dry run.
fn is_agreed(context: &Context, args: &DiskAddArgs, path: &str) -> Result<bool, Failure> {
    let name = args.name.as_deref().map(|name| format!("&name={}", routes::encode(name)));
    let query = format!("?path={}&force={}", routes::encode(path), args.force);
    let plan = format!("{}{query}{}", routes::ADD_DISK_PLAN, name.unwrap_or_default());
    let question = Question {
        plan: &plan,
        refused: format!("{path} was not added"),
        again: format!("evenkeel disk add {path} --yes"),
        always: false,
    };
    Ok(agree::agree(context, &args.agree, &question)?.is_some())
}

fn list(context: &Context) -> Result<Exit, Failure> {
    let answer = context.client.get(&format!("{}?all=true", routes::DISKS))?;
    context.show(&answer, |answer: &DisksAnswer| output::node::disks(answer))?;
    Ok(verdict(&answer.parse()?))
}

/// Disks of nodes that do not answer are missing in the list.
const fn verdict(answer: &DisksAnswer) -> Exit {
    match answer.warnings.is_empty() {
        true => Exit::Done,
        false => Exit::Unreachable,
    }
}

fn remove(context: &Context, args: &DiskRemoveArgs) -> Result<(), Failure> {
    if args.dry_run {
        return agree::dry_run(context, &routes::fill(routes::DISK_PLAN, &[&args.name]));
    }
    let answer = context.client.delete(&routes::fill(routes::DISK, &[&args.name]))?;
    context.show(&answer, |answer: &DoneAnswer| format!("{}\n", answer.message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_without_the_disks_of_a_silent_node_ends_with_5() {
        let silent = "the disks of node n3 are not listed: no connection within 4 s".to_owned();
        let mut answer = DisksAnswer { version: 1, disks: Vec::new(), warnings: vec![silent] };
        assert_eq!(verdict(&answer).code(), 5);
        answer.warnings.clear();
        assert_eq!(verdict(&answer).code(), 0);
    }
}
