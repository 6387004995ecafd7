//! `evenkeel volume …`

use std::time::Duration;

use evenkeel_api::routes;
use evenkeel_api::types::{
    ChangeAnswer, ChangePlanQuery, ChangeVolumeRequest, CreateVolumeAnswer, CreateVolumeRequest,
    DeleteVolumeAnswer, Plan, RebuildRate, RenameVolumeRequest, StopAnswer, VolumeBitmap,
    VolumeProtocol,
};

use super::agree::{Question, agree, names};
use super::{Context, assemble, look, verify, wait};
use crate::args::{
    BitmapName, ChangeArgs, ChecksumName, CreateArgs, DeleteArgs, GrowArgs, ProtocolName,
    RebuildArgs, RenameArgs, StopArgs, VolumeCommand,
};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output;

/// Runs one of them.
///
/// # Errors
/// If the node refuses or cannot be reached.
pub fn run(context: &Context, command: &VolumeCommand) -> Result<Exit, Failure> {
    match command {
        VolumeCommand::Create(args) => create(context, args)?,
        VolumeCommand::List(args) => return look::list(context, args),
        VolumeCommand::Status(args) => return look::status(context, args),
        VolumeCommand::Rename(args) => rename(context, args)?,
        VolumeCommand::Stop(args) => stop(context, args)?,
        VolumeCommand::Assemble(args) => return assemble::run(context, args),
        VolumeCommand::Grow(args) => grow(context, args)?,
        VolumeCommand::Verify(args) => return verify::run(context, args),
        VolumeCommand::Rebuild(args) => rebuild(context, args)?,
        VolumeCommand::Change(args) => change(context, args)?,
        VolumeCommand::Delete(args) => delete(context, args)?,
    }
    Ok(Exit::Done)
}

fn create(context: &Context, args: &CreateArgs) -> Result<(), Failure> {
    let mut request = CreateVolumeRequest::new(&args.name, args.size);
    request.replicas = usize::from(args.replicas);
    request.stripe = usize::from(args.stripe);
    request.on.clone_from(&args.on);
    request.protocol = protocol(args.protocol);
    request.bitmap = bitmap(args.bitmap);
    request.checksums = args.checksums == ChecksumName::Crc32c;
    request.region_size = args.intents.region_size;
    request.open_regions = args.intents.open_regions;
    request.primaries = args.intents.primaries;
    request.block_size = args.block_size.as_deref().and_then(|text| text.parse().ok());
    request.no_coordinator = args.on_no_coordinator;
    request.no_data = args.on_no_data;
    request.allow_same_node = args.same_node;
    request.thin = args.thin;
    request.dry_run = args.dry_run;
    let answer = context.client.post(routes::VOLUMES, &request)?;
    context.show(&answer, |answer: &CreateVolumeAnswer| {
        output::volume::plan(&answer.plan, answer.created)
    })
}

const fn protocol(name: ProtocolName) -> VolumeProtocol {
    match name {
        ProtocolName::A => VolumeProtocol::A,
        ProtocolName::B => VolumeProtocol::B,
        ProtocolName::C => VolumeProtocol::C,
    }
}

const fn bitmap(name: BitmapName) -> VolumeBitmap {
    match name {
        BitmapName::None => VolumeBitmap::None,
        BitmapName::Internal => VolumeBitmap::Internal,
        BitmapName::Clustered => VolumeBitmap::Clustered,
    }
}

fn rename(context: &Context, args: &RenameArgs) -> Result<(), Failure> {
    let path = routes::fill(routes::RENAME_VOLUME, &[&args.name]);
    let answer = context.client.post(&path, &RenameVolumeRequest { name: args.new.clone() })?;
    context.show(&answer, |answer: &ChangeAnswer| format!("{}\n", answer.message))
}

fn stop(context: &Context, args: &StopArgs) -> Result<(), Failure> {
    let name = &args.name;
    let question = Question {
        plan: &routes::fill(routes::STOP_PLAN, &[name]),
        refused: format!("volume `{name}` was not stopped"),
        again: format!("evenkeel volume stop {name} --yes"),
        always: false,
    };
    if agree(context, &args.agree, &question)?.is_none() {
        return Ok(());
    }
    let path = routes::fill(routes::STOP, &[name]);
    let answer = context.client.post(&path, &serde_json::json!({}))?;
    context.show(&answer, |answer: &StopAnswer| {
        format!("{}\n", answer.message) + &output::phrases::warnings(&answer.warnings)
    })
}

