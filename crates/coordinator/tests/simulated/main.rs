//! Several coordinators at once over one simulated store, all from one seed.
//!
//! `EVENKEEL_COORDINATOR_SEEDS=N` runs so many seeds in place of the sample;
//! `EVENKEEL_COORDINATOR_SEED=S` runs one, and prints what was counted. With
//! `EVENKEEL_COORDINATOR_CANARY=Removals` only that one is looked for.

mod cluster;
mod nodes;
mod oracles;
mod overtaken;
mod random;
mod signs;
mod store;

use std::collections::BTreeMap;

use evenkeel_coordinator::store::Space;

use cluster::Cluster;
use nodes::World;
use oracles::Violation;
use store::Sabotage;

/// Questions that are answered in the run of a seed.
const ANSWERS: u64 = 1000;

type Counts = BTreeMap<&'static str, u64>;

fn run(seed: u64, sabotage: Sabotage) -> Result<Counts, Violation> {
    let mut world = World::new(Cluster::new(seed, sabotage));
    let mut steps = 0u64;
    while world.answered < ANSWERS {
        world.step()?;
        steps += 1;
        if steps > ANSWERS * 200 {
            let why = format!("{} answers after {steps} steps", world.answered);
            return Err(("progress", why));
        }
    }
    let mut counts = world.cluster.counts.clone();
    counts.extend(world.cluster.store.counts());
    counts.extend(world.cluster.oracles.counts.clone());
    let overtaken = world.cluster.oracles.overtaken.count();
    if overtaken > 0 {
        counts.insert("commands overtaken", overtaken);
    }
    Ok(counts)
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().expect("a number"))
}

/// What each fault and each rule needs to be worth something.
const MARKS: [&str; 43] = [
    "commits that hang",
    "commits that wait for one that hangs",
    "signs of life that wait for a thread",
    "conflicts",
    "lost answers",
    "lost requests",
    "delayed",
    "committed late",
    "came too late",
    "too old",
    "not committed",
    "takeovers by another coordinator",
    "frozen coordinators",
    "held in a socket",
    "commands overtaken",
    "nodes cut off",
    "copies of machines",
    "asked elsewhere while somebody is at it",
    "starts after silence",
    "primaries of dead nodes dropped",
    "drafts of dead nodes given up",
    "swaps",
    "older stores put back",
    "replicas deleted",
    "assemblies in place of a view",
    "kept: its disk knows more",
    "answer: done",
    "answer: waits",
    "answer: copy",
    "answer: superseded",
    "answer: not registered",
    "answer: node removed",
    "answer: node in use",
    "answer: newest",
    "answer: changed",
    "answer: was deleted",
    "answer: no volume",
    "answer: name in use",
    "answer: not expired",
    "answer: given up",
    "answer: placed already",
    "answer: used on",
    "answer: fates",
];

#[test]
fn what_coordinators_do_at_once_is_as_if_each_were_alone() {
    let one = number("EVENKEEL_COORDINATOR_SEED");
    let seeds = match (one, number("EVENKEEL_COORDINATOR_SEEDS")) {
        (Some(seed), _) => seed..seed + 1,
        (None, count) => 0..count.unwrap_or(100),
    };
    let mut total = Counts::new();
    for seed in seeds.clone() {
        match run(seed, Sabotage::Nothing) {
            Ok(counts) => {
                counts.into_iter().for_each(|(what, n)| *total.entry(what).or_default() += n)
            }
            Err((oracle, why)) => panic!("seed {seed}: {oracle}: {why}"),
        }
    }
    println!("{} seeds: {total:#?}", seeds.end - seeds.start);
    if one.is_none() {
        let missing: Vec<_> = MARKS.iter().filter(|mark| !total.contains_key(*mark)).collect();
        assert!(missing.is_empty(), "no seed came to {missing:?}");
    }
}

/// The same seed tells the same story.
#[test]
fn a_seed_is_reproducible() {
    let reported = |seed| run(seed, Sabotage::Nothing).expect("it holds");
    assert_eq!(reported(3), reported(3));
}

/// Each rule that is taken away is missed by an oracle.
#[test]
fn every_condition_is_needed() {
    let keys = [
        Space::Nodes,
        Space::Starts,
        Space::Silent,
        Space::Removed,
        Space::Volumes,
        Space::Names,
        Space::Views,
        Space::Drafts,
        Space::GivenUp,
    ];
    // Views as a whole are read by whoever removes a node: what uses it by them changes its volume
    // too, or is its own.
    let whole = [Space::Nodes, Space::Removed, Space::Volumes, Space::Discarded];
    let all = keys.map(Sabotage::Keys).into_iter().chain(whole.map(Sabotage::Whole));
    let mut unseen = Vec::new();
    let others = [
        Sabotage::Parent,
        Sabotage::Revision,
        Sabotage::Removals,
        Sabotage::Arrivals,
        Sabotage::FalseAnswer,
        Sabotage::Torn,
    ];
    let only = std::env::var("EVENKEEL_COORDINATOR_CANARY").ok();
    let is_meant =
        |canary: &Sabotage| only.as_ref().is_none_or(|only| *only == format!("{canary:?}"));
    for sabotage in all.chain(others).filter(is_meant) {
        let found = (0..2000).find_map(|seed| run(seed, sabotage).err().map(|why| (seed, why)));
        match found {
            Some((seed, (oracle, why))) => {
                println!("{sabotage:?}: seed {seed}: {oracle}: {why}");
                let meant = match sabotage {
                    Sabotage::Revision => "overtaken",
                    Sabotage::Removals => "members",
                    Sabotage::Arrivals => "lives",
                    _ => oracle,
                };
                assert_eq!(oracle, meant, "it is not what is to miss {sabotage:?}");
            }
            None => unseen.push(sabotage),
        }
    }
    assert!(unseen.is_empty(), "no oracle misses {unseen:?}");
}
