//! The steps of a quickstart, in order.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use evenkeel_api::routes;
use evenkeel_api::types::{
    AttachHow, CreateVolumeAnswer, CreateVolumeRequest, VolumeHealth, VolumeStatus,
};

use super::cluster::{Cluster, Node};
use super::compare::{Verdict, allocated, compare};
use super::copy::{self, Copied, CopyTally};
use super::load::{Load, Tally};
use super::source::{self, SourceFile};
use super::stale::Scratch;
use super::steps::Steps;
use super::store::Store;
use super::volume::{self, Access, NAME};
use crate::args::QuickstartArgs;
use crate::commands::wait::RebuildBar;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output::{self, Painted as _, rate, say, size, span};
use crate::system;

/// How many steps there are.
const STEPS: usize = 8;
/// The node that is killed: neither the coordinator's nor the one where the volume is attached.
const VICTIM: usize = 2;
/// How long the loss of a replica may take to show.
const LOSS_PATIENCE: Duration = Duration::from_secs(30);
/// How long a rebuild may take.
const REBUILD_PATIENCE: Duration = Duration::from_secs(1800);

/// A quickstart under way.
pub struct Story<'a> {
    args: &'a QuickstartArgs,
    /// The volume's size, in bytes.
    volume: u64,
    interrupt: &'a Interrupt,
    scratch: PathBuf,
    steps: Steps,
    how: AttachHow,
    files: Vec<SourceFile>,
    // In the order in which they are to be dropped.
    load: Option<Load>,
    store: Option<Box<dyn Store>>,
    access: Option<Access>,
    cluster: Option<Cluster>,
    copied: Vec<Copied>,
}

impl<'a> Story<'a> {
    /// Before the first step; `volume` is its volume's size in bytes.
    ///
    /// # Errors
    /// If there is no data to copy.
    pub fn new(
        args: &'a QuickstartArgs,
        volume: u64,
        scratch: &Scratch,
        interrupt: &'a Interrupt,
    ) -> Result<Self, Failure> {
        let root = rustix::process::geteuid().is_root();
        let can_mount = root && !args.nbd && volume::filesystem().is_some();
        Ok(Self {
            args,
            volume,
            interrupt,
            scratch: scratch.path().to_owned(),
            steps: Steps::new(STEPS),
            how: if can_mount { AttachHow::Auto } else { AttachHow::Nbd },
            files: source::find(args.data.as_deref(), volume / 4)?,
            load: None,
            store: None,
            access: None,
            cluster: None,
            copied: Vec::new(),
        })
    }

    /// All steps.
    ///
    /// # Errors
    /// With the first thing that did not go as it should.
    pub fn report(&mut self) -> Result<(), Failure> {
        self.start_nodes()?;
        self.create()?;
        self.attach()?;
        self.copy_half()?;
        self.lose_a_node()?;
        self.bring_it_back()?;
        self.verify()?;
        self.reopen()
    }

    fn start_nodes(&mut self) -> Result<(), Failure> {
        self.steps.begin("Start three nodes, each a process with a disk of its own");
        let cluster = self.cluster.insert(Cluster::prepare(&self.scratch)?);
        cluster.start(self.interrupt)?;
        self.steps.report(&format!("scratch directory {}", self.scratch.display()));
        for (index, node) in cluster.nodes.iter().enumerate() {
            let role = if index == 0 { ", the coordinator's node" } else { "" };
            let pid = node.pid().map_or_else(String::new, |pid| pid.to_string());
            self.steps.report(&format!("{} pid {pid}{role}", node.name.bold()));
        }
        self.steps.done();
        Ok(())
    }

    fn create(&mut self) -> Result<(), Failure> {
        let title = format!("Create volume `{NAME}`: {}, 3 replicas", size(self.volume));
        self.steps.begin(&title);
        let request = CreateVolumeRequest::new(NAME, self.volume);
        let answer: CreateVolumeAnswer =
            self.cluster()?.first().client.post(routes::VOLUMES, &request)?.parse()?;
        let places: Vec<_> = answer
            .plan
            .replicas
            .iter()
            .map(|replica| format!("{}:{}", replica.node.name, replica.disk))
            .collect();
        self.steps.report(&format!(
            "on {}; protocol {:?}",
            places.join(", "),
            answer.plan.protocol
        ));
        self.steps.report("a new volume reads as zeroes: nothing has to be copied first");
        self.steps.done();
        Ok(())
    }

