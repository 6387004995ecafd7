//! `evenkeel reservation …`

use evenkeel_api::routes;
use evenkeel_api::types::{ReservationAction, ReservationKind, ReservationRequest, VolumeAnswer};

use super::Context;
use super::agree::{Question, agree};
use crate::args::{DropArgs, HostArgs, KeyArgs, KindName, ReservationCommand, ReserveArgs};
use crate::failure::Failure;
use crate::output;

/// Runs one of them.
///
/// # Errors
/// If the node refuses or cannot be reached.
pub fn run(context: &Context, command: &ReservationCommand) -> Result<(), Failure> {
    let (volume, request) = match command {
        ReservationCommand::Show(args) => {
            let answer = context.client.get(&routes::fill(routes::VOLUME, &[&args.volume]))?;
            return context.show(&answer, reported);
        }
        ReservationCommand::Register(args) => {
            let (volume, mut request) = of_key(ReservationAction::Register, &args.key);
            request.old_key.clone_from(&args.old_key);
            request.persistent = args.persistent;
            (volume, request)
        }
        ReservationCommand::Unregister(args) => {
            let (volume, mut request) = of_host(ReservationAction::Unregister, &args.host);
            request.old_key.clone_from(&args.old_key);
            (volume, request)
        }
        ReservationCommand::Reserve(args) => of_kind(ReservationAction::Reserve, args),
        ReservationCommand::Release(args) => of_kind(ReservationAction::Release, args),
        ReservationCommand::Preempt(args) => {
            let (volume, mut request) = of_kind(ReservationAction::Preempt, &args.reserve);
            request.victim = Some(args.victim.clone());
            (volume, request)
        }
        ReservationCommand::Clear(args) => of_key(ReservationAction::Clear, args),
        ReservationCommand::Drop(args) => match agreed(context, args)? {
            Some(hosts) => {
                let removes = Some(hosts);
                (&args.volume, ReservationRequest { removes, ..asked(ReservationAction::Drop) })
            }
            None => return Ok(()),
        },
    };
    let path = routes::fill(routes::RESERVATION, &[volume]);
    let answer = context.client.post(&path, &request)?;
    context.show(&answer, reported)
}

/// The hosts that may lose their registration. `None`: it was a dry run.
fn agreed(context: &Context, args: &DropArgs) -> Result<Option<Vec<String>>, Failure> {
    let volume = &args.volume;
    let question = Question {
        plan: &routes::fill(routes::DROP_PLAN, &[volume]),
        refused: format!("the reservation of volume `{volume}` was not dropped"),
        again: format!("evenkeel reservation drop {volume} --yes"),
        always: false,
    };
    let plan = agree(context, &args.agree, &question)?;
    Ok(plan.map(|plan| plan.unregisters.into_iter().map(|it| it.host).collect()))
}

fn reported(answer: &VolumeAnswer) -> String {
    output::reservation::reported(answer.volume.reservation.as_ref())
}

const fn asked(action: ReservationAction) -> ReservationRequest {
    ReservationRequest {
        action,
        host: None,
        key: None,
        old_key: None,
        victim: None,
        kind: ReservationKind::WriteExclusiveRegistrants,
        persistent: None,
        removes: None,
    }
}

fn of_host(action: ReservationAction, args: &HostArgs) -> (&String, ReservationRequest) {
    (&args.volume, ReservationRequest { host: args.host.clone(), ..asked(action) })
}

fn of_key(action: ReservationAction, args: &KeyArgs) -> (&String, ReservationRequest) {
    let (volume, request) = of_host(action, &args.host);
    (volume, ReservationRequest { key: Some(args.key.clone()), ..request })
}

fn of_kind(action: ReservationAction, args: &ReserveArgs) -> (&String, ReservationRequest) {
    let (volume, request) = of_key(action, &args.key);
    (volume, ReservationRequest { kind: kind(args.kind), ..request })
}

const fn kind(name: KindName) -> ReservationKind {
    match name {
        KindName::WriteExclusive => ReservationKind::WriteExclusive,
        KindName::ExclusiveAccess => ReservationKind::ExclusiveAccess,
        KindName::WriteExclusiveRegistrants => ReservationKind::WriteExclusiveRegistrants,
        KindName::ExclusiveAccessRegistrants => ReservationKind::ExclusiveAccessRegistrants,
        KindName::WriteExclusiveAll => ReservationKind::WriteExclusiveAll,
        KindName::ExclusiveAccessAll => ReservationKind::ExclusiveAccessAll,
    }
}
