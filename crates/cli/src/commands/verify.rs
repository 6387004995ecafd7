//! `evenkeel volume verify`

use std::time::{Duration, Instant};

use evenkeel_api::routes;
use evenkeel_api::types::{
    RebuildRate, Verify, VerifyRequest, VerifyState, VolumeAnswer, VolumeStatus,
};
use indicatif::{ProgressBar, ProgressStyle};

use super::{Context, replica};
use crate::args::VerifyArgs;
use crate::client::waiting::Once;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output::{self, size, span};

/// Between two looks at a volume.
const PAUSE: Duration = Duration::from_millis(250);

/// Begins or ends a verify, and tells its verdict if that is waited for.
///
/// # Errors
/// If the node refuses or can't be reached, or with [`Exit::TimedOut`] if it takes too long.
pub fn run(context: &Context, args: &VerifyArgs) -> Result<Exit, Failure> {
    let path = routes::fill(routes::VERIFY, &[&args.name]);
    let source = args.source.as_ref();
    let source = source.map(|named| replica::identity(context, &args.name, named)).transpose()?;
    let request = VerifyRequest { repair: args.repair, source, stop: args.stop };
    let answer = context.client.post(&path, &request)?;
    if !args.wait {
        context.show(&answer, |answer: &VolumeAnswer| {
            let (volume, verify) = (&answer.volume, answer.volume.verify.as_ref());
            let reported = |verify: &Verify| output::verify::reported(verify, volume);
            verify.map_or_else(|| "No verify runs.\n".into(), reported)
        })?;
        return Ok(Exit::Done);
    }
    let begun = answer.parse::<VolumeAnswer>()?.volume.verify;
    let began = begun.and_then(|verify| verify.began);
    let verify = until_done(context, args, began)?;
    let answer = context.client.get(&routes::fill(routes::VOLUME, &[&args.name]))?;
    context
        .show(&answer, |answer: &VolumeAnswer| output::verify::reported(&verify, &answer.volume))?;
    let is_whole = verify.different + verify.damaged + verify.unreadable == verify.repaired;
    Ok(if is_whole { Exit::Done } else { Exit::Failed })
}

/// The verdict of the verify that began then. One that had ended before is an earlier one's, which
/// is shown again because the volume is not attached any more, or was attached anew.
fn until_done(context: &Context, args: &VerifyArgs, began: Option<u64>) -> Result<Verify, Failure> {
    let is_earlier =
        |verify: &Verify| verify.ended.zip(began).is_some_and(|(ended, b)| ended + 1 < b);
    let path = routes::fill(routes::VOLUME, &[&args.name]);
    let interrupt = Interrupt::watch()?;
    let start = Instant::now();
    let is_silent = context.global.quiet || context.global.json;
    let bar = bar(is_silent);
    let mut reported = Once::default();
    loop {
        let looked = context.client.fetch_unless::<VolumeAnswer>(&interrupt, &path);
        interrupt.check().map_err(|failure| stopped(failure, &args.name))?;
        let volume: VolumeStatus = looked?.volume;
        let Some(verify) = volume.verify.filter(|verify| !is_earlier(verify)) else {
            return Err(Failure::new(
                format!("the verify of volume `{}` is gone", args.name),
                "the volume was detached, or attached anew, before it ended",
            )
            .advise("begin it again"));
        };
        if verify.state == VerifyState::Running && volume.rebuild == RebuildRate::Paused {
            return Err(paused(&args.name));
        }
        bar.set_length(verify.total);
        bar.set_position(verify.checked);
        if !is_silent && verify.state == VerifyState::Running {
            let (checked, total) = (size(verify.checked), size(verify.total));
            let name = &args.name;
            reported
                .say(|| format!("waiting for the verify of volume `{name}`: {checked} of {total}"));
        }
        match verify.state {
            VerifyState::Done => return Ok(verify),
            VerifyState::Stopped => {
                let why = "somebody stopped it, or the volume was detached";
                let what = format!("the verify of volume `{}` was ended early", args.name);
                return Err(Failure::new(what, why).advise("begin it again"));
            }
            VerifyState::Running if start.elapsed() >= args.timeout => {
                let what = format!("the verify has not ended after {}", span(args.timeout));
                return Err(Failure::new(what, "it goes on")
                    .exit(Exit::TimedOut)
                    .advise("see `evenkeel volume status`, or wait longer with --timeout"));
            }
            VerifyState::Running => std::thread::sleep(PAUSE),
        }
    }
}

/// Somebody has stopped the wait, and not the verify.
fn stopped(failure: Failure, name: &str) -> Failure {
    let why = format!("only the wait has ended: the verify of volume `{name}` goes on");
    Failure { why, ..failure }.advise(format!(
        "look at it: evenkeel volume status {name}; end it: evenkeel volume verify {name} --stop"
    ))
}

/// A verify goes at the rate of rebuilds.
fn paused(name: &str) -> Failure {
    let what = format!("the verify of volume `{name}` stands still");
    Failure::new(what, "rebuilds of the volume are paused, and a verify with them")
        .exit(Exit::Degraded)
        .advise(format!("let it go on: evenkeel volume rebuild {name} --resume"))
}

fn bar(hidden: bool) -> ProgressBar {
    let bar = if hidden { ProgressBar::hidden() } else { ProgressBar::new(0) };
    let template = "  verify [{bar:30}] {percent:>3}%  {bytes} of {total_bytes}, {eta} left";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_stops_the_wait_for_a_verify_is_told_that_it_goes_on() {
        let failure = Failure::new("stopped by Ctrl-C", "").exit(Exit::Interrupted);
        let reported = stopped(failure, "music");
        assert_eq!(reported.why, "only the wait has ended: the verify of volume `music` goes on");
        assert!(reported.remedy.ends_with("evenkeel volume verify music --stop"));
        assert_eq!(reported.exit, Exit::Interrupted);
    }
}
