//! Profiles: which configurations and workloads belong together.
//!
//! `quick` is what this project watches itself by. The others each repeat the workload of one
//! published report, with its tools, options and order; one factor scales their sizes and times.

mod historical;
mod quick;

use std::path::Path;

use crate::failure::{Failure, Kind};
use crate::runner::{Plan, plain};
use crate::target::{Protocol, Recipe};
use crate::workload::Place;

/// A profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// A few minutes: raw, a local mirror, three copies with every protocol.
    Quick,
    /// dd, fio and IOzone on local against shared mirrors.
    ClusterMd,
    /// Buffered fio and small direct dd on a replica-3 filesystem.
    Gluster,
    /// hdparm, dd and bonnie++ on a mirror of two disks.
    MdRaid1,
    /// 64 jobs of 4K direct writes on XFS and ext4 over the replication protocols.
    Drbd,
    /// hdparm and fio through exports, mirrors over exports, and replication behind them.
    NetworkStorage,
}

/// What the user may change of a profile.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Choice {
    /// Factor on the original's sizes and times; `None`: the profile's own, for a few minutes.
    pub scale: Option<f64>,
    /// Most rounds; `None`: the profile's own.
    pub rounds: Option<u32>,
    /// Seconds of one measurement (`quick`).
    pub seconds: Option<f64>,
    /// Only these workloads, by identity; empty: all.
    pub workloads: Vec<String>,
    /// Block devices instead of the shortest way (`quick`; the others always take devices).
    pub devices: bool,
    /// Usable bytes of each configuration.
    pub size: Option<u64>,
    /// Only these configurations, beside raw and the limits.
    pub only: Vec<String>,
    /// These configurations too; `peers`: all that are installed.
    pub with: Vec<String>,
}

/// Every configuration that can be asked for by name.
pub const KNOWN: [Recipe; 29] = [
    Recipe::Local(1),
    Recipe::Local(2),
    Recipe::Local(3),
    Recipe::Replicas(2, Protocol::C),
    Recipe::Replicas(2, Protocol::B),
    Recipe::Replicas(2, Protocol::A),
    Recipe::Replicas(3, Protocol::C),
    Recipe::Replicas(3, Protocol::B),
    Recipe::Replicas(3, Protocol::A),
    Recipe::Encrypted(2),
    Recipe::OverNbd(2),
    Recipe::OverNvme(2),
    Recipe::Shared(2),
    Recipe::Remote(1),
    Recipe::Remote(3),
    Recipe::Stripe,
    Recipe::RemoteStripe,
    Recipe::QuorumNbd,
    Recipe::QuorumFiles,
    Recipe::GlusterMount,
    Recipe::GlusterApi,
    Recipe::MdRaid1,
    Recipe::Drbd(Protocol::C),
    Recipe::Drbd(Protocol::B),
    Recipe::Drbd(Protocol::A),
    Recipe::QemuNbd,
    Recipe::QemuFuse,
    Recipe::Nbdkit,
    Recipe::Tgt,
];

impl Profile {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::ClusterMd => "cluster-md",
            Self::Gluster => "gluster",
            Self::MdRaid1 => "md-raid1",
            Self::Drbd => "drbd",
            Self::NetworkStorage => "network-storage",
        }
    }

    /// What is to be run.
    ///
    /// # Errors
    /// If a configuration is named that does not exist, or a number makes no sense.
    pub fn plan(self, choice: &Choice) -> Result<Plan, Failure> {
        check(choice)?;
        let mut plan = match self {
            Self::Quick => quick::plan(choice),
            Self::ClusterMd => historical::cluster_md(choice),
            Self::Gluster => historical::gluster(choice),
            Self::MdRaid1 => historical::md_raid1(choice),
            Self::Drbd => historical::drbd(choice),
            Self::NetworkStorage => historical::network_storage(choice),
        };
        plan.profile = self.name().to_owned();
        if let Some(size) = choice.size {
            plan.size = size;
        }
        if let Some(rounds) = choice.rounds {
            plan.tasks.iter_mut().for_each(|task| task.rounds = rounds);
        }
        choose(&mut plan, choice)?;
        choose_workloads(&mut plan, choice)?;
        Ok(plan)
    }

    /// The commands of a plan, as a person would type them.
    pub fn dry_run(plan: &Plan) -> String {
        let mut text = format!("# profile {}, scale {}\n", plan.profile, plan.scale);
        text += "# on each of: ";
        text += &plan.recipes.iter().map(|recipe| recipe.id()).collect::<Vec<_>>().join(", ");
        text.push('\n');
        for task in &plan.tasks {
            text += &format!("# {}", task.workload.name);
            text += &match task.rounds {
                1 => "\n".to_owned(),
                rounds => format!(", {rounds} times\n"),
            };
            let place = match task.place {
                Place::Filesystem(filesystem) => {
                    text += &format!("{} /dev/DEVICE\n", filesystem.make().join(" "));
                    Path::new("/mnt/DIRECTORY/benchmark")
                }
                Place::Device | Place::Shortest => Path::new("/dev/DEVICE"),
            };
            text += &format!("{}\n", plain(task, place));
        }
        text
    }
}

