use super::*;

const SECOND: Duration = Duration::from_secs(1);
const INCARNATION: Incarnation = Incarnation(5);
const LINK: LinkId = LinkId(7);

fn at(seconds: u64) -> Instant {
    Instant(0) + Duration::from_secs(seconds)
}

fn peer() -> Peer {
    let place = Place { id: ReplicaId(1), node: NodeId(1), mirror: 0, bit: 3 };
    Peer::new(place, SECOND * 10, SECOND, at(0))
}

fn report(incarnation: Incarnation, boot: u128) -> ReplicaReport {
    ReplicaReport {
        replica: ReplicaId(1),
        history: History(1),
        generation: Generation(1),
        incarnation,
        boot: BootId(boot),
        is_stale_clone: false,
        slots: SlotBits::default(),
        size: 0,
        state: None,
    }
}

/// A session opens with this incarnation of a replica.
fn open(peer: &mut Peer, incarnation: Incarnation, boot: u128, now: Instant) {
    peer.connect();
    let session = peer.link_up(LINK, now).expect("it was wanted");
    assert!(peer.awaits_session(LINK, session) && !peer.awaits_session(LINK, session.next()));
    peer.session_opened(LINK, &report(incarnation, boot), now);
}

/// A member to which operations may be sent.
fn ready() -> Peer {
    let mut peer = peer();
    open(&mut peer, INCARNATION, 1, at(0));
    peer.follow_view(Some(INCARNATION));
    peer
}

#[test]
fn operations_go_to_the_incarnation_that_the_view_names() {
    let mut peer = ready();
    assert_eq!(peer.ready_link(), Some(LINK));
    for none in [None, Some(Incarnation(6))] {
        peer.follow_view(none);
        assert!(!peer.is_ready() && peer.open_link() == Some(LINK));
    }
    peer.resume(SECOND);
    assert!(peer.is_ready() && peer.is_healthy());
    peer.session_lost(at(1));
    peer.follow_view(Some(INCARNATION));
    assert!(!peer.is_ready() && peer.any_link().is_none());
}

#[test]
fn who_is_late_is_so_until_its_session_ends() {
    let mut peer = ready();
    peer.is_late(true);
    assert!(peer.is_ready() && !peer.is_healthy());
    assert_eq!(peer.cause_to_leave(at(1), SECOND * 5), Some(Cause::Late));
    peer.session_lost(at(1));
    peer.is_late(true);
    assert_eq!(peer.cause_to_leave(at(5), SECOND * 5), None);
    assert_eq!(peer.cause_to_leave(at(6), SECOND * 5), Some(Cause::Disconnected));
    open(&mut peer, INCARNATION, 1, at(6));
    assert_eq!(peer.cause_to_leave(at(60), SECOND * 5), None);
}

#[test]
fn a_failed_disk_is_the_cause_whatever_else_is() {
    let mut peer = ready();
    peer.is_late(true);
    peer.disk_mut().fail(Cause::NoSpace);
    assert_eq!(peer.cause_to_leave(at(1), SECOND), Some(Cause::NoSpace));
    peer.left(Cause::NoSpace, &Settings::default(), at(1));
    assert!(!peer.is_failing() && !peer.is_ready());
    assert_eq!(peer.cause_to_leave(at(1), SECOND), None);
}

#[test]
fn pauses_grow_with_each_attempt_that_fails_and_end_when_a_session_goes_on() {
    let mut peer = peer();
    let mut pauses = Vec::new();
    for _ in 0..3 {
        peer.connect();
        peer.connect_failed(at(0), SECOND * 3);
        pauses.push(peer.retry_at().since(at(0)).as_secs());
    }
    assert_eq!(pauses, [1, 2, 3]);
    open(&mut peer, INCARNATION, 1, at(9));
    peer.resume(SECOND);
    assert_eq!(peer.session_lost(at(9)), SessionEnd { is_again: false, is_hopeless: false });
    assert_eq!(peer.retry_at(), at(9), "at once");
}

