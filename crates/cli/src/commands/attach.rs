//! `evenkeel attach`, `detach`, `export`, `unexport`.

use evenkeel_api::routes;
use evenkeel_api::types::{
    AttachAnswer, AttachHow, AttachRequest, DetachAnswer, DetachRequest, DoneAnswer, ExportAnswer,
    ExportNbdRequest, VolumesAnswer,
};

use super::{Answer, Context, nvme};
use crate::args::{
    AttachArgs, AttachAs, DetachArgs, ExportCommand, ExportKind, ExportNbdArgs, UnexportArgs,
};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{self, Painted as _};

/// Attaches a volume to this node.
///
/// # Errors
/// If the node refuses or cannot be reached.
pub fn attach(context: &Context, args: &AttachArgs) -> Result<(), Failure> {
    let how = match args.kind {
        AttachAs::Auto => AttachHow::Auto,
        AttachAs::Device => AttachHow::Device,
        AttachAs::Nbd => AttachHow::Nbd,
        AttachAs::None => AttachHow::None,
    };
    let request = AttachRequest {
        node: args.node.clone(),
        how,
        read_only: args.read_only,
        ..AttachRequest::default()
    };
    let answer = context.client.post(&routes::fill(routes::ATTACH, &[&args.name]), &request)?;
    context.show(&answer, attached)
}

fn attached(answer: &AttachAnswer) -> String {
    let name = &answer.volume.name;
    let mut text = match (&answer.device, &answer.device_kind) {
        (Some(device), Some(kind)) => {
            format!("Attached volume {name} as {} ({kind})\n", device.bold())
        }
        (Some(device), None) => format!("Attached volume {name} as {}\n", device.bold()),
        (None, _) => format!("Attached volume {name}\n"),
    };
    if let Some(export) = &answer.export {
        text.push_str(&format!("  export    {}\n", output::volume::export_line(export)));
    }
    if let Some(reason) = &answer.volume.reason {
        text.push_str(&format!("  note      {reason}\n"));
    }
    text + &output::phrases::warnings(&answer.warnings)
}

/// Detaches a volume. With [`Exit::Unreachable`] if its replicas did not answer, and it was not
/// given up.
///
/// # Errors
/// If the node refuses, for example because its device is mounted, or cannot be reached.
pub fn detach(context: &Context, args: &DetachArgs) -> Result<Exit, Failure> {
    let path = routes::fill(routes::DETACH, &[&args.name]);
    let request = DetachRequest { node: args.node.clone(), ..DetachRequest::default() };
    let answer = context.client.post(&path, &request)?;
    context.show(&answer, |answer: &DetachAnswer| format!("{}\n", answer.message))?;
    let given_up = answer.parse::<DetachAnswer>()?.given_up;
    Ok(if given_up { Exit::Done } else { Exit::Unreachable })
}

/// Runs one of `evenkeel export …`.
///
/// # Errors
/// If the node refuses or cannot be reached.
pub fn export(context: &Context, command: &ExportCommand) -> Result<Exit, Failure> {
    match command {
        ExportCommand::Nbd(args) => export_nbd(context, args)?,
        ExportCommand::Nvme(args) => nvme::export(context, args)?,
        ExportCommand::List => return list_exports(context),
    }
    Ok(Exit::Done)
}

fn export_nbd(context: &Context, args: &ExportNbdArgs) -> Result<(), Failure> {
    let clients = args.clients.clone();
    let request = ExportNbdRequest { tcp: args.tcp, read_only: args.read_only, clients };
    let answer = context.client.post(&routes::fill(routes::EXPORT_NBD, &[&args.name]), &request)?;
    show_export(context, &args.name, &answer)
}

fn show_export(context: &Context, name: &str, answer: &Answer) -> Result<(), Failure> {
    context.show(answer, |answer: &ExportAnswer| {
        format!("Exported volume {name}: {}\n", output::volume::export_line(&answer.export))
    })
}

/// Without the coordinator there may be others than those that this node knows: no success.
fn list_exports(context: &Context) -> Result<Exit, Failure> {
    let answer = context.client.get(routes::VOLUMES)?;
    context.show(&answer, exports)?;
    let is_complete = answer.parse::<VolumesAnswer>()?.complete;
    Ok(if is_complete { Exit::Done } else { Exit::Unreachable })
}

fn exports(answer: &VolumesAnswer) -> String {
    let all = answer.volumes.iter().flat_map(|volume| {
        volume.exports.iter().map(|export| (&volume.name, output::volume::export_line(export)))
    });
    let lines: String = all.map(|(name, line)| format!("{}  {line}\n", name.bold())).collect();
    let lines = match (lines.is_empty(), answer.complete) {
        (false, _) => lines,
        (true, true) => "No volume is exported\n".to_owned(),
        (true, false) => "No volume that is known here is exported\n".to_owned(),
    };
    lines + &output::phrases::warnings(&answer.warnings)
}

/// Ends exports.
///
/// # Errors
/// If the node refuses or cannot be reached.
pub fn unexport(context: &Context, args: &UnexportArgs) -> Result<(), Failure> {
    let route = match args.only {
        None => routes::EXPORTS,
        Some(ExportKind::Nbd) => routes::EXPORT_NBD,
        Some(ExportKind::Nvme) => routes::EXPORT_NVME,
    };
    let answer = context.client.delete(&routes::fill(route, &[&args.name]))?;
    context.show(&answer, |answer: &DoneAnswer| format!("{}\n", answer.message))
}
