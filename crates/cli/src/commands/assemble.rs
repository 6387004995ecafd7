//! `evenkeel volume assemble`.

use std::path::{Path, absolute};

use evenkeel_api::error::ApiError;
use evenkeel_api::routes;
use evenkeel_api::types::{AssembleAnswer, AssemblePlanAnswer, AssembleRequest, Assembled};

use super::{Context, agree};
use crate::args::AssembleArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{self, say};

/// Puts one volume together, or all that are found.
///
/// # Errors
/// If the node refuses or cannot be reached.
pub fn run(context: &Context, args: &AssembleArgs) -> Result<Exit, Failure> {
    if args.dry_run {
        return dry_run(context, &request(args)?);
    }
    let answer = context.client.post_patiently(routes::ASSEMBLE, &request(args)?)?;
    let parsed: AssembleAnswer = answer.parse()?;
    if context.global.json {
        say(&answer.text());
        return Ok(verdict(&parsed.volumes));
    }
    if !context.global.quiet {
        say(&output::assemble::page(&parsed));
    }
    // One volume that is refused is an error like any other.
    match &parsed.volumes[..] {
        [Assembled { error: Some(error), .. }] => Err(failure(error)),
        volumes => Ok(verdict(volumes)),
    }
}

/// Tells what would be kept and discarded. What would be refused ends as if it had been.
fn dry_run(context: &Context, request: &AssembleRequest) -> Result<Exit, Failure> {
    let answer = context.client.get_patiently(&plan_path(request)).map_err(agree::older)?;
    let parsed: AssemblePlanAnswer = answer.parse()?;
    let refused = parsed.volumes.iter().find_map(|volume| volume.error.as_ref());
    let exit = refused.map_or(Exit::Done, |error| error.code.exit());
    if context.global.json {
        say(&answer.text());
        return Ok(exit);
    }
    if !context.global.quiet {
        say(&output::assemble::plan(&parsed));
    }
    match (&parsed.volumes[..], refused) {
        ([_], Some(error)) => Err(failure(error)),
        _ => Ok(exit),
    }
}

fn plan_path(request: &AssembleRequest) -> String {
    let paths = Some(request.paths.join("\n")).filter(|paths| !paths.is_empty());
    let texts = [
        ("volume", &request.volume),
        ("paths", &paths),
        ("keep", &request.keep),
        ("save_differing", &request.save_differing),
    ];
    let given = texts.into_iter().filter_map(|(name, text)| Some((name, text.as_ref()?)));
    let given: String =
        given.map(|(name, text)| format!("&{name}={}", routes::encode(text))).collect();
    format!("{}?force={}{given}", routes::ASSEMBLE_PLAN, request.force)
}

fn request(args: &AssembleArgs) -> Result<AssembleRequest, Failure> {
    let (volume, paths) = match args.scan {
        true => (None, &args.names[..]),
        false => match args.names.split_first() {
            Some((name, _)) if name.contains('/') => {
                return Err(Failure::usage(
                    format!("`{name}` is a path, not the name of a volume"),
                    "name the volume before the paths, or find all volumes on them: --scan PATH",
                ));
            }
            Some((name, paths)) => (Some(name.clone()), paths),
            None => (None, &[][..]),
        },
    };
    Ok(AssembleRequest {
        volume,
        paths: paths.iter().map(|path| text(Path::new(path))).collect::<Result<_, _>>()?,
        force: args.force,
        keep: args.keep.clone(),
        save_differing: args.save_differing.as_deref().map(text).transpose()?,
        discards: None,
    })
}

/// A path from the root, as the node wants it.
fn text(path: &Path) -> Result<String, Failure> {
    let found = absolute(path)
        .map_err(|error| Failure::new(format!("cannot find {}", path.display()), error))?;
    found.to_str().map(str::to_owned).ok_or_else(|| {
        let what = format!("the path {} is not UTF-8", path.display());
        Failure::usage(what, "use a path in plain letters")
    })
}

fn failure(error: &ApiError) -> Failure {
    Failure::new(&error.what, &error.why).advise(&error.action).exit(error.code.exit())
}

/// The first refusal decides.
fn verdict(volumes: &[Assembled]) -> Exit {
    let refused = volumes.iter().find_map(|volume| volume.error.as_ref());
    refused.map_or(Exit::Done, |error| error.code.exit())
}
