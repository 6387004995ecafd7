//! `evenkeel quickstart`: the whole thing at work on one machine, in a scratch directory.

mod cluster;
mod compare;
mod copy;
mod interrupt;
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
use crate::output::{Painted as _, say, size};
use interrupt::Interrupt;
use stale::Scratch;
use story::Story;

/// The smallest volume that XFS takes, with room for the load and some files.
const SMALLEST: u64 = 512 << 20;

/// Runs the quickstart and leaves nothing behind, however it ends.
///
/// # Errors
/// With the first thing that did not go as it should.
pub fn run(args: &QuickstartArgs) -> Result<Exit, Failure> {
    if args.size < SMALLEST {
        return Err(Failure::usage(
            format!("a volume of {} is too small for a quickstart", size(args.size)),
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
    check_room(&scratch, args.size)?;
    let outcome = perform(args, &scratch, &interrupt);
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
fn perform(args: &QuickstartArgs, scratch: &Scratch, interrupt: &Interrupt) -> Result<(), Failure> {
    let mut story = Story::new(args, scratch, interrupt)?;
    let told = story.tell();
    match told {
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

/// Refuses to fill the disk: three replicas may take three times the volume's size.
fn check_room(scratch: &Scratch, volume: u64) -> Result<(), Failure> {
    let path = scratch.path();
    let state = rustix::fs::statvfs(path)
        .map_err(|error| Failure::new(format!("cannot look at {}", path.display()), error))?;
    let free = state.f_bavail * state.f_frsize;
    let needed = volume * 3 + (256 << 20);
    if free < needed {
        return Err(Failure::new(
            format!("not enough room in {}", path.display()),
            format!("{} are free, three replicas may take {}", size(free), size(needed)),
        )
        .advise("name another directory with --scratch DIR, or a smaller volume with --size"));
    }
    Ok(())
}