fn check(choice: &Choice) -> Result<(), Failure> {
    let usage = |what: &str| Err(Failure::new(what, "").kind(Kind::Usage));
    if choice.scale.is_some_and(|scale| !(1e-6..=100.0).contains(&scale)) {
        return usage("--scale is not between 0.000001 and 100");
    }
    if choice.seconds.is_some_and(|seconds| !(0.05..=86_400.0).contains(&seconds)) {
        return usage("--seconds is not between 0.05 and 86400");
    }
    if choice.rounds.is_some_and(|rounds| !(1..=1000).contains(&rounds)) {
        return usage("--rounds is not between 1 and 1000");
    }
    if choice.size.is_some_and(|size| size < 32 << 20 || !size.is_multiple_of(1 << 20)) {
        return usage("--size is less than 32M or not a multiple of 1M");
    }
    Ok(())
}

fn choose(plan: &mut Plan, choice: &Choice) -> Result<(), Failure> {
    if choice.with.iter().any(|name| name == "peers") {
        let peers = KNOWN.into_iter().filter(|recipe| recipe.is_peer());
        let installed =
            peers.filter(|recipe| recipe.tools().iter().all(|tool| tool.path().is_some()));
        add(plan, installed.collect());
    }
    let named = choice.with.iter().filter(|name| *name != "peers");
    let named: Vec<Recipe> = named.map(|name| recipe(name)).collect::<Result<_, _>>()?;
    plan.named.extend(named.iter().copied());
    add(plan, named);
    if !choice.only.is_empty() {
        let only: Vec<Recipe> =
            choice.only.iter().map(|name| recipe(name)).collect::<Result<_, _>>()?;
        // A limit stays if anything keeps as many copies.
        plan.recipes.retain(|recipe| match recipe {
            Recipe::Raw | Recipe::RawLoop => true,
            Recipe::Limit(copies) => only.iter().any(|chosen| chosen.copies() == *copies),
            _ => false,
        });
        plan.named = only.clone();
        add(plan, only);
    }
    Ok(())
}

fn choose_workloads(plan: &mut Plan, choice: &Choice) -> Result<(), Failure> {
    let known: Vec<&str> = plan.tasks.iter().map(|task| task.workload.id.as_str()).collect();
    if let Some(name) = choice.workloads.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(Failure::new(format!("there is no workload `{name}` in {}", plan.profile), "")
            .advise(format!("one of: {}", known.join(", ")))
            .kind(Kind::Usage));
    }
    if !choice.workloads.is_empty() {
        plan.tasks.retain(|task| choice.workloads.contains(&task.workload.id));
    }
    Ok(())
}

fn add(plan: &mut Plan, recipes: Vec<Recipe>) {
    for recipe in recipes {
        if !plan.recipes.contains(&recipe) {
            plan.recipes.push(recipe);
        }
    }
}

/// The recipe of this name.
///
/// # Errors
/// If there is none.
pub fn recipe(name: &str) -> Result<Recipe, Failure> {
    KNOWN.into_iter().find(|recipe| recipe.id() == name).ok_or_else(|| {
        let names: Vec<String> = KNOWN.iter().map(|recipe| recipe.id()).collect();
        Failure::new(format!("there is no configuration `{name}`"), "")
            .advise(format!("choose among: {}", names.join(", ")))
            .kind(Kind::Usage)
    })
}

#[cfg(test)]
mod tests;
