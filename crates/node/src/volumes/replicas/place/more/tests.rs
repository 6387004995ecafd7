use super::super::tests::disk;
use super::*;

fn place(node: &str, disk: &str) -> DiskPlace {
    DiskPlace { node: format!("id of {node}"), disk: disk.into() }
}

fn wanted<'a>(on: Option<&'a str>, beside: &'a [DiskPlace]) -> OneMore<'a> {
    OneMore {
        on,
        beside,
        leaving: None,
        needed: 10,
        block_size: 512,
        same_node: false,
        thin: false,
    }
}

#[test]
fn the_freest_disk_of_a_node_without_a_replica_is_chosen() {
    let disks = [disk("a", "1", 90), disk("b", "1", 50), disk("c", "1", 70), disk("d", "1", 5)];
    let beside = [place("a", "1")];
    let chosen = one_more(&wanted(None, &beside), &disks, "x").unwrap();
    assert_eq!(chosen.node.name, "c");
    let all = [place("a", "1"), place("b", "1"), place("c", "1")];
    let error = one_more(&wanted(None, &all), &disks, "x").unwrap_err();
    assert_eq!(error.code, ErrorCode::DiskTooSmall);
    let error = one_more(&wanted(None, &all), &disks[..3], "x").unwrap_err();
    assert_eq!(error.code, ErrorCode::NotEnoughDisks);
    let shared = OneMore { same_node: true, ..wanted(None, &all) };
    assert_eq!(one_more(&shared, &disks[..3], "x").unwrap().node.name, "a");
}

#[test]
fn a_named_place_has_to_be_fit() {
    let disks = [disk("a", "1", 90), disk("a", "2", 90), disk("b", "1", 5), disk("c", "1", 90)];
    let beside = [place("a", "1"), place("c", "1")];
    let code = |on| one_more(&wanted(Some(on), &beside), &disks, "x").map_err(|e| e.code);
    assert_eq!(code("a:1").unwrap_err(), ErrorCode::NotEnoughDisks);
    assert_eq!(code("a:2").unwrap_err(), ErrorCode::NotEnoughDisks);
    assert_eq!(code("b:1").unwrap_err(), ErrorCode::DiskTooSmall);
    assert_eq!(code("b:9").unwrap_err(), ErrorCode::NoSuchDisk);
    let shared = OneMore { same_node: true, ..wanted(Some("a:2"), &beside) };
    one_more(&shared, &disks, "x").unwrap();
}

#[test]
fn a_mirror_within_one_machine_may_grow_there() {
    let disks = [disk("a", "1", 90), disk("a", "2", 90)];
    let beside = [place("a", "1")];
    assert_eq!(one_more(&wanted(Some("a:2"), &beside), &disks, "x").unwrap().name, "2");
}

#[test]
fn a_replacement_may_lie_on_the_node_but_not_on_the_disk_of_what_it_replaces() {
    let disks = [disk("a", "1", 90), disk("a", "2", 50), disk("b", "1", 90)];
    let (beside, leaving) = ([place("b", "1")], place("a", "1"));
    let replacing = OneMore { leaving: Some(&leaving), ..wanted(None, &beside) };
    let chosen = one_more(&replacing, &disks, "x").unwrap();
    assert_eq!((chosen.node.name.as_str(), chosen.name.as_str()), ("a", "2"));
    let same = OneMore { on: Some("a:1"), ..replacing };
    assert_eq!(one_more(&same, &disks, "x").unwrap_err().code, ErrorCode::NotEnoughDisks);
}

#[test]
fn a_disk_that_is_too_coarse_is_not_taken() {
    let coarse = Disk { block_size: 4096, ..disk("b", "1", 90) };
    let disks = [coarse, disk("c", "1", 20)];
    let beside = [place("a", "1")];
    assert_eq!(one_more(&wanted(None, &beside), &disks, "x").unwrap().node.name, "c");
    let error = one_more(&wanted(Some("b:1"), &beside), &disks, "x").unwrap_err();
    assert_eq!(error.code, ErrorCode::BadRequest);
}