#[test]
fn sessions_without_an_answer_become_hopeless() {
    let mut peer = ready();
    let ends = |peer: &mut Peer| {
        let end = peer.session_lost(at(1));
        open(peer, INCARNATION, 1, at(1));
        (end.is_again, end.is_hopeless)
    };
    assert_eq!(ends(&mut peer), (false, false));
    assert_eq!([ends(&mut peer), ends(&mut peer)], [(true, false); 2]);
    assert_eq!(ends(&mut peer), (true, true));
    peer.confirm(at(1));
    assert_eq!(ends(&mut peer), (false, false));
}

#[test]
fn one_ping_is_under_way_and_only_its_answer_confirms() {
    let mut peer = ready();
    assert!(peer.is_quiet() && peer.is_silent(at(0), SECOND));
    assert_eq!(
        (peer.ping(PingNumber(1), at(2)), peer.ping(PingNumber(2), at(3))),
        (Some(LINK), None)
    );
    assert!(!peer.is_quiet());
    assert!(!peer.pong(PingNumber(2), SlotBits::default(), true));
    assert!(peer.reported_at().is_none());
    assert!(peer.pong(PingNumber(1), SlotBits::default(), true));
    assert_eq!((peer.reported_at(), peer.seen()), (Some(at(2)), Some(0)));
    assert!(peer.grants(at(11)) && !peer.grants(at(12)), "counted from asking");
}

#[test]
fn a_pong_of_another_generation_tells_that_it_is_there_and_grants_nothing() {
    let mut peer = ready();
    peer.ping(PingNumber(1), at(2));
    assert!(!peer.pong(PingNumber(1), SlotBits::default(), false));
    assert_eq!((peer.reported_at(), peer.seen()), (Some(at(2)), None));
    assert!(!peer.grants(at(2)));
}

#[test]
fn who_has_refused_is_not_asked() {
    let mut peer = ready();
    peer.ping(PingNumber(1), at(0));
    peer.refused();
    assert_eq!(peer.ping(PingNumber(2), at(0)), None);
    assert!((0..MAX_REFUSED_VIEWS).all(|_| !peer.refuses_newest(true)));
    assert!(!peer.refuses_newest(false) && peer.refuses_newest(true));
    peer.ask_again();
    assert_eq!(peer.ping(PingNumber(3), at(0)), Some(LINK));
    peer.adopted(SECOND, at(0), at(0));
    assert!(!peer.refuses_newest(true), "it has adopted one since");
}

#[test]
fn a_shorter_lease_binds_at_once_and_a_longer_one_when_it_is_adopted() {
    let mut peer = ready();
    peer.bound_lease(SECOND * 5);
    peer.bound_lease(SECOND * 20);
    peer.confirm(at(0));
    assert!(peer.grants(at(4)) && !peer.grants(at(5)));
    peer.adopted(SECOND * 20, at(0), at(1));
    assert!(peer.grants(at(19)) && !peer.grants(at(20)));
}

#[test]
fn a_boot_since_it_was_relied_upon_is_noticed() {
    let mut peer = ready();
    peer.session_lost(at(1));
    open(&mut peer, Incarnation(6), 1, at(1));
    assert!(!peer.incarnations().has_rebooted());
    peer.session_lost(at(1));
    open(&mut peer, Incarnation(6), 2, at(1));
    assert!(peer.incarnations().has_rebooted());
    peer.disk_mut().lose();
    peer.follow_view(Some(Incarnation(6)));
    assert!(!peer.incarnations().has_rebooted() && peer.is_healthy());
}

#[test]
fn a_pause_of_this_process_counts_against_nobody() {
    let mut peer = ready();
    assert_eq!(peer.waited(at(0), at(9)), SECOND * 9);
    peer.excuse(at(8));
    assert_eq!(peer.waited(at(0), at(9)), SECOND);
    peer.session_lost(at(9));
    peer.excuse(at(20));
    assert_eq!(peer.cause_to_leave(at(21), SECOND * 2), None);
}