    fn attach(&mut self) -> Result<(), Failure> {
        self.steps.begin("Attach it to n1, make a filesystem, mount it");
        let access = volume::attach(self.cluster()?.first(), self.how)?;
        self.access = Some(access.clone());
        match &access {
            Access::Device { path, kind } => {
                self.steps.report(&format!("block device {} ({kind})", path.display()));
            }
            Access::Nbd { uri, .. } => {
                self.steps.report(&format!("{}; served over NBD instead:", self.why_no_device()));
                self.steps.report(uri);
                self.steps.report("no filesystem then: files are written to it one after another");
            }
        }
        if let Some(filesystem) = volume::format(&access)? {
            self.steps.report(&format!("{filesystem} on {}", self.point().display()));
            if filesystem != "xfs" {
                self.steps.report("mkfs.xfs is not installed (package xfsprogs)");
            }
        }
        self.store = Some(volume::open(&access, &self.point())?);
        self.steps.done();
        Ok(())
    }

    fn why_no_device(&self) -> &'static str {
        match self.how {
            AttachHow::Nbd if self.args.nbd => "no block device was asked for",
            AttachHow::Nbd if rustix::process::geteuid().is_root() => {
                "no mkfs.xfs or mkfs.ext4 is installed"
            }
            AttachHow::Nbd => "a block device and a mount need root",
            _ => "this machine can make no block device (it needs ublk, or FUSE and loop)",
        }
    }

    fn copy_half(&mut self) -> Result<(), Failure> {
        let half = self.files.len() / 2;
        self.steps.begin(&format!("Copy {half} files of this machine onto it"));
        let files = self.files[..half].to_vec();
        let start = Instant::now();
        let interrupt = self.interrupt;
        let tally = copy::copy(self.store()?, &files, interrupt, |_| Ok(()))?;
        self.report_copy(&tally, start.elapsed());
        self.copied.extend(tally.copied);
        self.steps.done();
        Ok(())
    }

    fn report_copy(&self, tally: &CopyTally, time: Duration) {
        let speed = u128::from(tally.bytes) * 1000 / time.as_millis().max(1);
        self.steps.report(&format!(
            "{} files, {} copied and made durable on three replicas, {}",
            tally.copied.len(),
            size(tally.bytes),
            rate(u64::try_from(speed).unwrap_or(u64::MAX)),
        ));
    }

    fn lose_a_node(&mut self) -> Result<(), Failure> {
        let rest = self.files[self.files.len() / 2..].to_vec();
        let name = self.cluster()?.nodes[VICTIM].name.clone();
        self.steps.begin(&format!("Kill {name} while {} more files are copied", rest.len()));
        let load = Load::start(self.store()?.load_target().map_err(|error| {
            Failure::new("cannot open the volume a second time, for the load", error)
        })?);
        let (mut store, mut cluster) = (self.store.take(), self.cluster.take());
        let result = match (&mut store, &mut cluster) {
            (Some(store), Some(cluster)) => copy_and_kill(
                store.as_mut(),
                &rest,
                self.interrupt,
                &load,
                &mut cluster.nodes[VICTIM],
                &self.steps,
            ),
            _ => Err(order()),
        };
        (self.store, self.cluster) = (store, cluster);
        let (before, since) = result?;
        let meanwhile = load.take();
        self.load = Some(load);
        let volume = self.await_health("the loss shows", LOSS_PATIENCE, |health| {
            health == VolumeHealth::Degraded
        })?;
        self.report_loss(&since, &meanwhile, &volume)?;
        self.copied.extend(before.copied);
        self.copied.extend(since.copied);
        self.steps.done();
        Ok(())
    }

    fn report_loss(
        &self,
        copied: &CopyTally,
        load: &Tally,
        volume: &VolumeStatus,
    ) -> Result<(), Failure> {
        no_error(load)?;
        self.steps.report(&format!(
            "input and output went on: {} files ({}) and {} durable writes of 64K ({}) since then",
            copied.copied.len(),
            size(copied.bytes),
            load.writes,
            size(load.bytes()),
        ));
        self.steps
            .report(&format!("no error; the longest wait of a write was {}", span(load.longest)));
        let reason = volume.reason.clone().unwrap_or_default();
        self.steps.report(&format!("{} {reason}", output::volume::summary(volume).warning()));
        Ok(())
    }

    fn bring_it_back(&mut self) -> Result<(), Failure> {
        let Some(cluster) = &mut self.cluster else { return Err(order()) };
        let node = &mut cluster.nodes[VICTIM];
        self.steps.begin(&format!("Start {} again: its replica rebuilds by itself", node.name));
        node.start()?;
        node.await_ready(self.interrupt)?;
        let start = Instant::now();
        let mut seen = Rebuilt::default();
        let bar = RebuildBar::indented(7);
        let volume = self.await_volume("the rebuild ends", REBUILD_PATIENCE, |volume| {
            bar.show(volume);
            seen.note(volume);
            volume.health == VolumeHealth::InSync
        });
        drop(bar);
        let volume = volume?;
        self.steps.report(&seen.report(start.elapsed()));
        if let Some(load) = self.load.take() {
            let tally = load.take();
            drop(load);
            no_error(&tally)?;
            self.steps.report(&format!(
                "meanwhile {} more durable writes ({}), the longest took {}",
                tally.writes,
                size(tally.bytes()),
                span(tally.longest),
            ));
        }
        self.steps.report(&format!(
            "{} every replica is in-sync",
            output::volume::summary(&volume).good()
        ));
        self.steps.done();
        Ok(())
    }

    fn verify(&mut self) -> Result<(), Failure> {
        self.steps.begin("Detach it and compare the three replicas byte for byte");
        self.close()?;
        if !volume::detach(self.cluster()?.first())? {
            return Err(Failure::new(
                "the volume was not detached cleanly",
                "a replica was missing",
            ));
        }
        self.access = None;
        let paths: Result<Vec<_>, _> =
            self.cluster()?.nodes.iter().map(|node| node.replica_path(NAME)).collect();
        let paths = paths?;
        for path in &paths {
            let held = size(allocated(path));
            self.steps.report(&format!("{} holds {held}", path.display()));
        }
        let verdict = compare(&paths, evenkeel_format::DATA_OFFSET, self.volume)
            .map_err(|error| Failure::new("cannot read the replicas", error))?;
        self.judge(&verdict)?;
        self.steps.done();
        Ok(())
    }

    fn judge(&self, verdict: &Verdict) -> Result<(), Failure> {
        if let Some((offset, path)) = &verdict.difference {
            return Err(Failure::new(
                "the replicas differ",
                format!("first at byte {offset} of the data, in {}", path.display()),
            )
            .advise("this is a bug: please report it with the output of this run"));
        }
        self.steps.report(&format!(
            "{} {} of data in each, and zeroes everywhere else",
            "identical:".good(),
            size(verdict.read),
        ));
        Ok(())
    }

    fn reopen(&mut self) -> Result<(), Failure> {
        self.steps.begin("Attach it again and compare all files with their checksums");
        let access = volume::attach(self.cluster()?.first(), self.how)?;
        self.access = Some(access.clone());
        self.store = Some(volume::open(&access, &self.point())?);
        let copied = std::mem::take(&mut self.copied);
        let interrupt = self.interrupt;
        let wrong = copy::check(self.store()?, &copied, interrupt)?;
        if let Some(first) = wrong.first() {
            return Err(Failure::new(
                format!("{} of {} files differ", wrong.len(), copied.len()),
                format!("the first is {}", first.file.path.display()),
            )
            .advise("this is a bug: please report it with the output of this run"));
        }
        self.steps.report(&format!("{} {} files", "all the same:".good(), copied.len()));
        self.copied = copied;
        self.steps.done();
        Ok(())
    }

    /// Says what to try, and waits for Ctrl-C.
    pub fn linger(&self) {
        // Without a cluster there is nothing to try.
        let Some(cluster) = &self.cluster else { return };
        let socket = cluster.first().socket.display();
        let program = std::env::current_exe().unwrap_or_else(|_| "evenkeel".into());
        let program = program.display();
        let place = match &self.access {
            Some(Access::Device { .. }) => format!("ls {}", self.point().display()),
            Some(Access::Nbd { uri, .. }) => format!("nbdinfo '{uri}'"),
            None => String::new(),
        };
        say(&format!(
            "\n{}\n  alias evenkeel={program}\n  export EVENKEEL_SOCKET={socket}\n  {place}\n  \
             evenkeel volume status {NAME} --watch\n  evenkeel replica fail {NAME} n3\n  \
             evenkeel replica re-add {NAME} n3 --wait\n  evenkeel export nbd {NAME}\n  \
             evenkeel node status\n  evenkeel --help\n\n{}\n",
            "It all runs until you press Ctrl-C. What to try, in another terminal:".bold(),
            "Ctrl-C removes everything.".dim(),
        ));
        self.interrupt.wait();
        say("\nCleaning up.\n");
    }

    /// Takes everything apart. In good order if all went well; else as far as it goes.
    pub fn end(mut self, in_order: bool) {
        self.load = None;
        let closed = self.close();
        if self.access.take().is_some()
            && closed.is_ok()
            && let Some(cluster) = &self.cluster
            && let Err(failure) = volume::detach(cluster.first())
            && in_order
        {
            eprint!("{}", failure.render());
        }
    }

    /// The ends of the nodes' logs.
    pub fn log_ends(&self) -> String {
        self.cluster.as_ref().map_or_else(String::new, Cluster::log_ends)
    }

    /// Unmounts, or disconnects from the export.
    fn close(&mut self) -> Result<(), Failure> {
        self.store = None;
        let point = self.point();
        if system::mounts_below(&point).is_empty() {
            return Ok(());
        }
        system::run("umount", &[OsStr::new(&point)]).map(drop)
    }

    fn point(&self) -> PathBuf {
        self.scratch.join("mnt")
    }

    fn cluster(&self) -> Result<&Cluster, Failure> {
        self.cluster.as_ref().ok_or_else(order)
    }

    fn store(&mut self) -> Result<&mut dyn Store, Failure> {
        match &mut self.store {
            Some(store) => Ok(store.as_mut()),
            None => Err(order()),
        }
    }

    fn await_health(
        &self,
        what: &str,
        patience: Duration,
        wanted: impl Fn(VolumeHealth) -> bool,
    ) -> Result<VolumeStatus, Failure> {
        self.await_volume(what, patience, |volume| wanted(volume.health))
    }

    fn await_volume(
        &self,
        what: &str,
        patience: Duration,
        mut wanted: impl FnMut(&VolumeStatus) -> bool,
    ) -> Result<VolumeStatus, Failure> {
        let cluster = self.cluster()?;
        self.interrupt.poll(what, patience, || {
            let volume = cluster.volume(NAME)?;
            Ok(wanted(&volume).then_some(volume))
        })
    }
}

