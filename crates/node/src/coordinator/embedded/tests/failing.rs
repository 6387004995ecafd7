//! The disk of the database fails, and works again.

use evenkeel_core::VolumeId;

use super::super::database::disk::{Disk, Fails};
use super::*;

fn on(disk: &Disk) -> Embedded {
    let disk = disk.clone();
    let store = RedbStore::over(Duration::ZERO, move |_| Ok(disk.clone())).unwrap();
    Embedded::over(store, "test", ALPHA, EXPIRY).unwrap()
}

/// Whichever call of the disk it is: the request is carried out, or refused as not done.
#[test]
fn a_request_is_carried_out_although_a_call_of_the_disk_fails() {
    for calls in 0.. {
        let disk = Disk::default();
        let coordinator = on(&disk);
        let (stored, _) = volume(&coordinator, "web");
        assert!(matches!(draft(&coordinator, &stored), Answer::Done));
        disk.fail_after(calls, Fails::Whole);
        let answer = coordinator.answer(Request::Create(Box::new(stored.clone())));
        let is_over = disk.heal();
        match answer {
            Ok(Answer::Done) => {}
            Err(StoreError::Unusable(_)) => {
                let there = coordinator.answer(Request::Volumes).unwrap();
                assert!(matches!(there, Answer::Volumes(volumes) if volumes.is_empty()));
            }
            other => panic!("call {calls}: {other:?}"),
        }
        let again = coordinator.answer(Request::Create(Box::new(stored.clone())));
        assert!(matches!(again, Ok(Answer::Done)), "call {calls}: {again:?}");
        let there = on(&disk.after_power_cut()).answer(Request::Volumes).unwrap();
        assert!(matches!(there, Answer::Volumes(volumes) if volumes.len() == 1), "call {calls}");
        if is_over {
            return;
        }
    }
}

/// Whoever takes it for a refusal does not ask again.
#[tokio::test]
async fn a_full_disk_is_no_refusal() {
    let disk = Disk::default();
    let coordinator = on(&disk);
    let (stored, _) = volume(&coordinator, "web");
    draft(&coordinator, &stored);
    disk.fail_always();
    let create = || coordinator.call(Request::Create(Box::new(stored.clone())));
    for _ in 0..2 {
        assert!(matches!(create().await, Err(CallError::Unreachable(_))));
    }
    disk.heal();
    assert!(matches!(create().await, Ok(Answer::Done)));
}

/// Nobody could note what they sent: else volumes that are in use would be taken over.
#[test]
fn no_node_dies_of_an_outage_of_the_database() {
    let disk = Disk::default();
    let coordinator = on(&disk);
    coordinator.answer(Request::Register(node(BETA, "beta").into())).unwrap();
    let beat = || coordinator.answer(Request::Heartbeat { node: BETA.to_string() });
    let nodes = || {
        let Answer::Nodes(nodes) = coordinator.answer(Request::Nodes).unwrap() else { panic!() };
        let beta = nodes.iter().find(|member| member.node.name == "beta").unwrap();
        (beta.alive, beta.may_live)
    };
    beat().unwrap();
    pass(&coordinator, EXPIRY.as_secs() / 2);
    beat().unwrap();
    assert_eq!(nodes(), (true, true));
    disk.fail_always();
    let (node, volume) = (ALPHA.to_string(), VolumeId(7).to_string());
    coordinator.answer(Request::Draft { node, incarnation: 1, volume }).unwrap_err();
    for _ in 0..=EXPIRY.as_secs() / LOOK {
        coordinator.inner.ahead.fetch_add(LOOK, std::sync::atomic::Ordering::Relaxed);
        beat().unwrap_err();
    }
    disk.heal();
    assert_eq!(nodes(), (false, true), "not known to be alive, nor dead");
    // From now on its silence counts.
    pass(&coordinator, EXPIRY.as_secs());
    assert_eq!(nodes(), (false, false));
}

/// Whoever asked again would be answered so again.
#[tokio::test]
async fn what_does_not_fit_together_is_refused() {
    let coordinator = on(&Disk::default());
    let (mut stored, _) = volume(&coordinator, "web");
    stored.record.id = VolumeId(7).to_string();
    let answer = coordinator.call(Request::Create(Box::new(stored))).await;
    assert!(matches!(answer, Err(CallError::Refused(_))), "{answer:?}");
}
