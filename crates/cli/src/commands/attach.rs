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
    let request = AttachRequest { node: args.node.clone(), how, read_only: args.read_only };
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
    text + &output::volume::warnings(&answer.warnings)
}

/// Detaches a volume. With [`Exit::Unreachable`] if its replicas did not answer, and it was not
/// given up.
///
/// # Errors
/// If the node refuses, for example because its device is mounted, or cannot be reached.
pub fn detach(context: &Context, args: &DetachArgs) -> Result<Exit, Failure> {
    let path = routes::fill(routes::DETACH, &[&args.name]);
    let answer = context.client.post(&path, &DetachRequest { node: args.node.clone() })?;
    context.show(&answer, |answer: &DetachAnswer| format!("{}\n", answer.message))?;
    let given_up = answer.parse::<DetachAnswer>()?.given_up;
    Ok(if given_up { Exit::Done } else { Exit::Unreachable })
}

/// Runs one of `evenkeel export …`.
///
/// # Errors
/// If the node refuses or cannot be reached.
pub fn export(context: &Context, command: &ExportCommand) -> Result<(), Failure> {
    match command {
        ExportCommand::Nbd(args) => export_nbd(context, args),
        ExportCommand::Nvme(args) => nvme::export(context, args),
        ExportCommand::List => list_exports(context),
    }
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

fn list_exports(context: &Context) -> Result<(), Failure> {
    let answer = context.client.get(routes::VOLUMES)?;
    context.show(&answer, |answer: &VolumesAnswer| {
        let lines: String = answer
            .volumes
            .iter()
            .flat_map(|volume| volume.exports.iter().map(|export| (&volume.name, export)))
            .map(|(name, export)| {
                format!("{}  {}\n", name.bold(), output::volume::export_line(export))
            })
            .collect();
        if lines.is_empty() { "No volume is exported\n".to_owned() } else { lines }
    })
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