/// A step that came before the one it needs.
fn order() -> Failure {
    Failure::new("the quickstart lost its way", "a step came before the one that it needs")
}

fn no_error(load: &Tally) -> Result<(), Failure> {
    match &load.error {
        Some(error) => Err(Failure::new("a write failed while a replica was missing", error)),
        None => Ok(()),
    }
}

/// Copies files, and kills a node after the first tenth of them. Tells what was copied before and
/// since.
fn copy_and_kill(
    store: &mut dyn Store,
    files: &[SourceFile],
    interrupt: &Interrupt,
    load: &Load,
    victim: &mut Node,
    steps: &Steps,
) -> Result<(CopyTally, CopyTally), Failure> {
    let (before, after) = files.split_at(files.len() / 10);
    let first = copy::copy(store, before, interrupt, |_| Ok(()))?;
    let pid = victim.pid().unwrap_or_default();
    drop(load.take());
    let mut killed = false;
    let second = copy::copy(store, after, interrupt, |_| {
        if !std::mem::replace(&mut killed, true) {
            victim.kill()?;
            steps.report(&format!("kill -9 {pid}"));
        }
        Ok(())
    })?;
    Ok((first, second))
}

/// What was seen of a rebuild.
#[derive(Debug, Default)]
struct Rebuilt {
    copied: u64,
    total: u64,
    source: Option<String>,
}

impl Rebuilt {
    fn note(&mut self, volume: &VolumeStatus) {
        let replicas = volume.mirrors.iter().flat_map(|mirror| &mirror.replicas);
        for rebuild in replicas.filter_map(|replica| replica.rebuild.as_ref()) {
            self.copied = self.copied.max(rebuild.copied);
            self.total = self.total.max(rebuild.total);
            self.source = rebuild.source_node.as_ref().map(|node| node.name.clone());
        }
    }

    fn report(&self, time: Duration) -> String {
        let mut text = format!("rebuilt in {}", span(time));
        if let Some(source) = &self.source {
            text.push_str(&format!(" from {source}"));
        }
        if self.copied > 0 {
            text.push_str(&format!(", at least {} sent", size(self.copied)));
        }
        text
    }
}
