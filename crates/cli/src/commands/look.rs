//! `evenkeel volume list`, `evenkeel volume status`: looking at volumes, once or for as long as
//! somebody watches.

use std::io::IsTerminal as _;
use std::time::Duration;

use evenkeel_api::routes;
use evenkeel_api::types::{StatusSource, VolumeAnswer, VolumeStatus, VolumesAnswer};

use super::wait::Goal;
use super::{Context, wait};
use crate::args::{ListArgs, StatusArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::changes::Changes;
use crate::output::{self, say};
use crate::selection::{Selection, is_healthy, is_pattern};

/// Between two looks of somebody who watches.
const PAUSE: Duration = Duration::from_secs(1);

/// Shows one line for each volume.
///
/// # Errors
/// If the node refuses or cannot be reached.
pub fn list(context: &Context, args: &ListArgs) -> Result<Exit, Failure> {
    let selection = Selection::new(&args.names, args.unhealthy);
    let all: VolumesAnswer = context.client.fetch(routes::VOLUMES)?;
    let total = selection.named(&all.volumes);
    let missing = selection.missing(&all.volumes);
    let found = VolumesAnswer { volumes: selection.of(all.volumes), ..all };
    // One answer is one object.
    if !missing.is_empty() && (found.volumes.is_empty() || context.global.json) {
        return Err(no_match(&missing, found.complete));
    }
    show(context, &found, || output::volume::list(&found, total))?;
    // Those that are there are shown all the same.
    if !missing.is_empty() {
        return Err(no_match(&missing, found.complete));
    }
    Ok(if found.complete { Exit::Done } else { Exit::Unreachable })
}

/// Shows volumes with all their replicas.
///
/// # Errors
/// If the node refuses or cannot be reached.
pub fn status(context: &Context, args: &StatusArgs) -> Result<Exit, Failure> {
    if args.watch {
        return watch(context, args);
    }
    if let Some(state) = args.wait {
        let Some(name) = args.name.as_deref().filter(|name| !is_pattern(name)) else {
            return Err(Failure::usage(
                "--wait needs the name of a volume",
                "say which: evenkeel volume status NAME --wait in-sync",
            ));
        };
        wait::until(context, name, &Goal::Volume(state), args.timeout)?;
    }
    let look = Look::at(context, args)?;
    look.show(context)?;
    Ok(look.verdict(args.check))
}

/// What a look at one or several volumes found.
enum Look {
    One(Box<VolumeAnswer>),
    Several(VolumesAnswer),
}

impl Look {
    fn at(context: &Context, args: &StatusArgs) -> Result<Self, Failure> {
        if let Some(name) = args.name.as_deref().filter(|name| !is_pattern(name)) {
            let one = context.client.fetch(&routes::fill(routes::VOLUME, &[name]))?;
            return Ok(Self::One(Box::new(one)));
        }
        let patterns = args.name.as_slice();
        let all: VolumesAnswer = context.client.fetch(routes::VOLUMES)?;
        let selection = Selection::new(patterns, false);
        let missing = selection.missing(&all.volumes);
        if !missing.is_empty() {
            return Err(no_match(&missing, all.complete));
        }
        let volumes = selection.of(all.volumes);
        Ok(Self::Several(VolumesAnswer { volumes, ..all }))
    }

    fn volumes(&self) -> &[VolumeStatus] {
        match self {
            Self::One(one) => std::slice::from_ref(&one.volume),
            Self::Several(several) => &several.volumes,
        }
    }

    /// Whether all are listed that there are.
    const fn is_complete(&self) -> bool {
        match self {
            Self::One(_) => true,
            Self::Several(several) => several.complete,
        }
    }

    fn verdict(&self, check: bool) -> Exit {
        if self.is_complete() { verdict(self.volumes(), check) } else { Exit::Unreachable }
    }

    fn show(&self, context: &Context) -> Result<(), Failure> {
        match self {
            Self::One(one) => show(context, one, || self.page()),
            Self::Several(several) => show(context, several, || self.page()),
        }
    }

    fn page(&self) -> String {
        let pages: Vec<_> = self.volumes().iter().map(output::volume::status).collect();
        match self {
            Self::One(one) => pages.join("\n") + &output::phrases::warnings(&one.warnings),
            Self::Several(several) if pages.is_empty() => output::volume::list(several, 0),
            Self::Several(several) => {
                let shown = several.volumes.len();
                let mut parts = vec![output::volume::sum(&several.volumes, shown)];
                parts.retain(|sum| !sum.is_empty());
                parts.extend(pages);
                parts.join("\n") + &output::phrases::warnings(&several.warnings)
            }
        }
    }
}

/// The code with which a look at these ends. What is not known is no verdict, asked for or not.
pub fn verdict(volumes: &[VolumeStatus], check: bool) -> Exit {
    // Nobody who knows has answered.
    let is_hearsay = |volume: &VolumeStatus| volume.source == StatusSource::Replica;
    match volumes {
        all if all.iter().any(is_hearsay) => Exit::Unreachable,
        all if check && !all.iter().all(is_healthy) => Exit::Degraded,
        _ => Exit::Done,
    }
}

/// An answer as JSON with `--json`, else as `page` puts it.
fn show<T: serde::Serialize>(
    context: &Context,
    answer: &T,
    page: impl FnOnce() -> String,
) -> Result<(), Failure> {
    if context.global.json {
        let text = serde_json::to_string(answer)
            .map_err(|error| Failure::new("the answer cannot be shown", error))?;
        say(&format!("{text}\n"));
    } else if !context.global.quiet {
        say(&page());
    }
    Ok(())
}

/// That no volume has these names. Without the coordinator there may be others than those that are
/// listed.
fn no_match(missing: &[String], is_complete: bool) -> Failure {
    let names = missing.join(" or ");
    match is_complete {
        true => Failure::new("no volume was found", format!("none is called {names}"))
            .exit(Exit::NotFound)
            .advise("see them all: evenkeel volume list"),
        false => Failure::new(
            "no volume was found",
            format!(
                "none that is known here is called {names}, and the coordinator does not answer"
            ),
        )
        .exit(Exit::Unreachable)
        .advise("see what is known: evenkeel volume list"),
    }
}

/// Looks again every second until Ctrl-C: in place on a terminal, else one line for each change. A
/// node that is away for a while does not end it.
fn watch(context: &Context, args: &StatusArgs) -> Result<Exit, Failure> {
    let redraws = std::io::stdout().is_terminal() && !context.global.json;
    let mut changes = Changes::default();
    // What is wrong with the arguments is told at once.
    let mut look: Result<Look, Failure> = Ok(Look::at(context, args)?);
    loop {
        match &look {
            Ok(look) if context.global.json => look.show(context)?,
            Ok(look) if redraws => say(&output::changes::redrawn(&look.page())),
            Ok(look) => say(&changes.of(look.volumes(), look.is_complete())),
            Err(error) if redraws => say(&output::changes::redrawn(&format!("{error}\n"))),
            Err(error) => say(&changes.failure(&error.to_string())),
        }
        std::thread::sleep(PAUSE);
        // One that stands still would be waited for much longer.
        look = context.client.knock().and_then(|()| Look::at(context, args));
    }
}
