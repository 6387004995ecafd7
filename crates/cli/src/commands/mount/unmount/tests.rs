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
    let reported = |volume: Option<&VolumeStatus>| waits("music", Path::new("/srv/music"), volume);
    let rest = "; Ctrl-C ends the wait, not the unmount: it goes on as soon as the volume answers, and \
                the volume stays attached";
    let plain = format!(
        "waiting for `umount /srv/music`, which writes what volume music has not got yet{rest}"
    );
    assert_eq!(reported(None), plain);
    assert_eq!(reported(Some(&music)), plain);
    music.state = VolumeState::Suspended;
    music.suspended = Some(crate::output::volume::tests::starting(3));
    music.suspended.as_mut().unwrap().why = "no in-sync replica of mirror 0 answers".into();
    let text = reported(Some(&music));
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
    for before in [Before::Mounted, Before::Unmounted] {
        let failure = not_detached(busy.clone().exit(Exit::Unsafe), "music", before);
        assert_eq!(failure.remedy, "close it");
        assert_eq!(failure.what, "volume `music` is unmounted, and stays attached");
    }
    let failure = not_detached(refused.exit(Exit::Unreachable), "music", Before::Unmounted);
    assert_eq!(failure.what, "volume `music` is unmounted, and stays attached");
    assert_eq!(failure.why, "cannot detach volume music: the coordinator does not answer");
    assert_eq!(failure.exit, Exit::Unreachable);
}

/// The device has no mount any more, and nobody is seen who uses it.
#[test]
fn what_the_kernel_still_writes_is_not_called_unmounted() {
    let mut music = volume();
    let reported = being_unmounted("music", Some(&music));
    let writes =
        "Volume music is being unmounted: the kernel still writes what the volume has not got yet";
    assert_eq!(reported, format!("{writes}\n"));
    music.state = VolumeState::Suspended;
    music.suspended = Some(crate::output::volume::tests::starting(3));
    music.suspended.as_mut().unwrap().why = "the coordinator does not answer".into();
    let reported = being_unmounted("music", Some(&music));
    assert_eq!(reported, format!("{writes} (the coordinator does not answer)\n"));
    let busy = Failure::new("cannot detach volume music", "/dev/loop0 is in use");
    let failure = not_detached(busy.exit(Exit::Unsafe), "music", Before::Written);
    assert_eq!(failure.what, "volume `music` is being unmounted, and stays attached");
    assert!(failure.remedy.ends_with("then the kernel ends the unmount"), "{}", failure.remedy);
}

#[test]
fn an_unmount_that_was_stopped_says_what_stays() {
    let stopped = || Failure::new("stopped by Ctrl-C", "").exit(Exit::Interrupted);
    let failure = goes_on(stopped(), "music", Path::new("/srv"));
    let expected = "evenkeel: stopped by Ctrl-C\n  \
                    why: `umount /srv` goes on in the kernel until the volume answers; volume music stays \
                    attached\n  \
                    do:  see what the volume waits for: evenkeel volume status music; when it answers, end \
                    this: evenkeel umount music\n";
    assert_eq!(failure.render(), expected);
    assert_eq!(failure.exit, Exit::Interrupted);
    let srv = Path::new("/srv");
    let failure = unmounted_only(stopped(), "music", (srv, &[]));
    assert_eq!(failure.why, "volume music is unmounted, and stays attached");
    let failure = unmounted_only(stopped(), "music", (srv, &["/mnt".into()]));
    assert_eq!(failure.why, "volume music is unmounted from /srv, and mounted on /mnt still");
    let failure = after_others(still_mounted(stopped(), "music", srv), &["/a".into(), "/b".into()]);
    assert_eq!(failure.why, "volume music is mounted on /srv still; it is unmounted from /a, /b");
    assert_eq!(after_others(stopped(), &[]).why, "");
    let failure = still_mounted(stopped(), "music", Path::new("/srv"));
    assert_eq!(failure.why, "volume music is mounted on /srv still");
    let failure = not_detached(stopped(), "music", Before::Written);
    assert_eq!(failure.what, "volume `music` is being unmounted, and may be attached still");
    assert_eq!(failure.remedy, "when it answers, end that: evenkeel umount music");
    let failure = not_detached(stopped(), "music", Before::Mounted);
    assert_eq!(failure.what, "volume `music` is unmounted, and may be attached still");
    assert_eq!(failure.remedy, "end that: evenkeel umount music");
}

#[test]
fn of_a_volume_that_was_taken_over_it_is_said_where_it_is() {
    let left = Left::not_here(&["n3".into()]);
    let reported = "it is not attached on this node any more; it is attached on node n3";
    assert_eq!((left.is_attached, &*left.reported), (false, reported));
    assert_eq!(Left::not_here(&[]).reported, "it is detached");
}
