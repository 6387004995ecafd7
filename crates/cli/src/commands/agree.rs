//! Agreeing to what a command takes away: shown first, done after a yes, and only that.

use std::io::{BufRead, IsTerminal as _, Write};

use evenkeel_api::error::{ErrorAnswer, ErrorCode};
use evenkeel_api::types::{Plan, PlanAnswer};

use super::Context;
use crate::args::AgreeArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{self, harmless};

/// What somebody is asked.
#[derive(Debug)]
pub struct Question<'a> {
    /// Where the node tells what would be taken away.
    pub plan: &'a str,
    /// What is said if nobody agrees, as in "volume `music` was not deleted".
    pub refused: String,
    /// The command that says yes.
    pub again: String,
    /// Whether it needs a yes even if nothing is lost.
    pub always: bool,
}

/// Shows what would be taken away, and asks if need be. `None`: it was a dry run.
///
/// # Errors
/// If the node would refuse it, or nobody has said yes.
pub fn agree(
    context: &Context,
    args: &AgreeArgs,
    question: &Question<'_>,
) -> Result<Option<Plan>, Failure> {
    let planned: PlanAnswer = match args.dry_run {
        true => return dry_run(context, question.plan).map(|()| None),
        false => fetch(context, question.plan)?.parse()?,
    };
    let plan = &planned.plan;
    let is_harmless =
        plan.removes.is_empty() && plan.unregisters.is_empty() && plan.detaches.is_empty();
    if args.yes || (!question.always && is_harmless) {
        return Ok(Some(planned.plan));
    }
    let reported = reported(&planned);
    let is_asked = !context.global.json
        && !context.global.quiet
        && std::io::stdin().is_terminal()
        && std::io::stderr().is_terminal();
    if !is_asked {
        return Err(unasked(question, &reported));
    }
    match asked(&reported, &mut std::io::stdin().lock(), &mut std::io::stderr().lock()) {
        true => Ok(Some(planned.plan)),
        false => Err(Failure::new(&question.refused, "nobody said yes")
            .exit(Exit::Unsafe)
            .advise(format!("if you want it all the same: {}", question.again))),
    }
}

/// Shows what would be taken away.
///
/// # Errors
/// If the node would refuse it.
pub fn dry_run(context: &Context, plan: &str) -> Result<(), Failure> {
    let answer = fetch(context, plan)?;
    context.show(&answer, reported)
}

fn fetch(context: &Context, plan: &str) -> Result<crate::client::Answer, Failure> {
    context.client.get(plan).map_err(older)
}

/// Says that a node that knows no such plan is older than this command.
pub fn older(failure: Failure) -> Failure {
    let answer = failure.json.as_deref().map(|json| harmless::read::<ErrorAnswer>(json.as_bytes()));
    match answer {
            Some(Ok(answer)) if answer.error.code == ErrorCode::NoSuchPath => Failure::new(
                "nothing was done",
                "the node on this machine is older than this command, and cannot tell what would be removed",
            )
            .advise("restart it with the version that is installed; compare by `evenkeel version`"),
            _ => failure,
        }
}

fn reported(planned: &PlanAnswer) -> String {
    format!("{}\n{}", planned.message, output::plan::plan(&planned.plan))
}

/// What is said where nobody can be asked.
fn unasked(question: &Question<'_>, reported: &str) -> Failure {
    Failure::new(&question.refused, reported)
        .exit(Exit::Unsafe)
        .advise(format!("if you want that: {}", question.again))
}

/// Asks. Only `y` and `yes` are a yes; the end of the input is none.
fn asked(reported: &str, input: &mut impl BufRead, out: &mut impl Write) -> bool {
    let mut answer = String::new();
    let is_asked = write!(out, "{reported}Go on? [y/N] ").and_then(|()| out.flush()).is_ok();
    let is_read = is_asked && input.read_line(&mut answer).is_ok();
    is_read && matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")
}

/// The identities of what is lost, with commas between them.
pub fn names(plan: &Plan) -> String {
    plan.removes.iter().map(|lost| lost.id.as_str()).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests;
