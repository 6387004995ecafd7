use super::super::volume::tests::volume;
use super::*;

const N2: &str = "77aa0011-0000-0000-0000-000000000000";
const N1: &str = "3fa9c1d2-0000-0000-0000-000000000000";

fn verify() -> Verify {
    let value = serde_json::json!({
        "state": "done", "repair": true, "checked": 1u64 << 30, "total": 1u64 << 30, "alone": 0,
        "different": 4096, "damaged": 8192, "unreadable": 0, "lost": 4096, "repaired": 8192,
        "replicas": [
            {"id": N1, "different": 4096, "damaged": 4096, "unreadable": 0},
            {"id": N2, "different": 0, "damaged": 8192, "unreadable": 0},
        ],
        "ranges": [
            {"offset": 4096, "length": 4096, "damaged": [N2], "repaired": true},
            {"offset": 8192, "length": 4096, "damaged": [N2, N1], "lost": true},
        ],
        "seconds": 5,
        "covered": null,
    });
    serde_json::from_value(value).unwrap()
}

/// One that has found nothing.
fn sound() -> Verify {
    Verify {
        different: 0,
        damaged: 0,
        lost: 0,
        repaired: 0,
        replicas: Vec::new(),
        ranges: Vec::new(),
        ..verify()
    }
}

#[test]
fn a_verdict_names_blocks_and_replicas() {
    let expected = "\
all 1G compared in 5 s: 4K differ between replicas, 8K contradict their checksums, 0 could not be read, 8K repaired; 4K are whole on no in-sync replica
  n1:fast: 4K differ from those that count as right, 4K contradict their checksums
  n2:fast: 8K contradict their checksums
  bytes 4096 to 8192: damaged on n2:fast; repaired
  bytes 8192 to 12288: damaged on n1:fast, n2:fast; whole on no in-sync replica
  and 4K more
";
    assert_eq!(reported(&verify(), &volume()), expected);
}

#[test]
fn what_is_undecided_asks_for_a_source() {
    let range = serde_json::json!(
        {"offset": 4096, "length": 4096, "different": [N2, N1], "undecided": true}
    );
    let undecided = Verify {
        damaged: 0,
        lost: 0,
        repaired: 0,
        undecided: 4096,
        replicas: Vec::new(),
        ranges: vec![serde_json::from_value(range).unwrap()],
        ..verify()
    };
    let expected = "\
all 1G compared in 5 s: 4K differ between replicas, 0 contradict their checksums, 0 could not be read, 0 repaired; of 4K nobody knows which content is right: choose a replica whose content goes to all: evenkeel volume verify music --repair --source REPLICA
  bytes 4096 to 8192: different on n1:fast, n2:fast; which is right is not known
";
    assert_eq!(reported(&undecided, &volume()), expected);
}

/// Who names a source must not believe that all is as it is there.
#[test]
fn a_source_that_does_not_count_is_told() {
    let range =
        serde_json::json!({"offset": 4096, "length": 4096, "different": [N1], "repaired": true});
    let overruled = Verify {
        damaged: 0,
        lost: 0,
        repaired: 4096,
        overruled: 4096,
        replicas: Vec::new(),
        ranges: vec![serde_json::from_value(range).unwrap()],
        ..verify()
    };
    let expected = "\
all 1G compared in 5 s: 4K differ between replicas, 0 contradict their checksums, 0 could not be read, 4K repaired; in 4K the named source does not count: other copies match their checksums, or more of them do
  bytes 4096 to 8192: different on n1:fast; repaired
";
    assert_eq!(reported(&overruled, &volume()), expected);
}

#[test]
fn a_verdict_without_a_fault_is_one_line() {
    let expected = "all 1G compared in 5 s: all in-sync replicas identical\n";
    assert_eq!(reported(&sound(), &volume()), expected);
}

/// What was not compared is not called identical, and the verdict is dated.
#[test]
fn a_verdict_says_how_much_it_is_about_and_since_when() {
    let mut verify = Verify { state: VerifyState::Running, checked: 0, ..sound() };
    assert_eq!(verdict(&verify, &volume()), "0% compared in 5 s: no difference so far");
    verify.state = VerifyState::Stopped;
    verify.checked = 11 << 20;
    verify.ended = Some(1_700_000_000);
    let dated = format!(
        "no difference in 11M of 1G, where it was stopped; ended {}",
        moment(1_700_000_000)
    );
    assert_eq!(verdict(&verify, &volume()), dated);
    verify.different = 4096;
    assert!(
        verdict(&verify, &volume())
            .starts_with("stopped after 11M of 1G: 4K differ between replicas")
    );
    verify.state = VerifyState::Done;
    (verify.checked, verify.different, verify.alone) = (1 << 30, 0, 1 << 30);
    assert!(verdict(&verify, &volume()).starts_with(
        "all 1G read in 5 s: nothing is wrong with it; nothing to compare it with; 1G"
    ));
}

