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
