//! `evenkeel replica …`

use evenkeel_node::api::routes;
use evenkeel_node::api::types::{AddReplicaRequest, ReplicaStatus, VolumeAnswer};

use super::{Context, wait};
use crate::args::{
    ReplicaAddArgs, ReplicaArgs, ReplicaCommand, ReplicaMoveArgs, ReplicaReAddArgs,
    ReplicaRemoveArgs, ReplicaReplaceArgs, WaitArgs, WaitFor,
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
        ReplicaCommand::Fail(args) => tell(context, args, "fail"),
        ReplicaCommand::Remove(args) => remove(context, args),
        ReplicaCommand::Add(args) => add(context, args),
        ReplicaCommand::Replace(ReplicaReplaceArgs { replica, on, same_node, wait }) => {
            replace(context, replica, on.clone(), *same_node, wait)
        }
        ReplicaCommand::Move(ReplicaMoveArgs { replica, to, same_node, wait }) => {
            replace(context, replica, Some(to.clone()), *same_node, wait)
        }
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
    };
    let path = routes::fill(routes::REPLICAS, &[&args.volume]);
    let answer = context.client.post(&path, &request)?;
    wait::after_change(context, answer, &args.volume, &args.wait)
}

/// Copies a replica to another place; the old one is removed when the new one is in-sync.
fn replace(
    context: &Context,
    ReplicaArgs { volume, replica }: &ReplicaArgs,
    on: Option<String>,
    same_node: bool,
    wait: &WaitArgs,
) -> Result<(), Failure> {
    let path = routes::fill(routes::VOLUME, &[volume]);
    let status: VolumeAnswer = context.client.fetch(&path)?;
    let replicas: Vec<&ReplicaStatus> =
        status.volume.mirrors.iter().flat_map(|mirror| &mirror.replicas).collect();
    // One that is not there was perhaps replaced already: the node knows.
    let replaced = match choose(&replicas, volume, replica) {
        Ok(chosen) => chosen.id.clone(),
        Err(failure) if failure.exit == Exit::NotFound => replica.clone(),
        Err(failure) => return Err(failure),
    };
    let request = AddReplicaRequest {
        on,
        replaces: Some(replaced),
        same_node,
        ..AddReplicaRequest::default()
    };
    let answer = context.client.post(&routes::fill(routes::REPLICAS, &[volume]), &request)?;
    wait::after_change(context, answer, volume, wait)
}

fn remove(context: &Context, args: &ReplicaRemoveArgs) -> Result<(), Failure> {
    let ReplicaArgs { volume, replica } = &args.replica;
    if !args.yes {
        return Err(Failure::new(
            format!("replica `{replica}` of volume `{volume}` was not removed"),
            "its data would be lost for good, and the mirror would have one replica less",
        )
        .exit(Exit::Unsafe)
        .advise(format!("if you want that: evenkeel replica remove {volume} {replica} --yes")));
    }
    tell(context, &args.replica, "remove")
}

fn re_add(context: &Context, args: &ReplicaReAddArgs) -> Result<(), Failure> {
    if args.wait {
        send(context, &args.replica, "re-add")?;
        wait::until(context, &args.replica.volume, WaitFor::InSync, args.timeout)?;
        let path = routes::fill(routes::VOLUME, &[&args.replica.volume]);
        let answer = context.client.get(&path)?;
        return context.show(&answer, shown);
    }
    tell(context, &args.replica, "re-add")
}

fn tell(context: &Context, args: &ReplicaArgs, action: &str) -> Result<(), Failure> {
    let answer = send(context, args, action)?;
    context.show(&answer, shown)
}

fn shown(answer: &VolumeAnswer) -> String {
    output::volume::status(&answer.volume)
}

fn send(
    context: &Context,
    args: &ReplicaArgs,
    action: &str,
) -> Result<crate::client::Answer, Failure> {
    let chosen = match identity(context, &args.volume, &args.replica) {
        Ok(chosen) => chosen,
        // One that is not there was perhaps removed already: the node knows.
        Err(failure) if failure.exit == Exit::NotFound && action == "remove" => {
            args.replica.clone()
        }
        Err(failure) => return Err(failure),
    };
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
    let replicas: Vec<&ReplicaStatus> =
        answer.volume.mirrors.iter().flat_map(|mirror| &mirror.replicas).collect();
    choose(&replicas, volume, named).map(|chosen| chosen.id.clone())
}

/// The replica that a person means by a node, `NODE:DISK`, or the beginning of an identity.
fn choose<'a>(
    replicas: &[&'a ReplicaStatus],
    volume: &str,
    named: &str,
) -> Result<&'a ReplicaStatus, Failure> {
    let means = |replica: &ReplicaStatus| {
        let disk = replica.disk.as_deref().unwrap_or_default();
        replica.node.name == named
            || format!("{}:{disk}", replica.node.name) == named
            || (named.len() >= 4 && replica.id.starts_with(named))
    };
    let found: Vec<_> = replicas.iter().filter(|replica| means(replica)).collect();
    let names = || {
        let names: Vec<_> = replicas.iter().map(|replica| name(replica)).collect();
        format!("its replicas are {}", names.join(", "))
    };
    match found[..] {
        [one] => Ok(one),
        [] => Err(Failure::new(format!("volume `{volume}` has no replica `{named}`"), names())
            .exit(Exit::NotFound)
            .advise("name one by its node, NODE:DISK, or the first digits of its identity")),
        _ => Err(Failure::new(format!("`{named}` means several replicas of `{volume}`"), names())
            .exit(Exit::Usage)
            .advise("name one by NODE:DISK or the first digits of its identity")),
    }
}

fn name(replica: &ReplicaStatus) -> String {
    let disk = replica.disk.as_deref().unwrap_or("?");
    format!("{}:{disk} ({})", replica.node.name, output::volume::short(&replica.id))
}

#[cfg(test)]
mod tests;
