//! `evenkeel quickstart`: the whole thing at work on one machine, in a scratch directory.

mod cluster;
mod compare;
mod copy;
mod load;
mod nbd;
mod source;
mod stale;
mod steps;
mod store;
mod story;
mod volume;

use std::path::PathBuf;

use crate::args::QuickstartArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output::{Painted as _, say, size};
use stale::Scratch;
use story::Story;

/// The smallest volume that XFS takes, with room for the load and some files.
const SMALLEST: u64 = 512 << 20;
/// The volume of a quickstart that names no size, in bytes, where there is room for it.
const USUAL: u64 = 4 << 30;
/// What a quickstart needs beside its replicas, in bytes: metadata, logs, the coordinator's store.
const BESIDE: u64 = 256 << 20;

/// Runs the quickstart and leaves nothing behind, however it ends.
///
/// # Errors
/// With the first thing that did not go as it should.
pub fn run(args: &QuickstartArgs) -> Result<Exit, Failure> {
    if let Some(wanted) = args.size.filter(|wanted| *wanted < SMALLEST) {
        return Err(Failure::usage(
            format!("a volume of {} is too small for a quickstart", size(wanted)),
            format!("XFS and the data need room: --size {} or more", size(SMALLEST)),
        ));
    }
    let parent = args.scratch.clone().unwrap_or_else(|| PathBuf::from("/var/tmp"));
    let interrupt = Interrupt::watch()?;
    say(&format!(
        "{}\n",
        "evenkeel: a volume with three replicas survives the loss of a node".bold()
    ));
    stale::clean(&parent, |path| {
        say(&format!("Removing what an earlier quickstart left in {}\n", path.display()));
    })?;
    let scratch = Scratch::create(&parent)?;
    let outcome = volume_size(&scratch, args.size)
        .and_then(|volume| perform(args, volume, &scratch, &interrupt));
    let cleaned = stale::remove_everything(scratch.path());
    if let (Err(_), Err(left)) = (&outcome, &cleaned) {
        eprint!("{}", left.render());
    }
    outcome?;
    cleaned?;
    say("\nEverything is cleaned up.\n");
    Ok(Exit::Done)
}

/// The story and, unless it is to end at once, the wait for Ctrl-C. What was started is ended
/// before this returns.
fn perform(
    args: &QuickstartArgs,
    volume: u64,
    scratch: &Scratch,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    let mut story = Story::new(args, volume, scratch, interrupt)?;
    let reported = story.report();
    match reported {
        Ok(()) if args.once => {}
        Ok(()) => story.linger(),
        Err(failure) => {
            let interrupted = interrupt.wanted();
            if !interrupted {
                eprint!("\n{}", story.log_ends());
            }
            story.end(false);
            return match interrupted {
                // Ctrl-C also ends programs such as mkfs: that is not the news.
                true => Err(interrupt.check().err().unwrap_or(failure)),
                false => Err(failure),
            };
        }
    }
    story.end(true);
    Ok(())
}

/// The volume's size in bytes: as wanted, else the usual one, or less where the disk has less room.
/// Three replicas may take three times as much.
fn volume_size(scratch: &Scratch, wanted: Option<u64>) -> Result<u64, Failure> {
    let path = scratch.path();
    let state = rustix::fs::statvfs(path)
        .map_err(|error| Failure::new(format!("cannot look at {}", path.display()), error))?;
    let free = state.f_bavail * state.f_frsize;
    let chosen = fitting(free, wanted);
    if let Some(volume) = chosen {
        if wanted.is_none() && volume < USUAL {
            say(&format!("{} are free, so the volume has {}\n", size(free), size(volume)));
        }
        return Ok(volume);
    }
    let needed = wanted.unwrap_or(SMALLEST) * 3 + BESIDE;
    let advice = match wanted {
        Some(volume) if volume > SMALLEST => {
            "name another directory with --scratch DIR, or a smaller volume with --size"
        }
        _ => "name another directory with --scratch DIR",
    };
    Err(Failure::new(
        format!("not enough room in {}", path.display()),
        format!("{} are free, three replicas may take {}", size(free), size(needed)),
    )
    .advise(advice))
}

/// The size of a volume whose replicas fit into `free` bytes: the `wanted` one or none; if none is
/// wanted, at most the usual one, in whole 256 MiB.
fn fitting(free: u64, wanted: Option<u64>) -> Option<u64> {
    let most = free.saturating_sub(BESIDE) / 3;
    match wanted {
        Some(wanted) => (wanted <= most).then_some(wanted),
        None => Some((most & !((256 << 20) - 1)).min(USUAL)).filter(|volume| *volume >= SMALLEST),
    }
}

#[cfg(test)]
mod tests;
