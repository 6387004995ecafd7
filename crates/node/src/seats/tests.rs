use super::*;

fn address(text: &str) -> Source {
    text.parse::<SocketAddr>().unwrap().into()
}

/// Whether a seat has been given to another connection.
fn is_gone(seat: &mut Seat) -> bool {
    seat.gone.try_recv() != Err(oneshot::error::TryRecvError::Empty)
}

#[test]
fn whoever_has_most_gives_way_with_the_oldest_first() {
    let seats = Seats::new(4, "strangers");
    let (stranger, member) = (address("192.0.2.1:1"), address("192.0.2.2:1"));
    let mut silent: Vec<_> = (0..3).map(|_| seats.take(stranger)).collect();
    let mut first = seats.take(member);
    let mut later: Vec<_> = (0..2).map(|_| seats.take(stranger)).collect();
    let gone: Vec<_> = silent.iter_mut().chain(&mut later).map(is_gone).collect();
    assert_eq!(gone, [true, true, false, false, false]);
    let mut second = seats.take(member);
    assert!(is_gone(&mut silent[2]) && !is_gone(&mut first) && !is_gone(&mut second));
}

#[test]
fn a_seat_that_is_left_is_free_and_one_that_was_taken_away_frees_nothing() {
    let seats = Seats::new(2, "strangers");
    let source = address("192.0.2.1:1");
    let (old, mut kept) = (seats.take(source), seats.take(source));
    let mut new = seats.take(source);
    drop(old);
    assert_eq!(seats.lock().seats.len(), 2);
    assert!(!is_gone(&mut kept) && !is_gone(&mut new));
    drop(kept);
    let _other = seats.take(source);
    assert!(!is_gone(&mut new));
}

#[tokio::test]
async fn whoever_has_to_go_is_told() {
    let seats = Seats::new(1, "strangers");
    let mut old = seats.take(Source::User(1000));
    let _new = seats.take(Source::User(1001));
    old.gone().await;
}

#[test]
fn a_source_is_an_address_or_a_network_of_ipv6() {
    assert_eq!(address("192.0.2.1:1"), address("192.0.2.1:2"));
    assert_eq!(address("192.0.2.1:1"), address("[::ffff:192.0.2.1]:1"));
    assert_eq!(address("[2001:db8::1]:1"), address("[2001:db8::2:0:0:1]:1"));
    assert_ne!(address("[2001:db8::1]:1"), address("[2001:db8:0:1::1]:1"));
}

#[test]
fn all_loopback_addresses_are_one_machine() {
    assert_eq!(address("127.0.0.1:1").machine(), address("127.9.8.7:2").machine());
    assert_ne!(address("127.0.0.1:1").machine(), address("192.0.2.1:1").machine());
    for other in [address("192.0.2.1:1"), address("[2001:db8::1]:1"), Source::User(7)] {
        assert_eq!(other.machine(), other);
    }
}

#[test]
fn nobody_has_more_than_a_share() {
    let shares = Arc::new(Shares::default());
    let take = |uid| shares.take(Source::User(uid), 2);
    let (first, second) = (take(1000), take(1000));
    assert!(first.is_some() && second.is_some() && take(1000).is_none());
    assert!(take(1001).is_some());
    drop(first);
    assert!(take(1000).is_some());
    let more: Vec<_> = (0..3).map(|_| shares.take(Source::User(0), usize::MAX)).collect();
    assert!(more.iter().all(Option::is_some));
    drop((second, more));
    assert!(shares.lock().is_empty());
}

#[test]
fn connections_that_had_to_go_are_logged_together() {
    let mut evictions = Evictions::default();
    let first = Instant::now();
    let logged: Vec<_> =
        (0..21).map(|second| evictions.due(first + Duration::from_secs(second))).collect();
    let expected = |second| match second {
        0 => Some(1),
        10 | 20 => Some(10),
        _ => None,
    };
    assert_eq!(logged, (0..21).map(expected).collect::<Vec<_>>());
}
