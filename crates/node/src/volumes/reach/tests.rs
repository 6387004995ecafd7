use serde_json::json;

use super::*;

/// Replicas as the view has them, with what the primary and the coordinator know of each.
fn told(
    replicas: &[(&str, Option<bool>, Option<bool>)],
    health: &str,
) -> (String, VolumeHealth, String) {
    let one = |(state, connected, node_alive): &(&str, Option<bool>, Option<bool>)| {
        json!({
            "id": "", "node": {"id": "", "name": "n3"}, "disk": "fast",
            "state": state, "connected": connected, "node_alive": node_alive,
        })
    };
    let replicas: Vec<_> = replicas.iter().map(one).collect();
    let letters = "U".repeat(replicas.len());
    let mut status: VolumeStatus = serde_json::from_value(json!({
        "id": "", "name": "music", "size": 4096, "block_size": 512, "chunk": 65536, "protocol": "C",
        "bitmap": "internal", "region_size": 1048576, "open_regions": 1024, "slots": 1,
        "rebuild": {"limit": "none"}, "lease_ms": 6000, "lease_margin_ms": 500,
        "no_data": {"policy": "error"}, "state": "detached", "health": health, "generation": 7,
        "lineage": "", "source": "coordinator", "primaries": [], "exports": [], "events": [],
        "mirrors": [{"index": 0, "summary": format!("[{letters}]"), "replicas": replicas}],
    }))
    .unwrap();
    tell(&mut status);
    (status.mirrors[0].summary.clone(), status.health, status.reason.unwrap_or_default())
}

const YES: Option<bool> = Some(true);
const NO: Option<bool> = Some(false);

#[test]
fn what_answers_is_as_the_view_has_it() {
    let good = ("[UU]".to_owned(), VolumeHealth::InSync, String::new());
    assert_eq!(told(&[("in-sync", YES, YES), ("in-sync", YES, NO)], "in-sync"), good);
    assert_eq!(told(&[("in-sync", None, YES), ("in-sync", None, YES)], "in-sync"), good);
}

#[test]
fn a_dead_node_is_not_called_in_sync() {
    let (summary, health, reason) =
        told(&[("in-sync", None, YES), ("in-sync", None, NO)], "in-sync");
    assert_eq!((&*summary, health), ("[U?]", VolumeHealth::Unreachable));
    assert_eq!(reason, "replica n3:fast: it does not answer; it was in-sync when it last did");
    // The primary knows better than whoever hears that node's heartbeats.
    let (summary, health, _) = told(&[("in-sync", YES, YES), ("in-sync", NO, YES)], "in-sync");
    assert_eq!((&*summary, health), ("[U?]", VolumeHealth::Unreachable));
}

#[test]
fn what_nobody_knows_is_called_unknown_unless_worse_is_known() {
    let (summary, health, reason) = told(&[("in-sync", None, None)], "in-sync");
    assert_eq!((&*summary, health), ("[?]", VolumeHealth::Unknown));
    assert!(reason.contains("whether node n3 is there is not known"), "{reason}");
    let half = [("in-sync", None, None), ("stale", None, YES)];
    assert_eq!(told(&half, "degraded").1, VolumeHealth::Degraded);
}

#[test]
fn a_replica_that_counts_as_missing_need_not_answer() {
    let half = [("in-sync", YES, YES), ("stale", NO, NO), ("spare", None, NO)];
    let (summary, health, _) = told(&half, "degraded");
    assert_eq!((&*summary, health), ("[UUU]", VolumeHealth::Degraded));
}
