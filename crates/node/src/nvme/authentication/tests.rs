use std::net::SocketAddr;

use evenkeel_exports::nvme::authentication::Group;

use super::*;

fn source(last: u8) -> Source {
    Source::from(SocketAddr::from(([192, 0, 2, last], 1)))
}

#[test]
fn nothing_comes_twice() {
    let prover = Prover::default();
    prover.sequence.store(u32::MAX, Ordering::Relaxed);
    let all = [prover.fresh(), prover.fresh(), prover.fresh()];
    let numbers: Vec<u32> = all.iter().map(|fresh| fresh.sequence).collect();
    assert_eq!(numbers, [u32::MAX, 1, 2]);
    assert_ne!(all[0].challenge, all[1].challenge);
    assert_ne!(*all[0].exponent, *all[1].exponent);
}

#[tokio::test]
async fn one_power_is_computed_at_a_time_and_one_of_a_source_waits() {
    let prover = Arc::new(Prover::default());
    let turn = prover.usual.one.clone().acquire_owned().await.unwrap();
    let compute = |source| {
        let prover = prover.clone();
        tokio::spawn(async move {
            let exponent = prover.fresh().exponent;
            let it = Computation::of_generator(Group::Ffdhe2048, &exponent).unwrap();
            prover.compute(source, it).await.unwrap().len()
        })
    };
    let all = [compute(source(1)), compute(source(1)), compute(source(2))];
    let others = loop {
        tokio::task::yield_now().await;
        let waiting = prover.usual.of(source(1)).available_permits() == 0
            && prover.usual.of(source(2)).available_permits() == 0;
        if waiting {
            break all;
        }
    };
    drop(turn);
    for one in others {
        assert_eq!(one.await.unwrap(), 256);
    }
    prover.usual.of(source(3));
    assert_eq!(prover.usual.of_sources.lock().unwrap().len(), 1, "what nobody needs is forgotten");
}

#[tokio::test]
async fn a_power_of_a_large_group_keeps_no_usual_one_waiting() {
    let prover = Prover::default();
    let exponent = prover.fresh().exponent;
    let of = |group| Computation::of_generator(group, &exponent).unwrap();
    let long = prover.long.wait(source(1)).await.unwrap();
    assert_eq!(prover.compute(source(1), of(Group::Ffdhe2048)).await.unwrap().len(), 256);
    let waits = prover.compute(source(2), of(Group::Ffdhe8192));
    let waited = tokio::time::timeout(std::time::Duration::from_millis(1), waits).await;
    assert!(waited.is_err());
    drop(long);
}

#[tokio::test]
async fn who_does_not_wait_any_more_leaves_its_turn() {
    let prover = Prover::default();
    let turn = prover.usual.one.clone().acquire_owned().await.unwrap();
    let exponent = prover.fresh().exponent;
    let it = || Computation::of_generator(Group::Ffdhe2048, &exponent).unwrap();
    let given_up = prover.compute(source(1), it());
    let waited = tokio::time::timeout(std::time::Duration::from_millis(1), given_up).await;
    assert!(waited.is_err());
    drop(turn);
    assert_eq!(prover.compute(source(1), it()).await.unwrap().len(), 256);
}