#[test]
fn a_node_that_is_named_gives_its_freest_fitting_disk() {
    let mut disks = [disk("a", "1", 90), disk("b", "1", 50), disk("b", "2", 70), disk("c", "1", 5)];
    let beside = [place("a", "1")];
    let on = |disks: &[Disk], on| {
        one_more(&wanted(Some(on), &beside), disks, "x").map(|d| d.name.clone()).map_err(|e| e.code)
    };
    assert_eq!(on(&disks, "b"), Ok("2".to_owned()));
    disks[2].problem = Some("it is away".into());
    assert_eq!(on(&disks, "b"), Ok("1".to_owned()));
    assert_eq!(on(&disks, "a"), Err(ErrorCode::NotEnoughDisks));
    assert_eq!(on(&disks, "c"), Err(ErrorCode::DiskTooSmall));
    assert_eq!(on(&disks, "z"), Err(ErrorCode::NoSuchDisk));
}

/// What is refused for lack of room says that more may be promised, where that is possible.
#[test]
fn more_than_there_is_may_be_promised_on_a_directory() {
    let device = Disk { kind: DiskKind::Device, ..disk("c", "2", 5) };
    let disks = [disk("a", "1", 90), disk("b", "1", 5), device];
    let beside = [place("a", "1")];
    for (on, offers) in [(Some("b:1"), true), (None, true), (Some("c:2"), false)] {
        let refused = one_more(&wanted(on, &beside), &disks, "x").unwrap_err();
        assert_eq!(refused.code, ErrorCode::DiskTooSmall);
        assert_eq!(refused.action.contains("--thin"), offers, "{refused:?}");
        let thin = OneMore { thin: true, ..wanted(on, &beside) };
        assert_eq!(one_more(&thin, &disks, "x").is_ok(), offers);
    }
}

#[test]
fn a_replica_is_not_moved_to_the_node_of_the_other_copy() {
    let disks = [disk("a", "1", 90), disk("a", "2", 90), disk("b", "1", 90)];
    let (left, beside) = (place("b", "1"), [place("a", "1")]);
    let to = |on| OneMore { leaving: Some(&left), ..wanted(Some(on), &beside) };
    for on in ["a", "a:2"] {
        let error = one_more(&to(on), &disks, "x").unwrap_err();
        assert_eq!(error.code, ErrorCode::NotEnoughDisks);
        let permitted = OneMore { same_node: true, ..to(on) };
        one_more(&permitted, &disks, "x").unwrap();
    }
    // All of them are on one machine: there it may go from disk to disk.
    let within = place("a", "3");
    let to = OneMore { leaving: Some(&within), ..to("a:2") };
    assert_eq!(one_more(&to, &disks, "x").unwrap().name, "2");
}

#[test]
fn a_replica_is_not_moved_to_where_it_is() {
    let disks = [disk("n1", "d", 90), disk("n2", "d", 90)];
    let (left, beside) = (place("n1", "d"), [place("n2", "d")]);
    let to = |on| OneMore { leaving: Some(&left), ..wanted(Some(on), &beside) };
    for on in ["n1", "n1:d"] {
        let error = one_more(&to(on), &disks, "x").unwrap_err();
        assert_eq!(error.why, "the replica is on disk d of node n1 already");
    }
    let error = one_more(&to("n2:d"), &disks, "x").unwrap_err();
    assert_eq!(error.why, "disk d of node n2 holds another replica of this mirror");
}

#[test]
fn nothing_is_advised_that_would_be_refused() {
    let disks = [disk("a", "1", 90)];
    let beside = [place("a", "1")];
    let advice = |needed| {
        let wanted = OneMore { needed, ..wanted(None, &beside) };
        one_more(&wanted, &disks, "x").unwrap_err().action
    };
    let add = "Add a disk on another node (`evenkeel disk add`)";
    let share = "for trials, let replicas share a node (--same-node)";
    assert_eq!(advice(10), format!("{add}; or {share}"));
    assert_eq!(advice(100), add, "there is no room on this node, either");
}
