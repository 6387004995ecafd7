//! One mount: what is attached and made for it, what is run, and what is taken back if it fails.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::time::Duration;

use evenkeel_api::types::{
    AttachAnswer, AttachHow, AttachRequest, DetachAnswer, DetachRequest, VolumeAnswer, VolumeStatus,
};
use evenkeel_api::{ErrorCode, routes};

use super::filesystem::{self, Run, make};
use super::{Context, SLOW, mounted_there, others, reason};
use crate::args::{Filesystem, MountArgs};
use crate::client;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output;
use crate::system::{self, NotRun};

/// How long somebody waits for the node to take back what it has made who wants an end: half of
/// what it may take if no replica answers.
const INTERRUPTED: Duration = Duration::from_secs(30);

/// See the module.
pub struct Attempt<'a> {
    context: &'a Context,
    args: &'a MountArgs,
    /// The identity of the node.
    own: &'a str,
    interrupt: Interrupt,
    /// By which the node knows what it has made for this mount.
    token: String,
    /// A program that goes on though nobody waits for it.
    goes_on: RefCell<Option<String>>,
}

impl<'a> Attempt<'a> {
    /// One that Ctrl-C ends.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn new(context: &'a Context, args: &'a MountArgs, own: &'a str) -> Result<Self, Failure> {
        let mut number = [0; 16];
        getrandom::fill(&mut number)
            .map_err(|error| Failure::new("cannot draw a random number", error))?;
        let token = format!("{:032x}", u128::from_be_bytes(number));
        let interrupt = Interrupt::watch()?;
        Ok(Self { context, args, own, interrupt, token, goes_on: RefCell::new(None) })
    }

    /// Mounts the volume. Returns the device and the type of the filesystem.
    ///
    /// # Errors
    /// If that fails, or somebody wants an end. Says what stays.
    pub fn mount(&self) -> Result<(String, String), Failure> {
        let result = self.attach().and_then(|device| {
            let kind = self.mount_device(Path::new(&device))?;
            Ok((device, kind))
        });
        result.map_err(|failure| {
            // What a person needs to know first is that it was stopped.
            let failure = self.interrupt.check().err().unwrap_or(failure);
            match self.goes_on.take() {
                Some(program) => goes_on(failure, &self.args.name, &program),
                None => self.take_back(failure),
            }
        })
    }

    /// Returns the device, also if it was there before: then the node knows that this mount has it,
    /// too, and leaves it if another one fails.
    fn attach(&self) -> Result<String, Failure> {
        let name = &self.args.name;
        let mount = Some(self.token.clone());
        let request = AttachRequest { how: AttachHow::Device, mount, ..Default::default() };
        let path = routes::fill(routes::ATTACH, &[name]);
        let client = &self.context.client;
        let answer: AttachAnswer = client.post_unless(&self.interrupt, &path, &request)?.parse()?;
        if !self.context.global.json && !self.context.global.quiet {
            eprint!("{}", output::phrases::warnings(&answer.warnings));
        }
        answer.device.ok_or_else(|| {
            Failure::new(format!("volume `{name}` has no device"), "the node made none")
                .advise("attach it with --as nbd and use an NBD client instead")
        })
    }

    /// Has the node take away what it has made for this mount. What it has made for another one, or
    /// at a command, stays.
    fn take_back(&self, failure: Failure) -> Failure {
        let path = routes::fill(routes::DETACH, &[&self.args.name]);
        let failed_mount = Some(self.token.clone());
        let request = DetachRequest { failed_mount, ..DetachRequest::default() };
        let patience = if self.interrupt.wanted() { INTERRUPTED } else { client::PATIENCE };
        let answer = self.context.client.post_within(patience, &path, &request);
        match answer.and_then(|answer| answer.parse::<DetachAnswer>()) {
            Ok(answer) if answer.given_up || answer.attached => failure,
            // Nothing was made.
            Err(refused) if refused.code == Some(ErrorCode::NotAttached) => failure,
            Ok(answer) => not_taken_back(failure, &self.args.name, &answer.message),
            Err(refused) => not_taken_back(failure, &self.args.name, &refused.to_string()),
        }
    }

    /// Returns the type of the filesystem.
    fn mount_device(&self, device: &Path) -> Result<String, Failure> {
        let directory = &self.args.directory;
        // Somebody may have been quicker.
        if let Some(kind) = mounted_there(self.args, device, &system::mounts())? {
            return Ok(kind);
        }
        // Before a filesystem is made that can't be mounted there.
        fs::create_dir_all(directory).map_err(|error| {
            Failure::new(format!("cannot make {}", directory.display()), error)
                .advise("name a directory that is there, or that can be made")
        })?;
        let kind = self.kind(device)?;
        self.interrupt.check()?;
        let mut words = vec![OsStr::new("-t"), OsStr::new(&kind)];
        if let Some(options) = &self.args.options {
            words.extend([OsStr::new("-o"), OsStr::new(options)]);
        }
        words.extend([device.as_os_str(), directory.as_os_str()]);
        match self.run("mount", &words) {
            // It had done its work when it was stopped.
            Err(_) if self.interrupt.wanted() && !system::mount_points(device).is_empty() => {}
            ran => drop(ran.map_err(|failure| filesystem::not_mounted(failure, &kind))?),
        }
        Ok(kind)
    }

    /// The type of the filesystem that the volume carries, or that is made on it.
    fn kind(&self, device: &Path) -> Result<String, Failure> {
        let args = self.args;
        let run: Run<'_> = &|program, words| self.run(program, words);
        let found = filesystem::signature(device, run)?;
        let volume = self.unused()?;
        let found = match (found, args.mkfs) {
            (None, Some(wanted)) => {
                others::refuse_mkfs(&volume, device, wanted, self.own)?;
                // Whoever has it no longer open may have written.
                filesystem::signature(device, run)?
            }
            (found, _) => found,
        };
        match (found, args.mkfs) {
            (Some(kind), Some(wanted)) if kind != wanted.name() => {
                Err(filesystem::carries_other(&args.name, &kind, wanted))
            }
            (Some(kind), _) => {
                others::refuse_second_mount(&volume, &args.directory, &kind)?;
                Ok(kind)
            }
            (None, Some(wanted)) => self.make(device, wanted),
            (None, None) => match others::of(&volume, device, self.own) {
                others if others.is_empty() => Err(filesystem::carries_nothing(args, device)),
                others => Err(others::carries_nothing_known(&volume, &others)),
            },
        }
    }

    /// Makes a filesystem. Returns its type.
    fn make(&self, device: &Path, wanted: Filesystem) -> Result<String, Failure> {
        let run: Run<'_> = &|program, words| self.run(program, words);
        make(&self.args.name, device, wanted, run)?;
        // That takes long.
        let still = self.unused().and_then(|volume| {
            others::refuse_second_mount(&volume, &self.args.directory, wanted.name())
        });
        still
            .map(|()| wanted.name().to_owned())
            .map_err(|failure| filesystem::made(failure, wanted))
    }

    /// The volume, if nobody has begun to use it since it was looked at.
    fn unused(&self) -> Result<VolumeStatus, Failure> {
        let volume = self.volume()?;
        others::refuse_clients(&volume, self.args, self.own)?;
        Ok(volume)
    }

    fn volume(&self) -> Result<VolumeStatus, Failure> {
        let path = routes::fill(routes::VOLUME, &[&self.args.name]);
        let answer: VolumeAnswer = self.context.client.fetch_unless(&self.interrupt, &path)?;
        Ok(answer.volume)
    }

    /// Runs a program until somebody wants an end: what reads or writes a volume that does not
    /// answer waits in the kernel.
    fn run(&self, program: &str, words: &[&OsStr]) -> Result<String, Failure> {
        let global = &self.context.global;
        let report = || {
            if !global.json && !global.quiet {
                let volume = self.volume().ok();
                if self.interrupt.wanted() {
                    return;
                }
                let reason = reason(volume.as_ref());
                eprintln!(
                    "waiting for `{program}`, which needs the volume{reason}; Ctrl-C ends the wait"
                );
            }
        };
        system::run_unless(&self.interrupt, program, words, SLOW, report).map_err(|ended| {
            match ended {
                NotRun::Failed(failure) => failure,
                NotRun::GoesOn => {
                    self.goes_on.replace(Some(program.to_owned()));
                    Failure::new(format!("`{program}` has not ended"), "").exit(Exit::Interrupted)
                }
            }
        })
    }
}

/// It was stopped, and the kernel goes on with a program: nothing is taken from under that.
fn goes_on(failure: Failure, name: &str, program: &str) -> Failure {
    let then = match program {
        "mount" => "then the volume may be mounted",
        _ => "then the program ends",
    };
    let why = format!(
        "`{program}` goes on in the kernel until the volume answers: {then}; volume {name} stays \
         attached"
    );
    Failure { why, ..failure }.advise(format!(
        "see what the volume waits for: evenkeel volume status {name}; when it answers, end this: \
         evenkeel umount {name}"
    ))
}

/// It has failed, and so has taking back what was made for it.
fn not_taken_back(mut failure: Failure, name: &str, why: &str) -> Failure {
    let first = if failure.why.is_empty() { String::new() } else { format!("{}\n", failure.why) };
    failure.why = format!("{first}what was attached for it may be there still: {why}");
    let first = match failure.remedy.is_empty() {
        true => String::new(),
        false => format!("{}\n", failure.remedy),
    };
    failure.remedy =
        format!("{first}see it: evenkeel volume status {name}; end it: evenkeel umount {name}");
    // The answer of the node says less.
    failure.json = None;
    failure
}

#[cfg(test)]
mod tests;
