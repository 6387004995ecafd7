//! `evenkeel node join|invite|remove|status`, `evenkeel cluster rename`, `evenkeel version`.

use evenkeel_api::routes;
use evenkeel_api::types::{
    DoneAnswer, InviteRequest, JoinRequest, NodeAnswer, NodesAnswer, RemoveNodeAnswer,
    RenameClusterRequest,
};

use super::Context;
use super::agree::{Question, agree, names};
use crate::args::{InviteArgs, JoinArgs, NodeRemoveArgs, RenameClusterArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{self, say};

/// Joins this node to a cluster.
///
/// # Errors
/// If the node refuses or cannot be reached.
pub fn join(context: &Context, args: &JoinArgs) -> Result<(), Failure> {
    let request = JoinRequest { address: args.address.clone(), token: args.token.clone() };
    let answer = context.client.post(routes::JOIN, &request)?;
    context.show(&answer, |answer: &NodeAnswer| {
        format!("Node {} belongs to cluster {} now\n", answer.node.name, answer.node.cluster)
    })
}

/// Makes a token, and shows what to do with it.
///
/// # Errors
/// If the node refuses or cannot be reached.
pub fn invite(context: &Context, args: &InviteArgs) -> Result<(), Failure> {
    let request = InviteRequest {
        count: Some(args.count),
        seconds: Some(u32::try_from(args.lasts.as_secs()).unwrap_or(u32::MAX)),
        names: args.names.clone(),
        member: args.member.clone(),
    };
    let answer = context.client.post(routes::INVITE, &request)?;
    context.show(&answer, output::node::invited)
}

/// Gives the cluster another name.
///
/// # Errors
/// If the node refuses or cannot be reached.
pub fn rename(context: &Context, args: &RenameClusterArgs) -> Result<(), Failure> {
    let request = RenameClusterRequest { name: args.name.clone() };
    let answer = context.client.post(routes::RENAME_CLUSTER, &request)?;
    context.show(&answer, |answer: &DoneAnswer| format!("{}\n", answer.message))
}

/// Removes a node from the cluster. The replicas that are lost are those that were shown.
///
/// # Errors
/// If the node refuses or cannot be reached, or nobody has said yes.
pub fn remove(context: &Context, args: &NodeRemoveArgs) -> Result<(), Failure> {
    let name = &args.node;
    let question = Question {
        plan: &routes::fill(routes::NODE_PLAN, &[name]),
        refused: format!("node `{name}` was not removed"),
        again: format!("evenkeel node remove {name} --yes"),
        always: true,
    };
    let Some(plan) = agree(context, &args.agree, &question)? else { return Ok(()) };
    let path = routes::fill(routes::NODE_OF_CLUSTER, &[name]);
    let answer = context.client.delete(&format!("{path}?removes={}", names(&plan)))?;
    context.show(&answer, |answer: &RemoveNodeAnswer| {
        format!("{}\n{}", answer.message, output::plan::done(&answer.plan))
    })
}

/// Shows this node and the others. The coordinator knows the others; without it they are missing,
/// and the status says why.
///
/// # Errors
/// If this node cannot be reached.
pub fn status(context: &Context) -> Result<Exit, Failure> {
    // In this order: what the others' list shows of the coordinator is in this node's status then.
    let all = context.client.get(routes::NODES);
    if let Err(failure) = &all
        && failure.json.is_none()
    {
        // Not a refusal: the node itself has not answered.
        return Err(failure.clone());
    }
    let this = context.client.get(routes::NODE)?;
    let exit = match &all {
        Err(failure) if failure.exit == Exit::Unreachable => Exit::Unreachable,
        _ => Exit::Done,
    };
    if context.global.json {
        say(&joined(&this.text(), all.ok().map(|all| all.text()).as_deref()));
        return Ok(exit);
    }
    let all: Result<NodesAnswer, Failure> = all.and_then(|all| all.parse());
    context.show(&this, |this: &NodeAnswer| {
        output::node::status(this, all.as_ref().map_err(|failure| failure.why.as_str()))
    })?;
    Ok(exit)
}

/// Two answers as one object: the node's own with the list of nodes added to it.
fn joined(this: &str, all: Option<&str>) -> String {
    let parse = |text: &str| serde_json::from_str::<serde_json::Value>(text).ok();
    let (Some(mut this), all) = (parse(this), all.and_then(parse)) else {
        return this.to_owned();
    };
    this["nodes"] = all.map_or(serde_json::Value::Null, |mut all| all["nodes"].take());
    format!("{this}\n")
}

/// Shows the version of this command, and of the node if it runs.
pub fn version(context: &Context) {
    let own = env!("CARGO_PKG_VERSION");
    let node = context.client.fetch::<NodeAnswer>(routes::NODE).ok().map(|node| node.node.software);
    if context.global.json {
        say(&format!("{}\n", serde_json::json!({"version": 1, "command": own, "node": node})));
        return;
    }
    let node = node.unwrap_or_else(|| "not running".to_owned());
    say(&format!("evenkeel {own}\nnode     {node}\n"));
}
