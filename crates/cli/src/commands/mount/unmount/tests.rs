use evenkeel_api::types::{VolumeState, WantedStatus};

use super::super::tests::node;
use super::*;
use crate::output::volume::tests::volume;

#[test]
fn of_a_volume_that_is_mounted_elsewhere_it_is_said_where_it_is_attached() {
    let mut music = volume();
    music.primaries[0].here = false;
    let failure = not_here("music", &[music.clone()], &node(1));
    assert_eq!(failure.why, "it is attached on node n1, not on this one");
    assert_eq!(failure.remedy, "unmount it on node n1: evenkeel umount music");
    assert_eq!(failure.exit, Exit::Unsafe);
    music.primaries.clear();
    assert_eq!(not_here("music", &[music.clone()], &node(1)).why, "it is not attached");
    music.wanted_on = vec![
        serde_json::from_value::<WantedStatus>(serde_json::json!({
            "node": {"id": "1", "name": "n1"}, "device": true, "nbd": false,
        }))
        .unwrap(),
    ];
    let failure = not_here("music", &[music.clone()], &node(1));
    assert_eq!(failure.why, "it is not attached on this node at present, and is attached again");
    assert_eq!(failure.remedy, "to end that: evenkeel detach music");
    let other = not_here("/srv", &[music], &node(1));
    assert_eq!(other.exit, Exit::NotFound);
    assert!(other.what.starts_with("`/srv` is neither a volume attached here"), "{}", other.what);
}

#[test]
fn of_one_without_a_device_it_is_said_how_to_end_its_use() {
    let mut music = volume();
    music.primaries[0].device = None;
    let failure = not_here("music", &[music], &node(1));
    assert!(failure.why.starts_with("it has no block device on this node"), "{}", failure.why);
    assert_eq!(failure.remedy, "to end its use: evenkeel detach music");
}

#[test]
fn an_unmount_that_waits_says_for_what_and_what_an_interrupt_leaves() {
    let mut music = volume();
    let told = |volume: Option<&VolumeStatus>| waits("music", Path::new("/srv/music"), volume);
    let rest = "; Ctrl-C ends the wait, not the unmount: it goes on as soon as the volume answers, and \
                the volume stays attached";
    let plain = format!(
        "waiting for `umount /srv/music`, which writes what volume music has not got yet{rest}"
    );
    assert_eq!(told(None), plain);
    assert_eq!(told(Some(&music)), plain);
    music.state = VolumeState::Suspended;
    music.suspended = Some(crate::output::volume::tests::starting(3));
    music.suspended.as_mut().unwrap().why = "no in-sync replica of mirror 0 answers".into();
    let text = told(Some(&music));
    assert!(text.contains("has not got yet (no in-sync replica of mirror 0 answers); "), "{text}");
}

#[test]
fn it_is_said_where_a_volume_was_unmounted_or_that_it_is_mounted_nowhere() {
    assert_eq!(unmounted("music", &["/srv".into()]), "Unmounted volume music from /srv\n");
    let nowhere = "Volume music is mounted nowhere on this node, or not any more\n";
    assert_eq!(unmounted("music", &[]), nowhere);
}

#[test]
fn what_a_mount_did_not_attach_is_left_to_a_detach() {
    let why = "it stays attached on node n1, as it was before it was mounted";
    let failure = not_mounted("music", why);
    assert_eq!(failure.what, "volume `music` is not mounted on this node");
    assert_eq!(failure.remedy, "to end its use: evenkeel detach music");
    let refused = Failure::new("cannot detach volume music", "the coordinator does not answer");
    let busy =
        Failure::new("cannot detach volume music", "/dev/loop0 is in use").advise("close it");
    let failure = not_detached(busy.clone().exit(Exit::Unsafe), "music", false);
    assert_eq!(failure.remedy, "close it");
    let failure = not_detached(busy.exit(Exit::Unsafe), "music", true);
    assert!(failure.remedy.starts_with("if an unmount was begun before, the kernel still writes"));
    let failure = not_detached(refused.exit(Exit::Unreachable), "music", true);
    assert_eq!(failure.what, "volume `music` is unmounted, and stays attached");
    assert_eq!(failure.why, "cannot detach volume music: the coordinator does not answer");
    assert_eq!(failure.exit, Exit::Unreachable);
}