/// What one replica alone has was read, and compared with nothing.
#[test]
fn a_verdict_tells_what_was_compared_from_what_was_only_read() {
    let verify = Verify { alone: 1000 << 20, ..sound() };
    let expected =
        "24M of 1G compared, and 1000M only read in 5 s: no difference; 1000M are on one";
    assert!(verdict(&verify, &volume()).starts_with(expected), "{}", verdict(&verify, &volume()));
    // None of today's replicas is as it was then.
    let past = Verify { covered: Some(Vec::new()), not_covered: vec![N1.into()], ..verify };
    let expected = "in 5 s: the replicas were identical, and each was rebuilt or replaced since";
    assert!(verdict(&past, &volume()).contains(expected), "{}", verdict(&past, &volume()));
}

/// The only replica was judged, and is not called one that was not.
#[test]
fn a_verdict_names_the_only_replica() {
    let read = CoveredReplica { id: N1.into(), bytes: 1 << 30, since: 7 };
    let verify = Verify {
        alone: 1 << 30,
        covered: Some(Vec::new()),
        read: vec![read],
        ended: Some(1_700_000_000),
        ..sound()
    };
    let reported = verdict(&verify, &volume());
    assert!(reported.contains("; only read and matched with its checksums: n1:fast"), "{reported}");
    assert!(!reported.contains("not covered: n1"), "{reported}");
    let damaged = Verify { damaged: 4096, ..verify };
    let reported = verdict(&damaged, &volume());
    assert!(
        reported.starts_with("all 1G read in 5 s: 0 differ between replicas, 4K contr"),
        "{reported}"
    );
}

/// A verdict names the replicas that it is about; nothing is called compared that was added since.
#[test]
fn a_verdict_names_the_replicas_that_it_covers() {
    let compared = |id: &str, bytes: u64| CoveredReplica { id: id.into(), bytes, since: 7 };
    let mut verify = Verify {
        total: 4 << 30,
        checked: 4 << 30,
        covered: Some(vec![compared(N2, 4 << 30), compared(N1, 4 << 30)]),
        not_covered: vec!["0badcafe-0000-0000-0000-000000000000".into()],
        ended: Some(1_700_000_000),
        ..sound()
    };
    let ended = moment(1_700_000_000);
    let not = "not covered: n3:fast (not compared, or added or rebuilt since)";
    assert_eq!(
        verdict(&verify, &volume()),
        format!(
            "all 4G compared in 5 s: the compared replicas identical; ended {ended}; compared: n1:fast, n2:fast; {not}"
        )
    );
    verify.covered = Some(vec![compared(N1, 4 << 30), compared(N2, 1 << 30)]);
    let partly = "; compared: n1:fast, n2:fast (1G of it); not covered";
    assert!(verdict(&verify, &volume()).contains(partly), "{}", verdict(&verify, &volume()));
    verify.covered = Some(Vec::new());
    let none = format!(
        "all 4G compared in 5 s: the replicas were identical, and each was rebuilt or replaced since; ended {ended}; {not}"
    );
    assert_eq!(verdict(&verify, &volume()), none);
    (verify.total, verify.checked, verify.not_covered) = (3 << 30, 3 << 30, Vec::new());
    let grown = "; not covered: 1G by which the volume has grown since";
    assert!(verdict(&verify, &volume()).ends_with(grown), "{}", verdict(&verify, &volume()));
}

/// After a takeover or a rebuild one of those that were compared may be left.
#[test]
fn one_replica_is_identical_with_nobody() {
    let covered = |id: &str| CoveredReplica { id: id.into(), bytes: 1 << 30, since: 1 };
    let of = |covered: Vec<CoveredReplica>, others: &[&str]| {
        let clean = Verify {
            covered: Some(covered),
            not_covered: others.iter().map(|&id| id.to_owned()).collect(),
            ended: None,
            ..sound()
        };
        verdict(&clean, &volume())
    };
    assert_eq!(
        of(vec![covered(N1)], &[N2]),
        "all 1G compared in 5 s: no difference; of the compared replicas only n1:fast is as it was then: there is nothing to compare it with now"
    );
    let both = of(vec![covered(N1), covered(N2)], &[]);
    assert_eq!(both, "all 1G compared in 5 s: all in-sync replicas identical");
}
