use evenkeel_api::types::{LeftMirror, LostReplica, NodeRef, ReplicaState};

use super::*;

fn planned() -> PlanAnswer {
    let lost = LostReplica {
        volume: "music".into(),
        id: "1a2b3c4d-0000-4000-8000-000000000003".into(),
        mirror: 0,
        node: NodeRef { id: "3".into(), name: "n3".into() },
        disk: "disk".into(),
        state: ReplicaState::InSync,
        reach: None,
        size: 4 << 30,
    };
    let in_sync = vec!["n1:disk".into(), "n2:disk".into()];
    let left = LeftMirror { volume: "music".into(), mirror: 0, in_sync, replicas: 2 };
    let plan = Plan { removes: vec![lost], leaves: vec![left], ..Plan::default() };
    let message = "volume music would keep 2 replica(s) in each mirror".to_owned();
    PlanAnswer { version: 1, plan, message }
}

#[test]
fn without_a_terminal_it_says_what_it_would_have_removed_and_what_to_add() {
    let question = Question {
        plan: "",
        refused: "volume `music` was not changed".into(),
        again: "evenkeel volume change music --replicas 2 --yes".into(),
        always: false,
    };
    let failure = unasked(&question, &reported(&planned()));
    assert_eq!(failure.exit, Exit::Unsafe);
    let expected = "evenkeel: volume `music` was not changed
  why: volume music would keep 2 replica(s) in each mirror
       would be removed for good:
         VOLUME  REPLICA   NODE  DISK  STATE    SIZE
         music   1a2b3c4d  n3    disk  in-sync    4G
       would leave volume `music`, mirror 0: 2 in-sync replicas on n1:disk, n2:disk
  do:  if you want that: evenkeel volume change music --replicas 2 --yes
";
    assert_eq!(failure.render(), expected);
}

#[test]
fn only_a_yes_is_a_yes() {
    let ask = |typed: &str| {
        let mut shown = Vec::new();
        let is_agreed = asked(&reported(&planned()), &mut typed.as_bytes(), &mut shown);
        (is_agreed, String::from_utf8(shown).unwrap())
    };
    for typed in ["y\n", "yes\n", " YES \n", "Y"] {
        assert!(ask(typed).0, "{typed:?}");
    }
    for typed in ["", "\n", "n\n", "yess\n", "music\n", "no\ny\n"] {
        assert!(!ask(typed).0, "{typed:?}");
    }
    let shown = ask("").1;
    assert!(shown.contains("music   1a2b3c4d  n3    disk"), "{shown}");
    assert!(shown.ends_with("mirror 0: 2 in-sync replicas on n1:disk, n2:disk\nGo on? [y/N] "));
}

#[test]
fn what_is_agreed_to_is_named() {
    assert_eq!(names(&planned().plan), "1a2b3c4d-0000-4000-8000-000000000003");
}