fn grow(context: &Context, args: &GrowArgs) -> Result<(), Failure> {
    let path = routes::fill(routes::VOLUME, &[&args.name]);
    let request = ChangeVolumeRequest { size: Some(args.size), ..ChangeVolumeRequest::default() };
    let answer = context.client.patch(&path, &request)?;
    context.show(&answer, |answer: &ChangeAnswer| {
        format!("{}\n\n{}", answer.message, output::volume::status(&answer.volume))
    })
}

fn change(context: &Context, args: &ChangeArgs) -> Result<(), Failure> {
    let path = routes::fill(routes::VOLUME, &[&args.name]);
    let mut removes = None;
    if let Some(copies) = args.replicas {
        let Some(plan) = agree_to_fewer(context, args, copies)? else { return Ok(()) };
        removes = Some(plan.removes.into_iter().map(|lost| lost.id).collect());
    }
    let request = ChangeVolumeRequest {
        size: None,
        protocol: args.protocol.map(protocol),
        bitmap: args.bitmap.map(bitmap),
        region_size: args.intents.region_size,
        open_regions: args.intents.open_regions,
        primaries: args.intents.primaries,
        replicas: args.replicas.map(usize::from),
        removes,
        same_node: args.same_node,
        thin: args.thin,
        rebuild: None,
        lease_ms: args.lease.map(milliseconds),
        lease_margin_ms: args.lease_margin.map(milliseconds),
        no_coordinator: args.on_no_coordinator,
        no_data: args.on_no_data,
    };
    let answer = context.client.patch(&path, &request)?;
    wait::after_change(context, answer, &args.name, &args.wait)
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn rebuild(context: &Context, args: &RebuildArgs) -> Result<(), Failure> {
    let rate = match args.limit {
        Some(rate) => rate,
        None if args.pause => RebuildRate::Paused,
        None => RebuildRate::None,
    };
    let request = ChangeVolumeRequest { rebuild: Some(rate), ..ChangeVolumeRequest::default() };
    let answer = context.client.patch(&routes::fill(routes::VOLUME, &[&args.name]), &request)?;
    context.show(&answer, |answer: &ChangeAnswer| {
        format!("{}\n\n{}", answer.message, output::volume::status(&answer.volume))
    })
}

/// Copies are not removed without a word that says so.
fn agree_to_fewer(
    context: &Context,
    args: &ChangeArgs,
    copies: u16,
) -> Result<Option<Plan>, Failure> {
    let name = &args.name;
    let path = routes::fill(routes::CHANGE_PLAN, &[name]);
    let (replicas, same_node, thin) = (usize::from(copies), args.same_node, args.thin);
    let query = ChangePlanQuery { replicas, same_node, thin };
    let question = Question {
        plan: &(path + &query.text()),
        refused: format!("volume `{name}` was not changed"),
        again: format!("evenkeel volume change {name} --replicas {copies} --yes"),
        always: false,
    };
    agree(context, &args.agree, &question)
}

fn delete(context: &Context, args: &DeleteArgs) -> Result<(), Failure> {
    let (name, force) = (&args.name, args.force);
    let plan = routes::fill(routes::DELETE_PLAN, &[name]);
    let question = Question {
        plan: &format!("{plan}?force={force}"),
        refused: format!("volume `{name}` was not deleted"),
        again: format!(
            "evenkeel volume delete {name} --yes{}",
            if force { " --force" } else { "" }
        ),
        always: true,
    };
    let Some(plan) = agree(context, &args.agree, &question)? else { return Ok(()) };
    let path = routes::fill(routes::VOLUME, &[name]);
    let query = format!("?force={force}&removes={}", names(&plan));
    let answer = context.client.delete(&format!("{path}{query}"))?;
    context.show(&answer, |answer: &DeleteVolumeAnswer| format!("{}\n", answer.message))
}
