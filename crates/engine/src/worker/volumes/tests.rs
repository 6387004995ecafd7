use std::sync::mpsc::{Receiver, channel};

use evenkeel_core::primary::Earlier;
use evenkeel_core::{Incarnation, PrimaryId, Settings};

use super::*;
use crate::api::EngineConfig;
use crate::ring::Ring;

const VOLUME: VolumeId = VolumeId(1);
const NODE: NodeId = NodeId(2);

fn bench() -> (Context, Volumes, Receiver<EngineEvent>) {
    let (report, reported) = channel();
    let config = EngineConfig::new(move |event| drop(report.send(event)));
    let cx = Context::new(&config, Ring::new().expect("a ring"), Instant(0));
    (cx, Volumes::new(config.memory_per_volume), reported)
}

fn attach(cx: &mut Context, volumes: &mut Volumes) -> Result<(), EngineError> {
    attach_as(cx, volumes, primary(77))
}

fn primary(incarnation: u64) -> PrimaryId {
    PrimaryId { node: NODE, incarnation: Incarnation(incarnation) }
}

fn attach_as(cx: &mut Context, volumes: &mut Volumes, id: PrimaryId) -> Result<(), EngineError> {
    let config = PrimaryConfig {
        id,
        volume: VOLUME,
        settings: Settings::default(),
        earlier: Earlier::Ended,
    };
    volumes.attach(cx, config, None)
}

#[test]
fn a_volume_ends_when_its_last_front_end_has_gone_and_is_attached_again_after_that() {
    let (mut cx, mut volumes, reported) = bench();
    assert!(matches!(volumes.for_frontend(VOLUME), Err(EngineError::Unknown)));
    attach(&mut cx, &mut volumes).expect("attaches");
    assert!(matches!(cx.next_work(), Some(Work::Primary(_, PrimaryEvent::Start))));
    let (key, _) = volumes.for_frontend(VOLUME).expect("it is attached");
    let frontend = Slab::new().insert(());
    volumes.frontend_added(key, frontend);

    volumes.end(&mut cx, key, EndReason::Detached);
    match cx.next_work() {
        Some(Work::Frontend(stopping, FrontendEvent::Stopping)) => assert_eq!(stopping, frontend),
        _ => panic!("its front end is to stop"),
    }
    assert!(reported.try_recv().is_err(), "the front end is still there");
    assert!(matches!(volumes.for_frontend(VOLUME), Err(EngineError::Unknown)));
    assert!(matches!(attach(&mut cx, &mut volumes), Err(EngineError::AlreadyAttached)));

    volumes.frontend_gone(&mut cx, key, frontend);
    match reported.try_recv() {
        Ok(EngineEvent::Ended { volume: VOLUME, primary, reason: EndReason::Detached }) => {
            assert_eq!(primary.node, NODE);
        }
        other => panic!("{other:?}"),
    }
    assert!(volumes.key(VOLUME).is_none(), "nothing of it is here");
    attach(&mut cx, &mut volumes).expect("attaches again");
}

#[test]
fn what_is_asked_of_a_volume_without_a_primary_is_refused() {
    let (mut cx, mut volumes, _reported) = bench();
    attach(&mut cx, &mut volumes).expect("attaches");
    let (key, _) = volumes.for_frontend(VOLUME).expect("it is attached");
    let frontend = Slab::new().insert(());
    volumes.frontend_added(key, frontend);
    volumes.end(&mut cx, key, EndReason::Detached);
    while cx.next_work().is_some() {}

    let (operation, room) = (Operation::Flush, None);
    volumes.request(
        &mut cx,
        key,
        Asked { frontend, token: RequestToken(5), host: None, operation, room },
    );
    let Some(Work::Primary(_, event)) = cx.next_work() else { panic!("the request is queued") };
    volumes.step(&mut cx, key, event, &mut Vec::new());
    match cx.next_work() {
        Some(Work::Frontend(_, FrontendEvent::Reply { token: RequestToken(5), result })) => {
            assert_eq!(result.err(), Some(RequestError::Detached));
        }
        _ => panic!("the front end is answered"),
    }
}

/// The calls of each primary have the same numbers, so a swap of the one before that is committed
/// late would have the next one go on by a view that nobody has committed.
#[test]
fn a_late_answer_of_the_coordinator_is_not_that_of_the_next_primary() {
    let (mut cx, mut volumes, _reported) = bench();
    // It keeps the volume known, so that the next primary has the same key.
    let host = Slab::new().insert(());
    volumes.open_replica(&mut cx, VOLUME, ReplicaId(3), |_, _| host);
    attach_as(&mut cx, &mut volumes, primary(1)).expect("attaches");
    let key = volumes.key(VOLUME).expect("it is attached");
    volumes.end(&mut cx, key, EndReason::DetachedUnclean);
    while cx.next_work().is_some() {}

    let answer = || (CoordinatorCall(2), CoordinatorAnswer::Committed);
    volumes.coordinator_answer(&mut cx, VOLUME, primary(1), answer());
    assert!(!cx.has_work(), "who asked has ended");
    attach_as(&mut cx, &mut volumes, primary(2)).expect("attaches again");
    assert!(matches!(cx.next_work(), Some(Work::Primary(_, PrimaryEvent::Start))));
    volumes.coordinator_answer(&mut cx, VOLUME, primary(1), answer());
    assert!(!cx.has_work(), "another primary has asked");
    volumes.coordinator_answer(&mut cx, VOLUME, primary(2), answer());
    match cx.next_work() {
        Some(Work::Primary(at, PrimaryEvent::Coordinator { call, .. })) => {
            assert_eq!((at, call), (key, CoordinatorCall(2)));
        }
        _ => panic!("the primary that has asked learns it"),
    }
}

#[test]
fn a_volume_is_known_as_long_as_a_replica_is_open() {
    let (mut cx, mut volumes, _reported) = bench();
    let host = Slab::new().insert(());
    let replica = ReplicaId(3);
    volumes.open_replica(&mut cx, VOLUME, replica, |_, _| host);
    let key = volumes.key(VOLUME).expect("a replica of it is here");
    assert_eq!(volumes.replica(key, replica), Some(host));
    volumes.replica_gone(key, host);
    assert!(volumes.key(VOLUME).is_none());
}
