//! `evenkeel replica …`

use evenkeel_api::routes;
use evenkeel_api::types::{
    AddReplicaRequest, NodeAnswer, ReplicaStatus, StatusSource, VolumeAnswer, VolumeStatus,
};

use super::agree::{self, Question, agree};
use super::wait::Goal;
use super::{Context, wait};
use crate::args::{
    ReplicaAddArgs, ReplicaArgs, ReplicaCommand, ReplicaFailArgs, ReplicaMoveArgs,
    ReplicaReAddArgs, ReplicaRemoveArgs, ReplicaReplaceArgs,
};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output;

/// Runs one of them.
///
/// # Errors
/// If the node refuses or cannot be reached.
pub fn run(context: &Context, command: &ReplicaCommand) -> Result<(), Failure> {
    match command {
        ReplicaCommand::Fail(args) => fail(context, args),
        ReplicaCommand::Remove(args) => remove(context, args),
        ReplicaCommand::Add(args) => add(context, args),
        ReplicaCommand::Replace(args) => replace(context, args),
        ReplicaCommand::Move(args) => replace(context, &moved(args)),
        ReplicaCommand::ReAdd(args) => re_add(context, args),
    }
}

fn add(context: &Context, args: &ReplicaAddArgs) -> Result<(), Failure> {
    let request = AddReplicaRequest {
        on: args.on.clone(),
        mirror: args.mirror,
        spare: args.spare,
        replaces: None,
        same_node: args.same_node,
        thin: args.thin,
    };
    let path = routes::fill(routes::REPLICAS, &[&args.volume]);
    let answer = context.client.post(&path, &request)?;
    wait::after_change(context, answer, &args.volume, &args.wait)
}

/// A move is a replacement that says where to.
fn moved(args: &ReplicaMoveArgs) -> ReplicaReplaceArgs {
    let ReplicaMoveArgs { replica, to, how } = args;
    ReplicaReplaceArgs { replica: replica.clone(), on: Some(to.clone()), how: how.clone() }
}

/// Copies a replica to another place; the old one is removed when the new one is in-sync.
fn replace(context: &Context, args: &ReplicaReplaceArgs) -> Result<(), Failure> {
    let volume = &args.replica.volume;
    let replaced = chosen(context, &args.replica)?;
    let how = &args.how;
    if how.dry_run {
        let on = args.on.as_deref().map(|on| format!("&on={}", routes::encode(on)));
        let thin = if how.thin { "&thin=true" } else { "" };
        let query = format!("?same_node={}{thin}{}", how.same_node, on.unwrap_or_default());
        return agree::dry_run(context, &(plan_of(volume, &replaced, "replace") + &query));
    }
    let request = AddReplicaRequest {
        on: args.on.clone(),
        replaces: Some(replaced),
        same_node: how.same_node,
        thin: how.thin,
        ..AddReplicaRequest::default()
    };
    let answer = context.client.post(&routes::fill(routes::REPLICAS, &[volume]), &request)?;
    wait::after_change(context, answer, volume, &how.wait)
}

fn fail(context: &Context, args: &ReplicaFailArgs) -> Result<(), Failure> {
    let ReplicaArgs { volume, replica } = &args.replica;
    if args.dry_run {
        let failed = identity(context, volume, replica)?;
        return agree::dry_run(context, &plan_of(volume, &failed, "fail"));
    }
    report(context, &args.replica, "fail")
}

fn remove(context: &Context, args: &ReplicaRemoveArgs) -> Result<(), Failure> {
    let ReplicaArgs { volume, replica } = &args.replica;
    let removed = chosen(context, &args.replica)?;
    let question = Question {
        plan: &plan_of(volume, &removed, "remove"),
        refused: format!("replica `{replica}` of volume `{volume}` was not removed"),
        again: format!("evenkeel replica remove {volume} {replica} --yes"),
        always: false,
    };
    if agree(context, &args.agree, &question)?.is_none() {
        return Ok(());
    }
    let path = routes::fill(routes::REPLICA, &[volume, &removed, "remove"]);
    let answer = context.client.post(&path, &serde_json::json!({}))?;
    context.show(&answer, shown)
}

/// Where the node tells what a command about a replica would take away.
fn plan_of(volume: &str, replica: &str, action: &str) -> String {
    routes::fill(routes::REPLICA_PLAN, &[volume, replica, action])
}

/// The identity of a replica; one that is not there was perhaps removed already: the node knows.
fn chosen(
    context: &Context,
    ReplicaArgs { volume, replica }: &ReplicaArgs,
) -> Result<String, Failure> {
    match identity(context, volume, replica) {
        Err(failure) if failure.exit == Exit::NotFound => Ok(replica.clone()),
        chosen => chosen,
    }
}

