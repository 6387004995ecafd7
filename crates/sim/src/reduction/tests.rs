use super::*;

#[test]
fn numbers_are_written_as_they_are_read() {
    for text in ["none", "3", "3,17-20", "1-2,4,6-9"] {
        assert_eq!(text.parse::<Numbers>().expect("numbers").to_string(), text);
    }
    for text in ["", "a", "3,", "4-"] {
        assert!(text.parse::<Numbers>().is_err(), "{text:?}");
    }
}

#[test]
fn faults_are_known_by_their_names() {
    for kind in Kind::all() {
        assert_eq!(kind.to_string().parse(), Ok(kind));
    }
    assert_eq!("kill-node".parse(), Ok(Kind::Fault(Fault::KillNode)));
    let error = "KillNodes".parse::<Kind>().expect_err("no such fault");
    for kind in Kind::all() {
        assert!(error.contains(&kind.to_string()), "{error}");
    }
}

/// Every kind that some seed has is known, and what is taken from a profile is not in it.
#[test]
fn every_kind_is_in_some_seed_and_can_be_taken_from_it() {
    for kind in Kind::all() {
        let profile = (0..2000).map(Profile::draw).find(|profile| kind.is_in(profile));
        let profile = profile.unwrap_or_else(|| panic!("no seed has {kind}"));
        let reduction = Reduction { without: vec![kind], ..Reduction::default() };
        match kind {
            Kind::Fault(fault) => assert!(!reduction.strikes(1, fault)),
            Kind::Rate(_) => assert!(!kind.is_in(&reduction.reduced(profile))),
        }
    }
}

#[test]
fn a_reduction_is_told_as_arguments() {
    let reduction = Reduction {
        without: vec![Kind::Fault(Fault::Pause), Kind::Rate(Rate::Drift)],
        faults: Some([3, 4, 5, 9].into_iter().collect()),
        operations: Some(Numbers::default()),
        depth: Some(1),
        end: Some(1_500_000_000),
    };
    let reported = " --without Pause,Drift --faults 3-5,9 --operations none --depth 1 --end 1.5";
    assert_eq!(reduction.to_string(), reported);
    assert_eq!(Reduction::default().to_string(), "");
}
