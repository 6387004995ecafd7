use evenkeel_api::types::{NodeRef, PrimaryStatus, WantedStatus};

use super::*;
use crate::output::volume::tests::volume;

fn named(name: &str, health: VolumeHealth) -> VolumeStatus {
    VolumeStatus { name: name.into(), health, ..volume() }
}

fn shown(patterns: &[&str], unhealthy: bool) -> Vec<String> {
    let patterns: Vec<_> = patterns.iter().map(|&text| text.to_owned()).collect();
    let volumes = vec![
        named("vm10", VolumeHealth::InSync),
        named("vm2", VolumeHealth::Degraded),
        named("db", VolumeHealth::InSync),
        VolumeStatus { state: VolumeState::Suspended, ..named("log", VolumeHealth::InSync) },
    ];
    Selection::new(&patterns, unhealthy).of(volumes).into_iter().map(|v| v.name).collect()
}

#[test]
fn volumes_are_in_natural_order() {
    assert_eq!(shown(&[], false), ["db", "log", "vm2", "vm10"]);
}

#[test]
fn names_may_be_patterns() {
    assert_eq!(shown(&["vm*"], false), ["vm2", "vm10"]);
    assert_eq!(shown(&["vm?", "db"], false), ["db", "vm2"]);
    assert!(shown(&["vm"], false).is_empty());
}

#[test]
fn unhealthy_volumes_are_those_that_want_attention() {
    assert_eq!(shown(&[], true), ["log", "vm2"]);
    assert_eq!(shown(&["vm*"], true), ["vm2"]);
}

#[test]
fn of_those_that_were_named_the_healthy_ones_count_too() {
    let volumes = [named("vm1", VolumeHealth::InSync), named("vm2", VolumeHealth::InSync)];
    let volumes = [volumes.to_vec(), vec![named("db", VolumeHealth::InSync)]].concat();
    let selection = Selection::new(&["vm*".to_owned()], true);
    assert_eq!((selection.named(&volumes), selection.of(volumes.clone()).len()), (2, 0));
    assert_eq!(Selection::new(&[], true).named(&volumes), 3);
}

#[test]
fn an_attach_that_lasts_wants_attention() {
    let starting = |seconds| VolumeStatus {
        state: VolumeState::Starting,
        suspended: Some(crate::output::volume::tests::starting(seconds)),
        ..named("vm", VolumeHealth::InSync)
    };
    assert!(is_healthy(&starting(30)));
    assert!(!is_healthy(&starting(31)));
    // Who serves has been attached, whatever it says it has waited for.
    assert!(is_healthy(&VolumeStatus { state: VolumeState::Serving, ..starting(31) }));
}

#[test]
fn a_volume_that_somebody_misses_wants_attention() {
    let wanted = |why: Option<&str>, alive| WantedStatus {
        node: NodeRef { id: String::new(), name: "n2".into() },
        alive,
        device: true,
        nbd: false,
        nvme: false,
        exports: Vec::new(),
        why: why.map(str::to_owned),
    };
    let of = |on| VolumeStatus { wanted_on: vec![on], ..named("vm", VolumeHealth::InSync) };
    assert!(!is_healthy(&of(wanted(Some("/dev/loop7 is in use"), Some(true)))));
    assert!(!is_healthy(&of(wanted(None, Some(false)))), "its node is dead");
    assert!(is_healthy(&of(wanted(None, Some(true)))), "its node is about to attach it");
    let dead = vec!["/dev/loop7".to_owned()];
    assert!(!is_healthy(&VolumeStatus { dead_devices: dead, ..named("vm", VolumeHealth::InSync) }));
}

#[test]
fn of_each_pattern_it_is_known_whether_it_matches_anything() {
    let patterns = ["db", "nope", "vm*", "x?"].map(str::to_owned);
    let volumes = [named("db", VolumeHealth::InSync), named("vm2", VolumeHealth::Degraded)];
    let missing = |unhealthy| Selection::new(&patterns, unhealthy).missing(&volumes);
    assert_eq!(missing(false), ["nope", "x?"]);
    // One that is well is there.
    assert_eq!(missing(true), ["nope", "x?"]);
    assert!(Selection::new(&[], false).missing(&volumes).is_empty());
}

/// The others answer, and who uses it there waits, or gets errors.
#[test]
fn a_shared_volume_wants_attention_while_one_of_its_primaries_is_silent() {
    let mut shared = named("vm", VolumeHealth::InSync);
    assert!(is_healthy(&shared));
    let silent = PrimaryStatus { alive: false, here: false, ..shared.primaries[0].clone() };
    shared.primaries.push(silent);
    assert!(!is_healthy(&shared));
}