fn re_add(context: &Context, args: &ReplicaReAddArgs) -> Result<(), Failure> {
    if args.wait {
        let ReplicaArgs { volume, replica } = &args.replica;
        let awaited = Goal::Replica(identity(context, volume, replica)?);
        let begun = send(context, &args.replica, "re-add")?.parse::<VolumeAnswer>()?.message;
        let begun = begun.unwrap_or_default();
        let awaits = wait::until(context, volume, &awaited, args.timeout);
        awaits.map_err(|failure| wait::after_if_stopped(&begun, failure))?;
        let path = routes::fill(routes::VOLUME, &[volume]);
        let answer = context.client.get(&path)?;
        return context.show(&answer, |answer: &VolumeAnswer| {
            let message = Some(begun.clone()).filter(|begun| !begun.is_empty());
            shown(&VolumeAnswer { message, ..answer.clone() })
        });
    }
    report(context, &args.replica, "re-add")
}

fn report(context: &Context, args: &ReplicaArgs, action: &str) -> Result<(), Failure> {
    let answer = send(context, args, action)?;
    context.show(&answer, shown)
}

fn shown(answer: &VolumeAnswer) -> String {
    let done = answer.message.iter().map(|message| format!("{message}\n\n"));
    let warnings = output::phrases::warnings(&answer.warnings);
    done.collect::<String>() + &output::volume::status(&answer.volume) + &warnings
}

fn send(
    context: &Context,
    args: &ReplicaArgs,
    action: &str,
) -> Result<crate::client::Answer, Failure> {
    let chosen = identity(context, &args.volume, &args.replica)?;
    let path = routes::fill(routes::REPLICA, &[&args.volume, &chosen, action]);
    context.client.post(&path, &serde_json::json!({}))
}

/// The identity of the replica of a volume that is named so.
///
/// # Errors
/// If none or several are, or the node can't be reached.
pub fn identity(context: &Context, volume: &str, named: &str) -> Result<String, Failure> {
    let path = routes::fill(routes::VOLUME, &[volume]);
    let answer: VolumeAnswer = context.client.fetch(&path)?;
    let mut answered = answer.volume;
    volume.clone_into(&mut answered.name);
    let is_complete = || {
        let node = context.client.fetch::<NodeAnswer>(routes::NODE);
        node.is_ok_and(|answer| answer.node.coordinator.reachable)
    };
    choose(&answered, named, is_complete).map(|chosen| chosen.id.clone())
}

/// The replica that a person means by a node, `NODE:DISK`, or the beginning of an identity.
/// `is_complete`: whether the coordinator answers, which knows all that there is to know.
fn choose<'a>(
    status: &'a VolumeStatus,
    named: &str,
    is_complete: impl FnOnce() -> bool,
) -> Result<&'a ReplicaStatus, Failure> {
    let volume = &status.name;
    let replicas: Vec<_> = status.mirrors.iter().flat_map(|mirror| &mirror.replicas).collect();
    let means = |replica: &ReplicaStatus| {
        replica.node.name == named
            || replica.place() == named
            || (named.len() >= 4 && replica.id.starts_with(named))
    };
    let found: Vec<_> = replicas.iter().filter(|replica| means(replica)).collect();
    let names = || {
        let names: Vec<_> = replicas.iter().map(|replica| name(replica)).collect();
        format!("its replicas are {}", names.join(", "))
    };
    match found[..] {
        [one] => Ok(one),
        [] if is_old(status) || (lacks_disk(status, named) && !is_complete()) => Err(Failure::new(
            format!("cannot tell which replica of volume `{volume}` is `{named}`"),
            format!(
                "the coordinator could not be reached, and what is known here is old: {}",
                names()
            ),
        )
        .exit(Exit::Unreachable)
        .advise(
            "start the coordinator's node, or repair the network to it, and try again; or name the \
             replica by its node or the first digits of its identity",
        )),
        [] => Err(Failure::new(format!("volume `{volume}` has no replica `{named}`"), names())
            .exit(Exit::NotFound)
            .advise("name one by its node, NODE:DISK, or the first digits of its identity")),
        _ => Err(Failure::new(format!("`{named}` means several replicas of `{volume}`"), names())
            .exit(Exit::Usage)
            .advise("name one by NODE:DISK or the first digits of its identity")),
    }
}

/// Whether nobody has answered who knows which replicas there are by now, whoever answers since.
fn is_old(status: &VolumeStatus) -> bool {
    status.source == StatusSource::Replica
}

/// Whether a replica may be named so whose disk is not known here: the coordinator knows it.
fn lacks_disk(status: &VolumeStatus, named: &str) -> bool {
    let on_node = |replica: &ReplicaStatus| {
        named.split_once(':').is_some_and(|(node, _)| node == replica.node.name)
    };
    let mut replicas = status.mirrors.iter().flat_map(|mirror| &mirror.replicas);
    replicas.any(|replica| replica.disk.is_none() && on_node(replica))
}

fn name(replica: &ReplicaStatus) -> String {
    format!("{} ({})", replica.place(), output::phrases::short(&replica.id))
}

#[cfg(test)]
mod tests;
